"""``python -m benchmarks.crowd``: a hub among a crowd: thousands who are silent, and everybody who misbehaves, at once.

The hub is a process of its own; so is a prober, which asks it something two hundred times a second, on a schedule that
does not wait for answers, and so sees every moment in which others have to wait. Each offender checks that it gets what
the specification says. In the end nobody who behaved has lost its connection, and the hub's memory was bounded.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

Address = tuple[str, int]
MIB = 1 << 20
P99_MS = 50.0
PROBE_SECONDS = 0.005
PATIENCE_SECONDS = 60.0
"""What is not answered by then never will be."""
HANDSHAKE_SECONDS = 2.0


@dataclass(frozen=True)
class Size:
    """How many of each. ``memory`` is what the hub may need at most, in MiB."""

    idle: int = 5_000
    slow: int = 200
    half_open: int = 100
    dribblers: int = 100
    offenders: int = 20
    """Of each kind."""
    flooders: int = 4
    subscriptions: int = 12_000
    seconds: float = 20.0
    """In which they come, one after the other."""
    memory: int = 400


FULL = Size()
TENTH = Size(500, 20, 10, 10, 2, 1, 10_500, 1.0, 200)


@dataclass
class Report:
    """``problems``: what did not go as it should; empty if all is well."""

    problems: list[str] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)
    latencies_ms: dict[str, list[float]] = field(default_factory=dict)
    peak_bytes: int = 0

    def quantile(self, name: str, share: float) -> float:
        found = sorted(self.latencies_ms[name])
        return found[min(int(len(found) * share), len(found) - 1)] if found else float("inf")


# --- words of the protocols


def mb_frame(message: bytes) -> bytes:
    return struct.pack("!I", len(message)) + message


def mb_request(topic: str, arguments: Any, rid: str) -> bytes:
    return mb_frame(f"request:{topic}:1.0.0:{rid}\n".encode() + json.dumps(arguments).encode())


def subscribe_mb(topic: str, action: str = "publish") -> bytes:
    return mb_request("system.topic.subscribe", {"action": action, "topic": topic}, str(uuid.uuid4()))


MB_ALIVE = mb_frame(b"response:system.heartbeat:1.0.0\n{}")


def ceda_frame(payload: bytes) -> bytes:
    if len(payload) < 126:
        return bytes((0x82, len(payload))) + payload
    return b"\x82\x7e" + struct.pack("!H", len(payload)) + payload


def text_field(number: int, text: bytes) -> bytes:
    return struct.pack("<HH", number << 4 | 12, len(text)) + text


CEDA_LOGIN = ceda_frame(b"\x13\x03" + text_field(7, b"crowd") + text_field(5, b"any") + text_field(4, b"demo"))
CEDA_ALIVE = ceda_frame(b"\x01")


def subscribe_ceda(topics: bytes) -> bytes:
    return ceda_frame(b"\x11\x0d" + text_field(3, topics))


def publish_ceda(topic: bytes, text: bytes) -> bytes:
    return ceda_frame(b"\x61" + bytes((len(topic),)) + topic + text_field(3, text))


UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: crowd\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def websocket_frame(opcode: int, data: bytes) -> bytes:
    """Masked with zeros, which is a mask too."""
    if len(data) < 126:
        return bytes((0x80 | opcode, 0x80 | len(data))) + bytes(4) + data
    return bytes((0x80 | opcode, 0xFE)) + struct.pack("!H", len(data)) + bytes(4) + data


# --- who is in the crowd


class Idle(asyncio.Protocol):
    """Connects, logs in where that is usual, gives a sign of life when asked, and says nothing else."""

    lost = 0

    def __init__(self, hello: bytes, answer: bytes, question: bytes) -> None:
        self._hello, self._answer, self._question = hello, answer, question
        self.transport: Any = None
        self.is_ending = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.write(self._hello)

    def data_received(self, data: bytes) -> None:
        if self._question in data:
            self.transport.write(self._answer)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.is_ending:
            Idle.lost += 1

    def leave(self) -> None:
        self.is_ending = True
        self.transport.abort()


class Talk:
    """A connection of somebody who expects something."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    @classmethod
    async def to(cls, address: Address) -> Talk:
        return cls(*await asyncio.open_connection(*address, limit=1 << 20))

    async def mb(self) -> bytes:
        (size,) = struct.unpack("!I", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def ceda(self) -> bytes:
        head = await self.reader.readexactly(2)
        (size,) = head[1:] if head[1] < 126 else struct.unpack("!H", await self.reader.readexactly(2))
        return await self.reader.readexactly(size)

    async def rest(self) -> bytes:
        """What comes until the hub closes."""
        with suppress(ConnectionError):
            return await self.reader.read()
        return b""

    def leave(self) -> None:
        self.writer.transport.abort()


class Crowd:
    """Everybody, at the listeners of a hub by their names."""

    def __init__(self, size: Size, listening: dict[str, Address], report: Report) -> None:
        self.size = size
        self.listening = listening
        self.report = report
        self.idle: list[Idle] = []
        self._chance = random.Random(1)

    async def run(self) -> None:
        await self._timed("idle", self._arrive())
        parts: dict[str, Awaitable[None]] = {
            "slow mb": self._slow_mb(),
            "slow ceda": self._slow_ceda(),
            "half-open": self._many(self.size.half_open, self._half_open),
            "never upgraded": self._many(self.size.half_open, self._never_upgraded),
            "dribbling mb": self._many(self.size.dribblers, self._dribble_mb),
            "dribbling ceda": self._many(self.size.dribblers, self._dribble_ceda),
            "offenders": self._offenders(),
            "flood mb": self._many(self.size.flooders, self._flood_mb),
            "flood ceda": self._many(self.size.flooders, self._flood_ceda),
        }
        await asyncio.gather(*(self._timed(name, part) for name, part in parts.items()))
        if Idle.lost:
            self.report.problems.append(f"{Idle.lost} idle connections were lost")
        for one in self.idle:
            one.leave()
        Idle.lost = 0

    async def _timed(self, name: str, part: Awaitable[None]) -> None:
        start = time.perf_counter()
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                await part
        except (Exception, AssertionError) as error:
            self.report.problems.append(f"{name}: {error!r}")
        self.report.seconds[name] = time.perf_counter() - start

    async def _many(self, count: int, one: Callable[[], Awaitable[None]]) -> None:
        await asyncio.gather(*(self._later(one) for _ in range(count)))

    async def _later(self, one: Callable[[], Awaitable[None]]) -> None:
        await asyncio.sleep(self._chance.random() * self.size.seconds)
        await one()

    async def _arrive(self) -> None:
        loop = asyncio.get_running_loop()
        kinds = [
            (self.listening["mb"], b"", MB_ALIVE, b"request:system.heartbeat"),
            (self.listening["ceda"], CEDA_LOGIN, b"", b"nothing is ever asked"),
            (self.listening["mb-ws"], UPGRADE, websocket_frame(1, MB_ALIVE[4:]), b"request:system.heartbeat"),
            (self.listening["ceda"], CEDA_LOGIN, b"", b"nothing is ever asked"),
        ]
        for start in range(0, self.size.idle, 50):
            made = await asyncio.gather(
                *(
                    loop.create_connection(lambda rest=rest: Idle(*rest), *address)  # type: ignore[misc]
                    for address, *rest in (kinds[n % 4] for n in range(start, min(start + 50, self.size.idle)))
                )
            )
            self.idle += [one for _, one in made]
            await asyncio.sleep(self.size.seconds * 25 / self.size.idle)

    # --- who does not read

    async def _slow_mb(self) -> None:
        await self._slow(
            self.size.slow // 2,
            "mb",
            subscribe_mb("crowd.flood"),
            mb_frame(b"publish:crowd.flood:1.0.0\n" + bytes(16_000)),
        )

    async def _slow_ceda(self) -> None:
        hello = CEDA_LOGIN + subscribe_ceda(b"crowd.flood")
        await self._slow(self.size.slow // 2, "ceda", hello, publish_ceda(b"crowd.flood", bytes(16_000)))

    async def _slow(self, count: int, protocol: str, hello: bytes, message: bytes) -> None:
        """They subscribe and read nothing; somebody publishes until every one of them was dropped."""
        deaf = [_deaf_socket(self.listening[protocol], hello) for _ in range(count)]
        sender = await Talk.to(self.listening[protocol])
        if protocol == "ceda":
            sender.writer.write(CEDA_LOGIN)
        taking = asyncio.create_task(sender.rest())
        while not all(map(_is_dropped, deaf)):
            for _ in range(10):
                sender.writer.write(message)
            await sender.writer.drain()
            await asyncio.sleep(0.005)
        for one in deaf:
            one.close()
        sender.leave()
        await taking

    async def _half_open(self) -> None:
        """Half a message, and then nothing more for ever; some say that nothing more comes."""
        mb, ceda, ended = [await Talk.to(self.listening[name]) for name in ("mb", "ceda", "mb")]
        assert await mb.mb() == await ended.mb() == b"publish:system.initialize:1.0.0\n{}"
        mb.writer.write(b"\x00\x00\x00\x20publish:")
        ceda.writer.write(b"\x82\x20\x13")
        ended.writer.write(b"\x00\x00")
        ended.writer.write_eof()
        assert await ended.rest() == b""
        await asyncio.sleep(HANDSHAKE_SECONDS)
        for one in (mb, ceda, ended):
            assert not one.reader.at_eof() or one is ended
            one.leave()

    async def _never_upgraded(self) -> None:
        silent, half = await Talk.to(self.listening["mb-ws"]), await Talk.to(self.listening["ceda-ws"])
        half.writer.write(UPGRADE[:60])
        for one in (silent, half):
            assert await one.rest() == b""
            one.leave()

    # --- who sends slowly

    async def _dribble(self, one: Talk, data: bytes) -> None:
        for byte in data:
            one.writer.write(bytes((byte,)))
            await asyncio.sleep(0.02)

    async def _dribble_mb(self) -> None:
        one = await Talk.to(self.listening["mb"])
        await one.mb()
        rid = str(uuid.uuid4())
        await self._dribble(one, mb_request("system.heartbeat", {}, rid))
        assert await one.mb() == f'response:system.heartbeat:1.0.0:{rid}\n{{"status":"success"}}'.encode()
        one.leave()

    async def _dribble_ceda(self) -> None:
        one = await Talk.to(self.listening["ceda"])
        await self._dribble(one, CEDA_LOGIN)
        assert b"Success" in await one.ceda()
        one.leave()

    # --- who sends what is wrong

    async def _offenders(self) -> None:
        closed_mb = [b"\x00\x00\x41\x70", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n" + bytes(50_000)]
        closed_ceda = [b"\x82\x7f", b"\x82\x00", b"GET / HTTP/1.1\r\n\r\n", b"\x82\x7e\x00\x00", os.urandom(50_000)]
        answered_mb = [mb_frame(b"publish:a:1.0\n{}"), mb_frame(b""), mb_frame(bytes(16_751)), mb_frame(b"\xff" * 400)]
        closed_ws = [
            (websocket_frame(1, bytes(16_752)), 1009),
            (websocket_frame(1, b"\xff"), 1007),
            (b"\x81\x01a", 1002),
            (b"\x81\xff" + b"\xff" * 8, 1009),
        ]
        wrong: list[Callable[[], Awaitable[None]]] = [
            *(partial(self._closed_mb, data) for data in closed_mb),
            *(partial(self._closed_ceda, data) for data in closed_ceda),
            *(partial(self._answered_mb, data) for data in answered_mb),
            *(partial(self._closed_ws, *case) for case in closed_ws),
            self._skipped_ceda,
        ]
        await asyncio.gather(*(self._many(self.size.offenders, one) for one in wrong))

    async def _closed_mb(self, data: bytes) -> None:
        """Too long: closed, without a message."""
        one = await Talk.to(self.listening["mb"])
        await one.mb()
        one.writer.write(data)
        assert await one.rest() == b""
        one.leave()

    async def _closed_ceda(self, data: bytes) -> None:
        """Framing is lost: closed."""
        one = await Talk.to(self.listening["ceda"])
        one.writer.write(data)
        await one.rest()
        one.leave()

    async def _answered_mb(self, data: bytes) -> None:
        """Malformed: answered, and the connection stays."""
        one = await Talk.to(self.listening["mb"])
        await one.mb()
        rid = str(uuid.uuid4())
        one.writer.write(data + mb_request("system.heartbeat", {}, rid))
        answer = await one.mb()
        assert answer.startswith(b"response:error:1.0.0") and b'"MALFORMED_MESSAGE"' in answer, answer
        assert rid.encode() in await one.mb()
        one.leave()

    async def _closed_ws(self, data: bytes, code: int) -> None:
        one = await Talk.to(self.listening["mb-ws"])
        one.writer.write(UPGRADE)
        await one.reader.readuntil(b"\r\n\r\n")
        await one.reader.readexactly(2 + 34)
        one.writer.write(data)
        assert await one.rest() == b"\x88\x02" + struct.pack("!H", code)
        one.leave()

    async def _skipped_ceda(self) -> None:
        """A type that nobody knows: skipped, and the connection stays."""
        one = await Talk.to(self.listening["ceda"])
        one.writer.write(ceda_frame(b"\x55" + bytes(40)) + CEDA_ALIVE)
        assert await one.ceda() == b"\x01"
        one.leave()

    # --- who wants everything

    async def _flood_mb(self) -> None:
        """More subscriptions than one may have: refused from there on, and the connection stays."""
        one = await Talk.to(self.listening["mb"])
        await one.mb()
        name = f"f{uuid.uuid4().hex[:8]}"
        topics = (f"{name}.t{n}" if n % 10 else f"{name}.t{n}.#" for n in range(self.size.subscriptions))
        data = b"".join(map(subscribe_mb, topics))
        sending = asyncio.create_task(self._pour(one, data))
        answers = [await one.mb() for _ in range(self.size.subscriptions)]
        await sending
        done = sum(answer.endswith(b'{"status":"success"}') for answer in answers)
        assert done == 10_000, done
        assert all(b'"error"' in answer for answer in answers[done:])
        rid = str(uuid.uuid4())
        one.writer.write(mb_request("system.heartbeat", {}, rid))
        assert rid.encode() in await one.mb()
        one.leave()

    async def _pour(self, one: Talk, data: bytes) -> None:
        for start in range(0, len(data), 1 << 16):
            one.writer.write(data[start : start + (1 << 16)])
            await one.writer.drain()

    async def _flood_ceda(self) -> None:
        """The same: nothing is said about it, as about any subscription."""
        one = await Talk.to(self.listening["ceda"])
        one.writer.write(CEDA_LOGIN)
        assert b"Success" in await one.ceda()
        topics = [b"F.%d.%d" % (id(one), n) if n % 10 else b"F.%d.%d.*" % (id(one), n) for n in range(30_000)]
        data = b"".join(subscribe_ceda(b"|".join(topics[n : n + 500])) for n in range(0, len(topics), 500))
        await self._pour(one, data + CEDA_ALIVE)
        assert await one.ceda() == b"\x01"
        one.leave()


def _deaf_socket(address: Address, hello: bytes) -> socket.socket:
    one = socket.socket()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    one.connect(address)
    one.sendall(hello)
    return one


def _is_dropped(one: socket.socket) -> bool:
    """A reset is seen at once, without reading what lies before it."""
    return one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0 or _state(one) not in (1, 0)


def _state(one: socket.socket) -> int:
    """1 is established; 0 if the system does not tell."""
    if not hasattr(socket, "TCP_INFO"):
        return 0
    return one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]


# --- the prober: a process that asks all the time


async def probe(mb: Address, ceda: Address) -> dict[str, list[float]]:
    """Latencies in milliseconds until standard input ends."""
    loop = asyncio.get_running_loop()
    over = loop.run_in_executor(None, sys.stdin.read)
    found: dict[str, list[float]] = {"mb": [], "ceda": []}
    service, asker = await Talk.to(mb), await Talk.to(mb)
    service.writer.write(subscribe_mb("probe.echo", "request"))
    for _ in range(2):
        await service.mb()
    await asker.mb()
    alive = await Talk.to(ceda)
    alive.writer.write(CEDA_LOGIN)
    await alive.ceda()
    print("ready", flush=True)
    answering = asyncio.create_task(_answer(service))
    asked: dict[bytes, float] = {}
    beats: list[float] = []
    reading = [asyncio.create_task(_take_mb(asker, asked, found["mb"], loop.time))]
    reading.append(asyncio.create_task(_take_ceda(alive, beats, found["ceda"], loop.time)))
    due = loop.time()
    while not over.done() and not any(task.done() for task in reading):
        rid = str(uuid.uuid4())
        asked[rid.encode()] = due
        asker.writer.write(mb_request("probe.echo", {}, rid))
        beats.append(due)
        alive.writer.write(CEDA_ALIVE)
        due += PROBE_SECONDS
        await asyncio.sleep(max(due - loop.time(), 0))
    end = loop.time() + 5
    while (asked or beats) and loop.time() < end and not any(task.done() for task in reading):
        await asyncio.sleep(0.01)
    for name, left in (("mb", list(asked.values())), ("ceda", beats)):
        found[name] += [1e3 * (loop.time() - one) for one in left]
    for task in (answering, *reading):
        task.cancel()
    for one in (service, asker, alive):
        one.leave()
    return found


async def _answer(service: Talk) -> None:
    while True:
        head = (await service.mb()).partition(b"\n")[0].split(b":")
        if head[0] == b"request" and len(head) > 3:
            service.writer.write(mb_frame(b"response:probe.echo:1.0.0:" + head[3] + b"\n{}"))
        elif head[0] == b"request":
            service.writer.write(MB_ALIVE)


async def _take_mb(asker: Talk, asked: dict[bytes, float], found: list[float], clock: Callable[[], float]) -> None:
    while True:
        rid = (await asker.mb()).partition(b"\n")[0].split(b":")[-1]
        if rid in asked:
            found.append(1e3 * (clock() - asked.pop(rid)))


async def _take_ceda(alive: Talk, beats: list[float], found: list[float], clock: Callable[[], float]) -> None:
    while True:
        if await alive.ceda() == b"\x01" and beats:
            found.append(1e3 * (clock() - beats.pop(0)))


# --- all together

SETTINGS = f"""
[mb]
tcp = "127.0.0.1:0"
ws = "127.0.0.1:0"
connections = 20000
handshake_seconds = {HANDSHAKE_SECONDS}
[ceda]
tcp = "127.0.0.1:0"
ws = "127.0.0.1:0"
connections = 20000
handshake_seconds = {HANDSHAKE_SECONDS}
[metrics]
listen = "127.0.0.1:0"
"""


def run(size: Size, crowd_nice: int = 0) -> Report:
    """A hub, a prober and a crowd of that size. A crowd that is nice does not take the processor from the prober."""
    report = Report()
    with tempfile.TemporaryDirectory() as directory:
        settings = Path(directory) / "hub.toml"
        settings.write_text(SETTINGS)
        with (Path(directory) / "log").open("wb") as log:
            command = [
                sys.executable,
                "-c",
                "from wirelake.cli import main; main()",
                "serve",
                "--config",
                str(settings),
            ]
            hub = subprocess.Popen([*command, "--log-level", "warn"], stdout=subprocess.PIPE, stderr=log)
        try:
            _among(size, hub, report, crowd_nice)
            report.peak_bytes = _peak(hub.pid)
        finally:
            hub.terminate()
            try:
                status = hub.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                hub.kill()
                status = hub.wait()
            assert hub.stdout is not None
            hub.stdout.close()
        if status:
            report.problems.append(f"the hub ended with status {status}")
        if b"mistake" in (Path(directory) / "log").read_bytes():
            report.problems.append((Path(directory) / "log").read_text(errors="replace")[-2000:])
    if report.peak_bytes > size.memory * MIB:
        report.problems.append(f"the hub needed {report.peak_bytes / MIB:.0f} MiB, more than {size.memory}")
    return report


def _among(size: Size, hub: subprocess.Popen[bytes], report: Report, crowd_nice: int = 0) -> None:
    assert hub.stdout is not None
    told = json.loads(hub.stdout.readline())["listening"]
    listening = {name: (where.rpartition(":")[0], int(where.rpartition(":")[2])) for name, where in told.items()}
    command = [sys.executable, "-m", "benchmarks.crowd", "--probe", told["mb"], told["ceda"]]
    prober = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert prober.stdout is not None and prober.stdout.readline() == "ready\n"
    if crowd_nice:
        os.nice(crowd_nice)
    try:
        asyncio.run(Crowd(size, listening, report).run())
        _look(listening["metrics"], report)
    finally:
        report.latencies_ms = json.loads(prober.communicate(timeout=PATIENCE_SECONDS)[0] or "{}")


def _look(address: Address, report: Report) -> None:
    """The hub's own numbers, when all is over: everybody is gone, nobody is slow, no mistake of ours was made."""
    for _ in range(100):
        with socket.create_connection(address) as one:
            one.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
            content = b"".join(iter(lambda: one.recv(1 << 16), b"")).decode()
        lines = [line for line in content.splitlines() if not line.startswith("#")]
        left = [line for line in lines if line.startswith(("wirelake_slow_readers", "wirelake_errors"))]
        left = [line for line in left if not line.endswith(" 0")]
        left += [line for line in lines if line.startswith("wirelake_connections{") and float(line.split()[-1]) > 3]
        if not left:
            return
        time.sleep(0.1)
    report.problems += left


def _peak(process: int) -> int:
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def file_limit(size: Size) -> str:
    """Raises the limit of open files; why that is not enough, if it is not."""
    from wirelake.live.hub.hub import raise_file_limit

    found = raise_file_limit()
    wanted = size.idle + size.slow + 3 * size.half_open + 2 * size.dribblers + 20 * size.offenders + 200
    return f"{wanted} open files are needed, and {found} are allowed" if found and found < wanted else ""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.crowd", description="A hub among a crowd.")
    parser.add_argument("--tenth", action="store_true", help="a crowd of a tenth")
    parser.add_argument("--probe", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.probe:
        mb, ceda = ((place.rpartition(":")[0], int(place.rpartition(":")[2])) for place in given.probe)
        print(json.dumps(asyncio.run(probe(mb, ceda))))
        return 0
    size = TENTH if given.tenth else FULL
    problem = file_limit(size)
    if problem:
        print(f"crowd: {problem}", file=sys.stderr)
        return 1
    report = run(size, crowd_nice=10)
    for name, seconds in report.seconds.items():
        print(f"{name:16}{seconds:8.1f} s")
    for name in report.latencies_ms:
        p50, p99, most = (report.quantile(name, share) for share in (0.5, 0.99, 1.0))
        is_good = p99 < P99_MS
        count = len(report.latencies_ms[name])
        print(f"{name:16}{count:8} answers, p50 {p50:.1f} ms, p99 {p99:.1f} ms, most {most:.0f} ms")
        if not is_good:
            report.problems.append(f"p99 of {name} is {p99:.1f} ms, {P99_MS:g} are allowed")
    print(f"{'memory':16}{report.peak_bytes / MIB:8.0f} MiB at most")
    for problem in report.problems:
        print(f"MISSED  {problem}")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
