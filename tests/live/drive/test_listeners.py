"""Listening on every address of a host, on one port."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.live.toy import run
from wirelake.live.drive.listeners import address_of, listen, stop_listening


class Greeting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.WriteTransport)
        transport.write(b"hello")
        transport.close()


async def greeting_of(host: str, port: int) -> bytes:
    reader, writer = await asyncio.open_connection(host, port)
    data = await reader.read()
    writer.close()
    return data


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "*", ""])
def test_every_address_of_a_host_listens_on_the_port_that_was_picked(host: str) -> None:
    async def main() -> None:
        servers = await listen((host, 0), Greeting)
        (port,) = {address_of(server)[1] for server in servers}
        assert port > 0
        for server in servers:
            place = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(address_of(server)[0], address_of(server)[0])
            assert await greeting_of(place, port) == b"hello"
            server.close()

    run(main)


def test_a_port_in_use_is_refused_and_nothing_stays_open() -> None:
    async def main() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            with pytest.raises(OSError, match="in use"):
                await listen(taken.getsockname(), Greeting)

    run(main)


def test_listening_that_is_cancelled_leaves_nothing_open() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            address = free.getsockname()
        task = asyncio.create_task(listen(address, Greeting))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(*address)

    run(main)


def test_a_host_whose_addresses_are_elsewhere_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(OSError, match=r"[Aa]ssign"):
            await listen(("192.0.2.1", 0), Greeting)

    run(main)


def test_addresses_of_other_machines_are_left_out_if_one_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        def found(*_: object, **__: object) -> list[tuple[object, ...]]:
            kinds = (socket.AF_INET, socket.SOCK_STREAM, 6, "")
            return [(*kinds, ("192.0.2.1", 0)), (*kinds, ("127.0.0.1", 0))]

        monkeypatch.setattr(socket, "getaddrinfo", found)
        (server,) = await listen(("some.host", 0), Greeting)
        assert address_of(server)[0] == "127.0.0.1"
        server.close()

    run(main)


def test_accepted_connections_delay_no_short_message() -> None:
    """Without this option two short messages in a row wait 40 ms for an acknowledgement between them."""

    async def main() -> None:
        options: asyncio.Future[list[int]] = asyncio.get_running_loop().create_future()

        class Looks(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                accepted = transport.get_extra_info("socket")
                kinds = ((socket.IPPROTO_TCP, socket.TCP_NODELAY), (socket.SOL_SOCKET, socket.SO_KEEPALIVE))
                options.set_result([accepted.getsockopt(*kind) for kind in kinds])
                transport.close()

        (server,) = await listen(("127.0.0.1", 0), Looks)
        _, writer = await asyncio.open_connection(*address_of(server))
        assert await options == [1, 1]
        writer.close()
        server.close()

    run(main)


def test_who_was_accepted_just_before_the_end_is_served() -> None:
    async def main() -> None:
        servers = await listen(("127.0.0.1", 0), Greeting)
        address = address_of(servers[0])
        peer = socket.create_connection(address, timeout=10)
        for _ in range(2):  # accepted then, and nobody knows of it yet
            await asyncio.sleep(0)
        await stop_listening(servers)
        await asyncio.sleep(0)
        with peer:
            assert peer.recv(5) == b"hello"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)

    run(main)
