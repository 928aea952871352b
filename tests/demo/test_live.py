"""The live part alone: what the tap has is what was said, with all the faults that are played."""

from __future__ import annotations

import socket
from collections import Counter
from pathlib import Path

import pytest

from tests.demo.captured import Captured, Row, read_captures
from wirelake.demo import live as played_live
from wirelake.demo.live import Live, Played
from wirelake.demo.scenes import SCENES
from wirelake.demo.scenes.casual import PRINT_TRIES
from wirelake.demo.stage import Scene
from wirelake.live import Refused
from wirelake.live.tap.proxy import Proxy

MESSAGES = 1000
SECONDS = 4.0


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("live")


@pytest.fixture(scope="module")
def played(directory: Path) -> Played:
    live = Live(directory, messages=MESSAGES, seconds=SECONDS, seed=3)
    live.start()
    assert live.wait(60)
    return live.result()


@pytest.fixture(scope="module")
def captured(directory: Path, played: Played) -> Captured:
    return read_captures(directory)


def test_it_takes_about_as_long_and_says_about_as_much_as_it_should(played: Played, captured: Captured) -> None:
    assert SECONDS - 1 < played.seconds < SECONDS + 15
    assert set(captured.messages) == set(SCENES)
    for rows in captured.messages.values():
        assert 0.6 * MESSAGES / len(SCENES) < len(rows) < 2.5 * MESSAGES / len(SCENES)


def test_every_byte_that_passed_is_in_the_tap(played: Played, captured: Captured) -> None:
    ends = {(row["connection"], row["direction"]): row for row in captured.accounts}
    assert sum(row["bytes_in"] for row in ends.values()) == played.recorded
    assert len({connection for connection, _ in ends}) == played.connections
    assert not any(row["bytes_missing"] for row in ends.values())


def test_the_shop_asks_and_publishes_and_things_go_wrong(captured: Captured) -> None:
    answers: dict[str, list[bytes]] = {}
    for row in captured.said("mb", "response"):
        answers.setdefault(row["topic"], []).append(row["payload"])
    assert {"orders.create", "stock.reserve", "payments.authorize", "catalog.search"} <= answers.keys()
    assert any(b"TIMEOUT" in payload for payload in answers["reports.daily"])
    assert captured.said("mb", "publish", topic="orders.created", direction="to_client")
    names = b" ".join(row["payload"] for row in captured.said("mb", "request", topic="system.service.register"))
    for name in (b"orders", b"payments", b"stock", b"notifications"):
        assert name in names


def test_the_market_publishes_whole_and_in_pieces_and_refuses_a_login(captured: Captured) -> None:
    assert captured.said("ceda", "publish", topic="FX.SPOT.EURUSD", direction="to_client")
    pieces = captured.said("ceda", "group_pub", topic="RISK.CURVES", direction="to_server")
    assert {row["group"]["index"] for row in pieces} == {0, 1, 2}
    asked = {row["topic"] for row in captured.said("ceda", "request")}
    assert {"QUOTE.GET", "ORDER.NEW", "HISTORY.GET"} <= asked
    results = [row for row in captured.said("ceda", "login") if row["direction"] == "to_client"]
    said = [{cell["fid"]: cell["long"] for cell in row["record"]}.get(1) for row in results]
    assert 0 in said and 1 in said


def test_the_bank_commits_with_its_ledger_and_rolls_back_and_leaves_one_transaction_in_doubt(
    captured: Captured,
) -> None:
    asked = captured.said("casual", "resource_prepare_request")
    decided = [row["xid"]["gtrid"] for name in ("commit", "rollback") for row in said_resource(captured, name)]
    two_domains = Counter(row["xid"]["gtrid"] for row in asked)
    assert 2 in two_domains.values()
    assert len(two_domains.keys() - set(decided)) == 1, "one coordinator disappears after prepare"
    assert said_resource(captured, "rollback") and said_resource(captured, "commit")
    assert {"account.book", "account.balance", "fraud.check"} <= {
        row["service"]["name"] for row in captured.said("casual", "service_call_request")
    }
    assert captured.said("casual", "conversation_send")


