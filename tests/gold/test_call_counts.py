"""Calls that are only counted give the same rows as transactions that were followed call by call."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from wirelake.gold.branch_events import COMMIT, COMMITTED, EVENTS, PREPARE, VOTE, WORK
from wirelake.gold.call_counts import MAX_EXECUTIONS
from wirelake.gold.transactions import Transactions

from .matched import repacked

EVENT = st.fixed_dictionaries(
    {
        "gap": st.integers(0, 40_000_000),
        "step": st.sampled_from([WORK] * 6 + [PREPARE, VOTE, COMMIT, COMMITTED]),
        "connection": st.sampled_from(["one", "two", "three"]),
        "gtrid": st.sampled_from([b"a", b"b", b"c"]),
        "bqual": st.sampled_from([b"", b"x", None]),
        "execution": st.sampled_from(["e", "f", "", None]),
        "one_phase": st.booleans(),
        "status": st.sampled_from([0, 3, 100]),
    }
)


def events_of(drawn: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found, ts = [], 1_700_000_000_000_000
    for order, one in enumerate(drawn):
        ts += one["gap"]
        base = {"ts": ts, "order": order, "protocol": "casual", "xid_format": 42, "resource": -1}
        found.append(base | one)
    return found


def table_of(events: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(events, EVENTS)


class Followed(Transactions):
    """Makes an object of every transaction."""

    def count(self, work: pa.Table, moved: pa.Array) -> pa.Table:
        return work


def rows_of(step: Transactions, feeds: list[list[dict[str, Any]]]) -> tuple[list[Any], list[Any]]:
    """The rows, and what was open before the end."""
    parts = []
    for feed in feeds:
        step = type(step)(repacked(step.carry()))
        parts.append(step.feed(table_of(feed)))
    opened = step.open()
    parts.append(step.settle(0, final=True))
    rows = pa.concat_tables(parts).to_pylist()
    assert step.open().num_rows == 0
    return (
        sorted(rows, key=lambda row: (row["first_ts"], row["gtrid"])),
        sorted(opened.to_pylist(), key=lambda row: row["correlation"]),
    )


@given(st.lists(EVENT, max_size=30), st.lists(st.integers(0, 30), max_size=3))
def test_counting_calls_is_following_them(drawn: list[dict[str, Any]], cuts: list[int]) -> None:
    events = events_of(drawn)
    edges = [0, *sorted(min(cut, len(events)) for cut in cuts), len(events)]
    feeds = [events[start:stop] for start, stop in pairwise(edges)]
    followed, open_then = rows_of(Followed(), [events])
    counted, open_now = rows_of(Transactions(), feeds)
    assert counted == followed
    assert open_now == open_then


def test_of_many_chains_of_calls_the_first_are_named() -> None:
    chains = [
        {"step": WORK, "gtrid": b"g", "connection": "one", "execution": f"{number:04d}", "gap": 1}
        for number in range(MAX_EXECUTIONS + 50)
    ]
    first = [f"{number:04d}" for number in range(MAX_EXECUTIONS)]
    for step in (Transactions(), Followed()):
        ((row,), _) = rows_of(step, [events_of(chains)])
        assert row["executions"] == first
        assert row["calls"] == len(chains)


def test_a_call_without_a_decision_is_in_doubt() -> None:
    calls = [
        {"step": WORK, "gtrid": b"\x01", "bqual": b"\x02", "connection": name, "execution": "e", "gap": 5}
        for name in ("one", "two", "one")
    ]
    ((row,), (opened,)) = rows_of(Transactions(), [events_of(calls)])
    assert (row["gtrid"], row["outcome"], row["calls"], row["connections"]) == ("01", "in_doubt", 3, 2)
    assert row["ended_ts"] is None and row["duration_us"] is None
    assert [(one["connection"], one["calls"], one["bqual"]) for one in row["branches"]] == [
        ("one", 2, "02"),
        ("two", 1, "02"),
    ]
    assert opened["detail"] == "2 of 2 branches have not ended, 0 of them prepared"
