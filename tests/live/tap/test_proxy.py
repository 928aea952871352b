from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
import struct
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.live.certificates import Authority
from tests.live.tapping import by_client, recorded, small_disk
from tests.waiting import until
from wirelake.live.tap.proxy import HIGH_WATER, Proxy
from wirelake.live.tap.recorder import PROBE_BYTES, Recorder

HERE = "127.0.0.1"
SECONDS = 50.0
GONE = (ConnectionResetError, BrokenPipeError)


def run(play: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(SECONDS):
            await play

    asyncio.run(limited())


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass
class Server:
    """Accepts connections and leaves what is done with them to the test."""

    address: tuple[str, int]
    waiting: asyncio.Queue[Ends] = field(default_factory=asyncio.Queue)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def accepted(self) -> Ends:
        return await self.waiting.get()

    async def connect(self, proxy: Proxy, **how: Any) -> Ends:
        """A client of the proxy. That it is closed in the end is seen to."""
        made = await asyncio.open_connection(*proxy.listening[0], **how)
        self.writers.append(made[1])
        return made


@asynccontextmanager
async def serving(host: str = HERE, **options: Any) -> AsyncIterator[Server]:
    made = Server(("", 0))

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        made.waiting.put_nowait((reader, writer))
        made.writers.append(writer)

    listener = await asyncio.start_server(accept, host, 0, **options)
    made.address = listener.sockets[0].getsockname()[:2]
    try:
        yield made
    finally:
        listener.close()
        for writer in made.writers:
            writer.transport.abort()
        await asyncio.sleep(0.01)


@asynccontextmanager
async def tapped(directory: Path, server: Server, **options: Any) -> AsyncIterator[Proxy]:
    recorder = Recorder(directory, rotate_bytes=1 << 20, retry_seconds=0.05)
    async with Proxy((HERE, 0), server.address, recorder, **options) as proxy:
        recorder.start()
        yield proxy
    recorder.end()
    assert proxy.connections == 0


def port_of(writer: asyncio.StreamWriter) -> int:
    port: int = writer.get_extra_info("sockname")[1]
    return port


def unsent(proxy: Proxy) -> int:
    return sum(side.unsent for side in proxy._sides())


def reset(writer: asyncio.StreamWriter) -> None:
    connection = writer.get_extra_info("socket")
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def read_all(reader: asyncio.StreamReader) -> tuple[bytes, bool]:
    """Everything up to the end, and whether that was a reset."""
    found = bytearray()
    while True:
        try:
            data = await reader.read(1 << 16)
        except GONE:
            return bytes(found), True
        if not data:
            return bytes(found), False
        found += data


async def read_some(reader: asyncio.StreamReader, into: bytearray, most: float) -> None:
    with suppress(*GONE):
        while len(into) < most and (data := await reader.read(1 << 16)):
            into += data


async def write_all(writer: asyncio.StreamWriter, data: bytes, rng: Random) -> None:
    """In pieces of all sizes."""
    at = 0
    with suppress(*GONE):
        while at < len(data):
            size = rng.choice((1, 7, 100, 1460, 5000, 65536, 200_000))
            writer.write(data[at : at + size])
            at += size
            if rng.random() < 0.3:
                await writer.drain()
        await writer.drain()


# --- under load

ENDINGS = ("client", "server", "both", "client resets", "server resets")


@dataclass
class Talk:
    """What one connection does."""

    number: int
    up: bytes
    down: bytes
    ending: str
    port: int = 0
    at_server: bytearray = field(default_factory=bytearray)
    at_client: bytearray = field(default_factory=bytearray)

    @property
    def is_reset(self) -> bool:
        return self.ending.endswith("resets")


async def play_end(
    talk: Talk, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, side: str, rng: Random
) -> None:
    send, got = (talk.up[4:], talk.at_client) if side == "client" else (talk.down, talk.at_server)
    if talk.ending == f"{side} resets":
        most = len(talk.down if side == "client" else talk.up) * rng.random()
        await asyncio.gather(
            write_all(writer, send[: int(len(send) * rng.random())], rng), read_some(reader, got, most)
        )
        reset(writer)
        return
    reading = asyncio.create_task(read_some(reader, got, float("inf")))
    if talk.ending not in (side, "both") and not talk.is_reset:
        await reading  # the other one ends first, and gets its answer behind that
    await write_all(writer, send, rng)
    with suppress(OSError):
        writer.write_eof()
    await reading
    writer.close()


@pytest.mark.parametrize("seed", range(3))
def test_under_load_every_byte_arrives_and_is_in_the_capture(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    talks = [
        Talk(
            number,
            struct.pack("<I", number) + rng.randbytes(rng.choice((0, 100, 30_000, 400_000))),
            rng.randbytes(rng.choice((0, 100, 30_000, 400_000))),
            rng.choice(ENDINGS),
        )
        for number in range(60)
    ]

    async def answer(server: Server) -> None:
        reader, writer = await server.accepted()
        try:
            head = await reader.readexactly(4)
        except (asyncio.IncompleteReadError, *GONE):
            writer.close()
            return
        talk = talks[struct.unpack("<I", head)[0]]
        talk.at_server += head
        await play_end(talk, reader, writer, "server", Random(talk.number))

    async def ask(server: Server, proxy: Proxy, talk: Talk) -> None:
        reader, writer = await server.connect(proxy)
        talk.port = port_of(writer)
        writer.write(talk.up[:4])
        await play_end(talk, reader, writer, "client", Random(-talk.number))

    async def play() -> None:
        async with serving() as server, tapped(tmp_path, server) as proxy:
            await asyncio.gather(*(answer(server) for _ in talks), *(ask(server, proxy, talk) for talk in talks))
            await until(lambda: proxy.connections == 0)
            assert proxy.counts["connections"] == len(talks)

    run(play())
    found = by_client(tmp_path)
    assert len(found) == len(talks) and len(list(tmp_path.iterdir())) > 3
    for talk in talks:
        one = found[talk.port]
        assert one.connection.is_whole and one.connection.ended and one.gaps == ([], [])
        if talk.is_reset:
            assert one.streams[0].startswith(talk.at_server) and talk.up.startswith(one.streams[0])
            assert one.streams[1].startswith(talk.at_client) and talk.down.startswith(one.streams[1])
        else:
            assert one.connection.ended == "closed"
            assert one.both == (talk.up, talk.down) == (bytes(talk.at_server), bytes(talk.at_client))


def test_many_short_questions_are_answered_one_after_the_other(tmp_path: Path) -> None:
    """Prints how long an answer takes with and without the proxy; how long is too long depends on the machine."""
    times: dict[str, list[float]] = {"direct": [], "tapped": []}

    async def ask(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, server: Server, took: list[float]
    ) -> None:
        peer_reader, peer_writer = await server.accepted()
        for number in range(500):
            question = struct.pack("<I", number)
            begin = time.perf_counter()
            writer.write(question)
            peer_writer.write(await peer_reader.readexactly(4))
            assert await reader.readexactly(4) == question
            took.append(time.perf_counter() - begin)

    async def play() -> None:
        async with serving() as server, tapped(tmp_path, server) as proxy:
            await ask(*await server.connect(proxy), server, times["tapped"])
            proxy.listening = [server.address]
            await ask(*await server.connect(proxy), server, times["direct"])

    run(play())
    (one,) = recorded(tmp_path).values()
    wanted = b"".join(struct.pack("<I", number) for number in range(500))
    assert one.both == (wanted, wanted)
    print({name: f"{sorted(took)[250] * 1e6:.0f} us" for name, took in times.items()})


# --- ends


def test_the_end_of_one_direction_is_passed_on_and_the_other_goes_on(tmp_path: Path) -> None:
    async def play() -> None:
        async with serving() as server, tapped(tmp_path, server) as proxy:
            reader, writer = await server.connect(proxy)
            peer_reader, peer_writer = await server.accepted()
            writer.write(b"question")
            writer.write_eof()
            assert await read_all(peer_reader) == (b"question", False)
            for piece in (b"the ", b"answer"):
                peer_writer.write(piece)
                assert await reader.readexactly(len(piece)) == piece
            peer_writer.close()
            assert await read_all(reader) == (b"", False)
            writer.close()
            await until(lambda: proxy.connections == 0)

    run(play())
    (one,) = recorded(tmp_path).values()
    assert one.both == (b"question", b"the answer") and one.connection.ended == "closed"


@asynccontextmanager
async def deaf(who: str, server: Server, proxy: Proxy) -> AsyncIterator[tuple[socket.socket, asyncio.StreamWriter]]:
    """A client or server that reads when the test does, and not before as streams do; and the stream of the other."""
    loop = asyncio.get_running_loop()
    if who == "client":
        slow = socket.socket()
        slow.setblocking(False)
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        await loop.sock_connect(slow, proxy.listening[0])
        _, writer = await server.accepted()
    else:
        with socket.create_server((HERE, 0)) as listener:
            listener.setblocking(False)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
            proxy.upstream = listener.getsockname()
            _, writer = await server.connect(proxy)
            slow, _ = await loop.sock_accept(listener)
    with slow:
        yield slow, writer


@pytest.mark.parametrize("who", ["client", "server"])
def test_a_reset_is_passed_on_behind_the_bytes_before_it(who: str, tmp_path: Path) -> None:
    sent, got = bytearray(), bytearray()
    rng = Random(1)

    async def play() -> None:
        async with serving() as server, tapped(tmp_path, server) as proxy, deaf(who, server, proxy) as (slow, writer):
            await until(lambda: proxy.counts["connections"] == 1)
            (pair,) = proxy._pairs
            while not unsent(proxy):  # until the kernel takes no more for who does not read
                sent.extend(piece := rng.randbytes(1 << 16))
                writer.write(piece)
                await until(lambda: sum(proxy.passed) == len(sent))
            reset(writer)
            await until(lambda: pair.server.is_lost or pair.client.is_lost)
            with pytest.raises(ConnectionResetError):
                while data := await asyncio.get_running_loop().sock_recv(slow, 1 << 16):
                    got.extend(data)
            await until(lambda: proxy.connections == 0)
            assert proxy.counts["resets"] == 1

    run(play())
    assert got == sent
    (one,) = recorded(tmp_path).values()
    assert one.connection.ended == "reset"
    assert one.streams[1 if who == "client" else 0] == sent


def test_a_reset_of_somebody_who_has_sent_all_he_had_is_passed_on_as_soon_as_something_comes_for_him(
    tmp_path: Path,
) -> None:
    async def play() -> None:
        async with serving() as server, tapped(tmp_path, server) as proxy:
            _, writer = await server.connect(proxy)
            peer_reader, peer_writer = await server.accepted()
            writer.write_eof()
            assert await peer_reader.read() == b""
            reset(writer)
            with pytest.raises(GONE):
                while True:
                    peer_writer.write(b"x" * 1000)
                    await peer_writer.drain()
                    await asyncio.sleep(0)
            await until(lambda: proxy.connections == 0)

    run(play())


def test_a_client_is_closed_if_its_server_does_not_answer(tmp_path: Path) -> None:
    async def play() -> None:
        with socket.create_server((HERE, 0)) as closed:
            address = closed.getsockname()
        server = Server(address)
        async with tapped(tmp_path, server) as proxy:
            reader, writer = await server.connect(proxy)
            assert await read_all(reader) == (b"", False)
            writer.close()
            await until(lambda: proxy.connections == 0)
            assert proxy.counts["unreachable"] == 1 and proxy.counts["connections"] == 0

    run(play())
    assert recorded(tmp_path) == {}


def test_one_connection_too_many_is_closed_and_the_others_stay(tmp_path: Path) -> None:
    async def play() -> None:
        async with serving() as server, tapped(tmp_path, server, max_connections=2) as proxy:
            made = [await server.connect(proxy) for _ in range(2)]
            peers = [await server.accepted() for _ in made]
            reader, writer = await server.connect(proxy)
            assert (await read_all(reader))[0] == b""
            writer.close()
            assert proxy.counts["refused"] == 1
            for (reader, writer), (peer_reader, peer_writer) in zip(made, peers, strict=True):
                writer.write(b"still")
                assert await peer_reader.readexactly(5) == b"still"
                peer_writer.write(b"here")
                assert await reader.readexactly(4) == b"here"
                writer.close()
                peer_writer.close()
            await until(lambda: proxy.connections == 0)
            await server.connect(proxy)
            (await server.accepted())[1].close()

    run(play())


# --- pressure


@pytest.mark.parametrize("who", ["client", "server"])
def test_who_does_not_read_is_not_read_for(who: str, tmp_path: Path) -> None:
    """The sender can get rid of what buffers hold, and not of more; later everything arrives."""
    piece = Random(2).randbytes(1 << 20)
    total = 64

    async def play() -> None:
        async with serving() as server, tapped(tmp_path, server) as proxy, deaf(who, server, proxy) as (slow, writer):
            sending = asyncio.create_task(write_all(writer, piece * total, Random(3)))
            since, before = time.monotonic(), -1
            while time.monotonic() - since < 0.3:  # until nothing moves
                if sum(proxy.passed) != before:
                    since, before = time.monotonic(), sum(proxy.passed)
                await asyncio.sleep(0.01)
            assert not sending.done()
            assert HIGH_WATER < unsent(proxy) <= HIGH_WATER + (1 << 18)
            assert before < 16 << 20
            got = bytearray()
            while len(got) < len(piece) * total:
                data = await asyncio.get_running_loop().sock_recv(slow, 1 << 18)
                assert data
                got += data
            await sending
            writer.close()
            assert bytes(got) == piece * total

    run(play())
    (one,) = recorded(tmp_path).values()
    assert one.both[1 if who == "client" else 0] == piece * total


def test_nothing_is_read_from_a_client_before_it_has_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def play() -> None:
        loop = asyncio.get_running_loop()
        may_connect = asyncio.Event()
        connect = loop.create_connection

        async def later(*given: Any, **how: Any) -> Any:
            await may_connect.wait()
            return await connect(*given, **how)

        async with serving() as server, tapped(tmp_path, server) as proxy:
            reader, writer = await server.connect(proxy)
            monkeypatch.setattr(loop, "create_connection", later)
            writer.write(b"early")
            writer.write_eof()
            await until(lambda: proxy.connections == 1)
            for _ in range(50):
                await asyncio.sleep(0)
            may_connect.set()
            peer_reader, peer_writer = await server.accepted()
            assert await read_all(peer_reader) == (b"early", False)
            peer_writer.close()
            assert await read_all(reader) == (b"", False)
            writer.close()

    run(play())
    (one,) = recorded(tmp_path).values()
    assert one.both == (b"early", b"")


# --- stopping


def test_stopping_lets_what_is_under_way_come_through(tmp_path: Path) -> None:
    sent = Random(4).randbytes(8 << 20)

    async def play() -> None:
        async with serving() as server:
            recorder = Recorder(tmp_path)
            proxy = Proxy((HERE, 0), server.address, recorder)
            await proxy.start()
            _, writer = await server.connect(proxy)
            idle_reader, idle_writer = await server.connect(proxy)
            (peer_reader, peer_writer), (_, idle_peer) = await server.accepted(), await server.accepted()
            sending = asyncio.create_task(write_all(writer, sent, Random(5)))
            await until(lambda: proxy.passed[0] > 0)
            stopping = asyncio.create_task(proxy.stop())
            got = bytearray()
            while data := await peer_reader.read(1 << 14):
                got += data
                await asyncio.sleep(0)
            await asyncio.gather(sending, stopping)
            assert bytes(got) == sent
            assert await read_all(idle_reader) == (b"", False)
            with pytest.raises(ConnectionRefusedError):
                await server.connect(proxy)
            for one in (writer, idle_writer, peer_writer, idle_peer):
                one.close()
            assert proxy.connections == 0
            recorder.end()

    run(play())
    assert sorted(len(one.streams[0]) for one in recorded(tmp_path).values()) == [0, len(sent)]
    assert all(one.connection.ended == "closed" for one in recorded(tmp_path).values())


def test_stopping_does_not_wait_for_ever(tmp_path: Path) -> None:
    async def play() -> None:
        async with serving() as server:
            recorder = Recorder(tmp_path)
            proxy = Proxy((HERE, 0), server.address, recorder)
            await proxy.start()
            deaf = socket.create_connection(proxy.listening[0])
            _, peer_writer = await server.accepted()
            peer_writer.write(bytes(32 << 20))
            await until(lambda: unsent(proxy) > HIGH_WATER)
            began = time.monotonic()
            await proxy.stop(0.3)
            assert proxy.connections == 0 and time.monotonic() - began < 5
            deaf.close()
            peer_writer.transport.abort()
            recorder.end()

    run(play())


# --- other kinds


def test_tls_goes_through_as_it_is(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*authority.issue("localhost"))
    secret = b"nobody reads this on the way"

    async def play() -> None:
        async with serving(ssl=context) as server, tapped(tmp_path / "tap", server) as proxy:
            reader, writer = await server.connect(proxy, ssl=authority.client())
            peer_reader, peer_writer = await server.accepted()
            writer.write(secret)
            assert await peer_reader.readexactly(len(secret)) == secret
            peer_writer.write(secret)
            assert await reader.readexactly(len(secret)) == secret
            writer.close()
            peer_writer.close()
            await until(lambda: proxy.connections == 0)

    run(play())
    (one,) = recorded(tmp_path / "tap").values()
    assert one.both[0][:2] == b"\x16\x03" and secret not in one.both[0] + one.both[1]
    assert len(one.both[1]) > 500


def test_names_and_ipv6_addresses_are_listened_on_and_connected_to(tmp_path: Path) -> None:
    async def play() -> None:
        async with serving("::1") as server:
            recorder = Recorder(tmp_path)
            async with Proxy(("localhost", 0), server.address, recorder, protocol="mb") as proxy:
                assert len({port for _, port in proxy.listening}) == 1
                for address in proxy.listening:
                    proxy.listening = [address]
                    _, writer = await server.connect(proxy)
                    writer.write(b"x")
                    peer_reader, peer_writer = await server.accepted()
                    assert await peer_reader.readexactly(1) == b"x"
                    writer.close()
                    peer_writer.close()
            recorder.end()

    run(play())
    for one in recorded(tmp_path).values():
        assert one.connection.server == "::1" and one.connection.protocol == "mb"


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    async def play() -> None:
        async with serving() as server:
            with pytest.raises(OSError):
                await Proxy(server.address, server.address, Recorder(tmp_path)).start()

    run(play())


# --- a disk that is full


def test_traffic_goes_on_while_the_disk_is_full_and_the_capture_when_it_is_not(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    rng = Random(6)
    sent = [rng.randbytes(200_000) for _ in range(30)]

    async def pass_on(writer: asyncio.StreamWriter, reader: asyncio.StreamReader, piece: bytes) -> None:
        writer.write(piece)
        assert await reader.readexactly(len(piece)) == piece

    async def play() -> None:
        async with serving() as server, tapped(disk / "tap", server) as proxy:
            _, writer = await server.connect(proxy)
            peer_reader, peer_writer = await server.accepted()
            for piece in sent[:20]:
                await pass_on(writer, peer_reader, piece)
            recorder = proxy.recorder
            assert "No space left" in recorder.problem and recorder.unrecorded > 1 << 20
            first = recorder.paths[0]  # somebody carries it away
            shutil.move(first, tmp_path / first.name)
            await until(lambda: not recorder.problem)
            for piece in sent[20:23]:
                await pass_on(writer, peer_reader, piece)
            assert not recorder.problem
            writer.close()
            peer_writer.close()
            await until(lambda: proxy.connections == 0)
        for path in (disk / "tap").iterdir():
            shutil.move(path, tmp_path / path.name)

    with small_disk(disk, "2m") as is_there:
        if not is_there:
            pytest.skip("a small disk can be mounted by root only")
        assert 20 * PROBE_BYTES < 2 << 20
        run(play())
    (one,) = recorded(tmp_path).values()
    truth = bytearray(b"".join(sent[:23]))
    assert one.gaps[0] and one.connection.ended == "closed"
    for offset, length in one.gaps[0]:
        truth[offset : offset + length] = bytes(length)
    assert one.streams[0] == truth
    assert len(truth) - sum(length for _, length in one.gaps[0]) > 1_500_000
    assert one.both[0].endswith(b"".join(sent[20:23]))
