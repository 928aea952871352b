"""The matcher: any cut gives the same result, whatever comes; the odd cases one by one; and what it remembers."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from wirelake.gold.facts import FACTS
from wirelake.gold.matching import Matching
from wirelake.kernels.match_codes import LAST, OPENS, RECENT, REPEATS, UNMATCHED

from .matched import repacked
from .test_exchanges import SECOND, A, B, Row, fact, stream

PROTOCOLS = ("casual", "dsa", "mb", "ceda", "toy")
Match = tuple[int, int, int]
"""What a row is, the number of its request, what is wrong with it."""


def table(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist([row | {"order": i} for i, row in enumerate(rows)], FACTS)


def matches(rows: list[Row], cuts: list[int] | None = None) -> list[Match]:
    """What becomes of each row; early replies that were matched later have what they are then."""
    facts, step, found = table(rows), Matching(), dict[int, Match]()
    for start, stop in pairwise([0, *sorted(cuts or []), facts.num_rows]):
        part = facts.slice(start, stop - start)
        matched = step.feed(part)
        columns = (matched.part.tolist(), matched.request.tolist(), matched.fault.tolist())
        found |= dict(enumerate(zip(*columns, strict=True), start=start))
        for row in matched.late.to_pylist():
            found[row["number"]] = (row["part"], row["request"], 0)
        if cuts is not None:
            step.settle(rows[stop - 1]["ts"] if stop else 0)
            step = Matching(repacked(step.carry()))
    return [found[number] for number in range(len(rows))]


# --- any cut


def any_fact(source: Random, protocol: str, ts: float) -> Row:
    """A request, reply or close of one of a few correlations, with whatever facts may have."""
    step = source.choice((1, 1, 2, 2, 2, 3))
    is_stream = protocol == "dsa"
    limit = source.choice((None, None, 2 * SECOND, 40 * SECOND))
    pair = source.choice({"casual": (6101, 6201, 3101), "dsa": (0x81, 0x82, 0x83)}.get(protocol, (2, 4)))
    placed = protocol == "mb" and source.random() < 0.3
    row = fact(
        ts,
        step,
        source.choice((A, A, B)) if step != 2 else source.choice((B, B, A)),
        source.choice(("k", "l", "m", None)),
        protocol=protocol,
        pair=pair,
        code=pair - (0x80 if is_stream else 100 if protocol == "casual" else 1) if step == 1 else pair,
        kind="control" if source.random() < 0.05 else "request" if step == 1 else "response",
        lane=int(pair == 0x81) if is_stream else None,
        ends=step == 2 and (not is_stream or source.random() < 0.3),
        more=is_stream and source.random() < 0.2,
        once=is_stream and step == 1 and source.random() < 0.2,
        address=source.choice(("p", "p", "q", None)) if step == 1 else None,
        limit_us=limit if step == 1 else None,
        result=None if step != 2 else source.choice(("ok", "error")),
        wants_reply=None if step != 1 else source.random() < 0.9,
        own_id=source.random() < 0.1,
        heartbeat=source.random() < 0.05,
        place="t 1.0.0" if placed else None,
    )
    if placed and step == 1:
        row |= {"correlation": None, "wants_reply": False}
    if protocol in ("dsa", "ceda") and step == 2 and source.random() < 0.3:
        piece = source.choice((0, 1, 1, 2))
        row |= {"piece": piece, "pieces": 3 if piece == 0 else None, "piece_key": row["correlation"] or "0"}
    return row | {"connection": source.choice(("c1", "c2"))}


def any_facts(protocol: str, seed: int) -> list[Row]:
    source = Random(f"{protocol} {seed}")
    rows, ts = [], 1.0
    for _ in range(60):
        ts += source.choice((0, 0.001, 0.5, 1, 4, source.choice((10, 61))))
        spoken = source.choice(PROTOCOLS) if protocol == "all" else protocol
        row = any_fact(source, spoken, ts)
        rows.append(row | {"connection": f"{spoken} {row['connection']}"})
    return rows


@pytest.mark.parametrize("protocol", [*PROTOCOLS, "all"])
def test_any_cut_gives_the_same_matches(protocol: str) -> None:
    seen: set[int] = set()
    for seed in range(25):
        rows = sorted(any_facts(protocol, seed), key=lambda row: row["connection"])
        whole = matches(rows)
        seen |= {part for part, _, _ in whole}
        in_time = sorted(rows, key=lambda row: row["ts"])
        place = {id(row): number for number, row in enumerate(rows)}
        for cuts in ([30], sorted(Random(seed).sample(range(1, 60), 6))):
            assert by_offset(in_time, cuts, place) == named(whole, rows), (seed, cuts)
    assert {UNMATCHED, OPENS, LAST} <= seen


def named(found: list[Match], rows: list[Row]) -> list[Any]:
    """Matches with requests by their place in the traffic, as numbers depend on the cut."""
    return sorted(
        (row["connection"], row["ts"], number_in(row, rows), part, fault, *reference(request, rows))
        for row, (part, request, fault) in zip(rows, found, strict=True)
    )


def number_in(row: Row, rows: list[Row]) -> int:
    same = [one for one in rows if (one["connection"], one["ts"]) == (row["connection"], row["ts"])]
    return next(i for i, one in enumerate(same) if one is row)


def reference(request: int, rows: list[Row]) -> tuple[Any, ...]:
    return (None, None) if request < 0 else (rows[request]["ts"], number_in(rows[request], rows))


def by_offset(in_time: list[Row], cuts: list[int], place: dict[int, int]) -> list[Any]:
    """The same, fed in parts of the time; within a part rows come by connection."""
    rows: list[Row] = []
    for start, stop in pairwise([0, *cuts, len(in_time)]):
        rows += sorted(in_time[start:stop], key=lambda row: (row["connection"], row["ts"], place[id(row)]))
    return named(matches(rows, cuts), rows)


# --- one by one


def test_a_dequeue_may_be_answered_by_the_reply_to_an_enqueue_but_not_the_other_way_round() -> None:
    dequeue: Row = {"protocol": "casual", "code": 6200, "pair": 6201}
    enqueue: Row = {"protocol": "casual", "code": 6100, "pair": 6101}
    dequeued: Row = {"protocol": "casual", "code": 6201, "pair": 6201}
    enqueued: Row = {"protocol": "casual", "code": 6101, "pair": 6101}
    assert matches([fact(1, 1, A, **dequeue), fact(2, 2, B, **enqueued)])[1][:2] == (LAST, 0)
    assert matches([fact(1, 1, A, **enqueue), fact(2, 2, B, **dequeued)])[1][:2] == (UNMATCHED, -1)


def test_a_repeatable_request_continues_the_stream_and_another_one_ends_it() -> None:
    invoke: Row = {"code": 3}
    found = matches([stream(1, 1, A, **invoke), stream(2, 1, A, **invoke), stream(3, 1, A, address="q", **invoke)])
    assert found == [(OPENS, -1, 0), (REPEATS, 0, 0), (OPENS, 0, 0)]


def test_an_error_without_request_belongs_to_the_latest_request_without_id_to_the_same_place() -> None:
    asked: Row = {"protocol": "mb", "place": "t 1.0.0", "wants_reply": False}
    error: Row = {"protocol": "mb", "place": "t 1.0.0", "result": "error"}
    rows = [fact(1, 1, A, None, **asked), fact(2, 1, A, None, **asked)]
    rows += [fact(3, 2, B, "x", **error), fact(4, 2, B, "y", **error), fact(5, 2, B, "z", **error)]
    for cuts in (None, [1], [2, 3, 4]):
        assert [found[:2] for found in matches(rows, cuts)[2:]] == [(LAST, 1), (LAST, 0), (UNMATCHED, -1)]
    late = [fact(1, 1, A, None, **asked), fact(61.1, 2, B, "x", **error)]
    assert matches(late)[1][:2] == (UNMATCHED, -1)


def test_a_reply_that_its_place_explains_does_not_wait_for_a_later_request() -> None:
    asked: Row = {"protocol": "mb", "place": "t 1.0.0", "wants_reply": False}
    error: Row = {"protocol": "mb", "place": "t 1.0.0", "result": "error"}
    rows = [fact(1, 1, A, None, **asked), fact(2, 2, B, "x", **error), fact(3, 1, A, "x", protocol="mb")]
    for cuts in (None, [1], [2], [1, 2]):
        assert matches(rows, cuts) == [(OPENS, -1, 0), (LAST, 0, 0), (OPENS, -1, 0)]


# --- what is remembered


def test_requests_that_have_ended_are_remembered_for_a_while_only() -> None:
    step = Matching()
    for start in range(0, 4000, 1000):
        rows = []
        for i in range(start, start + 1000):
            at = 1 + i / 1000
            rows += [fact(at, 1, A, str(i)), fact(at + 0.0001, 2, B, str(i))]
        step.feed(table(rows))
    assert RECENT <= len(step.carry().remembered) <= RECENT + 1
    step.settle(70 * SECOND)
    assert not len(step.carry().remembered)


def test_open_requests_are_remembered_until_their_window_has_passed_and_early_replies_for_seconds() -> None:
    step = Matching()
    step.feed(table([fact(1, 1, A, "a", limit_us=SECOND), fact(1, 1, A, "b"), fact(1, 2, B, "c")]))
    step.settle(6 * SECOND)
    assert (len(step.carry().remembered), len(step.carry().early)) == (3, 1)
    step.settle(7 * SECOND)
    assert (len(step.carry().remembered), len(step.carry().early)) == (2, 0)
    step.settle(63 * SECOND)
    assert len(step.carry().remembered) == 1
    step.feed(FACTS.empty_table(), {"c1": 64 * SECOND})
    step.settle(125 * SECOND)
    assert not len(step.carry().remembered) and not step.carry().connections
