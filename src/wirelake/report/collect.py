"""A lake -> one plain dict with all that the page shows: answers to queries, and conversations.

A commit may replace files while they are read; then everything is read again, of the lake as it is after it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, TypeVar

import duckdb

from .. import __version__
from ..lake import Lake, LakeError
from ..lake.store import errors
from . import queries
from .annotated_bytes import fill
from .conversations import make_conversations
from .packing import json_size
from .page_values import cell
from .selection import Holding
from .views import open_tables, rows

MOST_BYTES = 4_600_000
"""What the data of a page may have, conversations packed: with the library for charts it is then below 10 MB."""
MOST_BUCKETS = 120
TRAFFIC_BY_MINUTES_US = 20 * 60_000_000
ATTEMPTS = 5
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
NICE = (
    *(number * 1000 for number in (10, 20, 50, 100, 200, 500)),
    *(number * _SECOND for number in (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800)),
    *(number * 3600 * _SECOND for number in (1, 2, 3, 6, 12)),
    *(number * _DAY for number in (1, 2, 7, 14, 28, 91, 182, 364)),
)
"""Widths of buckets that people like."""

Progress = Callable[[str], None]
T = TypeVar("T")


def collect(lake: Lake, *, most_bytes: int = MOST_BYTES, progress: Progress | None = None) -> dict[str, Any]:
    """The report of a lake: JSON values only, at most ``most_bytes`` of them as far as conversations can be left out.

    ``progress`` is told what is done next, in a few words.
    """
    say = progress or (lambda _: None)
    return _reading(lake, lambda at, tables: _collect(at, tables, most_bytes, say))


def find_conversation(lake: Lake, id: str) -> dict[str, Any] | None:
    """Any conversation of the lake, with all its bytes; None if there is none with this id."""
    return _reading(lake, lambda at, tables: _find(at, tables, id))


def _find(lake: Lake, tables: duckdb.DuckDBPyConnection, id_: str) -> dict[str, Any] | None:
    for draft in make_conversations(tables, [id_]).values():
        fill(tables, lake.tables(), draft.shown["events"])
        return draft.shown
    return None


def _reading(lake: Lake, read: Callable[[Lake, duckdb.DuckDBPyConnection], T]) -> T:
    """Read the lake as one commit left it, and again if another commit replaced files meanwhile."""
    for attempt in range(ATTEMPTS):
        at = lake.snapshot()
        try:
            with _errors(lake.path), open_tables(at) as tables:
                return read(at, tables)
        except LakeError:
            if attempt == ATTEMPTS - 1 or lake.number() == at.number():
                raise
    raise AssertionError("unreachable")


@contextmanager
def _errors(path: str) -> Iterator[None]:
    """Turn whatever a damaged or hostile file raises into one line."""
    try:
        with errors(path, "cannot be read"):
            yield
    except duckdb.Error as error:
        raise LakeError(path, f"cannot be read: {str(error).splitlines()[0]}") from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reason = f"has rows that wirelake does not write ({type(error).__name__}: {str(error)[:200]!r})"
        raise LakeError(path, reason) from error


def _collect(lake: Lake, tables: duckdb.DuckDBPyConnection, most_bytes: int, say: Progress) -> dict[str, Any]:
    about = _about(lake, tables)
    asked: dict[str, dict[str, str]] = {}
    data: dict[str, dict[str, Any]] = {}
    questions = queries.questions(about["bucket_us"], about["traffic_of"])
    for query in questions.values():
        say(query.title)
        asked[query.name] = {"title": query.title, "sql": query.sql}
        data[query.name] = answer(tables, query)
        if query.limit is not None:
            asked[query.name]["total"] = query.total
    report: dict[str, Any] = {"about": about, "queries": asked, "data": data, "conversations": {}, "held": []}
    say("conversations")
    holding = Holding(tables, lake.tables(), most_bytes - json_size(report))
    holding.take(questions)
    report["conversations"] = holding.conversations()
    report["held"] = _held(data["held"], holding.counts())
    _point_out(data["violations"], report["conversations"])
    return report


def _held(answered: dict[str, Any], counts: dict[str, int]) -> list[dict[str, Any]]:
    """Writes how many are held into the answer that tells how many there are."""
    why, held = (answered["columns"].index(name) for name in ("why", "held"))
    for row in answered["rows"]:
        row[held] = counts[row[why]]
    return [dict(zip(answered["columns"], row, strict=True)) for row in answered["rows"]]


def _point_out(violations: dict[str, Any], conversations: dict[str, Any]) -> None:
    """Writes which event of its conversation a violation is, if the page holds it."""
    columns = violations["columns"]
    names = ("connection", "direction", "offset", "conversation", "event")
    connection, direction, offset, conversation, event = (columns.index(name) for name in names)
    places = {
        name: {(e["connection"], e["direction"], e["offset"]): at for at, e in enumerate(one["events"])}
        for name, one in conversations.items()
    }
    for row in violations["rows"]:
        row[event] = places.get(row[conversation], {}).get((row[connection], row[direction], row[offset]))


def answer(tables: duckdb.DuckDBPyConnection, query: queries.Query) -> dict[str, Any]:
    """Columns and rows of a query, as JSON values; texts that are too long for a page are cut."""
    found = tables.execute(query.sql)
    columns = [column[0] for column in found.description or ()]
    listed = [[cell(value) for value in row] for row in found.fetchall()]
    total = len(listed)
    if query.limit is not None and total == query.limit:
        (only,) = tables.execute(query.total).fetchall()
        total = only[0]
    return {"columns": columns, "rows": listed, "total": total}


def _about(lake: Lake, tables: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    summary = lake.summary()
    (span,) = rows(tables, queries.piece("_span"))
    first, last = span["first_us"], span["last_us"]
    length = last - first if first is not None else 0
    by_minutes = length >= TRAFFIC_BY_MINUTES_US
    return {
        "lake": lake.path,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "wirelake": __version__,
        "commit": summary.commits,
        "commit_at": summary.last_at,
        "captures": summary.inputs,
        "first_us": first,
        "last_us": last,
        "bucket_us": nice_bucket(length, 60 * _SECOND if by_minutes else 0),
        "traffic_of": "messages" if by_minutes else "requests",
    }


def nice_bucket(length_us: int, least_us: int = 0) -> int:
    """A width that people like, of which there are not too many in this length."""
    for width in NICE:
        if width >= least_us and length_us // width < MOST_BUCKETS:
            return width
    return -(-length_us // MOST_BUCKETS // _DAY) * _DAY
