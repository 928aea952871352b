"""Whether a condition on a value holds."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import msgspec

from . import nodes as n
from .conduct import When


def conditions_of(when: n.Condition | None) -> tuple[When, ...]:
    """Return the conditions on values of earlier fields that a field has."""
    match when:
        case When():
            return (when,)
        case n.Every(conditions=conditions):
            return conditions
        case _:
            return ()


def exclude(one: n.Condition | None, other: n.Condition | None) -> bool:
    """Return whether two conditions certainly never hold together."""
    pairs = product(conditions_of(one), conditions_of(other))
    return any(a.field == b.field and (_never_both(a, b) or _never_both(b, a)) for a, b in pairs)


def _never_both(when: When, other: When) -> bool:
    if when.one_of:
        return not any(holds(other, value) for value in (None, *when.one_of) if holds(when, value))
    if when.is_bare and other.is_bare:
        return when.empty != other.empty
    return when.most is not None and other.least is not None and when.most < other.least


def holds(when: When, value: Any) -> bool:
    """Return whether all that a condition asks of a value is true. An absent number counts as 0."""
    if value is msgspec.UNSET:
        value = None
    if when.is_bare:
        return bool(value) != when.empty
    if when.off:
        return (0 if value is None else value) not in when.off
    number = value if isinstance(value, int) else 0
    seen = {value} if value is not None else {0, "", b""}
    asked = (
        not when.one_of or not seen.isdisjoint(when.one_of),
        not when.none_of or seen.isdisjoint(when.none_of),
        when.least is None or number >= when.least,
        when.most is None or number <= when.most,
        not when.bits or bool(number & when.bits),
        not when.prefix or (isinstance(value, str) and value.startswith(when.prefix)),
        not when.empty or not value,
    )
    return all(asked)


def asked_around(wire: Any, seen: tuple[Any, ...] = ()) -> frozenset[str]:
    """Return the fields of what is around a value that structures in it ask for. ``seen``: those around it."""
    match wire:
        case n.Sized(inner=inner) | n.Many(element=inner):
            return asked_around(inner, seen)
        case n.Choice(known=known) if wire not in seen:
            return frozenset().union(*(asked_around(case, (*seen, wire)) for case in known.values()))
        case n.Nested(struct=cls) if cls not in seen:
            own = {f.name for f in cls.__wire_fields__}
            return frozenset(
                name for f in cls.__wire_fields__ for name in _asked_by(f, (*seen, cls)) if name not in own
            )
        case _:
            return frozenset()


def _asked_by(field: n.Field, seen: tuple[Any, ...]) -> Iterator[str]:
    """Yield the names of fields whose values a field asks for."""
    for one in conditions_of(field.when):
        yield one.field.partition(".")[0]
    by = n.By.of(getattr(field.wire, "count" if isinstance(field.wire, n.Many) else "length", None))
    for name in by.names if by is not None else ():
        yield name.partition(".")[0]
    yield from asked_around(field.wire, seen)
