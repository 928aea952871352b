"""What a message has before its body, where speed matters: read and written without a look at the body.

The declaration is compiled into one function each way. It serves fields that are always there: whole numbers, and texts
behind a length of one byte. What cannot be read raises IndexError or UnicodeDecodeError; the record codec knows more.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import EncodeError
from ..spec import nodes as n
from ..spec.resolve import Layout


class QuickHead:
    """``texts`` are the names of the fields that are texts, in wire order.

    ``read(payload)`` returns where the body begins, and the values of all fields. ``write(message)`` returns the code
    and the bytes of the fields, which it finds under their names.
    """

    def __init__(self, layout: Layout, code: int) -> None:
        fields = _fields(layout, code)
        self.texts = tuple(field.name for field in fields if isinstance(field.wire, n.Run))
        self.read = _reader(fields)
        self.write = _writer(fields, code)


def _fields(layout: Layout, code: int) -> list[n.Field]:
    """The fields between the header of the frame and the body; a mask is no business of a payload."""
    fields: list[n.Field] = []
    for field in layout.messages[code].fields:
        match field.wire:
            case n.Body():
                return fields
            case n.Int() | n.Run(length=n.Int(size=1), content="strict_text"):
                fields.append(field)
            case n.Fixed() if not fields:
                continue
            case _:
                raise ValueError(f"{field.name} is neither a whole number nor a text with a length of one byte")
    raise ValueError(f"message {code} has no body")


def _reader(fields: list[n.Field]) -> Callable[[bytes], tuple[Any, ...]]:
    lines, values = ["def read(data):", "at = 1"], ""
    for number, field in enumerate(fields):
        values += f", v{number}"
        if isinstance(field.wire, n.Int):
            size = field.wire.size
            order = range(size) if field.wire.little else range(size - 1, -1, -1)
            shifted = " | ".join(f"data[at + {place}] << {8 * shift}" for shift, place in enumerate(order))
            lines += [f"v{number} = {shifted}", f"at += {size}"]
        else:
            lines += ["start = at + 1", "at = start + data[at]", f"v{number} = data[start:at].decode()"]
    lines += ["if at > len(data): raise IndexError", f"return at{values}"]
    scope: dict[str, Any] = {}
    exec("\n    ".join(lines), scope)
    return scope["read"]  # type: ignore[no-any-return]


def _writer(fields: list[n.Field], code: int) -> Callable[[Any], bytes]:
    texts = [field.name for field in fields if isinstance(field.wire, n.Run)]
    parts = ["front"]
    for field in fields:
        if isinstance(field.wire, n.Int):
            order = "little" if field.wire.little else "big"
            parts.append(f"message.{field.name}.to_bytes({field.wire.size}, {order!r})")
        else:
            parts.append(f"octet[len({field.name})], {field.name}")
    lines = ["def write(message):", "    try:", *(f"        {name} = message.{name}.encode()" for name in texts)]
    lines += [f"        return b''.join(({', '.join(parts)}))"]
    lines += ["    except (UnicodeEncodeError, IndexError):", "        refuse(message)"]

    def refuse(message: Any) -> None:
        for name in texts:
            try:
                size = len(getattr(message, name).encode())
            except UnicodeEncodeError:
                raise EncodeError("is not UTF-8", rule="text_utf8", path=name) from None
            if size > 255:
                raise EncodeError(f"{size} bytes, at most 255", rule="int_range", path=name)

    scope: dict[str, Any] = {
        "front": bytes((code,)),
        "octet": [bytes((length,)) for length in range(256)],
        "refuse": refuse,
    }
    exec("\n".join(lines), scope)
    return scope["write"]  # type: ignore[no-any-return]
