"""Integers that stand for numbers with a fraction, or for times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ..errors import EncodeError
from ..spec import nodes as n

_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=1024)
def meaning(wire: n.Scaled[Any]) -> Callable[[int], Any]:
    """Return what makes a number, or a time, of the integer on the wire."""
    per, epoch = wire.per, wire.epoch
    if epoch is None:
        return lambda number: number / per
    begin, unit = _START + timedelta(seconds=epoch), timedelta(microseconds=microseconds(wire))
    return lambda number: begin + number * unit


def microseconds(wire: n.Scaled[Any]) -> int:
    """Return how long a unit of a time is."""
    return 1_000_000 // wire.per


def counted(wire: n.Scaled[Any], value: Any, path: str) -> int:
    """Return the integer that stands for a value; EncodeError if none does."""
    if wire.epoch is None:
        try:
            return round(Fraction(value) * wire.per)
        except (TypeError, ValueError, OverflowError):
            raise EncodeError(f"{value!r} is not a finite number", rule="field_type", path=path) from None
    if not isinstance(value, datetime) or value.tzinfo is None:
        detail = f"{value!r} is not a time with a time zone, such as datetime.now(UTC)"
        raise EncodeError(detail, rule="field_type", path=path)
    since = (value - _START) // _MICROSECOND - wire.epoch * 1_000_000
    number, left = divmod(since, microseconds(wire))
    if left:
        detail = f"{value.isoformat()} lies between two units of {microseconds(wire)} microseconds"
        raise EncodeError(detail, rule="timestamp_range", path=path)
    return number


def show_time(value: datetime) -> str:
    """Return a time as JSON has it."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_time(shown: Any) -> datetime:
    """Return the time that such a text says; without a time zone it is UTC."""
    if not isinstance(shown, str):
        raise ValueError("a time is needed, such as 2026-07-01T12:00:00Z")
    value = datetime.fromisoformat(shown)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
