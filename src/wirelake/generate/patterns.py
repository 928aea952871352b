"""A regular expression -> random texts that it matches.

The pattern is parsed by Python's own parser and every construct becomes a small function that writes one text. What
only looks around (anchors, look-aheads) writes nothing, so a caller checks the text against the pattern and asks again
if it does not match.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import lru_cache
from random import Random
from typing import Any

Piece = Callable[[Random, float], str]

_PRINTABLE = "".join(map(chr, range(0x20, 0x7F)))
_CATEGORIES = {
    "CATEGORY_DIGIT": "0123456789",
    "CATEGORY_WORD": "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_",
    "CATEGORY_SPACE": " \t",
}
_parse: Callable[[str], Any] = importlib.import_module("re._parser").parse


@lru_cache(maxsize=256)
def texts(pattern: str) -> Piece:
    """Return a function of a random source and a size (1.0 is usual) that writes a text for this pattern."""
    return _sequence(_parse(pattern))


def _sequence(parsed: Any) -> Piece:
    pieces = tuple(_piece(op.name, argument) for op, argument in parsed)
    if len(pieces) == 1:
        return pieces[0]
    return lambda rng, size: "".join([piece(rng, size) for piece in pieces])


def _piece(op: str, argument: Any) -> Piece:
    match op:
        case "LITERAL":
            text = chr(argument)
            return lambda rng, size: text
        case "NOT_LITERAL":
            return _one_of(_PRINTABLE.replace(chr(argument), ""))
        case "ANY":
            return _one_of(_PRINTABLE)
        case "IN":
            return _one_of(_members(argument))
        case "BRANCH":
            return _branch(tuple(_sequence(choice) for choice in argument[1]))
        case "SUBPATTERN" | "ATOMIC_GROUP":
            return _sequence(argument[3] if op == "SUBPATTERN" else argument)
        case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
            low, high, repeated = argument
            return _repeat(int(low), int(high), repeated)
        case "AT" | "ASSERT" | "ASSERT_NOT":
            return lambda rng, size: ""
        case _:
            raise ValueError(f"no texts can be made for {op} in a pattern")


def _one_of(characters: str) -> Piece:
    count = len(characters)
    return lambda rng, size: characters[int(rng.random() * count)]


def _branch(choices: tuple[Piece, ...]) -> Piece:
    count = len(choices)
    return lambda rng, size: choices[int(rng.random() * count)](rng, size)


def _repeat(low: int, high: int, repeated: Any) -> Piece:
    def times(rng: Random, size: float) -> int:
        return low if high == low else min(high, low + int(rng.expovariate(0.5) * size))

    if len(repeated) == 1 and repeated[0][0].name == "IN":
        characters = _members(repeated[0][1])
        return lambda rng, size: "".join(rng.choices(characters, k=times(rng, size)))
    piece = _sequence(repeated)
    return lambda rng, size: "".join([piece(rng, size) for _ in range(times(rng, size))])


def _members(items: Any) -> str:
    """Return the characters of a set; a negated one is taken from what can be printed."""
    members: set[str] = set()
    negated = False
    for op, argument in items:
        match op.name:
            case "NEGATE":
                negated = True
            case "LITERAL":
                members.add(chr(argument))
            case "RANGE":
                members.update(map(chr, range(argument[0], argument[1] + 1)))
            case "CATEGORY" if argument.name in _CATEGORIES:
                members.update(_CATEGORIES[argument.name])
            case "CATEGORY":
                members.update(set(_PRINTABLE) - set(_CATEGORIES[argument.name.replace("NOT_", "")]))
            case _:
                raise ValueError(f"no texts can be made for {op.name} in a set")
    return "".join(sorted(set(_PRINTABLE) - members if negated else members))
