"""The questions that the report asks: SQL for DuckDB on the views of a lake, one file each in ``sql``.

The first line of a file is its title. What stands in braces is written out before it is run, and shown like that: the
width of buckets, and pieces that several questions have in common (``_links``, ``_span``). A time is a number of
microseconds since 1970, UTC; rows without one are left out where time matters, and nowhere else. Percentiles are those
of gold: the value at the nearest rank.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files

WHOLE = 80
"""A connection of at most so many messages is shown whole, and one picture is enough for all that is in it."""
MOST = 2500
"""Of one rule, one kind and so on, so many rows come into question for a page."""

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
"""In the order in which they are asked."""


@dataclass(frozen=True)
class Query:
    """A question: its rows, their order, and how many of them are wanted."""

    name: str
    title: str
    rows: str
    order: str
    limit: int | None
    counted: str = ""
    """Asks how many rows there are, if ``rows`` gives only those that come into question."""

    @property
    def sql(self) -> str:
        limit = f"\nlimit {self.limit}" if self.limit is not None else ""
        return f"{self.rows}{self.order}{limit}"

    @property
    def total(self) -> str:
        """Asks how many rows there would be without the limit."""
        return self.counted or f"select count(*) as total from (\n{self.rows}\n)"

    def up_to(self, limit: int) -> Query:
        return replace(self, limit=limit)


def questions(bucket_us: int, traffic_of: str) -> dict[str, Query]:
    """All questions by name, with everything written out."""
    written = {
        "bucket_us": str(bucket_us),
        "whole": str(WHOLE),
        "most": str(MOST),
        "links": piece("_links"),
        "span": piece("_span"),
    }
    return {name: _query(name, f"traffic_{traffic_of}" if name == "traffic" else name, written) for name in NAMES}


def piece(name: str) -> str:
    """The SQL of a file, without its title."""
    return _read(name)[1]


@lru_cache(maxsize=64)
def _read(name: str) -> tuple[str, str]:
    text = files(__package__).joinpath("sql", f"{name}.sql").read_text("utf-8")
    title, _, sql = text.partition("\n")
    return title.removeprefix("-- "), sql.strip()


def _query(name: str, file: str, written: dict[str, str]) -> Query:
    title, sql = _read(file)
    for key, value in written.items():
        sql = sql.replace(f"{{{key}}}", value)
    rows, _, rest = sql.rpartition("\norder by ")
    if not rows:
        return Query(name, title, sql, "", None)
    order, _, limit = rest.partition("\nlimit ")
    counted = piece("_violations") if name == "violations" else ""
    return Query(name, title, rows, f"\norder by {order}", int(limit) if limit else None, counted)
