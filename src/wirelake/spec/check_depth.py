"""How deep values may lie inside each other: no declaration lets bytes exhaust the stack of a reader."""

from __future__ import annotations

from typing import Any

from . import nodes as n
from .check_class import require
from .declare import tag_rows
from .resolve import Layout, resolve_fields

MOST_LEVELS = 64
"""The largest ``depth`` of a choice."""
MOST_TYPES = 200
"""Types inside each other, over all levels. Readers take up to three calls for each; Python allows 1000 in all."""


def check_depth(made: Layout, wire: n.Choice[Any], where: str) -> None:
    """Refuse a choice that may hold more values inside each other than every reader can take."""
    most = MOST_LEVELS
    require(
        1 <= wire.depth <= most, f"{where}: a choice goes 1 to {most} levels deep, not {wire.depth}; write depth=16"
    )
    between: dict[n.Choice[Any], int] = {}
    _types_to_choice(made, wire, between)
    types = max(1, *between.values())
    require(
        wire.depth * types <= MOST_TYPES,
        f"{where}: {wire.depth} levels of {types} types inside each other are too deep; "
        f"write depth={MOST_TYPES // types} or less",
    )


def _types_to_choice(made: Layout, wire: Any, between: dict[n.Choice[Any], int]) -> int:
    """Return how many types there are from this one to the next choice in it, both counted; 0 if there is none.

    ``between`` gets the same for what every choice on the way holds.
    """
    held: list[Any]
    match wire:
        case n.Choice():
            if wire not in between:
                between[wire] = 0
                cases = [case for case in wire.known.values() if case is not None]
                between[wire] = max((_types_to_choice(made, case, between) for case in cases), default=0)
            return 1
        case n.Sized(inner=inner):
            held = [inner]
        case n.Many(element=element):
            held = [element]
        case n.Nested(struct=struct):
            held = [field.wire for field in resolve_fields(struct, made.options)]
        case n.Tags(struct=table):
            held = [row.wire for row in tag_rows(table)]
        case _:
            return 0
    found = max((_types_to_choice(made, each, between) for each in held), default=0)
    return found + 1 if found else 0
