"""Lakes as plain rows, to be compared with each other and with what was generated."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

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


class Content:
    """All tables of a lake, each sorted: cheap to compare with those of many others.

    ``names`` are those by which the sensors of the lake are to be called.
    """

    def __init__(self, lake: Lake, leave_out: set[str], names: dict[str, str] | None = None) -> None:
        self.tables: dict[str, pa.Table] = {}
        for name in lake.tables():
            rows = lake.dataset(name).to_table()
            rows = rows.select([column for column in rows.column_names if column not in leave_out])
            if names:
                sensors = [names[sensor] for sensor in rows.column("sensor").to_pylist()]
                rows = rows.set_column(rows.column_names.index("sensor"), "sensor", pa.array(sensors, pa.string()))
            if rows.num_rows:
                self.tables[name] = _sorted(rows)

    def joined(self, other: Content) -> Content:
        """Return the rows of both."""
        both = Content.__new__(Content)
        both.tables = {}
        for name in {*self.tables, *other.tables}:
            parts = [content.tables[name] for content in (self, other) if name in content.tables]
            both.tables[name] = _sorted(pa.concat_tables(parts, promote_options="default"))
        return both

    def differences(self, other: Content) -> list[str]:
        """Return what is only here, and only there; nothing if both are equal."""
        found = []
        for name in sorted({*self.tables, *other.tables}):
            here, there = self.tables.get(name), other.tables.get(name)
            if here is not None and there is not None and here.equals(there):
                continue
            ours, others = _counted(here), _counted(there)
            found += [f"{name}: only here {row}" for row in (ours - others)]
            found += [f"{name}: only there {row}" for row in (others - ours)]
        return found


def _sorted(rows: pa.Table) -> pa.Table:
    """Sort by all columns that can be; rows that differ in the others alone make a comparison slower, not wrong."""
    by = [(field.name, "ascending") for field in rows.schema if not pa.types.is_nested(field.type)]
    return rows.take(pc.sort_indices(rows, sort_keys=by)).combine_chunks()


def _counted(rows: pa.Table | None) -> Counter[Any]:
    return Counter(repr(sorted(row.items())) for row in rows.to_pylist()) if rows is not None else Counter()
