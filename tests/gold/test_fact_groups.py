"""Facts by protocol and by connection."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from wirelake.gold.fact_groups import by_protocol, introductions, runs_of
from wirelake.gold.facts import FACTS


def facts(*rows: tuple[str, str, str, int], **columns: list[Any]) -> pa.Table:
    names = ("protocol", "connection", "direction", "ts")
    made = [dict(zip(names, row, strict=True)) for row in rows]
    for name, values in columns.items():
        made = [row | {name: value} for row, value in zip(made, values, strict=True)]
    return pa.Table.from_pylist(made, FACTS)


MIXED = facts(
    ("mb", "a", "to_server", 1),
    ("mb", "a", "to_client", 2),
    ("dsa", "b", "to_server", 3),
    ("mb", "c", "to_client", 4),
)


def test_runs_are_the_connections_in_their_order() -> None:
    runs = runs_of(MIXED)
    assert (runs.names, runs.starts.tolist(), runs.lengths.tolist()) == (["a", "b", "c"], [0, 2, 3, 4], [2, 1, 1])
    assert runs.spread([7, 8, 9]).tolist() == [7, 7, 8, 9]
    assert runs_of(FACTS.empty_table()).starts.tolist() == [0]


def test_each_protocol_has_its_rows_and_their_places_in_the_feed() -> None:
    dsa, mb = by_protocol(MIXED)
    assert (dsa.protocol, dsa.rows.tolist(), dsa.runs.names) == ("dsa", [2], ["b"])
    assert (mb.protocol, mb.rows.tolist(), mb.runs.names) == ("mb", [0, 1, 3], ["a", "c"])
    assert (mb.side.tolist(), mb.ts.tolist(), len(mb)) == ([0, 1, 1], [1, 2, 4], 3)
    assert by_protocol(FACTS.empty_table()) == []


def test_facts_of_one_protocol_are_not_copied() -> None:
    only = MIXED.slice(0, 2)
    assert by_protocol(only)[0].table is only


def test_introductions_are_the_rows_that_say_something() -> None:
    rows = (("mb", "a", "to_server", 1), ("mb", "a", "to_server", 2))
    assert introductions(facts(*rows)) == []
    assert introductions(facts(*rows, introduction=[None, [("user", "x")]])) == [(1, {"user": "x"})]
