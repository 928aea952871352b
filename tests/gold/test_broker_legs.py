"""The two legs of an exchange over a broker find each other."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelake.gold.broker_legs import WINDOW_US
from wirelake.gold.facts import FACTS

from .matched import ExchangesOfFacts, repacked
from .test_exchanges import SECOND, A, B, Row, fact, fed, in_numbers

BROKER = "00b0"
"""What the ids of all connections with the broker begin with."""
NOTHING = (None, None, None)


def leg(at: float, connection: str, direction: str, correlation: str, **more: Any) -> Row:
    same: Row = {"address": "t", "version": "1.0.0", "payload_hash": 42, "protocol": "mb"}
    same["connection"] = BROKER + connection
    return fact(at, 1, direction, correlation, **(same | more))


def reply(at: float, connection: str, direction: str, correlation: str) -> Row:
    return fact(at, 2, direction, correlation, protocol="mb", connection=f"{BROKER}{connection}")


def copy(at: float, audit_id: str, masked_id: str | None, connection: str = f"{BROKER}c9") -> Row:
    told = {"audit_id": audit_id, "masked_id": masked_id}
    return fact(at, 0, B, None, protocol="mb", connection=connection, wants_reply=None, **told)


def others(rows: list[Row]) -> list[tuple[str | None, str | None, str | None]]:
    names = [(row["other_connection"] or "").removeprefix(BROKER) or None for row in rows]
    return [(name, row["other_correlation"], row["other_leg_how"]) for name, row in zip(names, rows, strict=True)]


# --- guesses


def test_a_guess_takes_the_oldest_open_request_with_the_same_payload() -> None:
    asked = [leg(1, "c1", A, "n1"), leg(1.2, "c2", A, "n2")]
    rows = fed([*asked, leg(1.3, "c3", B, "f1"), leg(1.4, "c4", B, "f2"), leg(1.5, "c4", B, "f3")])
    assert others(rows) == [
        ("c3", "f1", "guessed"),
        ("c4", "f2", "guessed"),
        ("c1", "n1", "guessed"),
        ("c2", "n2", "guessed"),
        NOTHING,
    ]


def test_what_differs_or_comes_too_late_is_no_other_leg() -> None:
    assert others(fed([leg(1, "c1", A, "n"), leg(2, "c2", B, "f", payload_hash=43)])) == [NOTHING] * 2
    assert others(fed([leg(1, "c1", A, "n", message="publish"), leg(2, "c2", B, "f")])) == [NOTHING] * 2
    assert others(fed([leg(1, "c1", A, "n"), leg(6.1, "c2", B, "f")])) == [NOTHING] * 2
    assert others(fed([leg(1, "c1", A, "n"), reply(1.5, "c1", B, "n"), leg(2, "c2", B, "f")])) == [NOTHING] * 2
    ended = {f"{BROKER}c1": int(1.5 * SECOND)}
    assert others(fed([leg(1, "c1", A, "n"), leg(2, "c2", B, "f")], ended)) == [NOTHING] * 2


def test_what_another_broker_sends_is_no_other_leg() -> None:
    rows = fed([leg(1, "c1", A, "n"), leg(1.1, "c2", B, "f") | {"connection": "00b1c2"}])
    assert others(rows) == [NOTHING] * 2


def test_without_times_the_order_decides() -> None:
    rows = [leg(i, f"c{i}", way, name, ts=None) for i, (way, name) in enumerate([(A, "n"), (B, "f"), (B, "g")])]
    table = pa.Table.from_pylist([row | {"order": i} for i, row in enumerate(rows)], FACTS)
    step = ExchangesOfFacts()
    decided = pa.concat_tables([step.feed(table), *step.settle(None, final=True)])
    assert sorted(others(in_numbers(decided)), key=str) == [("c0", "n", "guessed"), ("c1", "f", "guessed"), NOTHING]


# --- copies for audit

NEAR, FAR = ("c3", "f", "audit"), ("c1", "n1", "audit")


def test_the_audit_stream_is_believed_before_a_guess() -> None:
    asked = [leg(1, "c2", A, "n2"), leg(1.2, "c1", A, "n1")]
    assert others(fed([*asked, leg(1.4, "c3", B, "f"), copy(1.45, "f", "n1")])) == [NOTHING, NEAR, FAR]


def test_a_copy_counts_that_comes_before_its_message_or_after_the_replies() -> None:
    asked, sent = leg(1, "c1", A, "n1"), leg(1.1, "c3", B, "f")
    assert others(fed([asked, copy(1.05, "f", "n1"), sent])) == [NEAR, FAR]
    replies = [reply(1.2, "c3", A, "f"), reply(1.3, "c1", B, "n1")]
    assert others(fed([asked, sent, *replies, copy(1.4, "f", "n1")])) == [NEAR, FAR]
    assert others(fed([asked, sent, *replies, copy(5.9, "f", "n1")])) == [NEAR, FAR]
    assert others(fed([asked, sent, *replies, copy(6.2, "f", "n1")])) == [
        ("c3", "f", "guessed"),
        ("c1", "n1", "guessed"),
    ]


def test_a_request_that_a_copy_is_about_is_not_guessed_for_another() -> None:
    asked = [leg(1, "c1", A, "n1"), leg(1.1, "c2", A, "n2")]
    rows = fed([*asked, leg(1.2, "c4", B, "g"), leg(1.3, "c3", B, "f"), copy(1.6, "f", "n1")])
    assert others(rows) == [NEAR, ("c4", "g", "guessed"), ("c2", "n2", "guessed"), FAR]


def test_of_a_leg_that_was_not_captured_the_id_is_known() -> None:
    assert others(fed([leg(1, "c3", B, "f"), copy(1.1, "f", "n1")])) == [(None, "n1", "audit")]
    assert others(fed([leg(1, "c1", A, "n1"), copy(1.1, "f", "n1")])) == [(None, "f", "audit")]


def test_requests_that_share_an_id_are_told_apart_by_their_order() -> None:
    asked = [leg(1, "c1", A, "n"), leg(1.1, "c1", A, "n")]
    sent = [leg(1.2, "c2", B, "f1"), copy(1.25, "f1", "n"), leg(1.3, "c3", B, "f2"), copy(1.35, "f2", "n")]
    assert others(fed([*asked, *sent]))[:2] == [("c2", "f1", "audit"), ("c3", "f2", "audit")]


def test_copies_of_another_broker_do_not_count() -> None:
    rows = fed([leg(1, "c1", A, "n"), leg(1.1, "c2", B, "f", payload_hash=7), copy(1.2, "f", "n", "00b1c9")])
    assert others(rows) == [NOTHING] * 2


# --- when they are decided


def test_a_request_waits_for_its_other_leg_although_it_has_its_reply() -> None:
    asked, sent = leg(1, "c1", A, "n1"), leg(1.1, "c3", B, "f")
    done = [asked, sent, reply(1.2, "c3", A, "f"), reply(1.3, "c1", B, "n1")]
    window = WINDOW_US / SECOND
    assert fed(done, watermark=1.1 + window, final=False) == []
    assert len(fed(done, watermark=1.2 + window, final=False)) == 2
    assert fed([done[0], done[3]], watermark=1 + 2 * window, final=False) == []
    assert len(fed([done[0], done[3]], watermark=1.1 + 2 * window, final=False)) == 1


def talk(seed: int) -> list[Row]:
    """A broker with few topics and few payloads, copies for audit of some requests, early and late."""
    chance, rows = Random(seed), list[Row]()
    for i in range(chance.randrange(5, 40)):
        at = chance.choice((0.01, 0.2, 3)) * i + chance.random()
        same = {"payload_hash": chance.randrange(3), "address": chance.choice("tu")}
        sent, gone = at + chance.choice((0.001, 0.1, 4)), chance.random()
        if gone > 0.1:
            rows.append(leg(at, f"c{i % 4}", A, f"n{i}", **same))
            rows.append(reply(sent + chance.choice((0.2, 0.5, 7)), f"c{i % 4}", B, f"n{i}"))
        if gone < 0.9:
            rows.append(leg(sent, f"d{i % 3}", B, f"f{i}", **same))
            rows.append(reply(sent + chance.choice((0.1, 0.4)), f"d{i % 3}", A, f"f{i}"))
        if chance.random() < 0.5:
            rows.append(copy(sent + chance.choice((-0.05, 0.01, 1, 4.9, 6)), f"f{i}", f"n{i}"))
    return sorted(rows, key=lambda row: row["ts"])


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10_000), st.sets(st.integers(0, 120), max_size=12), st.booleans())
def test_any_cut_gives_the_same_legs(seed: int, cuts: set[int], is_settled: bool) -> None:
    rows = [row | {"order": i} for i, row in enumerate(talk(seed))]
    step, found, start = ExchangesOfFacts(), [], 0
    for end in [*sorted(cut for cut in cuts if cut < len(rows)), len(rows)]:
        part = sorted(rows[start:end], key=lambda row: (row["connection"], row["ts"], row["order"]))
        found.append(step.feed(pa.Table.from_pylist(part, FACTS)))
        if is_settled and end:
            found += step.settle(rows[end - 1]["ts"])
            step = ExchangesOfFacts(repacked(step.carry()))
        start = end
    found += step.settle(rows[-1]["ts"], final=True)
    in_parts = sorted(in_numbers(pa.concat_tables(found)), key=lambda row: row["request_ts"])
    assert others(in_parts) == others(fed(rows, watermark=rows[-1]["ts"] / SECOND))
