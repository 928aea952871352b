"""The ledger of a lake: every byte that came is in exactly one place, at every commit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.capture.test_websocket import PORTS
from wirelake.ingest.report import FACTS
from wirelake.lake import Lake

END = ["sensor", "connection", "direction"]
NUMBERS = ("length", "bytes_in", "bytes_decoded", "bytes_quarantined", "bytes_pending", "bytes_missing")
PARTS = ("bytes_decoded", "bytes_quarantined", "bytes_pending", "bytes_missing")


def check_ledger(lake: Lake, *, is_final: bool, held: int | None = 0) -> None:
    """Check the accounts of each direction of a connection against the rows of all tables.

    ``held``: bytes that have come, but wait behind holes; they are in no table yet; None if nobody knows.
    """
    accounts = _rows(lake, "accounting", ["bytes_in", *PARTS])
    wholes = {name: _sums(accounts, name) for name in ("bytes_in", *PARTS)}
    for end in wholes["bytes_in"]:
        parts = {name: wholes[name][end] for name in PARTS}
        wanted = parts["bytes_decoded"] + parts["bytes_quarantined"] + parts["bytes_pending"]
        assert wholes["bytes_in"][end] == wanted, (end, wholes["bytes_in"][end], parts)
    quarantined = _rows(lake, "silver/quarantine", ["length", "rule"])
    is_gap = pc.equal(quarantined.column("rule"), "gap")
    assert wholes["bytes_decoded"] == _sums(_rows(lake, "silver/messages", ["length"]), "length")
    assert wholes["bytes_quarantined"] == _sums(quarantined.filter(pc.invert(is_gap)), "length")
    gaps = _sums(quarantined.filter(is_gap), "length")
    assert gaps <= wholes["bytes_missing"], "a gap is a row once what follows it is decided"
    _check_chunks(lake, wholes["bytes_in"].copy(), is_final, held)
    if is_final:
        assert wholes["bytes_missing"] == gaps
        assert not wholes["bytes_pending"] and not lake.files("gold/open")
    _check_facts(lake, wholes)


def _check_chunks(lake: Lake, bytes_in: Counter[Any], is_final: bool, held: int | None) -> None:
    """Chunks have all bytes that came, also those of frames of WebSocket and of other protocols."""
    rows = _rows(lake, "bronze/chunks", ["length", "server"])
    is_wrapped = pc.match_substring_regex(rows.column("server"), f":({'|'.join(map(str, PORTS.values()))})$")
    for end, count in _sums(rows.filter(is_wrapped), "length").items():
        assert bytes_in.pop(end, 0) <= count or not is_final, end
    found = _sums(rows.filter(pc.invert(is_wrapped)), "length")
    ours = Counter({end: count for end, count in found.items() if end in bytes_in})
    if is_final:
        assert bytes_in == ours
    if held is not None and not is_wrapped.to_pylist().count(True):
        assert sum(bytes_in.values()) == sum(ours.values()) + held
    assert all(bytes_in[end] >= count for end, count in ours.items())


def _check_facts(lake: Lake, wholes: dict[str, Counter[Any]]) -> None:
    """Facts add up over commits, also if a late capture replaced what earlier ones said."""
    facts = lake.summary().facts
    rows = {"messages": "silver/messages", "violations": "gold/violations"}
    for name in FACTS:
        if name in rows:
            assert facts[name] == sum(file.rows for file in lake.files(rows[name])), name
        elif name in wholes:
            assert facts[name] == sum(wholes[name].values()), name


def _rows(lake: Lake, table: str, columns: list[str]) -> pa.Table:
    if not lake.files(table):
        return pa.schema(
            [(name, pa.int64() if name in NUMBERS else pa.string()) for name in (*END, *columns)]
        ).empty_table()
    return lake.dataset(table).to_table(columns=[*END, *columns])


def _sums(rows: pa.Table, column: str) -> Counter[Any]:
    """Return the sum of a column for each direction of a connection, those without any left out."""
    found = rows.group_by(END).aggregate([(column, "sum")]).to_pylist()
    return Counter({tuple(row[name] for name in END): row[f"{column}_sum"] for row in found if row[f"{column}_sum"]})
