"""Exchanges: equal to what really happened in generated traffic, however it is cut; and the odd cases one by one."""

from __future__ import annotations

from functools import lru_cache
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wirelake.columnar.schema import TIMESTAMP
from wirelake.generate import Traffic, generate
from wirelake.generate.truth import Exchange
from wirelake.gold.exchanges import GIVEN
from wirelake.gold.facts import FACTS

from .matched import ExchangesOfFacts, repacked
from .played import Played, name_of, play

SECOND = 1_000_000
VARIANTS: list[tuple[str, dict[str, Any]]] = [
    ("casual", {}),
    ("casual", {"profile": "late"}),
    ("dsa", {}),
    ("dsa", {"mode": "compat"}),
    ("mb", {}),
    ("mb", {"profile": "upstream"}),
    ("ceda", {}),
    ("ceda", {"dialect": "ceda4-ws"}),
]
Row = dict[str, Any]


@lru_cache(maxsize=32)
def played(
    protocol: str, options: tuple[tuple[str, Any], ...], seed: int, messages: int = 1500
) -> tuple[Traffic, Played]:
    traffic = generate(protocol, seed=seed, messages=messages, connections=6, **dict(options))
    return traffic, play(traffic)


def in_numbers(table: pa.Table) -> list[Row]:
    """Rows with times as microseconds."""
    for i, field in enumerate(table.schema):
        if field.type == TIMESTAMP:
            table = table.set_column(i, field.name, table[field.name].cast(pa.int64()))
    return list(table.to_pylist())


def by_request(rows: list[Row]) -> dict[tuple[str, str, int], Row]:
    found = {(row["connection"], row["direction"], row["request_offset"]): row for row in rows}
    assert len(found) == len(rows)
    return found


def at_once(whole: Played) -> pa.Table:
    step = ExchangesOfFacts()
    return pa.concat_tables([step.feed(whole.facts, whole.ended), *step.settle(whole.end_us, final=True)])


def in_parts(whole: Played, cuts: list[int], *, is_carried: bool = True) -> pa.Table:
    """Fed in parts cut at these places of the traffic, each by a new step that has only the carry of the one before, or
    all by the same step.
    """
    step = ExchangesOfFacts()
    rows, start, told = [], -1, set[str]()
    for end in [*sorted(cuts), whole.facts.num_rows]:
        part = whole.facts.filter((pc.field("order") > start) & (pc.field("order") <= end))
        watermark = pc.max(whole.facts.filter(pc.field("order") <= end)["ts"].cast(pa.int64())).as_py()
        last = end == whole.facts.num_rows
        now = whole.end_us if last else watermark
        ended = {one: at for one, at in whole.ended.items() if one not in told and now is not None and at <= now}
        told |= set(ended)
        step = ExchangesOfFacts(repacked(step.carry())) if is_carried else step
        rows.append(step.feed(part, ended))
        if is_carried or last:
            rows += step.settle(now, final=last)
        start = end
    return pa.concat_tables(rows)


def expected(exchange: Exchange, truth: dict[int, Exchange], whole: Played) -> Row:
    other = truth.get(exchange.other_leg) if exchange.other_leg is not None and exchange.protocol == "mb" else None
    return {
        "protocol": exchange.protocol,
        "message": exchange.message,
        "address": exchange.address,
        "correlation": exchange.correlation,
        "request_ts": exchange.request_us,
        "reply_offset": None if exchange.reply is None else whole.place[exchange.reply][2],
        "reply_ts": exchange.reply_us,
        "reply_message": exchange.reply_message,
        "replies": exchange.replies,
        "latency_us": exchange.latency_us,
        "limit_us": exchange.limit_us,
        "outcome": exchange.outcome,
        "status": None if exchange.status is None else str(exchange.status),
        "other_connection": None if other is None else name_of(other.connection),
        "other_correlation": "" if other is None else other.correlation,
    }


def shown(row: Row) -> Row:
    """A row as the truth has it: there, what is missing is an empty text or zero."""
    changed = {
        "address": row["address"] or "",
        "correlation": row["correlation"] or "",
        "reply_message": row["reply_message"] or "",
        "limit_us": row["limit_us"] or 0,
        "other_correlation": row["other_correlation"] or "",
    }
    return row | changed


@pytest.mark.parametrize(("protocol", "options"), VARIANTS)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_exchanges_are_what_really_happened(protocol: str, options: dict[str, Any], seed: int) -> None:
    traffic, whole = played(protocol, tuple(options.items()), seed)
    rows = by_request(in_numbers(at_once(whole)))
    truth = {one.request: one for one in traffic.truth.exchanges}
    assert {whole.place[number] for number in truth} == set(rows)
    for number, exchange in truth.items():
        row, wanted = shown(rows[whole.place[number]]), expected(exchange, truth, whole)
        assert {name: row[name] for name in wanted} == wanted


