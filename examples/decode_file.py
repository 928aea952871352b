"""Decode a file of frames, of any size, in bounded memory: what was read goes to standard output, what was not to
standard error.

    python examples/decode_file.py PROTOCOL FILE
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

from wirelake import StreamDecoder
from wirelake.codec.stream import Decoded, Event


def events(protocol: str, path: Path) -> Iterator[Event]:
    decoder = StreamDecoder(protocol)
    with path.open("rb") as file:
        while chunk := file.read(1 << 16):
            yield from decoder.feed(chunk)
    yield from decoder.finish()
    assert decoder.bytes_decoded + decoder.bytes_quarantined == decoder.bytes_in


def main(protocol: str, name: str) -> None:
    for event in events(protocol, Path(name)):
        if isinstance(event, Decoded):
            shown = event.message.to_json()
            print(event.offset, shown["message"], json.dumps(shown["fields"]), flush=True)
        else:
            print(f"{event.length} bytes at {event.offset}: {event.error}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
