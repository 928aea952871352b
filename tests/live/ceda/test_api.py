"""The client of CEDA, against our server over real sockets."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from typing import Any

import pytest

import wirelake
from tests.live.ceda.play import JudgingServer
from tests.live.certificates import Authority
from tests.live.live import QUICK, TRANSPORTS, Live, authority, ceda_server, run
from tests.waiting import until
from wirelake.errors import EncodeError
from wirelake.live import AnswerError, ConnectionFailed, ConnectionLost, Refused, RequestTimeout, ceda
from wirelake.live.ceda import Blob, Cell, Request, api
from wirelake.live.ceda.options import CedaServerOptions

__all__ = ["authority"]
LOGIN = "me:secret@"


def opening(live: Live, transport: str = "tcp", **options: Any) -> Any:
    return ceda.connect(live.url(transport, LOGIN), **options)


# --- the whole way, over every transport


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_publish_subscribe_request_and_respond_work_over_every_transport(transport: str, authority: Authority):
    async def main() -> None:
        options: dict[str, Any] = {"ca": authority.path} if transport in ("tls", "wss") else {}
        async with (
            ceda_server(transport, authority=authority) as live,
            wirelake.connect(live.url(transport, LOGIN), **options) as one,
            opening(live, transport, **options) as two,
        ):
            assert one.connection_id != two.connection_id
            async with one.subscribe("FX.SPOT.*", "RATES.**") as messages:
                await two.publish("FX.SPOT.EURUSD", {1: 1.085, 3: "firm", 4: 7, 8: b"\x01", 6: 1 << 40})
                message = await messages.get(5)
                assert message.topic == "FX.SPOT.EURUSD"
                assert message.record == {1: 1.085, 3: "firm", 4: 7, 8: b"\x01", 6: 1 << 40}
                assert [cell.type for cell in message.cells] == ["DOUBLE", "STRING", "INT", "BYTES", "LONG"]
            await one.respond("QUOTE.GET", quote)
            answer = await two.request("QUOTE.GET", {1: "EURUSD"}, signal_id="c7")
            assert answer.record == {1: 1.085, 3: "EURUSD for c7"}

    run(main)


def quote(asked: Request) -> dict[int, Any]:
    return {1: 1.085, 3: f"{asked.record[1]} for {asked.signal_id}"}


def test_a_login_that_is_refused_is_an_error_of_connecting():
    async def main() -> None:
        async with ceda_server() as live:
            with pytest.raises(Refused, match="Username or Password is error"):
                await ceda.connect(live.url(), user="me", password="wrong")
            async with ceda.connect(live.url(login="x:y@"), user="me", password="secret") as client:
                assert client.is_connected

    run(main)


def test_a_name_that_is_too_long_is_refused_before_anything_is_sent():
    with pytest.raises(ValueError, match="user has more than 127 characters"):
        ceda.connect("ceda://h", user="x" * 128)
    with pytest.raises(ValueError, match="a dialect is one of"):
        ceda.connect("ceda://h", dialect="ceda5")
    with pytest.raises(ValueError, match="not a URL of ceda"):
        ceda.connect("mb://h")


@pytest.mark.parametrize("dialect", ["ceda4", "ceda4-ws"])
def test_both_dialects_are_spoken(dialect: str):
    async def main() -> None:
        async with ceda_server() as live, opening(live, dialect=dialect) as client, client.subscribe("a") as messages:
            await client.publish("a", {3: "x" * 200})
            assert (await messages.get(5)).record == {3: "x" * 200}

    run(main)


# --- records


def test_cells_keep_their_types_and_their_order():
    cells = (Cell(7, "SHORT", -2), Cell(2, "FLOAT", 0.5), Cell(7, "INT", 3), Cell(1, "NONE"))

    async def main() -> None:
        async with ceda_server() as live, opening(live) as client, client.subscribe("a") as messages:
            await client.publish("a", cells)
            message = await messages.get(5)
            assert message.cells == cells
            assert message.record == {7: 3, 2: 0.5, 1: None}

    run(main)


def test_a_blob_arrives_whole_whichever_way_it_goes():
    data = bytes(range(256)) * 1000

    async def main() -> None:
        async with ceda_server() as live, opening(live) as one, opening(live) as two:
            await two.respond("DOC.GET", lambda asked: ({5: "a.txt"}, Blob(2, asked.record[1])))
            async with one.subscribe("DOC.NEW") as messages:
                await two.publish("DOC.NEW", {5: "a.txt"}, blob=Blob(1, data))
                assert (await messages.get(5)).record == {5: "a.txt", 1: data}
            answer = await one.request("DOC.GET", {}, blob=Blob(1, data))
            assert answer.record == {5: "a.txt", 2: data}

    run(main)


def test_what_cannot_be_sent_is_refused():
    async def main() -> None:
        async with ceda_server() as live, opening(live) as client:
            for call, rule in (
                (client.publish("", {}), "text_empty"),
                (client.publish("a", {5000: 1}), "cell_id"),
                (client.publish("a", {1: "x" * 65001}), "cell_limit"),
                (client.publish("a", {1: 1 << 80}), "int_range"),
                (client.publish("a", {1: b"x" * 40000, 2: b"x" * 40000}), "frame_limit"),
                (client.publish("a", {}, blob=Blob(0, b"x")), "cell_id"),
            ):
                with pytest.raises(EncodeError) as caught:
                    await call
                assert caught.value.rule == rule
            with pytest.raises(ValueError, match="no priorities"):
                await client.respond("a", quote, priority=1)

    run(main)


# --- subscriptions


def test_a_subscription_holds_when_its_block_begins():
    async def main() -> None:
        async with ceda_server() as live, opening(live) as one, opening(live) as two:
            for number in range(50):
                async with one.subscribe("a.**") as messages:
                    await two.publish("a.b", {1: number})
                    assert (await messages.get(5)).record == {1: number}

    run(main)


def test_a_server_that_does_not_answer_heartbeats_does_not_hold_up_subscriptions(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(api, "ECHO_SECONDS", 0.05)

    async def main() -> None:
        async with ceda_server() as live, opening(live) as client:
            client._session.beat = lambda now: None
            async with client.subscribe("a") as messages:
                await client.publish("a", {1: 1})
                assert (await messages.get(5)).record == {1: 1}

    run(main)


def test_a_pattern_is_taken_back_when_neither_a_subscription_nor_a_responder_needs_it():
    async def main() -> None:
        async with ceda_server() as live, opening(live) as client, opening(live) as other:
            subscriptions = live.session._broker.subscriptions
            responder = await client.respond("a", quote)
            async with client.subscribe("a") as messages:
                async with client.subscribe("a", "b"):
                    pass
                await other.publish("a", {1: 1})
                assert (await messages.get(5)).record == {1: 1}
            assert (await other.request("a", {1: "x"})).record[1] == 1.085
            await responder.close()
            await until(lambda: not subscriptions.route("a"))
            assert not subscriptions.route("b")

    run(main)


def test_with_an_image_the_last_values_come_first():
    async def main() -> None:
        async with (
            ceda_server(options=CedaServerOptions(cache=True, image_on_subscribe=False)) as live,
            opening(live) as one,
            opening(live) as two,
        ):
            async with two.subscribe("FX.*") as seen:
                await one.publish("FX.EUR", {1: 1.0, 3: "old"})
                await one.publish("FX.EUR", {1: 2.0})
                assert [(await seen.get(5)).record[1] for _ in range(2)] == [1.0, 2.0]
            async with two.subscribe("FX.**", image=True) as messages:
                assert (await messages.get(5)).record == {1: 2.0, 3: "old"}

    run(main)


def test_a_server_that_tells_of_a_refused_subscription_ends_it(caplog: pytest.LogCaptureFixture):
    options = CedaServerOptions(sub_results=True)
    options = replace(options, limits=replace(options.limits, topics=1))

    async def main() -> None:
        async with ceda_server(options=options) as live, opening(live) as client, client.subscribe("a") as fine:
            async with client.subscribe("b") as messages:
                with pytest.raises(Refused, match="subscription of b"):
                    await messages.get(5)
            await client.publish("a", {1: 1})
            assert (await fine.get(5)).record == {1: 1}

    with caplog.at_level(logging.WARNING, "wirelake.live"):
        run(main)


def test_a_record_that_cannot_be_read_is_delivered_with_its_error(caplog: pytest.LogCaptureFixture):
    async def main() -> None:
        async with ceda_server() as live, opening(live) as client, client.subscribe("a") as messages:
            peer = live.session._broker.connections[client.connection_id]
            live.server.endpoint.run(lambda now: peer.link.say(b"\x61\x01a\xff"))
            message = await messages.get(5)
            assert message.record == {} and message.error is not None
            assert message.error.rule == "cell_fits"
            assert client.is_connected

    with caplog.at_level(logging.WARNING, "wirelake.live"):
        run(main)


# --- requests


def test_a_handler_that_fails_is_told_in_the_record(caplog: pytest.LogCaptureFixture):
    def refuse(asked: Request) -> None:
        raise AnswerError("CLOSED", "come back tomorrow")

    async def main() -> None:
        async with ceda_server() as live, opening(live) as one, opening(live) as two:
            await one.respond("refuse", refuse)
            await one.respond("fail", lambda asked: asked.record[99])
            await one.respond("nothing", lambda asked: None)
            await one.respond("odd", lambda asked: 5)
            assert (await two.request("refuse")).record == {1: 0, 4: "CLOSED: come back tomorrow"}
            assert (await two.request("fail")).record == {1: 0, 4: "the handler failed: KeyError: 99"}
            assert (await two.request("nothing")).record == {1: 1}
            assert (await two.request("odd")).record[1] == 0

    with caplog.at_level(logging.ERROR, "wirelake.live"):
        run(main)
    assert "a handler failed" in caplog.text


def test_nobody_who_serves_it_is_a_time_out_and_leaves_nothing_behind():
    async def main() -> None:
        async with ceda_server() as live, opening(live) as client:
            with pytest.raises(RequestTimeout):
                await client.request("nobody", {1: 1}, timeout=0.05)
            assert not client._open and not len(client._session._requests)

    run(main)


def test_a_cancelled_request_leaves_nothing_behind_and_its_late_reply_hurts_nobody():
    async def main() -> None:
        go_on = asyncio.Event()

        async def answer(asked: Request) -> dict[int, Any]:
            await go_on.wait()
            return asked.record

        async with ceda_server() as live, opening(live) as service, opening(live) as client:
            await service.respond("late", answer)
            tasks = [asyncio.ensure_future(client.request("late", {1: number})) for number in range(10)]
            await until(lambda: len(client._session._requests) == 10)
            for task in tasks[:9]:
                task.cancel()
            await asyncio.wait(tasks[:9])
            assert len(client._open) == len(client._session._requests) == 1
            go_on.set()
            assert (await tasks[9]).record == {1: 9}
            assert not client._open and not len(client._session._requests)
            await until(lambda: client._session.counts["replies_dropped"] == 9)

    run(main)


def test_a_thousand_requests_at_once_each_get_their_own_answer():
    async def main() -> None:
        async def answer(asked: Request) -> dict[int, Any]:
            await asyncio.sleep(0)
            return {1: asked.record[1] * 2}

        async with ceda_server() as live, opening(live) as service, opening(live) as client:
            await service.respond("double", answer, concurrency=50)
            answers = await asyncio.gather(*(client.request("double", {1: number}) for number in range(1000)))
            assert [one.record[1] for one in answers] == [2 * number for number in range(1000)]

    run(main)


def test_a_service_is_chosen_by_its_name_and_a_p2p_is_answered_by_another_one():
    async def main() -> None:
        async with (
            ceda_server() as live,
            opening(live, client_id="north") as north,
            opening(live, client_id="south") as south,
            opening(live) as client,
        ):
            await north.respond("where", lambda asked: {3: "north"})
            await south.respond("where", lambda asked: {3: "south"})
            for name in ("south", "north", "south"):
                assert (await client.request("where", {1: 1}, server_id=name)).record == {3: name}
            async with south.subscribe("note") as notes, client.subscribe("note") as replies:
                await client.p2p("note", {3: "hello"}, server_id="south")
                note = await notes.get(5)
                assert (note.kind, note.record) == ("p2p", {3: "hello"})
                await south.reply(note, {3: "hello yourself"})
                assert (await replies.get(5)).record == {3: "hello yourself"}

    run(main)


# --- slow applications, losses


def test_a_slow_application_stops_the_reading_and_loses_nothing():
    async def main() -> None:
        async with (
            ceda_server() as live,
            opening(live) as slow,
            opening(live) as quick,
            slow.subscribe("a", limit=10) as messages,
        ):
            for number in range(5000):
                await quick.publish("a", {1: number, 2: "x" * 100})
            await until(lambda: slow._connection.flow.is_stopped)
            for number in range(5000):
                assert (await messages.get(5)).record[1] == number

    run(main)


def test_an_application_that_stands_still_does_not_lose_its_connection_to_heartbeats():
    async def main() -> None:
        async with (
            ceda_server() as live,
            opening(live) as client,
            opening(live) as other,
            client.subscribe("a", limit=1) as messages,
        ):
            await other.publish("a", {1: 1})
            await other.publish("a", {1: 2})
            await until(lambda: client._connection.flow.is_stopped)
            session = client._session
            session.options = replace(session.options, heartbeat_seconds=0.02)
            client._connection.do(lambda now: setattr(session, "_look_at", now))
            before = session.counts["heartbeats_sent"]
            await until(lambda: session.counts["heartbeats_sent"] >= before + 5)
            assert client.is_connected
            assert [(await messages.get(5)).record[1] for _ in range(2)] == [1, 2]

    run(main)


def test_an_image_request_gives_the_last_values_and_what_follows():
    async def main() -> None:
        async with ceda_server() as live, opening(live, client_id="PRICES") as service, opening(live) as client:
            asked: list[Any] = []

            def image(request: Request) -> dict[int, Any]:
                asked.append((request.server_id, json.loads(request.record[3])))
                return {9: '["secret"]', 5: 0, 3: '{"FX.EUR": {"bid": 1.5}}'}

            await service.respond("API.REQUESTIMAGE", image)
            async with client.subscribe("FX.EUR", "secret", image_from="PRICES") as messages:
                first = await messages.get(5)
                assert (first.topic, first.record[3], first.is_image) == ("FX.EUR", '{"bid":1.5}', True)
                await service.publish("secret", {1: 0})
                await service.publish("FX.EUR", {1: 2})
                second = await messages.get(5)
                assert (second.topic, second.record, second.is_image) == ("FX.EUR", {1: 2}, False)
            assert asked == [("PRICES", ["FX.EUR", "secret"])]
            with pytest.raises(Refused, match="refused secret"):
                async with client.subscribe("secret", image_from="PRICES"):
                    pass
            assert not client._session._image_requests

    run(main)


def test_a_login_may_have_a_session_id_or_a_record_and_heartbeats_their_interval():
    attempts: list[Any] = []

    async def main() -> None:
        live = Live("ceda", lambda: JudgingServer(authenticate=lambda who: attempts.append(who) or True))
        await live.start("tcp")
        for options in ({"session_id": "sid-1"}, {"login_record": {100: "x"}, "heartbeat": 3.0}):
            async with ceda.connect(live.url(), **options) as client:
                assert client._session.options.heartbeat_seconds == options.get("heartbeat", 15.0)
        await live.kill()

    run(main)
    assert [(who.control_code, who.session_id, who.values) for who in attempts] == [
        (18, "sid-1", {3: "sid-1"}),
        (19, "", {100: "x"}),
    ]


def test_only_one_kind_of_login_may_be_given():
    with pytest.raises(ValueError, match="exclude each other"):
        ceda.connect("ceda://demo@127.0.0.1", session_id="x")


def test_a_server_that_stands_still_is_noticed():
    async def main() -> None:
        async with ceda_server() as live, opening(live, heartbeat=0.05, reconnect=False) as client:
            for pipe in live.server.endpoint.pipes.values():
                pipe.transport.pause_reading()
            with pytest.raises(ConnectionLost):
                await client.wait_closed()

    run(main)


def test_after_a_loss_it_logs_in_and_subscribes_again_and_open_requests_fail():
    async def main() -> None:
        async with (
            ceda_server() as live,
            opening(live, reconnect=QUICK) as client,
            opening(live, reconnect=QUICK) as service,
            client.subscribe("a.*") as messages,
        ):
            await service.respond("quick", quote)
            await service.respond("never", lambda asked: asyncio.sleep(60))
            open_one = asyncio.ensure_future(client.request("never", {1: 1}))
            await until(lambda: bool(client._open))
            await live.kill()
            with pytest.raises(ConnectionLost):
                await open_one
            await live.start()
            async with client.subscribe("b"), service.subscribe("b"):  # when these hold, what was said before holds too
                pass
            assert (await client.request("quick", {1: "x"})).record[3] == "x for "
            await service.publish("a.b", {1: 1})
            assert (await messages.get(5)).record == {1: 1}

    run(main)


def test_a_login_that_is_refused_after_a_loss_is_the_end():
    async def main() -> None:
        async with ceda_server() as live, opening(live, reconnect=QUICK) as client, client.subscribe("a") as messages:
            await live.kill()

            live._make = lambda: JudgingServer(authenticate=lambda who: "not any more")
            await live.start()
            with pytest.raises(Refused, match="not any more"):
                await messages.get(10)
            with pytest.raises(Refused):
                await client.publish("a", {})

    run(main)


def test_leaving_is_told_to_the_server():
    async def main() -> None:
        async with ceda_server() as live:
            async with opening(live):
                (pipe,) = live.server.endpoint.pipes.values()
            await until(lambda: not live.server.endpoint.pipes)
            assert pipe.link.closing is not None and pipe.link.closing.reason == "logged out"

    run(main)


def test_nobody_listens_there():
    async def main() -> None:
        async with ceda_server() as live:
            url = live.url()
        with pytest.raises(ConnectionFailed, match="connection refused"):
            await ceda.connect(url)

    run(main)
