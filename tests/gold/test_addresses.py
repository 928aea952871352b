"""Addresses per minute against counts made by hand in plain Python."""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import pyarrow as pa
import pytest

from wirelake.generate import generate
from wirelake.gold.addresses import ADDRESSES, EXCHANGE_COLUMNS, MESSAGE_COLUMNS, addresses
from wirelake.gold.exchanges import EXCHANGES
from wirelake.gold.facts import MESSAGES

from .matched import ExchangesOfFacts
from .played import play

MINUTE = 60_000_000


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
    table = addresses(whole.facts.to_batches(max_chunksize=700), exchanges.to_batches(max_chunksize=300))
    assert table.schema.equals(ADDRESSES)
    rows = {(row.pop("protocol"), row.pop("address"), row.pop("minute")): row for row in in_numbers(table)}
    wanted = by_hand(in_numbers(whole.facts.select(MESSAGE_COLUMNS)), in_numbers(exchanges.select(EXCHANGE_COLUMNS)))
    assert len(rows) == table.num_rows and rows == wanted


def test_nothing_gives_no_rows() -> None:
    assert addresses([], []).equals(ADDRESSES.empty_table())
    empty = MESSAGES.empty_table().to_batches(), EXCHANGES.empty_table().to_batches()
    assert addresses(*empty).equals(ADDRESSES.empty_table())


def test_an_exchange_counts_in_the_minute_of_its_request_though_no_message_of_it_is_given() -> None:
    row = dict.fromkeys(EXCHANGES.names) | {
        "protocol": "casual",
        "address": "a",
        "request_ts": 61_000_000,
        "outcome": "timeout",
    }
    [found] = in_numbers(addresses([], pa.Table.from_pylist([row], EXCHANGES).to_batches()))
    assert (found["minute"], found["messages"], found["requests"], found["timeouts"]) == (MINUTE, 0, 1, 1)
    assert (found["error_rate"], found["p50_us"]) == (1.0, None)
