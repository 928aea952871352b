"""Rows around places in connections: exactly those that a look at the whole connection gives."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pytest

from tests.report.made import SENSOR, message, write
from wirelake.report.conversation_ids import Spot
from wirelake.report.database import open_tables
from wirelake.report.windows import Around, Ends, Want, read_windows


def connection(chance: random.Random, name: str, size: int, timed: bool) -> list[dict[str, Any]]:
    """Messages in bursts and with long silences, both ways, many at the same moment."""
    ends = {"to_server": 0, "to_client": 0}
    ts = 1_700_000_000_000_000
    made = []
    for _ in range(size):
        ts += chance.choice((0, 0, 1, 3, 1000, 60_000_000)) if chance.random() < 0.9 else 3_600_000_000
        direction = chance.choice(list(ends))
        length = chance.randint(1, 50)
        row = message(ends[direction], connection=name, direction=direction, length=length)
        made.append(row | {"ts": ts if timed else None})
        ends[direction] += length
    return made


@pytest.fixture(scope="module")
def rows() -> list[dict[str, Any]]:
    chance = random.Random(7)
    sizes = (1, 2, 40, 80, 81, 300, 2000)
    return [
        row
        for timed in (True, False)
        for i, size in enumerate(sizes)
        for row in connection(chance, f"{'t' if timed else 'r'}{i}", size, timed)
    ]


@pytest.fixture(scope="module")
def tables(rows: list[dict[str, Any]], tmp_path_factory: pytest.TempPathFactory) -> duckdb.DuckDBPyConnection:
    """Every fifth row is no message. Another sensor saw some of the same."""
    broken = [row | {"rule": "bad"} for row in rows[::5]]
    good = [row for i, row in enumerate(rows) if i % 5]
    good += [row | {"sensor": "other"} for row in rows[::3]]
    lake = write(tmp_path_factory.mktemp("windows") / "lake", {"silver/messages": good, "silver/quarantine": broken})
    return open_tables(lake)


def lanes(rows: list[dict[str, Any]], name: str) -> list[list[Spot]]:
    """The order of a connection; without times, of each direction."""
    own = [row for row in rows if row["connection"] == name]
    groups = (
        [own] if name.startswith("t") else [[r for r in own if r["direction"] == d] for d in ("to_server", "to_client")]
    )
    return [
        [
            Spot(SENSOR, name, r["direction"], r["offset"])
            for r in sorted(group, key=lambda r: (r["ts"] or 0, r["direction"] == "to_client", r["offset"]))
        ]
        for group in groups
    ]


def spots(found: list[dict[str, Any]]) -> list[Spot]:
    return [Spot.of(row) for row in found]


def test_around_a_row_are_its_neighbours(rows: list[dict[str, Any]], tables: duckdb.DuckDBPyConnection) -> None:
    chance = random.Random(8)
    chosen = chance.sample(rows, 150)
    wants: list[Want] = [
        Around(
            Spot(SENSOR, row["connection"], row["direction"], row["offset"]),
            chance.randint(0, 30),
            chance.randint(0, 30),
        )
        for row in chosen
    ]
    found = read_windows(tables, wants)
    for want in wants:
        assert isinstance(want, Around)
        (lane,) = (lane for lane in lanes(rows, want.spot.connection) if want.spot in lane)
        at = lane.index(want.spot)
        assert spots(found[want]) == lane[max(0, at - want.before) : at + want.after + 1]
        assert [row["place"] for row in found[want]] == list(
            range(max(0, at - want.before) + 1, min(len(lane), at + want.after + 1) + 1)
        )
        size = sum(row["connection"] == want.spot.connection for row in rows)
        assert {row["total"] for row in found[want]} == {size}


def test_of_a_connection_all_or_both_ends_are_read(
    rows: list[dict[str, Any]], tables: duckdb.DuckDBPyConnection
) -> None:
    wants: list[Want] = [Ends(SENSOR, name, 80, 50, 30) for name in sorted({row["connection"] for row in rows})]
    found = read_windows(tables, wants)
    for want in wants:
        assert isinstance(want, Ends)
        own = lanes(rows, want.connection)
        if sum(map(len, own)) > 80:
            own = [lane if len(lane) <= 80 else lane[:50] + lane[-30:] for lane in own]
        assert spots(found[want]) == [spot for lane in own for spot in lane]


def test_what_does_not_exist_is_not_found(tables: duckdb.DuckDBPyConnection) -> None:
    want = Around(Spot(SENSOR, "t3", "to_server", 10**9), 5, 5)
    other = Ends(SENSOR, "nobody", 80, 50, 30)
    found = read_windows(tables, [want, other])
    assert found[want] == [] and found[other] == []
