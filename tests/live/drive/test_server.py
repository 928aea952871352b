"""Listeners: addresses, TLS and its certificates, limits of connections and of handshakes."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import tracemalloc
from pathlib import Path

import pytest
from websockets.asyncio.client import connect

from tests.live.certificates import Authority, common_name
from tests.live.toy import LINES, Peer, ToyServer, deaf_socket, run, serving
from tests.waiting import until
from wirelake.live.core.address import Address, show_address
from wirelake.live.drive import endpoint as endpoint_module
from wirelake.live.drive.endpoint import Limits
from wirelake.live.drive.server import Certificate, Server


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


async def tls_server(authority: Authority, session: ToyServer, **more: object) -> tuple[Server, Address]:
    server = Server("toy", session, LINES, **more)  # type: ignore[arg-type]
    certificate = Certificate(*authority.issue("server one"))
    return server, await server.listen(("127.0.0.1", 0), certificate=certificate)


async def name_shown(address: Address, context: ssl.SSLContext) -> str:
    peer = await Peer.to(address, ssl=context, server_hostname="localhost")
    return common_name(peer.writer.get_extra_info("peercert"))


async def _connected(address: Address, data: bytes, count: int) -> list[socket.socket]:
    """Sockets that have sent this."""
    sockets = [socket.create_connection(address) for _ in range(count)]
    for one in sockets:
        one.sendall(data)
    return sockets


def test_handshakes_take_little_memory_and_leave_none_without_looking_for_cycles(authority: Authority) -> None:
    count = 40

    async def main() -> None:
        server, address = await tls_server(authority, ToyServer())
        gc.collect()
        gc.disable()
        tracemalloc.start()
        try:
            begun = await _connected(address, b"\x16\x03\x01\x02\x00\x01", count)  # the beginning of a handshake
            await until(lambda: len(server._doors) == count)
            assert tracemalloc.get_traced_memory()[0] < count * 100_000
            others = await _connected(address, b"abcdef", count)
            await until(lambda: server.tls_failures == count)
            for one in (*begun, *others):
                one.close()
            await until(lambda: server.tls_failures == 2 * count and not server.connections)
            await asyncio.sleep(0.01)
            assert tracemalloc.get_traced_memory()[0] < count * 20_000
        finally:
            tracemalloc.stop()
            gc.enable()
        await server.close(0)

    run(main)


# --- addresses


def test_one_session_serves_several_listeners() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (server, first):
            second = await server.listen(("127.0.0.1", 0))
            third = await server.listen(("127.0.0.1", 0), websocket=True)
            assert len({first[1], second[1], third[1]}) == 3
            one, two = await Peer.to(first), await Peer.to(second)
            async with connect(f"ws://127.0.0.1:{third[1]}") as client:
                assert await client.recv() == b"hello"
                one.say(b"all here")
                assert [await one.line(), await two.line(), await client.recv()] == [b"here"] * 3

    run(main)


def test_a_port_that_is_in_use_is_refused() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (server, address):
            with pytest.raises(OSError, match="in use"):
                await server.listen(address)

    run(main)


def test_all_addresses_of_a_host_get_the_same_port() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (server, _):
            host, port = await server.listen(("*", 0))
            assert port > 0 and host in ("0.0.0.0", "::")
            await Peer.to(("127.0.0.1", port))
            if socket.has_ipv6:
                try:
                    peer = await Peer.to(("::1", port))
                except OSError:
                    return
                number = max(server.endpoint.pipes)
                assert server.endpoint.pipes[number].link.peer.startswith("[::1]:")
                peer.leave()

    run(main)


def test_addresses_are_shown_as_people_write_them() -> None:
    assert show_address(("127.0.0.1", 80)) == "127.0.0.1:80"
    assert show_address(("::1", 80, 0, 0)) == "[::1]:80"
    assert show_address("run/socket") == "run/socket"
    assert show_address(None) == ""


# --- limits


def test_one_connection_too_many_is_closed_at_once_and_there_is_room_again_later() -> None:
    async def main() -> None:
        async with serving(ToyServer(), limits=Limits(connections=2)) as (server, address):
            one, two = await Peer.to(address), await Peer.to(address)
            for _ in range(3):
                refused = Peer(*await asyncio.open_connection(*address))
                assert await refused.reader.read() == b""
            assert server.refused == 3 and server.connections == 2
            two.say(b"echo still here")
            assert await two.line() == b"still here"
            one.leave()
            await until(lambda: server.connections == 1)
            await Peer.to(address)

    run(main)


def test_a_burst_of_connections_does_not_slip_past_the_limit() -> None:
    async def main() -> None:
        async with serving(ToyServer(), limits=Limits(connections=3)) as (server, address):
            burst = [socket.create_connection(address) for _ in range(20)]  # all there before one is accepted
            await until(lambda: server.endpoint.accepted + server.refused == 20)
            assert (server.endpoint.accepted, server.connections) == (3, 3)
            for one in burst:
                one.close()

    run(main)


def test_connections_that_never_shake_hands_count_and_are_cut_off(authority: Authority) -> None:
    async def main() -> None:
        limits = Limits(connections=2, handshake_seconds=0.2)
        server, address = await tls_server(authority, ToyServer(), limits=limits)
        silent = [Peer(*await asyncio.open_connection(*address)) for _ in range(2)]
        await until(lambda: server.connections == 2)
        refused = Peer(*await asyncio.open_connection(*address))
        assert await refused.reader.read() == b""
        for peer in silent:
            assert await peer.reader.read() == b""
        await until(lambda: server.connections == 0)
        assert (server.refused, server.tls_failures, server.endpoint.accepted) == (1, 2, 0)
        assert await name_shown(address, authority.client()) == "server one"
        Peer.leave_all()
        await server.close()

    run(main)


# --- TLS


def test_tls_carries_everything_that_tcp_does(authority: Authority) -> None:
    async def main() -> None:
        server, address = await tls_server(authority, ToyServer(max_unsent=64 << 20))
        peers = [await Peer.to(address, ssl=authority.client(), server_hostname="localhost") for _ in range(3)]
        for peer in peers:
            peer.say(b"say 8000000", b"echo end")
        for peer in peers:
            assert len(await peer.line()) == 8_000_000
            assert await peer.line() == b"end"
        peers[0].say(b"close now")
        assert await peers[0].reader.read() == b""
        Peer.leave_all()
        await until(lambda: not server.connections)
        await server.close()

    run(main)


def test_what_comes_right_behind_the_handshake_is_not_lost(authority: Authority) -> None:
    def talk(address: Address) -> bytes:
        """With a blocking socket the first line is on its way before the server has seen the end of the handshake."""
        plain = socket.create_connection(address)
        with authority.client().wrap_socket(plain, server_hostname="localhost") as secure:
            secure.sendall(b"echo at once\n")
            found = b""
            while not found.endswith(b"once\n"):
                found += secure.recv(100)
            return found

    async def main() -> None:
        server, address = await tls_server(authority, ToyServer())
        for answer in await asyncio.gather(*(asyncio.to_thread(talk, address) for _ in range(20))):
            assert answer == b"hello\nat once\n"
        await until(lambda: not server.connections)
        await server.close()

    run(main)


def test_a_slow_reader_on_tls_is_dropped_and_does_not_fill_the_memory(authority: Authority) -> None:
    async def main() -> None:
        session = ToyServer(max_unsent=4 << 20)
        server, address = await tls_server(authority, session)
        deaf = Peer(*await asyncio.open_connection(*address, ssl=authority.client(), server_hostname="localhost"))
        deaf.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await until(lambda: len(session.links) == 1)
        most = 0
        for _ in range(1_000):
            deaf.say(b"say 50000")
            await asyncio.sleep(0)
            most = max(most, server.endpoint.unsent)
            if session.counts["too_slow"]:
                break
        await until(lambda: session.counts["too_slow"] == 1 and not session.links)
        assert most < 5 << 20
        deaf.writer.transport.abort()
        await server.close()

    run(main)


def test_old_versions_of_tls_are_refused(authority: Authority) -> None:
    async def main() -> None:
        server, address = await tls_server(authority, ToyServer())
        context = authority.client()
        with pytest.warns(DeprecationWarning):
            context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
        context.set_ciphers("ALL:@SECLEVEL=0")
        with pytest.raises(OSError):
            await asyncio.open_connection(*address, ssl=context, server_hostname="localhost")
        context = authority.client()
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert await name_shown(address, context) == "server one"
        Peer.leave_all()
        await server.close()

    run(main)


def test_who_speaks_no_tls_is_closed(authority: Authority) -> None:
    async def main() -> None:
        server, address = await tls_server(authority, ToyServer())
        peer = Peer(*await asyncio.open_connection(*address))
        peer.say(b"echo in the clear")
        assert b"clear" not in await peer.reader.read()
        await until(lambda: server.tls_failures == 1)
        Peer.leave_all()
        await server.close()

    run(main)


def test_clients_need_a_certificate_if_an_authority_is_named(tmp_path: Path) -> None:
    ours, theirs = Authority(tmp_path / "ours"), Authority(tmp_path / "theirs", "Others")

    async def main() -> None:
        server = Server("toy", ToyServer(), LINES)
        certificate = Certificate(*ours.issue("server"), client_ca=ours.path)
        address = await server.listen(("127.0.0.1", 0), certificate=certificate)
        peer = await Peer.to(address, ssl=ours.client(ours.issue("me", "me")), server_hostname="localhost")
        peer.say(b"echo welcome")
        assert await peer.line() == b"welcome"
        for shown in (None, theirs.issue("stranger", "stranger")):
            with pytest.raises((OSError, asyncio.IncompleteReadError)):
                await Peer.to(address, ssl=ours.client(shown), server_hostname="localhost")
        assert server.endpoint.accepted == 1 and server.tls_failures == 2
        Peer.leave_all()
        await server.close()

    run(main)


def test_certificates_are_read_again_for_new_connections_only(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def main() -> None:
        server, address = await tls_server(authority, ToyServer())
        context = authority.client()
        old = await Peer.to(address, ssl=context, server_hostname="localhost")
        authority.issue("server two")
        assert await name_shown(address, context) == "server one"
        server.contexts = server.read_certificates()
        assert await name_shown(address, context) == "server two"
        old.say(b"echo still here")
        assert await old.line() == b"still here"
        Peer.leave_all()
        await server.close()

    run(main)


def test_certificates_that_make_no_sense_change_nothing(tmp_path: Path) -> None:
    authority = Authority(tmp_path)

    async def main() -> None:
        server, address = await tls_server(authority, ToyServer())
        key = tmp_path / "server.key"
        authority.issue("another", "another")
        key.write_bytes((tmp_path / "another.key").read_bytes())
        with pytest.raises(ValueError, match=r"server\.pem.*not the key of the certificate"):
            server.contexts = server.read_certificates()
        (tmp_path / "server.pem").write_text("nonsense")
        with pytest.raises(ValueError, match="PEM"):
            server.contexts = server.read_certificates()
        key.unlink()
        with pytest.raises(FileNotFoundError, match=r"server\.key"):
            server.contexts = server.read_certificates()
        assert await name_shown(address, authority.client()) == "server one"
        Peer.leave_all()
        await server.close()

    run(main)


def test_websocket_over_tls(authority: Authority) -> None:
    async def main() -> None:
        server = Server("toy", ToyServer(), LINES, is_text=True)
        certificate = Certificate(*authority.issue("server"))
        address = await server.listen(("127.0.0.1", 0), websocket=True, certificate=certificate)
        async with connect(f"wss://localhost:{address[1]}", ssl=authority.client(), max_size=None) as client:
            assert await client.recv() == "hello"
            await client.send("say 3000000")
            assert len(await client.recv()) == 3_000_000
        await until(lambda: not server.connections)
        await server.close()

    run(main)


# --- the end


def test_a_shutdown_cuts_handshakes_and_lets_connections_drain(authority: Authority) -> None:
    async def main() -> None:
        server, address = await tls_server(authority, ToyServer(max_unsent=64 << 20))
        peer = await Peer.to(address, ssl=authority.client(), server_hostname="localhost")
        silent = Peer(*await asyncio.open_connection(*address))
        await until(lambda: server.connections == 2)
        peer.say(b"say 6000000")
        await until(lambda: server.session.counts["lines"] == 1)
        closing = asyncio.create_task(server.close(10))
        assert len(await peer.line()) == 6_000_000
        assert await peer.reader.read() == b""
        assert await silent.reader.read() == b""
        Peer.leave_all()
        await closing
        assert server.connections == 0

    run(main)


def test_half_open_peers_are_forgotten_when_they_are_written_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer whose machine is gone answers nothing. Here it reads nothing; what it is sent stays unsent."""
    monkeypatch.setattr(endpoint_module, "WATCH_SECONDS", 0.05)

    async def main() -> None:
        session = ToyServer()
        async with serving(session, limits=Limits(slow_reader="slow", stall_seconds=0.2)) as (server, address):
            gone = [deaf_socket(address) for _ in range(10)]
            peer = await Peer.to(address)
            await until(lambda: len(session.links) == 11)
            for _ in range(800):
                peer.say(b"all " + b"x" * 9_999)
                await peer.line()
            await until(lambda: len(session.links) == 1)
            assert server.endpoint.stalled == 10
            for one in gone:
                one.close()

    run(main)
