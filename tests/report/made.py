"""Lakes written row by row, for what no traffic would make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from wirelake.gold.tables import TABLES, UNDATED, protocol_table
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN, load
from wirelake.report.packing import json_size, packed

SENSOR = "s1"
"""Of rows that do not say theirs."""
DATED_BY = {
    "gold/addresses": "minute",
    "gold/exchanges": "request_ts",
    "gold/sessions": "first_ts",
    "gold/transactions": "first_ts",
}


def write(
    path: Path, rows: dict[str, list[dict[str, Any]]], schemas: dict[str, pa.Schema] | None = None, replace: str = ""
) -> Lake:
    """One commit with these rows; what they do not say is null. ``replace`` names a table whose files go."""
    lake = Lake.open(path)
    known = TABLES | {f"silver/{name}": protocol_table(load(name)) for name in BUILT_IN} | (schemas or {})
    with lake.writing() as run:
        with run.staging.attempt("t") as attempt:
            for table, listed in rows.items():
                dated_by = None if table in UNDATED else DATED_BY.get(table, "ts")
                batch = pa.RecordBatch.from_pylist([{"sensor": SENSOR, **row} for row in listed], known[table])
                attempt.table(table, known[table], dated_by=dated_by).write(batch)
            files = attempt.close()
        run.commit(files, removed=lake.files(replace) if replace else ())
    return lake


def size_in_page(report: dict[str, Any]) -> int:
    """The bytes of a report in its page."""
    return json_size(packed(report))


def message(offset: int, **values: Any) -> dict[str, Any]:
    """A row of silver/messages."""
    return {
        "connection": "c1",
        "direction": "to_server",
        "offset": offset,
        "length": 10,
        "ts": 1_700_000_000_000_000 + offset,
        "message": "publish",
        "protocol": "mb",
        "kind": "event",
        **values,
    }


def account(messages: int, **values: Any) -> dict[str, Any]:
    """A row of accounting."""
    numbers = {"bytes_in": 10 * messages, "bytes_decoded": 10 * messages, "messages": messages}
    zeros = dict.fromkeys(("bytes_quarantined", "bytes_pending", "bytes_missing"), 0)
    return {"connection": "c1", "direction": "to_server", "protocol": "mb", **zeros, **numbers, **values}
