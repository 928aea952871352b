"""Clients and served domains over real sockets."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import wirelake
from tests.live.live import run
from tests.waiting import until
from wirelake.codec.content import FieldValue
from wirelake.live import AnswerError, ConnectionFailed, ConnectionLost, RequestTimeout
from wirelake.live.casual import ConversationEnd, Domain, NotEnqueued, Reply, RolledBack, ServiceFailed, Talk
from wirelake.live.casual.service import CasualSettings
from wirelake.live.hub.hub import Hub, HubSettings, SettingsError, read_settings

ANY = "127.0.0.1:0"


def settings(domain: Domain | None = None, **table: Any) -> HubSettings:
    """Settings of a hub with this domain: found by name, as a file would name it."""
    made = read_settings({"casual": {"tcp": ANY, "queues": ["q", "other"], **table}}, "test", Path())
    if domain is not None:
        service = made.services["casual"]
        assert isinstance(service, CasualSettings)
        object.__setattr__(service, "services", "served:domain")
        SERVED["domain"] = domain
    return made


SERVED: dict[str, Domain] = {}


@pytest.fixture(autouse=True)
def found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirelake.live.casual.service.find_object", lambda key, name, directory: SERVED["domain"])


def url(hub: Hub) -> str:
    return f"casual://{hub.listening['casual']}"


def shop() -> Domain:
    domain = Domain()

    @domain.service("echo", transaction="none")
    async def echo(value: Any) -> Any:
        return value

    @domain.service("thread", transaction="join")
    def thread(value: Any) -> Any:
        return {"thread": threading.current_thread().name, "value": value}

    @domain.service("fail")
    async def fail(value: Any) -> Any:
        return Reply({"why": value}, code=7, failed=True)

    @domain.service("slow", transaction="join")
    async def slow(value: Any) -> Any:
        await asyncio.Event().wait()

    @domain.service("order", transaction="auto")
    async def order(value: Any) -> Any:
        await domain.enqueue("q", value)
        if value == "bad":
            raise ValueError(value)
        return None

    @domain.service("order.thread", transaction="auto")
    def order_thread(value: Any) -> Any:
        domain.blocking.enqueue("q", value)
        return Reply(None, failed=value == "bad")

    @domain.service("twice", transaction="join")
    async def twice(value: Any) -> Any:
        return (await domain.call("echo", value)).value * 2

    @domain.conversational("sum")
    async def total(talk: Talk, first: Any) -> Any:
        numbers = [first]
        while not talk.has_control:
            numbers.append(await talk.receive())
        await talk.send("counting")
        return sum(numbers)

    return domain


def test_calls_of_all_kinds_of_values() -> None:
    async def main() -> None:
        async with Hub(settings(shop())) as hub, wirelake.connect(url(hub), name="client") as client:
            for value in ({"a": [1, None]}, "text", b"\xff\0", None, 17, (FieldValue(0x4000001, "long", 300),)):
                assert (await client.call("echo", value)).value == value
            assert await client.call("echo", "hi", type="CSTRING/") == Reply("hi", 0, False, "CSTRING/")
            told = (await client.call("thread", 1)).value
            assert told["value"] == 1 and told["thread"] != threading.current_thread().name
            assert (await client.call("twice", 4)).value == 8
            with pytest.raises(ServiceFailed) as failed:
                await client.call("fail", "no reason")
            assert (failed.value.value, failed.value.user_code) == ({"why": "no reason"}, 7)
            with pytest.raises(AnswerError, match="TPENOENT"):
                await client.call("nobody")
            with pytest.raises(RequestTimeout):
                await client.call("slow", timeout=0.05)
            await client.call("order", "quiet", no_reply=True)
            message = await client.dequeue("q", block=True)
            assert message is not None and message.value == "quiet"
            many = await asyncio.gather(*(client.call("echo", number) for number in range(500)))
            assert [reply.value for reply in many] == list(range(500))

    run(main)


def test_queues_and_their_selectors() -> None:
    async def main() -> None:
        async with Hub(settings(shop())) as hub, wirelake.connect(url(hub)) as client:
            first = await client.enqueue("q", {"n": 1}, properties="p", reply="other")
            later = datetime.now(UTC) + timedelta(hours=1)
            second = await client.enqueue("q", b"later", available=later)
            assert await client.dequeue("q", properties="x") is None
            message = await client.dequeue("q", properties="p")
            assert message is not None
            assert (message.id, message.value, message.reply, message.redelivered) == (first, {"n": 1}, "other", 0)
            assert await client.dequeue("q") is None
            message = await client.dequeue("q", id=second)
            assert message is not None and message.available is not None
            assert abs(message.available - later) < timedelta(milliseconds=1)
            with pytest.raises(NotEnqueued):
                await client.enqueue("missing", 1)
            assert await client.dequeue("missing") is None
            offers = await client.discover(["echo", "x"], ["q", "q.error", "x"])
            assert [(one.name, one.transaction, one.hops) for one in offers.services] == [("echo", "none", 1)]
            assert [one.name for one in offers.queues] == ["q", "q.error"]

    run(main)


def test_a_dequeue_that_was_given_up_gives_its_message_to_the_next_one() -> None:
    async def main() -> None:
        async with Hub(settings(shop())) as hub, wirelake.connect(url(hub)) as client:
            for _ in range(2):
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.05):
                        await client.dequeue("q", block=True)
            await client.enqueue("q", "late")
            message = await client.dequeue("q", block=True)
            assert message is not None and message.value == "late"

    run(main)


@pytest.mark.parametrize("service", ["order", "order.thread"])
def test_what_a_service_enqueues_belongs_to_its_transaction(service: str) -> None:
    async def main() -> None:
        async with Hub(settings(shop())) as hub, wirelake.connect(url(hub)) as client:
            with pytest.raises(AnswerError):
                await client.call(service, "bad")
            assert await client.dequeue("q") is None, "its own transaction was rolled back"
            await client.call(service, "good")
            message = await client.dequeue("q")
            assert message is not None and message.value == "good"
            with pytest.raises(ZeroDivisionError):
                async with client.transaction() as tx:
                    await client.call(service, "never")
                    1 / 0  # noqa: B018
            assert tx.outcome == "rolled_back" and await client.dequeue("q") is None
            async with client.transaction() as tx:
                await client.call(service, "joined")
                assert await client.dequeue("q", transaction=None) is None
            message = await client.dequeue("q")
            assert tx.outcome == "committed" and message is not None and message.value == "joined"

    run(main)


def test_a_transaction_over_two_domains() -> None:
    async def main() -> None:
        async with Hub(settings(shop())) as one:
            place = one.listening["casual"]
            async with Hub(settings(shop())) as two:
                there = two.listening["casual"]
                async with wirelake.connect(url(one), peers=[url(two)]) as client:
                    await client.enqueue("q", "coin")
                    async with client.transaction() as tx:
                        coin = await client.dequeue("q")
                        assert coin is not None
                        await client.enqueue("q", coin.value, peer=there)
                    assert tx.outcome == "committed"
                    assert await client.dequeue("q", peer=place) is None
                    with pytest.raises(RolledBack):
                        async with client.transaction():
                            coin = await client.dequeue("q", peer=there)
                            assert coin is not None
                            with pytest.raises(AnswerError):
                                await client.call("order", "bad", peer=place)
                    coin = await client.dequeue("q.error", peer=there)
                    assert coin is not None and coin.value == "coin", "without retries the first rollback moves it"

    run(main)


def test_conversations() -> None:
    async def main() -> None:
        for profile in ("document", "late"):
            async with Hub(settings(shop())) as hub, wirelake.connect(url(hub), profile=profile) as client:
                async with await client.conversation("sum", 1) as talk:
                    await talk.send(2)
                    await talk.send(3, passes_control=True)
                    with pytest.raises(RuntimeError, match="control"):
                        await talk.send(4)
                    assert await talk.receive() == "counting"
                    with pytest.raises(ConversationEnd) as end:
                        await talk.receive()
                    assert end.value.status == "OK" and talk.result is not None and talk.result.value == 6
                with pytest.raises(AnswerError, match="TPENOENT"):
                    await client.conversation("nobody")
                async with await client.conversation("sum", 1):
                    pass
                await until(lambda: not any(link.state.conversations for link in links(hub)))

    run(main)


def links(hub: Hub) -> list[Any]:
    return [pipe.link for pipe in hub.servers["casual"].endpoint.pipes.values()]


def test_a_participant_is_a_client_without_a_socket() -> None:
    async def main() -> None:
        async with Hub(settings(shop())) as hub, hub.participant("casual") as inside:
            assert (await inside.call("echo", 5)).value == 5

    run(main)


def test_threads_use_a_client_too() -> None:
    async def main() -> None:
        async with Hub(settings(shop())) as hub, wirelake.connect(url(hub)) as client:

            def work() -> Any:
                client.blocking.enqueue("q", "from a thread")
                message = client.blocking.dequeue("q")
                assert message is not None and client.blocking.discover(["echo"]).services
                return client.blocking.call("echo", message.value).value

            assert await asyncio.to_thread(work) == "from a thread"

    run(main)


def test_a_lost_connection_comes_back() -> None:
    async def main() -> None:
        async with Hub(settings(shop())) as hub, wirelake.connect(url(hub)) as client:
            waiting = asyncio.create_task(client.call("slow"))
            await until(lambda: hub.servers["casual"].session.counts["calls"])
            hub.servers["casual"].cut()
            with pytest.raises(AnswerError, match="TPESVCERR"):
                await waiting
            assert (await client.call("echo", 1)).value == 1 and client.is_connected

    run(main)


def test_without_reconnecting_a_loss_is_the_end() -> None:
    async def main() -> None:
        async with Hub(settings(shop())) as hub, wirelake.connect(url(hub), reconnect=False) as client:
            hub.servers["casual"].cut()
            with pytest.raises(ConnectionLost):
                await client.wait_closed()
            with pytest.raises(ConnectionLost):
                await client.call("echo", 1)

    run(main)


def test_nobody_is_there() -> None:
    async def main() -> None:
        with pytest.raises(ConnectionFailed, match="cannot connect"):
            await wirelake.connect("casual://127.0.0.1:9", timeout=5)

    run(main)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: wirelake.connect("casual://host"), "no usual port"),
        (lambda: wirelake.connect("casual+tls://host:1"), "not a protocol"),
        (lambda: wirelake.connect("casual://host:1", ca="x"), "no TLS"),
        (lambda: Domain().service("x", transaction="maybe"), "auto, join, atomic, none"),
        (lambda: Domain().service("x" * 128)(lambda value: value), "1 to 127 bytes"),
    ],
)
def test_what_makes_no_sense_is_refused(call: Callable[[], Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        call()


def test_domains_dial_each_other_in_both_directions() -> None:
    """The middle one dials a domain that serves it, and is dialled by one that serves it too."""

    async def main() -> None:
        async with Hub(settings(shop())) as below:
            caller = Domain()
            middle = settings(caller, peers=[below.listening["casual"]], reverse=ANY)
            async with Hub(middle) as hub:
                office = Domain()
                office.service("office")(lambda value: f"office {value}")
                address = hub.listening["casual-reverse"]
                async with (
                    Hub(settings(office, peers=[{"address": address, "reverse": True}], name="office")),
                    wirelake.connect(url(hub)) as client,
                ):
                    session: Any = hub.servers["casual"].session
                    await until(lambda: len(session.peers.ready()) == 2)
                    assert (await client.call("echo", 1)).value == 1, "passed on to a domain that we dialled"
                    assert (await client.call("office", 2)).value == "office 2", "to one that dialled us"
                    offers = await client.discover(["echo", "office"])
                    assert [(one.name, one.hops) for one in offers.services] == [("echo", 2), ("office", 2)]

    run(main)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"queues": ["a", "a"]}, "a is there twice"),
        ({"profile": "old"}, "document or late"),
        ({"peers": [{"reverse": True}]}, "address"),
        ({"queues": [{"nam": "x"}]}, "queues[0].nam: no such key"),
        ({"queues": "x"}, "a list of tables"),
    ],
)
def test_settings_that_make_no_sense_are_refused(table: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings(**table)
    assert told in str(caught.value)
