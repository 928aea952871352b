"""The client of MB, against our broker over real sockets."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import Any

import pytest

import wirelake
from tests.live.certificates import Authority
from tests.live.live import QUICK, TRANSPORTS, authority, broker, run
from tests.waiting import until
from wirelake.errors import DecodeError, EncodeError, WireError
from wirelake.live import AnswerError, ConnectionFailed, ConnectionLost, Refused, RequestTimeout, mb
from wirelake.live.mb import Message, Request
from wirelake.live.mb.options import ClientOptions

__all__ = ["authority"]


# --- the whole way, over every transport


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_publish_subscribe_request_and_respond_work_over_every_transport(transport: str, authority: Authority):
    async def main() -> None:
        async with broker(transport, authority=authority) as live:
            options: dict[str, Any] = {"ca": authority.path} if transport in ("tls", "wss") else {}
            async with (
                wirelake.connect(live.url(transport), name="one", **options) as one,
                mb.connect(live.url(transport), **options) as two,
            ):
                async with one.subscribe("plant.#") as messages:
                    await two.publish("plant.boiler", {"celsius": 81.5}, confirm=True)
                    message = await messages.get(5)
                    assert (message.topic, message.json(), message.version) == (
                        "plant.boiler",
                        {"celsius": 81.5},
                        "1.0.0",
                    )
                await one.respond("math.add", add)
                assert (await two.request("math.add", {"x": 1, "y": 2})).json() == {"sum": 3}

    run(main)


def add(asked: Request) -> dict[str, int]:
    given = asked.json()
    return {"sum": given["x"] + given["y"]}


def test_the_name_is_registered():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url(), name="billing", description="bills") as client:
            (service,) = (await client.request("system.service.list")).json()["services"]
            assert (service["name"], service["description"]) == ("billing", "bills")

    run(main)


def test_a_name_that_the_broker_refuses_is_an_error_of_connecting():
    async def main() -> None:
        async with broker() as live:
            with pytest.raises(Refused, match="INVALID_REQUEST"):
                await mb.connect(live.url(), name="x" * 37)

    run(main)


# --- payloads


@dataclass
class Point:
    x: int
    y: int


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        (b"\xff\x00", b"\xff\x00"),
        (b"", b""),
        ("gr\u00fcn: 5\n", "gr\u00fcn: 5\n".encode()),
        ({"a": [1, None, "\u00fc"]}, '{"a":[1,null,"\u00fc"]}'.encode()),
        (17, b"17"),
        (None, b"null"),
        (Point(1, 2), b'{"x":1,"y":2}'),
        (bytearray(b"ab"), b"ab"),
    ],
)
def test_bytes_and_text_go_as_they_are_and_everything_else_as_json(given: Any, sent: bytes):
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client, client.subscribe("a") as messages:
            await client.publish("a", given)
            assert (await messages.get(5)).payload == sent

    run(main)


def test_a_subscription_is_used_in_a_block_and_once():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            subscription = client.subscribe("a")
            with pytest.raises(RuntimeError, match="begins with async with"):
                await anext(subscription)
            async with subscription:
                pass
            with pytest.raises(RuntimeError, match="once"):
                async with subscription:
                    pass
            with pytest.raises(ValueError, match="needs a pattern"):
                client.subscribe()

    run(main)


def test_a_message_can_be_read_as_text_and_as_json():
    assert Message("a", b'{"k":1}').json() == {"k": 1}
    assert Message("a", b"\xffx").text == "\ufffdx"
    with pytest.raises(DecodeError) as caught:
        Message("a", b"{").json()
    assert caught.value.rule == "payload_json"


def test_what_cannot_be_sent_is_refused_before_it_is_sent():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            for call, rule in (
                (client.publish("a", b"x" * 16385), "payload_too_large"),
                (client.publish("a", object()), "payload_json"),
                (client.publish("not a topic", b""), "topic"),
                (client.publish("a", b"", version="one"), "version"),
                (client.request("a", timeout=3601), "timeout"),
                (client.request("a", parent="7"), "parent_request_id"),
            ):
                with pytest.raises(EncodeError) as caught:
                    await call
                assert caught.value.rule == rule
            with pytest.raises(EncodeError):
                async with client.subscribe("a.#.b"):
                    pass
            assert live.session.counts["router.message.count.error"] == 0

    run(main)


# --- publishing


def test_a_confirmed_publish_that_nobody_gets_is_an_error_and_another_one_is_counted():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            with pytest.raises(AnswerError) as caught:
                await client.publish("nobody", 1, confirm=True)
            assert caught.value.code == "NO_ROUTE_FOUND"
            await client.publish("nobody", 1)
            await until(lambda: client.refused == 1)

    run(main)


# --- subscriptions


def test_a_message_goes_to_every_subscription_that_it_matches_and_once_to_each():
    async def main() -> None:
        async with (
            broker() as live,
            mb.connect(live.url()) as client,
            client.subscribe("a.#", "a.+", "A.B") as wide,
            client.subscribe("a.b") as narrow,
        ):
            for topic in ("a.b", "A.b", "a.c"):
                await client.publish(topic, topic)
            assert [(await wide.get(5)).text for _ in range(3)] == ["a.b", "A.b", "a.c"]
            assert [(await narrow.get(5)).text for _ in range(2)] == ["a.b", "A.b"]
            assert wide.waiting == narrow.waiting == 0

    run(main)


def test_the_end_of_one_subscription_does_not_take_another_one_with_it():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            async with client.subscribe("a.#") as first:
                async with client.subscribe("A.#", "b"):
                    pass
                await client.publish("a.x", 1, confirm=True)
                assert (await first.get(5)).json() == 1
                with pytest.raises(AnswerError):
                    await client.publish("b", 1, confirm=True)
            with pytest.raises(AnswerError):
                await client.publish("a.x", 1, confirm=True)
            assert not client._session._wanted

    run(main)


def test_leaving_a_subscription_waits_until_the_broker_has_ended_it():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            for overflow in ("wait", "drop"):
                async with client.subscribe("a", "b.#", limit=1, overflow=overflow):
                    await client.publish("a", 1)
                    await client.publish("a", 2, confirm=True)
                assert live.session.topics.published.holders == {}

    run(main)


def test_leaving_a_subscription_does_not_wait_for_a_broker_that_is_gone_or_silent():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url(), reconnect=QUICK) as client:
            async with client.subscribe("a"):
                client._session.options = ClientOptions(timeout_ms=20, grace_seconds=0.0)
                live.session._system.answer = lambda *_: None
            assert not client._session._calls
            del live.session._system.answer
            async with client.subscribe("a"):
                await live.kill()
                await until(lambda: not client.is_connected)

    run(main)


def test_wildcards_do_not_bring_system_topics():
    async def main() -> None:
        async with (
            broker() as live,
            mb.connect(live.url()) as client,
            client.subscribe("#") as all_of_it,
            client.subscribe("system.message") as audit,
        ):
            await client.publish("a", 1, confirm=True)
            topics = {(await audit.get(5)).topic for _ in range(3)}
            assert topics == {"system.message"}
            assert (await all_of_it.get(5)).topic == "a"
            assert all_of_it.waiting == 0

    run(main)


def test_a_subscription_that_the_broker_refuses_raises():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            with pytest.raises(Refused, match="INVALID_REQUEST"):
                async with client.subscribe("system.metrics"):
                    pass
            assert client.is_connected
            assert not client._session._wanted

    run(main)


def test_the_loop_over_messages_ends_when_the_client_is_closed():
    async def main() -> None:
        async with broker() as live:
            client = await mb.connect(live.url())
            seen = []
            async with client.subscribe("a") as messages:

                async def take() -> None:
                    async for message in messages:
                        seen.append(message.json())

                task = asyncio.ensure_future(take())
                await client.publish("a", 1, confirm=True)
                await until(lambda: seen == [1])
                await client.close()
                await task
                with pytest.raises(ConnectionLost):
                    await messages.get()
            with pytest.raises(ConnectionLost, match="closed"):
                await client.publish("a", 1)

    run(main)


# --- requests


def test_the_errors_of_a_service_reach_the_requester(caplog: pytest.LogCaptureFixture):
    def refuse(asked: Request) -> None:
        raise AnswerError("OUT_OF_STOCK", "no more of them", {"left": 0})

    async def fail(asked: Request) -> None:
        raise ZeroDivisionError("oops")

    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            await client.respond("shop.buy", refuse)
            await client.respond("shop.fail", fail)
            await client.respond("shop.odd", lambda asked: object())
            with pytest.raises(AnswerError) as caught:
                await client.request("shop.buy")
            error = caught.value
            assert (error.code, error.message, error.details) == ("OUT_OF_STOCK", "no more of them", {"left": 0})
            with pytest.raises(AnswerError, match=r"INTERNAL_ERROR.*ZeroDivisionError: oops"):
                await client.request("shop.fail")
            with pytest.raises(AnswerError, match="INTERNAL_ERROR"):
                await client.request("shop.odd")

    with caplog.at_level(logging.ERROR, "wirelake.live"):
        run(main)
    assert "a handler failed" in caplog.text


def test_a_handler_that_gives_nothing_answers_with_an_empty_object():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            await client.respond("a", lambda asked: None)
            assert (await client.request("a", b"")).payload == b"{}"

    run(main)


def test_no_answer_in_time_is_a_time_out_and_leaves_nothing_behind():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            responder = await client.respond("slow", lambda asked: asyncio.sleep(60))
            with pytest.raises(RequestTimeout) as caught:
                await client.request("slow", timeout=0.05)
            assert isinstance(caught.value, TimeoutError)
            assert caught.value.rule == "request_timeout"
            assert not client._open and not client._session._calls
            await responder.stop()

    run(main)


def test_a_broker_that_says_nothing_does_not_make_us_wait_for_ever():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            live.session._handle = lambda *_: None
            with pytest.raises(RequestTimeout):
                await client.request("slow", timeout=0.05)
            assert not client._session._calls

    run(main)


def test_a_request_that_nobody_serves_is_told_at_once():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            with pytest.raises(AnswerError, match="NO_ROUTE_FOUND"):
                await client.request("nobody")

    run(main)


def test_a_cancelled_request_leaves_nothing_behind_and_its_late_answer_hurts_nobody():
    async def main() -> None:
        go_on = asyncio.Event()

        async def answer(asked: Request) -> Any:
            await go_on.wait()
            return asked.json()

        async with broker() as live, mb.connect(live.url()) as client:
            await client.respond("late", answer)
            tasks = [asyncio.ensure_future(client.request("late", number)) for number in range(10)]
            await until(lambda: len(client._session._calls) == 10)
            for task in tasks[:9]:
                task.cancel()
            await asyncio.wait(tasks[:9])
            assert len(client._open) == len(client._session._calls) == 1
            go_on.set()
            assert (await tasks[9]).json() == 9
            assert not client._open and not client._session._calls

    run(main)


def test_a_thousand_requests_at_once_each_get_their_own_answer():
    async def main() -> None:
        async def answer(asked: Request) -> Any:
            await asyncio.sleep(0)
            return asked.json() * 2

        async with broker() as live, mb.connect(live.url()) as service, mb.connect(live.url()) as client:
            await service.respond("double", answer, concurrency=50)
            answers = await asyncio.gather(*(client.request("double", number) for number in range(1000)))
            assert [one.json() for one in answers] == [2 * number for number in range(1000)]

    run(main)


def test_the_highest_priority_gets_the_requests_until_it_stops():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as one, mb.connect(live.url()) as two:
            await one.respond("a", lambda asked: 1, priority=1)
            better = await two.respond("a", lambda asked: 2, priority=2.5)
            assert {(await one.request("a")).json() for _ in range(20)} == {2}
            await better.close()
            assert {(await one.request("a")).json() for _ in range(20)} == {1}

    run(main)


def test_of_two_responders_of_one_client_the_higher_priority_answers_and_the_same_pattern_is_refused():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            await client.respond("a.+", lambda asked: "wide")
            await client.respond("a.b", lambda asked: "narrow", priority=1)
            assert (await client.request("a.b")).text == "narrow"
            assert (await client.request("a.c")).text == "wide"
            with pytest.raises(ValueError, match="already"):
                await client.respond("A.b", lambda asked: 0)

    run(main)


def test_closing_a_responder_waits_for_what_it_has_begun():
    async def main() -> None:
        go_on = asyncio.Event()

        async def answer(asked: Request) -> str:
            await go_on.wait()
            return "done"

        async with broker() as live, mb.connect(live.url()) as client:
            responder = await client.respond("a", answer, concurrency=1)
            asking = [asyncio.ensure_future(client.request("a")) for _ in range(3)]
            await until(lambda: len(live.session.requests.open) == 3)
            closing = asyncio.ensure_future(responder.close())
            await asyncio.sleep(0)
            assert not closing.done()
            go_on.set()
            await closing
            assert [(await one).text for one in asking] == ["done"] * 3
            with pytest.raises(AnswerError, match="NO_ROUTE_FOUND"):
                await client.request("a")

    run(main)


# --- slow applications


def test_a_slow_application_stops_the_reading_and_loses_nothing():
    async def main() -> None:
        async with (
            broker() as live,
            mb.connect(live.url()) as slow,
            mb.connect(live.url()) as quick,
            slow.subscribe("a", limit=10) as messages,
        ):
            for number in range(5000):
                await quick.publish("a", f"{number:0100}")
            await until(lambda: slow._connection.flow.is_stopped)
            most = 0
            for number in range(5000):
                most = max(most, messages.waiting)
                assert int((await messages.get(5)).text) == number
            assert most < 5000
            assert not slow._connection.flow.is_stopped

    run(main)


def test_a_loop_over_messages_may_ask_a_question_for_each_of_them():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client, mb.connect(live.url()) as other:
            await other.respond("double", lambda asked: asked.json() * 2)
            async with client.subscribe("number", limit=5) as messages:
                for number in range(200):
                    await other.publish("number", number)
                for number in range(200):
                    message = await messages.get(5)
                    assert (await client.request("double", message.payload, timeout=5)).json() == 2 * number

    run(main)


def test_the_oldest_are_dropped_and_counted_if_that_was_asked_for():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            async with client.subscribe("a", limit=3, overflow="drop") as messages, client.subscribe("end") as end:
                for number in range(10):
                    await client.publish("a", number)
                await client.publish("end", 0)
                await end.get(5)
                assert (messages.dropped, messages.waiting) == (7, 3)
                assert [(await messages.get()).json() for _ in range(3)] == [7, 8, 9]
            with pytest.raises(ValueError, match="overflow"):
                client.subscribe("a", overflow="explode")

    run(main)


def test_an_application_that_stands_still_does_not_lose_its_connection_to_heartbeats():
    async def main() -> None:
        async with broker() as live:
            client = await mb.connect(live.url())
            hasty(client, 0.05, 0.02)
            async with client, mb.connect(live.url()) as other, client.subscribe("a", limit=1) as messages:
                await other.publish("a", 1)
                await other.publish("a", 2)
                await until(lambda: client._connection.flow.is_stopped)
                before = live.session.counts["router.message.count"]
                await until(lambda: live.session.counts["router.message.count"] >= before + 3)
                assert client.is_connected
                assert [(await messages.get(5)).json() for _ in range(2)] == [1, 2]
                await client.request("system.heartbeat")

    run(main)


def hasty(client: Any, heartbeat: float, answer: float) -> None:
    """Heartbeats that do not take half a minute."""
    session = client._session
    session.options = ClientOptions(heartbeat_seconds=heartbeat, answer_seconds=answer)
    client._connection.do(lambda now: session._timers.set("silence", now + heartbeat))


def test_publishing_waits_while_the_connection_is_full():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url()) as client:
            (pipe,) = live.server.endpoint.pipes.values()
            pipe.transport.pause_reading()
            sent = 0

            async def flood() -> None:
                nonlocal sent
                while True:
                    await client.publish("a", b"x" * 16000)
                    sent += 1

            task = asyncio.ensure_future(flood())
            before = -1
            while before != sent:
                before = sent
                await asyncio.sleep(0.1)
            assert 0 < sent < 2000
            assert client._connection._pipe is not None and client._connection._pipe.link.unsent < 1 << 20
            pipe.transport.resume_reading()
            await until(lambda: sent > before)
            task.cancel()
            await asyncio.wait([task])

    run(main)


def test_answers_wait_while_the_connection_is_full():
    async def main() -> None:
        handled = 0

        def answer(asked: Request) -> bytes:
            nonlocal handled
            handled += 1
            return b"x" * 16000

        async with broker() as live, mb.connect(live.url()) as service, mb.connect(live.url()) as client:
            await service.respond("big", answer, concurrency=10)
            pipe = next(pipe for pipe in live.server.endpoint.pipes.values() if pipe.link.state.topics["request"])
            pipe.transport.pause_reading()
            asking = [asyncio.ensure_future(client.request("big", timeout=20)) for _ in range(1000)]
            before = -1
            while before != handled:
                before = handled
                await asyncio.sleep(0.1)
            assert handled < 1000
            assert service._connection._pipe is not None and service._connection._pipe.link.unsent < 1 << 20
            pipe.transport.resume_reading()
            assert {len((await one).payload) for one in asking} == {16000}
            assert handled == 1000

    run(main)


# --- losses


def test_after_a_loss_it_registers_and_subscribes_again_and_open_requests_fail():
    async def main() -> None:
        async with (
            broker() as live,
            mb.connect(live.url(), name="back", reconnect=QUICK) as client,
            client.subscribe("a.#") as messages,
        ):
            await client.respond("slow", lambda asked: asyncio.sleep(0.01, "answered"))
            await client.respond("never", lambda asked: asyncio.sleep(60))
            open_one = asyncio.ensure_future(client.request("never"))
            await until(lambda: bool(live.session.requests.open))
            await live.kill()
            with pytest.raises(ConnectionLost) as caught:
                await open_one
            assert isinstance(caught.value, ConnectionError)
            assert not client.is_connected
            await live.start()
            assert (await client.request("slow")).text == "answered"
            await client.publish("a.b", 1, confirm=True)
            assert (await messages.get(5)).json() == 1
            (service,) = (await client.request("system.service.list")).json()["services"]
            assert service["name"] == "back"

    run(main)


def test_what_is_asked_while_there_is_no_connection_waits_for_it():
    async def main() -> None:
        async with (
            broker() as live,
            mb.connect(live.url(), reconnect=QUICK) as client,
            client.subscribe("a") as messages,
        ):
            await live.kill()
            await until(lambda: not client.is_connected)
            publishing = asyncio.ensure_future(client.publish("a", 5))
            await asyncio.sleep(0)
            assert not publishing.done()
            await live.start()
            await publishing
            assert (await messages.get(5)).json() == 5

    run(main)


def test_what_waits_too_long_for_a_connection_is_lost():
    async def main() -> None:
        async with broker() as live, mb.connect(live.url(), reconnect=QUICK, timeout=0.2) as client:
            await live.kill()
            await until(lambda: not client.is_connected)
            with pytest.raises(ConnectionLost, match="no connection"):
                await client.publish("a", 1)

    run(main)


def test_without_reconnecting_a_loss_ends_everything():
    async def main() -> None:
        async with (
            broker() as live,
            mb.connect(live.url(), reconnect=False) as client,
            client.subscribe("a") as messages,
        ):
            waiting = asyncio.ensure_future(client.wait_closed())
            await live.kill()
            with pytest.raises(ConnectionLost):
                async for _ in messages:
                    pass
            with pytest.raises(ConnectionLost):
                await client.request("a")
            with pytest.raises(ConnectionLost):
                await waiting

    run(main)


def test_it_gives_up_after_as_many_attempts_as_it_was_given():
    async def main() -> None:
        policy = wirelake.live.drive.connection.Reconnect(seconds=0.01, most_seconds=0.01, attempts=2)
        async with (
            broker() as live,
            mb.connect(live.url(), reconnect=policy) as client,
            client.subscribe("a") as messages,
        ):
            await live.kill()
            with pytest.raises(ConnectionLost, match="2 attempts failed"):
                await messages.get(10)

    run(main)


def test_a_subscription_that_is_refused_after_a_loss_ends_with_that():
    async def main() -> None:
        async with (
            broker() as live,
            mb.connect(live.url(), reconnect=QUICK) as client,
            client.subscribe("a.+") as messages,
        ):
            await live.kill()
            from wirelake.live.mb.options import BrokerOptions
            from wirelake.live.mb.server import MbBroker

            live._make = lambda: MbBroker(options=BrokerOptions(wildcard_subscriptions=False))
            await live.start()
            with pytest.raises(Refused, match="INVALID_REQUEST"):
                await messages.get(10)

    run(main)


# --- connecting


def test_nobody_listens_there():
    async def main() -> None:
        async with broker() as live:
            url = live.url()
        with pytest.raises(ConnectionFailed, match="connection refused") as caught:
            await mb.connect(url)
        assert isinstance(caught.value, WireError) and isinstance(caught.value, ConnectionError)

    run(main)


def test_a_certificate_that_is_not_trusted_is_refused_unless_nobody_cares(authority: Authority):
    async def main() -> None:
        async with broker("tls", authority=authority) as live:
            with pytest.raises(ConnectionFailed, match="certificate is not trusted"):
                await mb.connect(live.url("tls"))
            async with mb.connect(live.url("tls"), verify=False) as client:
                assert client.is_connected
            with pytest.raises(ValueError, match="has no TLS"):
                mb.connect("mb://127.0.0.1:1", ca=authority.path)

    run(main)


def test_a_server_that_is_no_websocket_is_told_so():
    async def main() -> None:
        async with broker("tcp") as live:
            with pytest.raises(ConnectionFailed):
                await mb.connect(live.url().replace("mb:", "mb+ws:"), timeout=2)

    run(main)


def test_a_server_that_says_nothing_is_given_up():
    async def main() -> None:
        async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            with pytest.raises(ConnectionFailed, match=r"nothing was said within 0\.1 s"):
                await mb.connect(f"mb://127.0.0.1:{port}", timeout=0.1)
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(mb.connect(f"mb://127.0.0.1:{port}"), 0.1)

    run(main)


def test_a_broker_that_does_not_answer_the_registration_is_no_refusal():
    """It might do so when it is tried again."""

    async def main() -> None:
        async with broker() as live:
            live.session._system.answer = lambda *_: None
            client = mb.connect(live.url(), name="x")
            options = {"timeout_ms": 50, "grace_seconds": 0.0, "name": "x"}
            made = client._make()
            made._session.options = ClientOptions(**options)
            with pytest.raises(ConnectionFailed, match="registration of x"):
                await made._connection.open()

    run(main)


def test_a_url_of_another_protocol_is_refused():
    with pytest.raises(ValueError, match="not a URL of mb"):
        mb.connect("ceda://h")
    with pytest.raises(ValueError, match="not a protocol to connect to"):
        wirelake.connect("gopher://h")
