"""Addresses per minute against counts made by hand in plain Python."""

from __future__ import annotations

import math
import tracemalloc
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.generate import generate
from wirelake.gold.addresses import ADDRESSES, EXCHANGE_COLUMNS, MESSAGE_COLUMNS, AddressCounts, MinuteCarry, slowest
from wirelake.gold.exchanges import EXCHANGES
from wirelake.gold.facts import MESSAGES
from wirelake.ingest.carry import pack, unpack

from .matched import ExchangesOfFacts
from .played import play

MINUTE = 60_000_000


def counted(messages: Iterable[pa.RecordBatch], exchanges: Iterable[pa.RecordBatch]) -> AddressCounts:
    counts = AddressCounts()
    for batch in messages:
        counts.add_messages(batch)
    for batch in exchanges:
        counts.add_exchanges(batch)
    return counts


def nearest_rank(values: list[int], percent: int) -> int:
    return sorted(values)[math.ceil(len(values) * percent / 100) - 1]


def by_hand(
    messages: list[dict[str, Any]], exchanges: list[dict[str, Any]]
) -> dict[tuple[str, str, int], dict[str, Any]]:
    spoken, asked = defaultdict(list), defaultdict(list)
    for one in messages:
        if one["address"] is not None:
            spoken[one["protocol"], one["address"], one["ts"] // MINUTE * MINUTE].append(one)
    for one in exchanges:
        if one["address"] is not None:
            asked[one["protocol"], one["address"], one["request_ts"] // MINUTE * MINUTE].append(one)
    found = {}
    for key in spoken.keys() | asked.keys():
        latencies = [one["latency_us"] for one in asked[key] if one["latency_us"] is not None]
        errors = sum(one["outcome"] == "error" for one in asked[key])
        timeouts = sum(one["outcome"] == "timeout" for one in asked[key])
        found[key] = {
            "messages": len(spoken[key]),
            "bytes": sum(one["length"] for one in spoken[key]),
            "requests": len(asked[key]),
            "errors": errors,
            "timeouts": timeouts,
            "error_rate": (errors + timeouts) / len(asked[key]) if asked[key] else None,
            "fan_out": len({one["connection"] for one in spoken[key]}),
            "p50_us": nearest_rank(latencies, 50) if latencies else None,
            "p95_us": nearest_rank(latencies, 95) if latencies else None,
            "p99_us": nearest_rank(latencies, 99) if latencies else None,
            "max_us": max(latencies, default=None),
        }
    return found


def in_numbers(table: pa.Table) -> list[dict[str, Any]]:
    for i, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            table = table.set_column(i, field.name, table[field.name].cast(pa.int64()))
    return list(table.to_pylist())


@pytest.mark.parametrize("protocol", ["casual", "dsa", "mb", "ceda"])
def test_rows_are_what_counting_by_hand_gives(protocol: str) -> None:
    whole = play(generate(protocol, seed=4, messages=4000, connections=5))
    step = ExchangesOfFacts()
    exchanges = pa.concat_tables([step.feed(whole.facts, whole.ended), *step.settle(whole.end_us, final=True)])
    table = counted(whole.facts.to_batches(max_chunksize=700), exchanges.to_batches(max_chunksize=300)).rows()
    assert table.schema.equals(ADDRESSES)
    rows = {(row.pop("protocol"), row.pop("address"), row.pop("minute")): row for row in in_numbers(table)}
    wanted = by_hand(in_numbers(whole.facts.select(MESSAGE_COLUMNS)), in_numbers(exchanges.select(EXCHANGE_COLUMNS)))
    assert len(rows) == table.num_rows and rows == wanted


def test_nothing_gives_no_rows() -> None:
    assert counted([], []).rows().equals(ADDRESSES.empty_table())
    empty = MESSAGES.empty_table().to_batches(), EXCHANGES.empty_table().to_batches()
    assert counted(*empty).rows().equals(ADDRESSES.empty_table())


def test_an_exchange_counts_in_the_minute_of_its_request_though_no_message_of_it_is_given() -> None:
    row = dict.fromkeys(EXCHANGES.names) | {
        "protocol": "casual",
        "address": "a",
        "request_ts": 61_000_000,
        "outcome": "timeout",
    }
    [found] = in_numbers(counted([], pa.Table.from_pylist([row], EXCHANGES).to_batches()).rows())
    assert (found["minute"], found["messages"], found["requests"], found["timeouts"]) == (MINUTE, 0, 1, 1)
    assert (found["error_rate"], found["p50_us"]) == (1.0, None)


def asked(address: str, latency_us: int | None, second: int = 0) -> dict[str, Any]:
    times = {"request_ts": second * 1_000_000, "latency_us": latency_us}
    return {"protocol": "toy", "address": address, "outcome": "ok" if latency_us else "timeout"} | times


def latencies(rows: list[dict[str, Any]]) -> pa.Table:
    return counted([], pa.Table.from_pylist(rows, EXCHANGES).to_batches()).latencies()


def test_the_percentile_of_an_address_is_that_of_all_its_requests_not_of_its_worst_minute() -> None:
    rows = [asked("a", 100, second) for second in range(60)] + [asked("a", 200, 60), asked("a", None, 61)]
    assert slowest([latencies(rows)], 5) == [
        {"protocol": "toy", "address": "a", "requests": 62, "p50_us": 100, "p95_us": 100}
    ]


def test_the_slowest_come_first_and_those_that_nobody_answered_are_left_out() -> None:
    rows = [asked(name, latency) for name, latency in (("a", 5), ("b", 7), ("c", None), ("d", 7), ("e", 6))]
    assert [row["address"] for row in slowest([latencies(rows)], 3)] == ["b", "d", "e"]
    assert slowest([], 3) == slowest([latencies([])], 3) == []


@given(st.lists(st.lists(st.integers(0, 1 << 40), min_size=1, max_size=40), min_size=1, max_size=4))
def test_counts_of_several_tasks_add_up_and_are_hardly_less_exact_than_all_latencies(parts: list[list[int]]) -> None:
    parts_counted = [latencies([asked("a", one, hour) for one in part]) for hour, part in enumerate(parts)]
    [found] = slowest(parts_counted, 5)
    everything = [one for part in parts for one in part]
    assert found["requests"] == len(everything)
    for percent in (50, 95):
        exact = nearest_rank(everything, percent)
        assert abs(found[f"p{percent}_us"] - exact) <= exact * 0.004, "and exact if it is small"
        assert exact >= 256 or found[f"p{percent}_us"] == exact


def test_of_too_many_addresses_the_busiest_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirelake.gold.addresses.MOST_ADDRESSES", 2)
    table = latencies([asked(name, 5) for name in ("a", "b", "b", "c", "c", "c")])
    assert set(table["address"].to_pylist()) == {"b", "c"}


@given(st.lists(st.lists(st.tuples(st.sampled_from("ab"), st.integers(1, 9) | st.integers(1, 1 << 61)), min_size=1)))
def test_percentiles_are_exact_however_latencies_come_in_parts(parts: list[list[tuple[str, int]]]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("wirelake.gold.addresses._Latencies.AT_ONCE", 5)
        tables = [pa.Table.from_pylist([asked(*one) for one in part], EXCHANGES) for part in parts]
        counts = counted([], (batch for table in tables for batch in table.to_batches()))
        rows, banded = counts.rows(), counts.latencies()
    everything = [one for part in parts for one in part]
    for row in in_numbers(rows):
        values = [latency for name, latency in everything if name == row["address"]]
        assert [row[f"{name}_us"] for name in ("p50", "p95", "p99", "max")] == [
            nearest_rank(values, percent) for percent in (50, 95, 99, 100)
        ]
    assert sum(banded.column("requests").to_pylist()) == len(everything)


def test_millions_of_requests_that_take_equally_long_need_little_memory() -> None:
    rows = [asked("a", 1 + number % 100, number % 60) for number in range(50_000)]
    (batch,) = pa.Table.from_pylist(rows, EXCHANGES).to_batches()
    counts = counted([], [batch])
    tracemalloc.start()
    for _ in range(100):
        counts.add_exchanges(batch)
    assert counts.rows().column("requests").to_pylist() == [5_050_000]
    assert counts.latencies().num_rows > 1
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 16 << 20


def test_minutes_of_far_times_are_told_apart() -> None:
    far = 253_402_300_799  # the last second of the year 9999
    rows = [asked("a", 1, second) for second in (0, far, far - 60)] + [asked("b", 1, far)]
    table = counted([], pa.Table.from_pylist(rows, EXCHANGES).to_batches()).rows()
    found = [(row["address"], row["minute"] // MINUTE) for row in in_numbers(table)]
    assert found == [("a", 0), ("a", far // 60 - 1), ("a", far // 60), ("b", far // 60)]


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from("abc"), st.integers(0, 3), st.none() | st.integers(0, 9))),
    st.integers(1, 5),
)
def test_counting_on_from_what_was_kept_gives_the_rows_of_counting_at_once(
    told: list[tuple[int, str, int, int | None]], parts: int
) -> None:
    def add(counts: AddressCounts, rows: list[tuple[int, str, int, int | None]]) -> None:
        spoken = [
            {"protocol": "toy", "address": name, "ts": minute * MINUTE, "length": 3, "connection": str(who)}
            for minute, name, who, _ in rows
        ]
        timed = [asked(name, latency, minute * 60) for minute, name, _, latency in rows]
        for batch in pa.Table.from_pylist(
            [dict.fromkeys(MESSAGES.names) | row for row in spoken], MESSAGES
        ).to_batches():
            counts.add_messages(batch)
        for batch in pa.Table.from_pylist(timed, EXCHANGES).to_batches():
            counts.add_exchanges(batch)

    whole = AddressCounts()
    add(whole, told)
    kept: dict[int, MinuteCarry] = {}
    for part in range(parts):
        counts = AddressCounts()
        for carry in kept.values():
            counts.add_carry(unpack(pack(carry), MinuteCarry))
        add(counts, told[part::parts])
        kept = {minute: counts.carry(minute) for minute in counts.minutes()}
    assert counts.rows().equals(whole.rows()) and counts.minutes() == whole.minutes()
