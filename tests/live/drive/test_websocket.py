"""WebSocket with the client of another library, and with bytes that no library would send."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.frames import Frame, Opcode

from tests.live.mb.play import unframe_websocket
from tests.live.toy import LINES, Peer, ToyServer, run
from tests.waiting import until
from wirelake.live.core.address import Address
from wirelake.live.drive import pipe as pipe_module
from wirelake.live.drive.endpoint import Limits
from wirelake.live.drive.server import Server
from wirelake.live.drive.websocket import MAX_UPGRADE_BYTES, WebSocketFraming

UPGRADE = (
    b"GET /any/path HTTP/1.1\r\nHost: localhost\r\nUpgrade: WebSocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 70000])
def test_frames_have_the_length_that_fits(size: int) -> None:
    wire = WebSocketFraming(is_text=True).wrap(b"x" * size)
    assert unframe_websocket(wire) == [b"x" * size]
    assert wire[0] == 0x81
    assert len(wire) - size == (2 if size < 126 else 4 if size < 65536 else 10)
    assert WebSocketFraming(is_text=True).wrap(b"\xff")[0] == 0x82


@asynccontextmanager
async def serving(session: ToyServer, *, is_text: bool = True, **more: Any) -> AsyncIterator[tuple[Server, Address]]:
    server = Server("toy", session, LINES, is_text=is_text, **more)
    address = await server.listen(("127.0.0.1", 0), websocket=True)
    try:
        yield server, address
    finally:
        Peer.leave_all()
        await server.close(1.0)


def url(address: Address) -> str:
    return f"ws://{address[0]}:{address[1]}/some/path"


async def raw(address: Address) -> Peer:
    """A connection whose upgrade is done, for bytes of our own."""
    peer = Peer(*await asyncio.open_connection(*address))
    peer.writer.write(UPGRADE)
    answer = await peer.reader.readuntil(b"\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 101 ") and len(answer) < 512 and b"WebSocket" in answer
    assert await peer.reader.readexactly(7) == b"\x81\x05hello"
    return peer


def frame(opcode: Opcode, data: bytes, fin: bool = True) -> bytes:
    return Frame(opcode, data, fin).serialize(mask=True)


async def close_of(connection: ClientConnection) -> tuple[int, str]:
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            await connection.recv()
    closed = caught.value.rcvd
    assert closed is not None
    return closed.code, closed.reason


def test_messages_go_both_ways_on_any_path() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_, address), connect(url(address)) as client:
            assert await client.recv() == "hello"
            await client.send("echo text")
            await client.send(b"echo bytes")
            await client.send(["echo ", "frag", "ments"])
            assert [await client.recv() for _ in range(3)] == ["text", "bytes", "fragments"]

    run(main)


def test_what_is_not_utf8_goes_as_binary_and_without_text_everything_does() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_, address), connect(url(address)) as client:
            await client.recv()
            await client.send(b"echo \xff\xfe")
            assert await client.recv() == b"\xff\xfe"
        async with serving(ToyServer(), is_text=False) as (_, address), connect(url(address)) as client:
            assert await client.recv() == b"hello"

    run(main)


def test_long_messages_arrive_whole() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_, address), connect(url(address), max_size=None) as client:
            await client.recv()
            for size in (125, 126, 65_535, 65_536, 3_000_000):
                await client.send(f"say {size}")
                assert await client.recv() == "x" * size

    run(main)


def test_a_message_of_a_client_may_be_as_long_as_the_limit_says_and_no_longer() -> None:
    async def main() -> None:
        async with serving(ToyServer(), max_message=1000) as (_, address):
            async with connect(url(address)) as client:
                await client.recv()
                await client.send(b"echo " + b"a" * 995)
                assert len(await client.recv()) == 995
                await client.send(b"echo " + b"a" * 996)
                assert await close_of(client) == (1009, "")
            async with connect(url(address)) as client:
                await client.recv()
                await client.send([b"echo " + b"a" * 600, b"a" * 600])
                assert await close_of(client) == (1009, "")

    run(main)


def test_text_that_is_not_utf8_is_closed_with_1007_and_what_came_before_is_answered() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_, address):
            peer = await raw(address)
            messages = [frame(Opcode.TEXT, b"echo before"), frame(Opcode.TEXT, b"echo \xff"), frame(Opcode.TEXT, b"x")]
            peer.writer.write(b"".join(messages))
            assert await peer.reader.read() == b"\x81\x06before" + b"\x88\x02\x03\xef"

    run(main)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x81\x01a", 1002),  # a client has to mask
        (b"\xf1\x80abcd", 1002),  # reserved bits
        (b"\x83\x80abcd", 1002),  # an unknown opcode
        (b"\x80\x80abcd", 1002),  # the middle of no message
        (b"\x09\x80abcd", 1002),  # half a ping
        (b"\x81\xff" + b"\xff" * 8, 1009),  # a length beyond all bounds
    ],
)
def test_frames_that_make_no_sense_are_closed_with_their_code(data: bytes, code: int) -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_, address):
            peer = await raw(address)
            peer.writer.write(frame(Opcode.BINARY, b"echo a") + data)
            assert await peer.reader.read() == b"\x81\x01a" + b"\x88\x02" + code.to_bytes(2, "big")

    run(main)


def test_bytes_may_come_one_at_a_time() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_, address):
            peer = Peer(*await asyncio.open_connection(*address))
            for byte in UPGRADE + frame(Opcode.TEXT, b"echo slowly"):
                peer.writer.write(bytes([byte]))
                await asyncio.sleep(0)
            await peer.reader.readuntil(b"\r\n\r\n")
            assert await peer.reader.readexactly(15) == b"\x81\x05hello\x81\x06slowly"

    run(main)


def test_a_ping_is_answered_and_we_never_ping() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_, address):
            peer = await raw(address)
            peer.writer.write(frame(Opcode.PING, b"are you there"))
            assert await peer.reader.readexactly(15) == b"\x8a\x0dare you there"

    run(main)


def test_pings_of_who_does_not_read_do_not_pile_up() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (server, address):
            deaf = socket.socket()
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.connect(address)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            pings = frame(Opcode.PING, b"x" * 125) * 1000
            await loop.sock_sendall(deaf, UPGRADE)
            await until(lambda: len(server.session.links) == 1)  # type: ignore[attr-defined]
            for _ in range(80):
                await loop.sock_sendall(deaf, pings)
            await until(lambda: server.endpoint.received >= 80 * len(pings))
            assert server.endpoint.unsent < 1 << 20
            deaf.close()

    run(main)


# --- closing


def test_the_session_closes_with_its_code_and_reason() -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (_, address), connect(url(address)) as client:
            await client.send("close it is over")
            assert await close_of(client) == (4000, "it is over")
            await until(lambda: not session.links)

    run(main)


def test_a_client_that_closes_gets_its_close_back_behind_its_answers() -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (_, address):
            peer = await raw(address)
            peer.writer.write(frame(Opcode.TEXT, b"echo last") + frame(Opcode.CLOSE, b"\x03\xe8bye"))
            assert await peer.reader.read() == b"\x81\x04last" + b"\x88\x05\x03\xe8bye"
            await until(lambda: not session.links)

    run(main)


def test_a_client_that_does_not_answer_a_close_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipe_module, "LINGER_SECONDS", 0.1)

    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (_, address):
            peer = await raw(address)
            peer.writer.write(frame(Opcode.TEXT, b"close now"))
            await until(lambda: not session.links)
            assert await peer.reader.read() == b"\x88\x05\x0f\xa0now"

    run(main)


def test_a_client_that_sends_on_after_our_close_is_not_listened_to() -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (_, address):
            peer = await raw(address)
            peer.writer.write(frame(Opcode.TEXT, b"close now"))
            assert await peer.reader.readexactly(7) == b"\x88\x05\x0f\xa0now"
            peer.writer.write(frame(Opcode.TEXT, b"echo again") + frame(Opcode.CLOSE, b"\x03\xe8"))
            assert await peer.reader.read() == b""
            assert session.counts["lines"] == 1

    run(main)


def test_a_shutdown_says_that_we_go_away() -> None:
    async def main() -> None:
        server = Server("toy", ToyServer(), LINES, is_text=True)
        address = await server.listen(("127.0.0.1", 0), websocket=True)
        async with connect(url(address)) as client:
            await client.recv()
            await client.send("say 500000")
            await until(lambda: server.session.counts["lines"] == 1)
            closing = asyncio.create_task(server.close())
            assert len(await client.recv()) == 500_000
            assert (await close_of(client))[0] == 1001
            await closing

    run(main)


def test_a_slow_reader_is_dropped() -> None:
    async def main() -> None:
        session = ToyServer(max_unsent=1 << 20)
        async with serving(session) as (server, address), connect(url(address), max_queue=1) as client:
            await client.recv()
            for _ in range(100):
                await client.send("say 900000")
                if session.counts["too_slow"]:
                    break
                await asyncio.sleep(0.001)
            await until(lambda: session.counts["too_slow"] == 1 and not session.links)
            assert server.endpoint.unsent == 0

    run(main)


# --- upgrades


def test_who_does_not_upgrade_in_time_is_cut_off() -> None:
    async def main() -> None:
        async with serving(ToyServer(), limits=Limits(handshake_seconds=0.1)) as (server, address):
            silent, half = [Peer(*await asyncio.open_connection(*address)) for _ in range(2)]
            half.writer.write(UPGRADE[:50])
            assert await silent.reader.read() == b""
            assert await half.reader.read() == b""
            assert not server.endpoint.pipes

    run(main)


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"426"),
        (b"POST / HTTP/1.1\r\nHost: a\r\n\r\n", b"405"),
        (UPGRADE.replace(b"13", b"12"), b"400"),
        (b"GET / HTTP/1.0\r\nHost: a\r\n\r\n", b"505"),
    ],
)
def test_what_is_no_upgrade_is_refused(request_: bytes, status: bytes) -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (_, address):
            peer = Peer(*await asyncio.open_connection(*address))
            peer.writer.write(request_)
            assert (await peer.reader.read()).startswith(b"HTTP/1.1 " + status)
            assert not session.links

    run(main)


@pytest.mark.parametrize("junk", [b"\x00\x00\x00\x1cpublish:a:1.0.0\n\n", b"\r\n" * 10, b"A" * 9_000])
def test_junk_instead_of_an_upgrade_is_closed(junk: bytes) -> None:
    async def main() -> None:
        async with serving(ToyServer(), limits=Limits(handshake_seconds=5)) as (server, address):
            peer = Peer(*await asyncio.open_connection(*address))
            peer.writer.write(junk)
            answer = await peer.reader.read()
            assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
            await until(lambda: not server.endpoint.pipes)

    run(main)


@pytest.mark.parametrize("behind", [b"\xff" * 10, b"\x89\xfe\x00\x7e" + bytes(130), b"\x81\x02hi"])
def test_who_breaks_the_rules_right_behind_the_upgrade_is_cut_off(behind: bytes) -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (server, address):
            peer = Peer(*await asyncio.open_connection(*address))
            peer.writer.write(UPGRADE + behind)
            with suppress(ConnectionError):
                await peer.reader.read()
            await until(lambda: not server.endpoint.pipes)
            assert not session.links and not server.endpoint.errors

    run(main)


def test_what_comes_right_behind_the_upgrade_is_a_message() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_, address):
            peer = Peer(*await asyncio.open_connection(*address))
            peer.writer.write(UPGRADE + frame(Opcode.TEXT, b"echo early"))
            await peer.reader.readuntil(b"\x81\x05hello\x81\x05early")

    run(main)


def test_an_upgrade_may_not_be_endless() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (server, address):
            peer = Peer(*await asyncio.open_connection(*address))
            peer.writer.write(b"GET / HTTP/1.1\r\n")
            with pytest.raises(ConnectionError):
                for n in range(100_000):
                    peer.writer.write(b"X-%d: %s\r\n" % (n, b"y" * 1000))
                    await peer.writer.drain()
                    await asyncio.sleep(0)
            assert server.endpoint.received < 4 * MAX_UPGRADE_BYTES + (1 << 18)

    run(main)


def test_only_pages_that_are_allowed_may_connect() -> None:
    async def main() -> None:
        limits = Limits(origins=("https://good.example",))
        async with serving(ToyServer(), limits=limits) as (_, address):
            async with connect(url(address), origin="https://good.example") as client:  # type: ignore[arg-type]
                assert await client.recv() == "hello"
            with pytest.raises(InvalidStatus, match="403"):
                await connect(url(address), origin="https://bad.example")  # type: ignore[arg-type]
            async with connect(url(address)) as client:  # a program
                assert await client.recv() == "hello"

    run(main)


@pytest.mark.parametrize(
    ("origin", "host", "is_let_in"),
    [
        ("", "127.0.0.1:{port}", True),
        ("http://127.0.0.1:{port}", "127.0.0.1:{port}", True),
        ("http://127.0.0.1", "127.0.0.1:{port}", True),  # as the Java client of CEDA writes it
        ("http://localhost:8080", "localhost:{port}", True),
        ("http://[::1]", "[::1]:{port}", True),
        ("https://evil.example", "127.0.0.1:{port}", False),
        ("http://evil.example:{port}", "evil.example:{port}", False),  # a name that was pointed here
        ("http://127.0.0.1.evil.example", "127.0.0.1:{port}", False),
        ("null", "127.0.0.1:{port}", False),
        ("http://[", "127.0.0.1:{port}", False),
    ],
)
def test_a_page_of_another_site_may_not_connect_to_loopback(origin: str, host: str, is_let_in: bool) -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_, address):
            peer = Peer(*await asyncio.open_connection(*address))
            more = f"Origin: {origin}\r\n" if origin else ""
            head = UPGRADE.replace(b"localhost\r\n", f"{host}\r\n{more}".format(port=address[1]).encode())
            peer.writer.write(head)
            answer = await peer.reader.readuntil(b"\r\n")
            assert answer.split()[1] == (b"101" if is_let_in else b"403")

    run(main)


def test_the_first_subprotocol_that_a_client_offers_is_taken() -> None:
    async def main() -> None:
        async with serving(ToyServer()) as (_, address):
            async with connect(url(address), subprotocols=["one", "two"]) as client:  # type: ignore[list-item]
                assert client.subprotocol == "one" and await client.recv() == "hello"
            async with connect(url(address)) as client:
                assert client.subprotocol is None

    run(main)


def test_a_flood_of_tiny_frames_holds_up_nobody_else() -> None:
    async def main() -> None:
        session = ToyServer()
        async with serving(session) as (_, address), connect(url(address)) as other:
            assert await other.recv() == "hello"
            attacker = await raw(address)
            cheap = Frame(Opcode.TEXT, b"x" * 60_000).serialize(mask=True)
            attacker.writer.write(cheap * 20)  # so that much is read at a time
            await until(lambda: session.counts["lines"] == 20)
            attacker.writer.write(Frame(Opcode.TEXT, b"").serialize(mask=True) * 150_000)
            await until(lambda: session.counts["lines"] > 20)
            waits = []  # in processor time: what others do on this machine does not count
            while session.counts["lines"] < 100_000 and len(waits) < 200:
                began = time.thread_time()
                await other.send("echo x")
                assert await other.recv() == "x"
                waits.append(time.thread_time() - began)
            assert len(waits) > 5, "it was over too soon to tell"
            print(f"{len(waits)} echoes, the slowest took {max(waits) * 1000:.0f} ms")
            assert sorted(waits)[-max(1, len(waits) // 100)] < 0.1
            attacker.writer.transport.abort()

    run(main)


# --- frames


@given(st.binary(max_size=300) | st.sampled_from([b"a" * 65_535, b"a" * 65_536, "é".encode() * 40_000]), st.booleans())
def test_our_frames_are_those_of_the_library(body: bytes, is_text: bool) -> None:
    framing = WebSocketFraming(is_text)
    opcode = Opcode.BINARY
    if is_text:
        try:
            body.decode()
            opcode = Opcode.TEXT
        except UnicodeDecodeError:
            pass
    assert framing.wrap(body) == Frame(opcode, body).serialize(mask=False)
    masked = WebSocketFraming(is_text, is_masked=True).wrap(body)
    assert masked[0] == 0x80 | opcode and masked[1] & 0x80 and len(masked) == len(framing.wrap(body)) + 4