def test_all_protocols_can_be_fed_together() -> None:
    traffic = generate(["casual", "dsa", "mb", "ceda"], seed=5, messages=2000, connections=3)
    whole = play(traffic)
    rows = by_request(in_numbers(at_once(whole)))
    truth = {one.request: one for one in traffic.truth.exchanges}
    assert len(rows) == len(truth)
    for number, exchange in truth.items():
        row, wanted = shown(rows[whole.place[number]]), expected(exchange, truth, whole)
        assert {name: row[name] for name in wanted} == wanted


@pytest.mark.parametrize(("protocol", "options"), VARIANTS)
def test_any_cut_into_feeds_gives_the_same_rows(protocol: str, options: dict[str, Any]) -> None:
    _, whole = played(protocol, tuple(options.items()), 1)
    wanted = by_request(in_numbers(at_once(whole)))
    chance = Random(protocol)
    for parts in (1, 3, 25):
        cuts = [chance.randrange(whole.facts.num_rows) for _ in range(parts)]
        assert by_request(in_numbers(in_parts(whole, cuts))) == wanted
        assert by_request(in_numbers(in_parts(whole, cuts, is_carried=False))) == wanted


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(0, 1500), max_size=6), st.sampled_from(VARIANTS))
def test_hypothesis_finds_no_cut_that_matters(cuts: list[int], variant: tuple[str, dict[str, Any]]) -> None:
    protocol, options = variant
    _, whole = played(protocol, tuple(options.items()), 2)
    assert by_request(in_numbers(in_parts(whole, cuts))) == by_request(in_numbers(at_once(whole)))


