"""Clients on a network that splits, delays and cuts, of all protocols alike."""

from __future__ import annotations

import asyncio
import gc
import pickle
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

import wirelake
from tests.live.faults import FaultyNetwork
from tests.live.live import QUICK, Live, broker, ceda_server, run
from tests.waiting import until
from wirelake.errors import ProtocolError, WireError
from wirelake.live import AnswerError, ConnectionFailed, ConnectionLost, LiveError, Refused, RequestTimeout

PROTOCOLS = pytest.mark.parametrize("protocol", ["mb", "ceda"])


@asynccontextmanager
async def serving(protocol: str) -> AsyncIterator[Live]:
    async with broker() if protocol == "mb" else ceda_server() as live:
        yield live


def opening(protocol: str, port: int, **options: Any) -> Any:
    login = "me:secret@" if protocol == "ceda" else ""
    return wirelake.connect(f"{protocol}://{login}127.0.0.1:{port}", **options)


def number_of(message: Any) -> int:
    return int(message.record[1] if hasattr(message, "record") else message.json()["1"])


def payload(protocol: str, number: int) -> Any:
    return {1: number} if protocol == "ceda" else {"1": number}


@PROTOCOLS
@pytest.mark.parametrize("longest", [1, 7, 200])
def test_pieces_of_any_size_make_the_same_messages(protocol: str, longest: int):
    async def main() -> None:
        async with (
            serving(protocol) as live,
            FaultyNetwork(("127.0.0.1", live.ports["tcp"]), longest=longest) as net,
            opening(protocol, net.address[1]) as client,
            client.subscribe("a") as messages,
        ):
            await client.respond("echo", lambda asked: payload(protocol, number_of(asked)))
            async with opening(protocol, net.address[1]) as other:
                for number in range(20):
                    await other.publish("a", payload(protocol, number))
                    assert number_of(await other.request("echo", payload(protocol, number))) == number
            assert [number_of(await messages.get(5)) for _ in range(20)] == list(range(20))

    run(main)


@PROTOCOLS
def test_a_connection_that_is_cut_again_and_again_is_made_again_and_again(protocol: str):
    """Every request is answered rightly or fails with ConnectionLost, and in the end all is as it was."""

    async def main() -> None:
        async with serving(protocol) as live, opening(protocol, live.ports["tcp"]) as service:
            await service.respond("echo", lambda asked: payload(protocol, number_of(asked)))
            async with (
                FaultyNetwork(("127.0.0.1", live.ports["tcp"]), cut_after=1500, longest=50) as net,
                opening(protocol, net.address[1], reconnect=QUICK) as client,
                client.subscribe("a") as messages,
            ):
                answered = lost = 0
                for number in range(200):
                    try:
                        assert number_of(await client.request("echo", payload(protocol, number), timeout=5)) == number
                        answered += 1
                    except ConnectionLost:
                        lost += 1
                assert net.cuts > 3
                assert lost <= net.cuts and answered == 200 - lost
                assert not client._open
                net.cut_after = 0
                net.cut()
                await until(lambda: not client.is_connected)
                await until(lambda: client.is_connected)
                async with client.subscribe("b"):  # when this holds, what was said before it holds too
                    await service.publish("a", payload(protocol, 7))
                assert number_of(await messages.get(5)) == 7

    run(main)


@PROTOCOLS
def test_a_server_that_falls_silent_does_not_hold_up_closing(protocol: str):
    async def main() -> None:
        async with serving(protocol) as live, FaultyNetwork(("127.0.0.1", live.ports["tcp"])) as net:
            client = await opening(protocol, net.address[1])
            net.stall()
            with pytest.raises(RequestTimeout):
                await client.request("nobody", payload(protocol, 1), timeout=0.05)
            start = asyncio.get_running_loop().time()
            await client.close()
            assert asyncio.get_running_loop().time() - start < 5

    run(main)


