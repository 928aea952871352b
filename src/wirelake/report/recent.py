"""The last minutes of a lake: few figures, read quickly after each commit, also where a whole report takes long.

Times are those of the captures. The newest is the watermark of the sensor that is furthest; ``behind`` says how far
the others are behind it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..lake import Lake
from .collect import reading, run_query
from .database import open_recent, open_tables
from .page_values import cut
from .queries import recent_queries

MINUTE_US = 60_000_000
SPAN_US = 10 * MINUTE_US
STEP_US = 5_000_000
STALE_US = MINUTE_US
"""A sensor that is further behind the newest one is named."""
MAX_NAMED = 5
TABLES = ("silver/messages", "silver/quarantine", "gold/exchanges", "gold/violations", "gold/open")


def collect_recent(lake: Lake) -> dict[str, Any]:
    """Return what a page shows of the last minutes as JSON values."""
    lake = lake.snapshot()
    watermarks = _watermarks(lake)
    until = max(watermarks.values(), default=0)
    since = (until - SPAN_US) // STEP_US * STEP_US
    queries = recent_queries(until, until - MINUTE_US, since, STEP_US)
    opened = (lambda at: open_recent(at, TABLES, since)) if lake.store.is_local else open_tables
    data = reading(lake, lambda _, tables: {name: run_query(tables, query) for name, query in queries.items()}, opened)
    return {
        "commit": lake.number(),
        "until_us": until or None,
        "behind": [cut(name, 200) for name in sorted(watermarks) if until - watermarks[name] > STALE_US][:MAX_NAMED],
        "step_us": STEP_US,
        "queries": {name: {"title": query.title, "sql": query.sql} for name, query in queries.items()},
        "data": data,
    }


def _watermarks(lake: Lake) -> dict[str, int]:
    """Return how far each sensor was read."""
    found = lake.labels().get("watermark_us")
    if not isinstance(found, Mapping):
        return {}
    return {str(name): time for name, time in found.items() if isinstance(time, int) and time > 0}