def test_what_is_undecided_is_open() -> None:
    _, whole = played("casual", (), 1)
    half = whole.facts.filter(pc.field("order") < whole.facts.num_rows // 2)
    step = ExchangesOfFacts()
    decided = step.feed(half)
    waiting = pa.concat_tables(step.open())
    assert waiting.schema.equals(GIVEN) and decided.schema.equals(GIVEN)
    assert set(waiting["outcome"].to_pylist()) == {"open"}
    requests = half.filter(pc.field("step") == 1).num_rows
    assert waiting.num_rows and decided.num_rows + waiting.num_rows == requests


# --- one by one

A, B = "to_server", "to_client"


def fact(at: float, step: int, direction: str, correlation: str | None = "k", **more: Any) -> Row:
    """One row of facts; ``at`` in seconds."""
    row: Row = dict.fromkeys(FACTS.names)
    row |= {
        "connection": "c1",
        "direction": direction,
        "ts": round(at * SECOND),
        "step": step,
        "correlation": correlation,
        "protocol": "toy",
        "message": "ask" if step == 1 else "answer",
        "pair": 2,
        "length": 10,
        "offset": round(at * SECOND),
        "wants_reply": True if step == 1 else None,
        "ends": step == 2,
        "result": "ok" if step == 2 else None,
    }
    return row | more


def stream(at: float, step: int, direction: str, **more: Any) -> Row:
    return fact(
        at,
        step,
        direction,
        "7",
        **({"lane": 0, "ends": False, "pair": 0x83, "protocol": "dsa", "address": "p" if step == 1 else None} | more),
    )


def fed(
    rows: list[Row], ended: dict[str, int | None] | None = None, watermark: float = 1000, final: bool = True
) -> list[Row]:
    table = pa.Table.from_pylist([row | {"order": i} for i, row in enumerate(rows)], FACTS)
    step = ExchangesOfFacts()
    decided = pa.concat_tables([step.feed(table, ended), *step.settle(round(watermark * SECOND), final)])
    return sorted(in_numbers(decided), key=lambda row: row["request_ts"])


def outcomes(rows: list[Row]) -> list[tuple[str, int, int | None]]:
    return [(row["outcome"], row["replies"], row["latency_us"]) for row in rows]


def test_a_reply_belongs_to_the_latest_open_request_with_its_key() -> None:
    rows = fed([fact(1, 1, A), fact(2, 1, A), fact(3, 2, B), fact(5, 2, B), fact(6, 2, B)])
    assert outcomes(rows) == [("ok", 1, 4 * SECOND), ("ok", 1, SECOND)]


def test_without_correlation_the_oldest_request_is_answered_first() -> None:
    rows = fed([fact(1, 1, A, None), fact(2, 1, A, None), fact(3, 2, B, None), fact(5, 2, B, None)])
    assert outcomes(rows) == [("ok", 1, 2 * SECOND), ("ok", 1, 3 * SECOND)]


def test_a_reply_in_the_direction_of_the_request_is_none() -> None:
    assert outcomes(fed([fact(1, 1, A), fact(2, 2, A)])) == [("unanswered", 0, None)]


def test_both_sides_may_use_the_same_correlation() -> None:
    rows = fed([fact(1, 1, A), fact(2, 1, B), fact(3, 2, B), fact(5, 2, A)])
    assert outcomes(rows) == [("ok", 1, 2 * SECOND), ("ok", 1, 3 * SECOND)]


def test_a_late_reply_completes_the_row_and_the_outcome_is_timeout() -> None:
    limit = {"limit_us": 2 * SECOND}
    assert outcomes(fed([fact(1, 1, A, **limit), fact(2.9, 2, B)])) == [("ok", 1, 1_900_000)]
    assert outcomes(fed([fact(1, 1, A, **limit), fact(3, 2, B)])) == [("timeout", 1, 2 * SECOND)]
    assert outcomes(fed([fact(1, 1, A, **limit), fact(63, 2, B)])) == [("timeout", 1, 62 * SECOND)]
    assert outcomes(fed([fact(1, 1, A, **limit), fact(63.1, 2, B)])) == [("timeout", 0, None)]


def test_a_request_is_given_up_when_its_limit_and_grace_have_passed() -> None:
    ask = [fact(1, 1, A, limit_us=2 * SECOND)]
    assert fed(ask, watermark=63, final=False) == []
    assert outcomes(fed(ask, watermark=63.1, final=False)) == [("timeout", 0, None)]
    assert outcomes(fed(ask, watermark=2.9)) == [("unanswered", 0, None)]
    assert outcomes(fed(ask, watermark=3)) == [("timeout", 0, None)]


def test_a_request_whose_answer_may_be_held_back_is_not_given_up() -> None:
    asks = [fact(1, 1, A, limit_us=2 * SECOND, connection=name) | {"order": 0} for name in ("c1", "c2")]
    step = ExchangesOfFacts()
    step.feed(pa.Table.from_pylist(asks, FACTS))
    known = {"c1": 63 * SECOND}
    assert pa.concat_tables(step.settle(100 * SECOND, known_until=known.get))["connection"].to_pylist() == ["c2"]
    answer = pa.Table.from_pylist([fact(2, 2, B) | {"order": 1}], FACTS)
    assert outcomes(in_numbers(step.feed(answer))) == [("ok", 1, SECOND)]


def test_the_end_of_a_connection_decides() -> None:
    ask = [fact(1, 1, A, limit_us=2 * SECOND)]
    assert outcomes(fed(ask, {"c1": 2 * SECOND}, final=False)) == [("unanswered", 0, None)]
    assert outcomes(fed(ask, {"c1": 4 * SECOND}, final=False)) == [("timeout", 0, None)]
    assert outcomes(fed(ask, {"c1": None}, final=False)) == [("unanswered", 0, None)]
    assert fed(ask, {"c2": 4 * SECOND}, watermark=5, final=False) == []


def test_what_wants_no_reply_is_decided_at_once() -> None:
    [row] = fed([fact(1, 1, A, wants_reply=False)], watermark=1, final=False)
    assert (row["outcome"], row["status"]) == ("no_reply_wanted", None)


def test_captures_without_times_are_paired_too() -> None:
    rows = fed([fact(1, 1, A, ts=None, limit_us=5), fact(2, 2, B, ts=None)])
    assert outcomes(rows) == [("ok", 1, None)]


def test_a_reply_in_pieces_counts_once_with_its_last_piece() -> None:
    same: Row = {"protocol": "ceda", "piece_key": "k"}
    pieces = [fact(2 + i, 2, B, piece=i, pieces=3 if i == 0 else None, **same) for i in range(3)]
    [row] = fed([fact(1, 1, A, protocol="ceda"), *pieces])
    assert (row["replies"], row["latency_us"], row["reply_length"]) == (1, 3 * SECOND, 30)
    assert outcomes(fed([fact(1, 1, A, protocol="ceda"), pieces[0], pieces[2]])) == [("unanswered", 0, None)]


def test_later_pieces_of_a_request_are_no_requests() -> None:
    ask = [fact(1, 1, A, piece=0, pieces=2), fact(1.5, 1, A, piece=1)]
    assert outcomes(fed([*ask, fact(2, 2, B)])) == [("ok", 1, SECOND)]


def test_a_stream_counts_its_answers_until_it_ends() -> None:
    answers = [stream(2 + i, 2, B) for i in range(4)]
    last = stream(9, 2, B, ends=True, result="error")
    assert outcomes(fed([stream(1, 1, A), *answers, last, stream(10, 2, B)])) == [("ok", 5, SECOND)]
    assert outcomes(fed([stream(1, 1, A), *answers, stream(6, 3, A), last])) == [("ok", 4, SECOND)]
    assert outcomes(fed([stream(1, 1, A), *answers])) == [("ok", 4, SECOND)]


def test_the_number_of_a_stream_may_be_used_again() -> None:
    rows = fed([stream(1, 1, A), stream(2, 2, B, ends=True), stream(3, 1, A), stream(4, 2, B), stream(5, 3, A)])
    assert outcomes(rows) == [("ok", 1, SECOND), ("ok", 1, SECOND)]


def test_a_repeated_request_goes_on_with_its_stream() -> None:
    invoke: Row = {"code": 3}
    rows = fed([stream(1, 1, A, **invoke), stream(2, 2, B), stream(3, 1, A, **invoke), stream(4, 2, B, ends=True)])
    assert outcomes(rows) == [("ok", 2, SECOND)]


def test_another_request_with_its_number_means_that_a_stream_is_over() -> None:
    rows = fed([stream(1, 1, A), stream(2, 2, B), stream(3, 1, A, address="q"), stream(4, 2, B, ends=True)])
    assert outcomes(rows) == [("ok", 1, SECOND), ("ok", 1, SECOND)]


def test_a_subscription_and_another_stream_may_have_the_same_number() -> None:
    subscription: Row = {"lane": 1, "pair": 0x81}
    rows = fed(
        [
            stream(1, 1, A, **subscription),
            stream(2, 1, A),
            stream(3, 2, B, **subscription),
            stream(4, 2, B),
            stream(5, 3, A),  # ends the one that is no subscription
            stream(6, 2, B),
            stream(7, 2, B, **subscription),
            stream(8, 3, A),
            stream(9, 2, B, **subscription),
        ]
    )
    assert outcomes(rows) == [("ok", 2, 2 * SECOND), ("ok", 1, 2 * SECOND)]


def test_a_close_of_the_responder_answers_a_set() -> None:
    close: Row = {"status": "80", "result": "error", "pair": 15, "message": "close"}
    rows = fed([stream(1, 1, A, pair=0x84), stream(2, 3, B, **close)])
    assert outcomes(rows) == [("error", 1, SECOND)] and rows[0]["reply_message"] == "close"


def test_an_answer_of_another_method_is_not_the_answer() -> None:
    assert outcomes(fed([stream(1, 1, A), stream(2, 2, B, pair=0x82)])) == [("unanswered", 0, None)]


def test_what_was_asked_for_once_ends_with_the_first_complete_answer() -> None:
    rows = fed([stream(1, 1, A, once=True), stream(2, 2, B, more=True), stream(3, 2, B), stream(4, 2, B)])
    assert outcomes(rows) == [("ok", 2, SECOND)]


def test_a_closing_status_on_a_page_ends_the_stream() -> None:
    page = stream(2, 2, B, ends=True, piece=0, pieces=2)
    assert outcomes(fed([stream(1, 1, A), page])) == [("ok", 1, SECOND)]


def test_feeds_without_facts_are_fine() -> None:
    step = ExchangesOfFacts()
    assert step.feed(FACTS.empty_table()).num_rows == 0
    for parts in (step.settle(None), step.settle(None, final=True), step.open()):
        assert sum(map(len, parts)) == 0
    step.feed(pa.Table.from_pylist([fact(1, 1, A) | {"order": 0}], FACTS))
    again = ExchangesOfFacts(step.carry())
    assert in_numbers(again.feed(FACTS.empty_table(), {"c1": 2 * SECOND}))[0]["outcome"] == "unanswered"
    assert sum(map(len, again.open())) == 0


@pytest.mark.parametrize(("protocol", "options"), VARIANTS)
def test_every_protocol_says_which_requests_want_no_reply(protocol: str, options: dict[str, Any]) -> None:
    """A reply may still come for some: mb errors under made-up ids."""
    _, whole = played(protocol, tuple(options.items()), 1)
    requests = whole.facts.filter((pc.field("step") == 1) & pc.field("wants_reply").is_valid())
    unheard = {
        (row["connection"], row["direction"], row["offset"])
        for row in requests.filter(~pc.field("wants_reply")).to_pylist()
    }
    rows = by_request(in_numbers(at_once(whole)))
    found = {place for place, row in rows.items() if row["outcome"] == "no_reply_wanted"}
    assert found == {place for place in unheard if not rows[place]["replies"]}
    assert bool(found) == (protocol in ("casual", "mb"))


def test_a_request_without_an_id_wants_no_reply_but_may_get_an_error() -> None:
    asked = fact(1, 1, A, None, wants_reply=False, protocol="mb", place="t 1.0.0")
    failed = fact(2, 2, B, "made-up", result="error", protocol="mb", place="t 1.0.0", status="NO_ROUTE_FOUND")
    assert outcomes(fed([asked])) == [("no_reply_wanted", 0, None)]
    assert outcomes(fed([asked], {"c1": 3 * SECOND})) == [("no_reply_wanted", 0, None)]
    assert outcomes(fed([asked, failed])) == [("error", 1, SECOND)]