def said_resource(captured: Captured, name: str) -> list[Row]:
    return captured.said("casual", f"resource_{name}_request")


def test_a_statement_that_cannot_be_printed_is_delivered_until_its_queue_gives_it_up(captured: Captured) -> None:
    got = [message for row in captured.said("casual", "queue_dequeue_reply") for message in row["dequeued"]]
    tries = [message["redelivered"] for message in got if b"null" in message["payload"]]
    assert tries == list(range(PRINT_TRIES))


def test_the_plant_is_watched_set_and_run_through_the_broker(captured: Captured) -> None:
    for message in ("subscribe_response", "list_response", "set_response", "invoke_response"):
        assert captured.said("dsa", message, direction="to_client")
    assert captured.said("dsa", "invoke_request", direction="to_client"), "the broker passes actions on to the plant"


def test_clients_that_break_the_rules_leave_undecodable_bytes_in_all_protocols(captured: Captured) -> None:
    assert {"action", "topic", "frame_incomplete"} <= captured.broken("mb")
    for protocol, rule in {"ceda": "magic", "casual": "frame_limit", "dsa": "frame_limit"}.items():
        assert {rule, "frame_incomplete"} <= captured.broken(protocol)


def test_clients_that_break_the_rules_send_valid_messages_out_of_sequence(captured: Captured) -> None:
    first: dict[str, str] = {}
    for row in captured.messages["ceda"]:
        if row["direction"] == "to_server":
            first.setdefault(row["connection"], row["message"])
    assert sorted(set(first.values())) == ["login", "publish"]
    asked = {row["request_id"] for row in captured.said("mb", "request")}
    answered = {row["request_id"] for row in captured.said("mb", "response", direction="to_server")}
    assert answered - asked


def test_it_can_be_stopped_at_any_moment_and_nobody_listens_any_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports: list[int] = []

    class Watched(Proxy):
        async def start(self) -> None:
            await super().start()
            ports.append(self.listening[0][1])

    monkeypatch.setattr(played_live, "Proxy", Watched)
    live = Live(tmp_path, messages=100_000, seconds=100, seed=1)
    live.start()
    while len(ports) < len(SCENES) or not live.passed:
        assert not live.wait(0.01)
    live.stop()
    assert live.wait(0)
    for port in ports:
        with socket.socket() as probe:
            assert probe.connect_ex(("127.0.0.1", port)) != 0
    assert read_captures(tmp_path).accounts is not None


def test_it_can_be_stopped_before_it_has_begun(tmp_path: Path) -> None:
    live = Live(tmp_path, messages=100, seconds=100, seed=1)
    live.start()
    live.stop()
    assert live.wait(0)


def test_what_goes_wrong_in_a_scene_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_: object) -> None:
        raise Refused("the scene fails")

    monkeypatch.setitem(SCENES, "mb", Scene(parts=(fail,)))
    live = Live(tmp_path, messages=100, seconds=100, seed=1)
    live.start()
    assert live.wait(30)
    with pytest.raises(Refused, match="the scene fails"):
        live.result()


def test_the_same_seed_says_the_same(tmp_path: Path, captured: Captured) -> None:
    live = Live(tmp_path, messages=MESSAGES, seconds=SECONDS / 2, seed=3)
    live.start()
    assert live.wait(60)
    live.result()
    again = read_captures(tmp_path)

    def orders(found: Captured) -> list[bytes]:
        return sorted(row["payload"] for row in found.said("mb", "request", topic="orders.create"))

    def ticks(found: Captured) -> list[tuple[str, str]]:
        return [(row["topic"], str(row["record"])) for row in found.said("ceda", "publish", direction="to_server")]

    assert orders(again) == orders(captured)
    assert ticks(again) == ticks(captured)
    assert any(b"OUT_OF_STOCK" in row["payload"] for row in again.said("mb", "response", topic="stock.reserve"))
