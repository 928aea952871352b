"""CFIELD, the fielded buffer of casual: typed values by number, in the payload of a call or of a queue message.

python examples/fielded_buffer.py
"""

from __future__ import annotations

import json

from wirelake.codec.content import FIELD_BASE, FieldValue, read_cfield, show_cfield, write_cfield
from wirelake.errors import DecodeError

LONG, STRING = 2, 6


def field(kind: int, number: int, name: str, value: object) -> FieldValue:
    """A field; its id holds the type and the number within the type."""
    return FieldValue(kind * FIELD_BASE + number, name, value)


def main() -> None:
    payload = write_cfield((field(LONG, 1, "long", 300), field(STRING, 2, "string", "hi")))
    print(payload.hex())
    for value in read_cfield(payload):
        print(value.id // FIELD_BASE, value.id % FIELD_BASE, value.type, value.value)
    print(json.dumps(show_cfield(read_cfield(payload))))
    try:
        read_cfield(payload[:-1])
    except DecodeError as error:
        print(error)


if __name__ == "__main__":
    main()
