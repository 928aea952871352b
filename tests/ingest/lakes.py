"""Lakes as plain rows, to be compared with each other and with what was generated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from wirelake.generate.truth import Truth
from wirelake.lake import Lake

PLACE_OF_ROW = {"date", "sensor", "capture", "position", "order"}
"""What may differ between two ways of reading the same traffic: files have other names and other cuts."""


def rows(lake: Lake | Path, table: str, leave_out: frozenset[str] | set[str] = frozenset({"date"})) -> Counter[Any]:
    """The rows of a table, in no order."""
    lake = lake if isinstance(lake, Lake) else Lake.open(lake, create=False)
    if not lake.files(table):
        return Counter()
    found = lake.dataset(table).to_table()
    kept = [name for name in found.column_names if name not in leave_out]
    return Counter(tuple(_plain(row[name]) for name in kept) for row in found.select(kept).to_pylist())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return tuple((key, _plain(inner)) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return tuple(_plain(inner) for inner in value)
    return repr(value) if isinstance(value, float) else value


def tables(lake: Lake | Path, leave_out: frozenset[str] | set[str] = frozenset({"date"})) -> dict[str, Counter[Any]]:
    """All tables of a lake, those without rows left out."""
    lake = lake if isinstance(lake, Lake) else Lake.open(lake, create=False)
    return {table: found for table in lake.tables() if (found := rows(lake, table, leave_out))}


def table(lake: Lake | Path, name: str) -> list[dict[str, Any]]:
    lake = lake if isinstance(lake, Lake) else Lake.open(lake, create=False)
    found: list[dict[str, Any]] = lake.dataset(name).to_table().to_pylist() if lake.files(name) else []
    return found


def connections(lake: Lake | Path, truth: Truth) -> dict[int, str]:
    """The generator's connections by number -> the lake's."""
    known = {row["client"]: row["connection"] for row in table(lake, "gold/sessions")}
    return {one.connection: known[f"{one.client[0]}:{one.client[1]}"] for one in truth.sessions}


def micros(time: Any) -> int | None:
    return None if time is None else round(time.timestamp() * 1_000_000)
