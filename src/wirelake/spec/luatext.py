"""Lua source: literals, fields of the display filter, and the pieces of Lua that every dissector is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from ..errors import SpecError
from . import nodes as n

WIDTH = 110
"""Longer tables go on several lines; the name of a member comes on top of it."""
PIECES = (
    "helpers",
    "text",
    "msgpack",
    "json",
    "values",
    "cells",
    "tags",
    "words",
    "body",
    "derived",
    "frame",
    "options",
    "find",
    "wireshark",
)
"""Files in ``lua/``, in the order in which they build on each other."""

# --- literals


@dataclass(frozen=True)
class Ref:
    """A Lua expression that names something."""

    text: str


def literal(value: Any, indent: int = 0) -> str:
    """A value as a Lua literal: on one line where it fits, else one member per line."""
    match value:
        case Ref(text=text):
            return text
        case bool():
            return "true" if value else "false"
        case int() | float():
            return str(value)
        case str():
            return _quoted(value.encode())
        case bytes():
            return _quoted(value)
        case dict():
            return _table([f"{_key(k)} = {literal(v, indent + 1)}" for k, v in value.items() if v is not None], indent)
        case list() | tuple():
            return _table([literal(item, indent + 1) for item in value], indent)
        case _:
            raise SpecError(f"{value!r} cannot be written in Lua")


def _quoted(raw: bytes) -> str:
    shown = (_ESCAPED.get(b) or (chr(b) if 32 <= b < 127 else f"\\{b:03d}") for b in raw)
    return f'"{"".join(shown)}"'


_ESCAPED = {ord("\n"): "\\n", ord('"'): '\\"', ord("\\"): "\\\\"}


def _key(key: Any) -> str:
    return key if isinstance(key, str) and _is_name(key) else f"[{literal(key)}]"


def _is_name(text: str) -> bool:
    return bool(re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", text)) and not _RESERVED.fullmatch(text)


_RESERVED = re.compile(
    "and|break|do|else|elseif|end|false|for|function|goto|if|in|local|nil|not|or|repeat|return|then|true|until|while"
)


def _table(members: list[str], indent: int) -> str:
    line = ", ".join(members)
    if len(line) + 4 * indent < WIDTH and "\n" not in line:
        return f"{{ {line} }}" if line else "{}"
    inner = "    " * (indent + 1)
    return "{\n" + "".join(f"{inner}{member},\n" for member in members) + "    " * indent + "}"


def comment(text: str) -> str:
    """A text as one line of comment."""
    return f"-- {' '.join(text.split())}".rstrip()


# --- fields of the display filter


@dataclass(frozen=True)
class Shape:
    """What kind of ProtoField it is. Two fields of one name share it if their shapes are equal."""

    type: str
    base: str = ""
    labels: str = ""
    mask: int = 0
    width: int = 0


@dataclass
class Fields:
    """The ProtoFields of a protocol by name. A second shape of a name gets a number, and where its type is another one,
    a filter name with the message in it, because one name in a filter can have only one type.
    """

    protocol: str
    shapes: dict[str, Shape] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    filters: dict[str, str] = field(default_factory=dict)

    def claim(self, key: str, shape: Shape, doc: str, message: str = "", label: str = "") -> str:
        """The name under which the tables refer to this field."""
        name, number = key, 1
        while name in self.shapes and self.shapes[name] != shape:
            number += 1
            name = f"{key}~{number}"
        if name not in self.shapes:
            self.shapes[name] = shape
            self.lines[name] = self._line(key, shape, doc, message, label or key.rsplit(".", 1)[-1])
        return name

    def _line(self, key: str, shape: Shape, doc: str, message: str, label: str) -> str:
        abbreviation = _filter_name(f"{self.protocol}.{key}")
        if self.filters.setdefault(abbreviation, _family(shape.type)) != _family(shape.type):
            abbreviation = _filter_name(f"{self.protocol}.{message}.{key}")
        return f"ProtoField.{shape.type}({', '.join(_arguments(abbreviation, label, shape, doc))})"


def _arguments(abbreviation: str, label: str, shape: Shape, doc: str) -> Iterator[str]:
    yield from (literal(abbreviation), literal(label))
    match shape.type:
        case "string":
            yield "base.UNICODE"
        case "bytes":
            yield "base.NONE"
        case "guid" | "float" | "double":
            pass
        case "bool":
            yield str(shape.width) if shape.mask else "base.NONE"
            yield "nil"
            yield f"0x{shape.mask:x}"
        case _:
            yield f"base.{shape.base or 'DEC'}"
            yield shape.labels or "nil"
            yield f"0x{shape.mask:x}"
    if doc:
        yield literal(" ".join(doc.split()))


def _family(type_name: str) -> str:
    """Types that one filter name may stand for: integers of up to 32 bits are one family."""
    return re.sub("int(8|16|24)$", "int32", type_name)


def _filter_name(text: str) -> str:
    return re.sub("[^A-Za-z0-9_.-]", "_", text)


def int_type(wire: n.Int, signed: bool) -> str:
    """The ProtoField type that holds such an integer."""
    bits = next(width for width in (8, 16, 24, 32, 64) if wire.size * 8 <= width)
    return f"{'int' if signed else 'uint'}{bits}"


# --- statements


def index(name: str) -> str:
    """The member of a table by its name."""
    return f".{name}" if _is_name(name) else f"[{literal(name)}]"


def pieces(features: set[str]) -> Iterator[str]:
    """The lines of all pieces, as far as these features need them."""
    folder = files(__package__).joinpath("lua")
    for piece in PIECES:
        yield from _needed(folder.joinpath(f"{piece}.lua").read_text("utf-8").splitlines(), features)


def _needed(lines: Iterable[str], features: set[str]) -> Iterator[str]:
    """The lines of a piece without the parts ``--@ when ... --@ end`` whose features nobody uses."""
    wanted = [True]
    for line in lines:
        mark = line.strip().split()
        if mark[:2] == ["--@", "when"]:
            wanted.append(wanted[-1] and not features.isdisjoint(mark[2:]))
        elif mark[:2] == ["--@", "end"]:
            wanted.pop()
        elif wanted[-1]:
            yield line
