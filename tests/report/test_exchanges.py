"""Exchanges as conversations: the request, its replies, and what belongs to them on other connections."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tests.ingest.lakes import table
from tests.report.lookup import exchange_of, spot
from wirelake.lake import Lake
from wirelake.report.conversation_ids import Spot


def test_an_exchange_is_its_request_its_replies_and_what_is_beside_them(lake: Lake) -> None:
    messages = table(lake, "silver/messages")
    by_pair: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in messages:
        if row["correlation"]:
            by_pair[row["connection"], row["correlation"]].append(row)
    for row in table(lake, "gold/exchanges")[::25]:
        one = exchange_of(lake, row)
        focused = {spot(event) for event in one["events"] if event["mark"] in ("focus", "violation")}
        own = by_pair.get((row["connection"], row["correlation"]), [])
        assert (row["sensor"], row["connection"], row["direction"], row["request_offset"]) in focused
        if len(own) <= 24:
            assert {spot(message) for message in own} <= focused
            assert one["left_out"]["after"] == 0
        else:
            assert one["left_out"]["after"] == len(own) - 24
        assert one["kind"] == "exchange" and row["outcome"] in one["title"]


def test_an_exchange_over_a_broker_shows_its_other_leg(lake: Lake) -> None:
    exchanges = table(lake, "gold/exchanges")
    rows = [row for row in exchanges if row["other_connection"] not in (None, row["connection"])]
    assert rows
    for row in rows[:10]:
        one = exchange_of(lake, row)
        legs = [event for event in one["events"] if event["connection"] == row["other_connection"]]
        assert {row["other_correlation"]} == {event["correlation"] for event in legs}
        assert len(one["lifelines"]) == 3
        assert {event["connection"] for event in one["events"]} == {row["connection"], row["other_connection"]}


def test_an_exchange_shows_the_chain_of_calls_it_belongs_to(lake: Lake) -> None:
    chains: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in table(lake, "gold/exchanges"):
        if row["execution"]:
            chains[row["execution"]].append(row)
    several = [rows for rows in chains.values() if len({row["connection"] for row in rows}) > 1 and len(rows) <= 12]
    assert several
    for rows in several[:5]:
        row = rows[0]
        one = exchange_of(lake, row)
        shown = {spot(event) for event in one["events"]}
        assert {Spot.of(other | {"offset": other["request_offset"]}) for other in rows} <= shown
