"""Lua source: literals, and the pieces of Lua that every dissector is made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from ..errors import SpecError

WIDTH = 110
"""Longer tables go on several lines; the name of a member comes on top of it."""
FIRST_PIECES = ("names",)
VALUE_PIECES = (
    *("helpers", "numerals", "text", "msgpack", "json", "values", "checksums", "choices", "cells", "tags", "words"),
    *("body", "derived"),
)
FRAME_PIECES = ("frame", "options", "find", "links", "wireshark")
"""Files in ``lua/``, in the order in which they build on each other."""


@dataclass(frozen=True)
class Ref:
    """A Lua expression that names something."""

    text: str


def literal(value: Any, indent: int = 0) -> str:
    """Return a value as a Lua literal: on one line where it fits, else one member per line."""
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
    """Return a text as one line of comment."""
    return f"-- {' '.join(text.split())}".rstrip()


def index(name: str) -> str:
    """Return the expression that picks a member of a table by its name."""
    return f".{name}" if _is_name(name) else f"[{literal(name)}]"


def pieces(features: set[str], names: tuple[str, ...] = VALUE_PIECES + FRAME_PIECES) -> Iterator[str]:
    """Yield the lines of pieces, as far as these features need them."""
    folder = files(__package__).joinpath("lua")
    for piece in names:
        yield from _needed(folder.joinpath(f"{piece}.lua").read_text("utf-8").splitlines(), features)


def _needed(lines: Iterable[str], features: set[str]) -> Iterator[str]:
    """Leave out the parts ``--@ when ... --@ end`` of a piece whose features nobody uses."""
    wanted = [True]
    for line in lines:
        mark = line.strip().split()
        if mark[:2] == ["--@", "when"]:
            wanted.append(wanted[-1] and not features.isdisjoint(mark[2:]))
        elif mark[:2] == ["--@", "end"]:
            wanted.pop()
        elif wanted[-1]:
            yield line
