"""Refuses codes that the parts of a frame cannot tell apart; ``check`` calls it for every frame."""

from __future__ import annotations

from typing import Any

from . import nodes as n
from .check_class import require
from .resolve import Layout, MessageNode


def check_codes(made: Layout, parts: list[n.Code]) -> None:
    """Raise SpecError unless each message has a code that its frame can hold."""
    for part in parts:
        _check_text(part)
    for place, part in enumerate(parts):
        is_used = place == 0 or any(place < len(node.codes) for node in made.nodes)
        require(
            is_used, f"no message has the code {part.name}; write code=(1, 2) in a class line, or leave one Code out"
        )
    for node in made.nodes:
        _check_code(node, parts)
    for shorter in made.beginnings & set(made.by_code):
        name, further = (
            made.by_code[shorter].cls.__name__,
            next(k for k in made.by_code if k[: len(shorter)] == shorter),
        )
        require(
            shorter == further,
            f"{name} has the code {shorter}, with which another one begins: {further}; write a longer one",
        )


def _check_text(part: n.Code) -> None:
    if isinstance(part.wire, n.Run):
        is_ended = isinstance(part.wire.length, bytes) and part.wire.length
        require(is_ended, f'Code {part.name}: a code that is text has an end; write Code({part.name!r}, text(b" "))')


def _check_code(node: MessageNode, parts: list[n.Code]) -> None:
    name, codes = node.cls.__name__, node.codes
    if not parts:
        return
    if node.codes[0] == n.OTHER:
        require(len(parts) == 1, f"{name} takes any code, but its frame has {len(parts)} codes; write one Code")
        has_field = parts[0].name in node.names
        where = f"{name} takes any code, so it needs a field for it"
        require(has_field, f"{where}; write {parts[0].name}: {_python(parts[0].wire)} = field(...)")
        same = node.field(parts[0].name).wire == parts[0].wire
        require(same, f"{name}.{parts[0].name} is the code, but another wire type; write that of the Code")
        return
    require(len(codes) <= len(parts), f"{name} has {len(codes)} codes, but its frame {len(parts)}; add a Code")
    is_text = isinstance(parts[0].wire, n.Run)
    given = codes[0].decode() if isinstance(codes[0], bytes) else codes[0]
    remedy = f'code="{name.upper()}"' if is_text else "code=1"
    require(is_text == isinstance(codes[0], bytes), f"{name}: {given!r} is no code of this frame; write {remedy}")


def _python(wire: Any) -> str:
    return "str" if isinstance(wire, n.Run) else "int"
