"""Events that move transactions: replies have the ids of their requests, also across a cut and out of order."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from wirelake.gold.branch_events import COMMIT, COMMITTED, EVENTS, PREPARE, VOTE, WORK, part_of
from wirelake.gold.facts import FACTS

from .matched import EventsOfFacts, repacked
from .test_exchanges import SECOND, A, B, Row, fact

XID: dict[str, Any] = {"xid_format": 42, "gtrid": b"g", "bqual": b"b", "resource": -1}


def message(at: float, name: str, pair: int, correlation: str, **more: Any) -> Row:
    step = 2 if name.endswith("_reply") else 1
    return fact(at, step, B if step == 2 else A, correlation, protocol="casual", message=name, pair=pair, **more)


CALL = message(1, "service_call_request", 3101, "c", **XID)
ASKED = message(2, "resource_prepare_request", 5202, "p", limit_us=30 * SECOND, **XID)
VOTED = message(3, "resource_prepare_reply", 5202, "p", status="0", gtrid=b"another")


def events(rows: list[Row], cuts: tuple[int, ...] = ()) -> list[Row]:
    step, found = EventsOfFacts(), [EVENTS.empty_table()]
    edges = [0, *cuts, len(rows)]
    for start, stop in pairwise(edges):
        table = pa.Table.from_pylist([row | {"order": i} for i, row in enumerate(rows)][start:stop], FACTS)
        found.append(step.feed(table))
        step.settle(rows[stop - 1]["ts"])
        step = EventsOfFacts(repacked(step.carry()))
    return sorted(pa.concat_tables(found).to_pylist(), key=lambda row: (row["ts"], row["order"], row["step"]))


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2)])
def test_a_reply_moves_the_branch_of_its_request(cuts: tuple[int, ...]) -> None:
    found = events([CALL, ASKED, VOTED], cuts)
    assert [row["step"] for row in found] == [WORK, PREPARE, VOTE]
    assert {(row["xid_format"], row["gtrid"], row["bqual"], row["resource"]) for row in found} == {(42, b"g", b"b", -1)}
    assert [row["status"] for row in found] == [None, None, 0]
    assert len(set(part_of(pa.Table.from_pylist(found, EVENTS), 8).tolist())) == 1


@pytest.mark.parametrize("cuts", [(), (1,)])
def test_an_early_reply_takes_effect_right_behind_its_request(cuts: tuple[int, ...]) -> None:
    early = VOTED | {"ts": round(1.999 * SECOND)}
    found = events([early, ASKED], cuts)
    assert [(row["ts"], row["order"], row["step"]) for row in found] == [
        (2 * SECOND, 1, PREPARE),
        (2 * SECOND, 1, VOTE),
    ]


def test_a_reply_without_request_or_behind_its_window_moves_nothing() -> None:
    assert events([VOTED]) == []
    assert [row["step"] for row in events([ASKED, VOTED | {"ts": 100 * SECOND}])] == [PREPARE]


def test_a_commit_in_one_phase_is_known_by_its_flags() -> None:
    asked = message(1, "resource_commit_request", 5204, "c", flags=0x40000000, **XID)
    done = message(2, "resource_commit_reply", 5204, "c", status="0")
    assert [(row["step"], row["one_phase"]) for row in events([asked, done])] == [(COMMIT, True), (COMMITTED, True)]
    assert [row["one_phase"] for row in events([asked | {"flags": 0}, done])] == [False, False]


def test_messages_without_a_transaction_and_other_protocols_have_no_events() -> None:
    assert events([CALL | {"gtrid": None}]) == []
    assert events([CALL | {"protocol": "mb"}]) == []
