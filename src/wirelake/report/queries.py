"""The queries of the report: SQL for DuckDB on the views of a lake, one file each in ``sql``.

The first line of a file is its title. Names in braces are replaced before the query runs and is shown: the width of
buckets, the facts that name a client, parts that several queries share (``_links``, ``_span``), and the
sensor in the id of a conversation (``at``), if the lake has several. A time is a number
of microseconds since 1970, UTC; rows without one are left out only where time matters. Percentiles are those of gold:
values at the nearest rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

from .conversation_ids import AT_SENSOR
from .lifelines import CLIENT_NAMES

MAX_WHOLE = 80
"""A connection of at most so many messages is shown whole: one diagram is enough for everything in it."""
MAX_CANDIDATES = 2500
"""Rows per rule, per kind and so on that are candidates for a page."""

NAMES = (
    "overview",
    "protocols",
    "traffic",
    "outcomes",
    "quarantine_over_time",
    "latency",
    "heat",
    "slow_addresses",
    "busy_addresses",
    "slow_exchanges",
    "failures",
    "topology",
    "sessions",
    "session_ends",
    "transactions",
    "transaction_outcomes",
    "rules",
    "violations",
    "open",
    "held",
)
"""In the order in which they run."""
RECENT_NAMES = ("recent", "recent_traffic")
"""Those of a served page about the last minutes."""


@dataclass(frozen=True)
class Query:
    """A query: its rows, their order, and how many of them are wanted."""

    name: str
    title: str
    rows: str
    order: str
    limit: int | None
    counted: str = ""
    """SQL that counts all rows, if ``rows`` selects only candidates."""

    @property
    def sql(self) -> str:
        limit = f"\nlimit {self.limit}" if self.limit is not None else ""
        return f"{self.rows}{self.order}{limit}"

    @property
    def total(self) -> str:
        """SQL that counts the rows without the limit."""
        return self.counted or f"select count(*) as total from (\n{self.rows}\n)"

    def up_to(self, limit: int) -> Query:
        return replace(self, limit=limit)


def all_queries(bucket_us: int, traffic_of: str, has_sensors: bool) -> dict[str, Query]:
    """Return all queries by name, with the names in braces replaced.

    ``has_sensors``: the lake has more than one sensor, so ids of conversations name theirs.
    """
    parameters = {
        "at": AT_SENSOR if has_sensors else "",
        "bucket_us": str(bucket_us),
        "whole": str(MAX_WHOLE),
        "most": str(MAX_CANDIDATES),
        "links": read_sql("_links"),
        "span": read_sql("_span"),
        "client_names": ", ".join(f"nullif(facts['{name}'], '')" for name in CLIENT_NAMES),
    }
    return {name: _query(name, f"traffic_{traffic_of}" if name == "traffic" else name, parameters) for name in NAMES}


def recent_queries(until_us: int, minute_us: int, since_us: int, step_us: int) -> dict[str, Query]:
    """Return the queries about what came before ``until_us``: figures from ``minute_us`` on, traffic in steps from
    ``since_us`` on.
    """
    parameters = {
        "until_us": str(until_us),
        "minute_us": str(minute_us),
        "since_us": str(since_us),
        "step_us": str(step_us),
    }
    return {name: _query(name, name, parameters) for name in RECENT_NAMES}


def sample(has_sensors: bool) -> str:
    """Return SQL for ids of a few conversations of everything."""
    return _filled(read_sql("_sample"), {"at": AT_SENSOR if has_sensors else ""})


def read_sql(name: str) -> str:
    """Return the SQL of a file, without its title."""
    return _read(name)[1]


@lru_cache(maxsize=64)
def _read(name: str) -> tuple[str, str]:
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")
    title, _, sql = text.partition("\n")
    return title.removeprefix("-- "), sql.strip()


def _filled(sql: str, parameters: dict[str, str]) -> str:
    for key, value in parameters.items():
        sql = sql.replace(f"{{{key}}}", value)
    return sql


def _query(name: str, file: str, parameters: dict[str, str]) -> Query:
    title, sql = _read(file)
    sql = _filled(sql, parameters)
    rows, _, rest = sql.rpartition("\norder by ")
    if not rows:
        return Query(name, title, sql, "", None)
    order, _, limit = rest.partition("\nlimit ")
    counted = read_sql("_violations") if name == "violations" else ""
    return Query(name, title, rows, f"\norder by {order}", int(limit) if limit else None, counted)
