"""Remove the rows of old dates, and say what went.

Whole dates go, of every table that has dates: messages, quarantined ranges, chunks, and what was derived from them. So
do the accounts of connections that had ended by then, and the carry to which a late capture of these dates would go
back. What went is added to the facts of the lake, so that accounts still add up: those in the table and those that
expired together are all bytes that ever came.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime

import pyarrow as pa
import pyarrow.compute as pc

from .commits import Run
from .lake import Lake
from .staging import StagedFile
from .table_files import joined

ACCOUNTS, SESSIONS = "accounting", "gold/sessions"
COUNTS = ("bytes_in", "bytes_decoded", "bytes_quarantined", "bytes_pending", "bytes_missing", "messages")
EXPIRED = "expired_before"
"""The label that says it to later runs: nobody may rebuild what lies before."""


@dataclass
class Expired:
    """What an expiry took."""

    commit: int | None = None
    before: str = ""
    files: int = 0
    bytes: int = 0
    rows: dict[str, int] = field(default_factory=dict)
    """By table."""
    accounts: dict[str, int] = field(default_factory=dict)
    """What the accounts of ended connections had counted."""


def expire(run: Run, before: date) -> Expired:
    """Remove all rows of dates before this one, in one commit."""
    lake, limit = run.lake, f"date={before.isoformat()}"
    gone = [file for table in lake.tables() for file in lake.files(table) if _is_dated(file) and file.partition < limit]
    result = Expired(before=before.isoformat(), files=len(gone), bytes=sum(file.bytes for file in gone))
    rows: Counter[str] = Counter()
    for file in gone:
        rows[file.table] += file.rows
    result.rows = dict(sorted(rows.items()))
    old, new, result.accounts = _without(run, _ended(lake, gone, before))
    before_us = date_us(result.before)
    kept = {key: [one for one in listed if one.after_us >= before_us] for key, listed in lake.kept().items()}
    kept = {key: listed for key, listed in kept.items() if listed != lake.kept()[key]}
    known = str(lake.labels().get(EXPIRED) or "")
    if not gone and not kept and known >= result.before:
        return result
    result.commit = run.commit(
        new,
        removed=[*gone, *old],
        facts={"expired_rows": result.rows, "expired_accounts": result.accounts},
        labels={EXPIRED: max(known, result.before)},
        kept=kept,
    )
    return result


def date_us(day: str) -> int:
    """Return the beginning of a date in microseconds since 1970."""
    return int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1_000_000


def _is_dated(file: StagedFile) -> bool:
    return file.partition.startswith("date=") and file.partition[5:6].isdigit()


def _ended(lake: Lake, gone: list[StagedFile], before: date) -> dict[str, set[str]]:
    """Return the connections whose sessions go and had ended before the date, by sensor."""
    limit = pa.scalar(datetime(before.year, before.month, before.day, tzinfo=UTC), pa.timestamp("us", "UTC"))
    ended: dict[str, set[str]] = defaultdict(set)
    paths = {file.path: file.sensor for file in gone if file.table == SESSIONS}
    for path, sensor in paths.items():
        rows = lake.read_file(path, ["connection", "last_ts"])
        ended[sensor].update(rows.filter(pc.less(rows.column("last_ts"), limit)).column("connection").to_pylist())
    return ended


def _without(run: Run, ended: dict[str, set[str]]) -> tuple[list[StagedFile], list[StagedFile], dict[str, int]]:
    """Write the accounts again without these connections; return the old files, the new ones, and what went.

    A connection that is not over has its account in the carry, and a file of its own that each commit replaces.
    """
    lake, totals = run.lake, Counter(dict.fromkeys(COUNTS, 0))
    old, new = [], []
    for number, file in enumerate(lake.files(ACCOUNTS)):
        names = ended.get(file.sensor)
        if not names or "-open-" in file.name:
            continue
        rows = lake.read_file(file.path)
        is_over = pc.is_in(rows.column("connection"), pa.array(sorted(names), pa.string()))
        if not pc.any(is_over).as_py():
            continue
        over, left = rows.filter(is_over), rows.filter(pc.invert(is_over))
        totals.update({name: pc.sum(over.column(name)).as_py() or 0 for name in COUNTS if name in rows.column_names})
        old.append(file)
        if left.num_rows:
            new += _rewritten(run, file, left, number)
    return old, new, dict(totals)


def _rewritten(run: Run, file: StagedFile, rows: pa.Table, number: int) -> list[StagedFile]:
    schema = joined([rows.schema])
    if file.sensor:
        schema = schema.remove(schema.get_field_index("sensor"))
    staging = replace(run.staging, number=file.commit)
    with staging.attempt(f"x{run.number:08d}.{number:05d}", file.sensor) as attempt:
        attempt.table(ACCOUNTS, schema, dated_by=None).write(rows.select(schema.names))
        return attempt.close()