@PROTOCOLS
def test_closing_while_it_is_coming_back_ends_at_once(protocol: str):
    async def main() -> None:
        async with serving(protocol) as live:
            client = await opening(protocol, live.ports["tcp"])
            waiting = asyncio.ensure_future(client.wait_closed())
            await live.kill()
            await until(lambda: not client.is_connected)
            publishing = asyncio.ensure_future(client.publish("a", payload(protocol, 1)))
            await asyncio.sleep(0)
            await client.close()
            with pytest.raises(ConnectionLost, match="closed"):
                await publishing
            await waiting
            await client.close()

    run(main)


@PROTOCOLS
def test_closing_stops_handlers_and_open_requests_fail(protocol: str):
    async def main() -> None:
        ended = asyncio.Event()

        async def stay(asked: Any) -> None:
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()

        async with serving(protocol) as live, opening(protocol, live.ports["tcp"]) as asker:
            client = await opening(protocol, live.ports["tcp"])
            await client.respond("stay", stay)
            own = asyncio.ensure_future(client.request("nothing.there", payload(protocol, 1)))
            asking = asyncio.ensure_future(asker.request("stay", payload(protocol, 1)))
            await until(lambda: bool(client._responders[0]._running))
            await client.close()
            await ended.wait()
            with pytest.raises((ConnectionLost, AnswerError)):
                await own
            asking.cancel()
            await asyncio.wait([asking])

    run(main)


@PROTOCOLS
def test_cancelling_anything_at_any_moment_leaves_a_client_that_works(protocol: str):
    async def main() -> None:
        async with serving(protocol) as live, opening(protocol, live.ports["tcp"]) as client:
            await client.respond("echo", lambda asked: payload(protocol, number_of(asked)))

            async def subscribe() -> None:
                async with client.subscribe("x.y") as messages:
                    await messages.get()

            calls: list[Callable[[], Awaitable[Any]]] = [
                lambda: client.request("echo", payload(protocol, 1)),
                lambda: client.publish("a", payload(protocol, 1)),
                subscribe,
            ]
            for turns in range(12):
                for call in calls:
                    task = asyncio.ensure_future(call())
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    task.cancel()
                    await asyncio.wait([task])
            assert number_of(await client.request("echo", payload(protocol, 5))) == 5
            assert not client._open and not client._subscriptions

    run(main)


@PROTOCOLS
def test_cancelling_while_it_connects_leaves_no_connection_behind(protocol: str):
    async def main() -> None:
        async with serving(protocol) as live:
            for turns in range(0, 30, 3):
                task = asyncio.ensure_future(opening(protocol, live.ports["tcp"]).__aenter__())
                for _ in range(turns):
                    await asyncio.sleep(0)
                if task.done():
                    await task.result().close()
                task.cancel()
                await asyncio.wait([task])
            await until(lambda: not live.server.endpoint.pipes)

    run(main)


@PROTOCOLS
def test_a_client_that_is_closed_is_not_kept_alive_by_anything(protocol: str):
    async def main() -> None:
        async with serving(protocol) as live:
            async with opening(protocol, live.ports["tcp"]) as client:
                await client.respond("echo", lambda asked: None)
                async with client.subscribe("a"):
                    pass
            gone = weakref.ref(client)
            del client
            for _ in range(3):
                await asyncio.sleep(0)
                gc.collect()
            assert gone() is None

    run(main)


@PROTOCOLS
def test_a_message_to_itself_is_not_needed_to_see_that_it_is_connected(protocol: str):
    async def main() -> None:
        async with serving(protocol) as live:
            client = await opening(protocol, live.ports["tcp"])
            assert client.is_connected and "connected" in repr(client)
            await client.close()
            assert not client.is_connected and "closed" in repr(client)

    run(main)


@pytest.mark.parametrize(
    "error",
    [
        ConnectionFailed("a"),
        ConnectionLost("b"),
        Refused("c"),
        RequestTimeout("d"),
        AnswerError("CODE", "text", {"a": 1}),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_are_of_one_family_and_can_be_pickled(error: LiveError):
    assert isinstance(error, ProtocolError) and isinstance(error, WireError)
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
    assert error.rule in str(error)
