"""A lake to one plain dict with everything that the page shows: results of queries, and conversations.

A commit may replace files while they are read; then everything is read again, from the newer commit.
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
from .annotated_bytes import add_bytes
from .conversation_ids import Spot
from .conversations import read_conversations
from .database import Tables, open_tables, read_sensors, rows
from .packing import json_size
from .page_values import cell, cut
from .selection import Selection

MAX_DATA_BYTES = 4_600_000
"""Limit for the data of a page, conversations packed: with the chart library the page is then below 10 MB."""
MAX_BUCKETS = 120
MAX_SENSORS = 50
"""Sensors that a page names."""
TRAFFIC_BY_MINUTES_US = 20 * 60_000_000
ATTEMPTS = 5
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_ROUND_NUMBERS = {
    1_000: (10, 20, 50, 100, 200, 500),
    _SECOND: (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    3600 * _SECOND: (1, 2, 3, 6, 12),
    _DAY: (1, 2, 7, 14, 28, 91, 182, 364),
}
BUCKET_WIDTHS = tuple(number * unit for unit, numbers in _ROUND_NUMBERS.items() for number in numbers)

Progress = Callable[[str], None]
T = TypeVar("T")


def collect(lake: Lake, *, max_bytes: int = MAX_DATA_BYTES, progress: Progress | None = None) -> dict[str, Any]:
    """Return the report of a lake as JSON values; leave out conversations to stay below ``max_bytes``.

    ``progress`` is called with the name of each step.
    """
    say = progress or (lambda _: None)
    return reading(lake, lambda at, tables: _collect(at, tables, max_bytes, say))


def find_conversation(lake: Lake, id: str) -> dict[str, Any] | None:
    """Return a conversation of the lake, with all its bytes; None if the lake does not have it."""
    return reading(lake, lambda at, tables: _find(at, tables, id))


def _find(lake: Lake, tables: Tables, id_: str) -> dict[str, Any] | None:
    for draft in read_conversations(tables, [id_]).values():
        add_bytes(tables, lake.tables(), draft.shown["events"])
        return draft.shown
    return None


def reading(lake: Lake, read: Callable[[Lake, Tables], T], open_lake: Callable[[Lake], Tables] = open_tables) -> T:
    """Read the lake as one commit left it, and again if another commit replaced files meanwhile."""
    for attempt in range(ATTEMPTS):
        at = lake.snapshot()
        try:
            with _errors(lake.path), open_lake(at) as tables:
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


def _collect(lake: Lake, tables: Tables, max_bytes: int, say: Progress) -> dict[str, Any]:
    about = _about(lake, tables)
    described: dict[str, dict[str, str]] = {}
    data: dict[str, dict[str, Any]] = {}
    has_sensors = about["sensor_count"] > 1
    by_name = queries.all_queries(about["bucket_us"], about["traffic_of"], has_sensors)
    for query in by_name.values():
        say(query.title)
        described[query.name] = {"title": query.title, "sql": query.sql}
        data[query.name] = run_query(tables, query)
        if query.limit is not None:
            described[query.name]["total"] = query.total
    report: dict[str, Any] = {"about": about, "queries": described, "data": data, "conversations": {}, "held": []}
    say("conversations")
    selection = Selection(tables, lake.tables(), max_bytes - json_size(report), has_sensors)
    selection.choose(by_name)
    report["conversations"] = selection.conversations()
    report["held"] = _fill_in_counts(data["held"], selection.counts())
    _point_out(data["violations"], report["conversations"])
    return report


def _fill_in_counts(result: dict[str, Any], counts: dict[str, int]) -> list[dict[str, Any]]:
    """Write the number of conversations in the page beside their number in the lake."""
    why, held = (result["columns"].index(name) for name in ("why", "held"))
    for row in result["rows"]:
        row[held] = counts[row[why]]
    return [dict(zip(result["columns"], row, strict=True)) for row in result["rows"]]


def _point_out(violations: dict[str, Any], conversations: dict[str, Any]) -> None:
    """Write which event of its conversation a violation is, if the page has the conversation."""
    columns = violations["columns"]
    events = {
        (id_, Spot.of(event)): at
        for id_, conversation in conversations.items()
        for at, event in enumerate(conversation["events"])
    }
    for row in violations["rows"]:
        violation = dict(zip(columns, row, strict=True))
        row[columns.index("event")] = events.get((violation["conversation"], Spot.of(violation)))


def run_query(tables: Tables, query: queries.Query) -> dict[str, Any]:
    """Return columns and rows of a query as JSON values; cut texts that are too long for a page."""
    result = tables.execute(query.sql)
    columns = [column[0] for column in result.description or ()]
    listed = [[cell(value) for value in row] for row in result.fetchall()]
    total = len(listed)
    if query.limit is not None and total == query.limit:
        (only,) = tables.execute(query.total).fetchall()
        total = only[0]
    return {"columns": columns, "rows": listed, "total": total}


def _about(lake: Lake, tables: Tables) -> dict[str, Any]:
    summary, sensors = lake.summary(), read_sensors(tables)
    (span,) = rows(tables, queries.read_sql("_span"))
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
        "sensors": [cut(name, 200) for name in sensors[:MAX_SENSORS]],
        "sensor_count": len(sensors),
        "first_us": first,
        "last_us": last,
        "bucket_us": bucket_width(length, 60 * _SECOND if by_minutes else 0),
        "traffic_of": "messages" if by_minutes else "requests",
    }


def bucket_width(length_us: int, least_us: int = 0) -> int:
    """Return a round width of which not too many fit into this length."""
    for width in BUCKET_WIDTHS:
        if width >= least_us and length_us // width < MAX_BUCKETS:
            return width
    return -(-length_us // MAX_BUCKETS // _DAY) * _DAY
