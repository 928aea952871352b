"""Clients and a server of ours, tied in memory by pipes that cut and join as a seed says."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from tests.live.ceda.play import JudgingServer, Tied
from wirelake.live.ceda.client import CedaClient
from wirelake.live.ceda.data import Blob
from wirelake.live.ceda.events import Asked, Delivered, Ready, Refused
from wirelake.live.ceda.logins import CedaLogin
from wirelake.live.ceda.options import CedaClientOptions, CedaServerOptions
from wirelake.live.ceda.wire import CEDA4, CEDA4_WS
from wirelake.live.core.errors import ConnectionLost
from wirelake.live.core.session import Answered, Lost

DIALECTS = (CEDA4, CEDA4_WS)


def tied(count: int, seed: int = 1, dialects: tuple[str, ...] = DIALECTS, **options: Any) -> Tied:
    """Clients that speak the dialects in turn, at a server that speaks the deployed one until it learns."""
    server = JudgingServer(CedaServerOptions(**options), chance=random.Random(seed))
    clients = [
        CedaClient(
            CedaLogin(f"user{i}" + "x" * 60, "p" * 60, f"client{i}"),
            CedaClientOptions(dialect=dialects[i % len(dialects)]),
            chance=random.Random(seed + i),
        )
        for i in range(count)
    ]
    made = Tied(server, clients, seed)
    made.run()
    return made


@pytest.mark.parametrize("seed", range(5))
def test_clients_of_both_dialects_talk_through_one_server(seed: int) -> None:
    play = tied(3, seed)
    assert [play.events(i) for i in range(3)] == [[Ready(1001)], [Ready(1002)], [Ready(1003)]]
    play.clients[1].subscribe(["FX.*"], play.now)
    play.clients[2].subscribe(["FX.EURUSD", "**"], play.now)
    play.run()
    for i in range(50):
        play.clients[0].publish("FX.EURUSD" if i % 2 else "FX.USDJPY", {1: i, 3: "x" * (i * 13)}, play.now)
    play.run()
    for i in (1, 2):
        assert [event.message.record[1] for event in play.events(i, Delivered)] == list(range(50))
    assert play.server.counts["frame_errors"] == play.server.counts["message_errors"] == 0


@pytest.mark.parametrize("seed", range(5))
def test_requests_with_blobs_are_answered_with_blobs(seed: int) -> None:
    play = tied(4, seed)
    for i in (2, 3):
        play.clients[i].subscribe(["DOC.*"], play.now)
    play.run()
    chance = random.Random(seed)
    sent = {}
    for i in range(12):
        asker = i % 2
        data = chance.randbytes(chance.choice((0, 1, 32768, 32769, 100_000)))
        token = play.clients[asker].request("DOC.PUT", {5: i}, play.now, blob=Blob(1, data))
        sent[asker, token] = data
    answered: dict[tuple[int, int], Any] = {}
    served: Counter[int] = Counter()
    for _ in range(3):
        play.run()
        for i in (2, 3):
            for asked in play.events(i, Asked):
                served[i] += 1
                play.clients[i].reply(
                    asked.message, {5: asked.message.record[5]}, play.now, blob=Blob(2, asked.message.record[1][::-1])
                )
        for i in (0, 1):
            answered |= {(i, event.token): event.reply for event in play.events(i, Answered)}
    assert {key: reply.record[2] for key, reply in answered.items()} == {key: data[::-1] for key, data in sent.items()}
    assert served == {2: 6, 3: 6}


def test_blobs_of_several_publishers_do_not_mix() -> None:
    play = tied(4, 7)
    play.clients[3].subscribe(["d.**"], play.now)
    play.run()
    for _ in range(3):
        for i in range(3):
            play.clients[i].publish("d.same", {5: i}, play.now, blob=Blob(3, bytes([i]) * (80_000 + i)))
    play.run()
    found = [(event.message.record[5], event.message.record[3]) for event in play.events(3, Delivered)]
    assert sorted(found) == sorted([(i, bytes([i]) * (80_000 + i)) for i in range(3)] * 3)


def test_the_same_seed_gives_the_same_bytes() -> None:
    def life(seed: int) -> list[bytes]:
        play = tied(3, seed, cache=True)
        play.clients[0].subscribe(["a.*"], play.now, image=True)
        for i in range(20):
            play.clients[1].publish(f"a.{i % 3}", {1: i}, play.now, blob=Blob(2, bytes(i * 3000)) if i % 5 else None)
            play.clients[2].request("a.q", {1: i}, play.now, timeout=5.0)
            play.advance(7.0)
        play.cut(0)
        play.connect(0)
        play.advance(100.0)
        return [b"".join(wire.log) for wire in play.wires]

    assert life(3) == life(3)
    assert life(3) != life(4)


def test_idle_ends_keep_each_other_alive_without_a_loop() -> None:
    play = tied(2, 2)
    play.advance(1000.0)
    assert all(client.is_ready for client in play.clients)
    assert play.server.counts["idle_closed"] == 0
    assert 50 < play.server.counts["heartbeats"] < 70
    assert sum(len(wire.log) for wire in play.wires) < 300


def test_a_busy_subscriber_that_never_speaks_is_kept() -> None:
    play = tied(2, 2)
    play.clients[1].subscribe(["tick"], play.now)
    for i in range(300):
        play.clients[0].publish("tick", {1: i}, play.now)
        play.advance(1.0)
    assert play.clients[1].counts["heartbeats_sent"] <= 1
    assert play.clients[1].is_ready and len(play.events(1, Delivered)) == 300


def test_after_a_cut_the_client_comes_back_to_its_topics() -> None:
    play = tied(2, 5)
    play.clients[1].subscribe(["a.*"], play.now)
    play.run()
    token = play.clients[1].request("nobody", {1: 1}, play.now)
    play.cut(1)
    play.clients[0].publish("a.b", {1: "missed"}, play.now)
    play.run()
    play.connect(1)
    play.run()
    play.clients[0].publish("a.b", {1: "heard"}, play.now)
    play.run()
    ready, answered, lost, again, delivered = play.events(1)
    assert (ready, again) == (Ready(1002), Ready(1003))
    assert answered == Answered(token, None, ConnectionLost()) and isinstance(lost, Lost)
    assert delivered.message.record == {1: "heard"}


def test_a_client_that_is_refused_stays_out() -> None:
    server = JudgingServer(authenticate=lambda attempt: attempt.password == "right")
    play = Tied(server, [CedaClient(CedaLogin("u", "wrong")), CedaClient(CedaLogin("u", "right"))], 1)
    play.run()
    assert play.events(0) == [Refused("Username or Password is error")]
    assert play.events(1) == [Ready(1002)]


def test_an_image_comes_before_what_is_live() -> None:
    play = tied(2, 6, cache=True)
    for i in range(3):
        play.clients[0].publish(f"a.{i}", {1: i, 2: "x" * 200}, play.now)
    play.run()
    play.clients[1].subscribe(["a.*"], play.now, image=True)
    play.run()
    play.clients[0].publish("a.1", {1: 7}, play.now)
    play.run()
    assert [event.message.record[1] for event in play.events(1, Delivered)] == [0, 1, 2, 7]


@pytest.mark.parametrize("seed", range(10))
def test_a_random_life_loses_and_doubles_nothing(seed: int) -> None:
    chance = random.Random(seed)
    play = tied(4, seed)
    for i, client in enumerate(play.clients):
        client.subscribe([f"t.{i}", "all.*"], play.now)
        client.subscribe([f"ask.{i}"], play.now)
    play.run()
    expected: list[list[tuple[str, int]]] = [[] for _ in play.clients]
    asked = 0
    for number in range(150):
        sender = chance.choice(play.clients)
        match chance.randrange(3):
            case 0:
                to = chance.randrange(4)
                sender.publish(f"t.{to}", {1: number, 3: "x" * chance.randrange(400)}, play.now)
                expected[to].append((f"t.{to}", number))
            case 1:
                sender.publish("all.x", {1: number}, play.now, blob=Blob(2, bytes(chance.choice((5, 50_000)))))
                for heard in expected:
                    heard.append(("all.x", number))
            case _:
                sender.request(f"ask.{chance.randrange(4)}", {1: number}, play.now, timeout=None)
                asked += 1
        if chance.random() < 0.3:
            play.run()
    play.run()
    heard: list[list[tuple[str, int]]] = []
    for i, client in enumerate(play.clients):
        mine = []
        for event in play.events(i):
            if isinstance(event, Asked):
                client.reply(event.message, {1: event.message.record[1]}, play.now)
            elif isinstance(event, Delivered):
                mine.append((event.message.topic, event.message.record[1]))
        heard.append(mine)
    play.run()
    assert [sorted(one) for one in heard] == [sorted(one) for one in expected]
    assert sum(len(play.events(i, Answered)) for i in range(4)) == asked
    assert all(connection.merger.held == 0 for connection in play.server._broker.connections.values())
