"""Refuses codes that the parts of a frame cannot tell apart; ``check`` calls it for every frame."""

from __future__ import annotations

from typing import Any

from ..errors import SpecError
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
    for shorter in sorted(made.beginnings & set(made.by_code)):
        name = made.by_code[shorter].cls.__name__
        raise SpecError(f"{name} has the code {shorter}, with which another one begins; write a longer one")


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


def check_tried(tried: tuple[Layout, ...]) -> None:
    """Refuse a frame that has no end though there are others, or that leaves nothing for those tried after it."""
    for made in tried if len(tried) > 1 else ():
        where = f"the frame {made.place!r}" if made.place else "the frame"
        is_ended = any(isinstance(part, n.Limiting) for part in made.frame.parts)
        require(is_ended, f"{where} does not say where it ends; write a Size, an Until or an Ends in it")
    greedy = next((made.place for made in tried[:-1] if _takes_all(made)), None)
    where = f"the frame {greedy!r} takes whatever comes, so those behind it are never tried"
    require(greedy is None, f"{where}; write it as frame=, which is tried last, and the others in frames=")


def _takes_all(made: Layout) -> bool:
    """Return whether the header of any frame fits."""
    parts = made.frame.parts
    size = next((part for part in parts if isinstance(part, n.Size)), None)
    if size is None or size.most is not None or size.least or any(isinstance(part, n.Magic | n.Line) for part in parts):
        return False
    return made.takes_any or not any(isinstance(part, n.Code) for part in parts)
