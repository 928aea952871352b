"""Forms of times that are written as text, such as ``%Y%m%d-%H:%M:%S.%3f``: directives of fixed sizes, and the rest."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
SIZES = {"Y": 4, "m": 2, "d": 2, "j": 3, "H": 2, "M": 2, "S": 2, "3f": 3, "f": 6, "b": 3, "a": 3}
"""Bytes of each directive."""
_DATES = ({"m", "d"}, {"b", "d"}, {"j"})
"""What says a day of a year."""


class Piece(NamedTuple):
    """A directive, or text that is always the same."""

    directive: str
    text: str


@lru_cache(maxsize=256)
def pieces_of(form: str) -> tuple[Piece, ...]:
    """Return what a form is made of; ValueError if it has a directive that there is not."""
    pieces = []
    for directive, other, text in re.findall(r"%(3f|[A-Za-z])|(%.?)|([^%]+)", form):
        if other == "%%":
            pieces.append(Piece("", "%"))
        elif other or (directive and directive not in SIZES):
            raise ValueError(f"%{directive}" if directive else other)
        else:
            pieces.append(Piece(directive, text))
    return tuple(pieces)


def fault_of(form: str) -> str:
    """Return what is wrong with a form, in words; empty if nothing is."""
    try:
        asked = [piece.directive for piece in pieces_of(form) if piece.directive]
    except ValueError as error:
        return f"has {error}, which is none of {', '.join('%' + known for known in SIZES)}"
    if len(set(asked)) < len(asked):
        return "says something twice"
    said = {"m", "d", "b", "j"}.intersection(asked)
    if "Y" not in asked or said not in _DATES:
        return "says no day of a year, or two"
    return "has two fractions" if {"f", "3f"} <= set(asked) else ""


def microseconds(form: str) -> int:
    """Return how long the unit of a form is."""
    asked = {piece.directive for piece in pieces_of(form)}
    units = {"f": 1, "3f": 1000, "S": 1_000_000, "M": 60_000_000, "H": 3_600_000_000}
    return next((unit for directive, unit in units.items() if directive in asked), 86_400_000_000)
