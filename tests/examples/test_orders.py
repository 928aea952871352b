"""A protocol of a user's own has everything that a built-in one has, with no line outside of its file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.lakes import connections, table
from wirelake.capture.settings import ReadSettings
from wirelake.generate import Traffic, generate, write_pcap
from wirelake.generate.truth import Truth
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.lake import Lake
from wirelake.protocols import load
from wirelake.report import collect, find_conversation

ORDERS = f"{Path(__file__).parents[2] / 'examples' / 'orders.py'}:PROTOCOL"


@pytest.fixture(scope="module")
def traffic() -> Traffic:
    return generate(ORDERS, seed=5, messages=300, connections=5, violations=0.3)


@pytest.fixture(scope="module")
def truth(traffic: Traffic) -> Truth:
    return traffic.truth


@pytest.fixture(scope="module")
def lake(traffic: Traffic, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    path = tmp_path_factory.mktemp("orders")
    write_pcap(traffic, path / "orders.pcap")
    settings = ReadSettings(protocols=(ORDERS,))
    ingest(InlineRunner(), [str(path / "orders.pcap")], str(path / "lake"), reading=settings, final=True)
    return Lake.open(path / "lake", create=False)


def test_exchanges_have_the_outcome_of_the_declared_status_and_limit(lake: Lake, truth: Truth) -> None:
    known = connections(lake, truth)
    wanted = Counter((known[one.connection], one.correlation, one.outcome, one.latency_us) for one in truth.exchanges)
    rows = table(lake, "gold/exchanges")
    assert Counter((row["connection"], row["correlation"], row["outcome"], row["latency_us"]) for row in rows) == wanted
    assert {outcome for _, _, outcome, _ in wanted} == {"ok", "error", "timeout"}
    assert {(row["message"], row["limit_us"]) for row in rows} == {
        ("order", 2_000_000),
        ("buy", 5_000_000),
        ("give_up", 5_000_000),
    }


def test_sessions_have_introductions_and_heartbeats(lake: Lake, truth: Truth) -> None:
    rows = {dict(row["facts"])["till"]: row for row in table(lake, "gold/sessions")}
    assert rows.keys() == {f"till-{number}" for number in range(1, 6)}
    accepted, refused = rows["till-1"], rows["till-4"]
    assert (accepted["handshake"], dict(accepted["facts"])["warehouse"]) == ("complete", "north")
    assert dict(accepted["facts"])["versions"] == "1,2"
    assert (refused["handshake"], refused["heartbeats"]) == ("refused", 0)
    assert accepted["heartbeats"] > 0 and accepted["longest_gap_to_server_us"] >= 10_000_000


def baskets(traffic: Traffic) -> dict[bytes, str]:
    """What became of each basket."""
    outcomes = {"buy": "committed", "give_up": "rolled_back"}
    messages = (event.message for event in traffic)
    return {
        str(one.basket).encode(): outcomes[one.__message__["name"]]
        for one in messages
        if one.__message__["name"] in outcomes
    }


def test_baskets_are_transactions(lake: Lake, traffic: Traffic) -> None:
    rows = table(lake, "gold/transactions")
    assert {bytes.fromhex(row["gtrid"]): row["outcome"] for row in rows} == baskets(traffic)
    assert {(row["protocol"], row["calls"]) for row in rows} == {("orders", 2)}


def test_pieces_out_of_order_are_violations(lake: Lake, truth: Truth) -> None:
    known = connections(lake, truth)
    wanted = Counter((known[one.connection], one.rule, one.message) for one in truth.violations)
    rows = table(lake, "gold/violations")
    assert Counter((row["connection"], row["rule"], row["message"]) for row in rows) == wanted
    assert {rule for _, rule, _ in wanted} == {"page_order"}


def test_the_report_shows_bytes_and_transactions(lake: Lake, traffic: Traffic) -> None:
    load(ORDERS)
    page = collect(lake)
    assert page["conversations"]
    gtrid = next(iter(baskets(traffic)))
    found = find_conversation(lake, f"t:0:{gtrid.hex()}")
    assert found is not None
    events: list[dict[str, Any]] = found["events"]
    assert {event["message"] for event in events} >= {"order", "ordered"}
    assert all(event["bytes"] for event in events)
