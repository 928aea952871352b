"""Integers that stand for numbers with a fraction, or for times."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from functools import lru_cache
from typing import Any

from ..errors import BadValue, EncodeError
from ..spec import nodes as n
from ..spec import timeforms
from ..spec.timeforms import DAYS, MONTHS, SIZES, Piece, pieces_of

_START = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@lru_cache(maxsize=1024)
def meaning(wire: n.Scaled[Any]) -> Callable[[Any], Any]:
    """Return what makes a number, or a time, of the integer, or the text, on the wire."""
    per, epoch = wire.per, wire.epoch
    if wire.form:
        return lambda text: _read_form(wire.form, text)
    if epoch is None:
        return lambda number: number / per
    begin, unit = _START + timedelta(seconds=epoch), timedelta(microseconds=microseconds(wire))
    return lambda number: begin + number * unit


def microseconds(wire: n.Scaled[Any]) -> int:
    """Return how long a unit of a time is."""
    return timeforms.microseconds(wire.form) if wire.form else 1_000_000 // wire.per


_KINDS = {"b": "|".join(MONTHS), "a": "|".join(DAYS)}


@lru_cache(maxsize=256)
def _pattern(form: str) -> re.Pattern[str]:
    """Return what a text of a form looks like; groups have the names of the directives."""
    return re.compile("".join(map(_part, pieces_of(form))))


def _part(piece: Piece) -> str:
    name = piece.directive
    kind = _KINDS.get(name) or f"[0-9]{{{SIZES.get(name)}}}"
    return f"(?P<{name.replace('3', '_3')}>{kind})" if name else re.escape(piece.text)


def _read_form(form: str, text: str) -> datetime:
    """Return the time that a text of a form says; BadValue if it is none, or another one would be written so."""
    found = _pattern(form).fullmatch(text)
    said = found.groupdict() if found is not None else {}
    value: datetime | None
    try:
        year, hour, minute, second = (int(said.get(key) or 0) for key in "YHMS")
        month = MONTHS.index(said["b"]) + 1 if "b" in said else int(said.get("m") or 1)
        fraction = int(said.get("f") or 0) + 1000 * int(said.get("_3f") or 0)
        value = datetime(year, month, int(said.get("d") or 1), hour, minute, second, fraction, UTC)
        value += timedelta(days=int(said["j"]) - 1) if "j" in said else timedelta()
    except (ValueError, OverflowError):
        value = None
    if value is None or _write_form(form, value) != text:
        raise BadValue(f"{text[:80]!r} is no time as {form}", rule="timestamp_range", offset=0)
    return value


def _write_form(form: str, value: datetime) -> str:
    """Return a time as a text of a form."""
    parts = {
        "Y": f"{value.year:04}", "m": f"{value.month:02}", "d": f"{value.day:02}", "H": f"{value.hour:02}",
        "M": f"{value.minute:02}", "S": f"{value.second:02}", "f": f"{value.microsecond:06}",
        "3f": f"{value.microsecond // 1000:03}", "b": MONTHS[value.month - 1], "a": DAYS[value.weekday()],
        "j": f"{value.timetuple().tm_yday:03}",
    }  # fmt: skip
    return "".join(parts[piece.directive] if piece.directive else piece.text for piece in pieces_of(form))


def counted(wire: n.Scaled[Any], value: Any, path: str) -> Any:
    """Return the integer, or the text, that stands for a value; EncodeError if none does."""
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
    return _write_form(wire.form, value.astimezone(UTC)) if wire.form else number


def show_time(value: datetime) -> str:
    """Return a time as JSON has it."""
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def read_time(shown: Any) -> datetime:
    """Return the time that such a text says; without a time zone it is UTC."""
    if not isinstance(shown, str):
        raise ValueError("a time is needed, such as 2026-07-01T12:00:00Z")
    value = datetime.fromisoformat(shown)
    return value if value.tzinfo is not None else value.replace(tzinfo=UTC)
