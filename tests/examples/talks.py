"""Well-known clients talk to well-known servers through our tap: captures of bytes that others have made."""

from __future__ import annotations

import asyncio
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from tests.needs import require
from tests.waiting import wait_until
from wirelake.live.tap.proxy import Proxy
from wirelake.live.tap.recorder import Recorder

HERE = "127.0.0.1"


@dataclass
class Talk:
    """A running tap: clients connect to ``port``, what they say is in ``folder`` once the tap has ended."""

    folder: Path
    port: int = 0
    passed: list[int] = field(default_factory=list)
    """Bytes to the server and to the client, once the tap has ended."""


@contextmanager
def tapped(folder: Path, upstream: int, protocol: str) -> Iterator[Talk]:
    """Record what passes between clients and the server on a port."""
    talk = Talk(folder)
    started, stopping = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def play() -> None:
        recorder = Recorder(folder)
        async with Proxy((HERE, 0), (HERE, upstream), recorder, protocol=protocol) as proxy:
            recorder.start()
            talk.port = int(proxy.listening[0][1])
            loops.append(asyncio.get_running_loop())
            started.set()
            await stopping.wait()
            await proxy.stop()
            talk.passed = list(proxy.passed)
        recorder.end()

    thread = threading.Thread(target=asyncio.run, args=(play(),))
    thread.start()
    try:
        assert started.wait(20)
        yield talk
    finally:
        if loops:
            loops[0].call_soon_threadsafe(stopping.set)
        thread.join(20)


def free_port() -> int:
    with closing(socket.create_server((HERE, 0))) as found:
        return int(found.getsockname()[1])


def accepts(port: int) -> bool:
    try:
        socket.create_connection((HERE, port), 1).close()
    except OSError:
        return False
    return True


@contextmanager
def running(folder: Path, port: int, *command: str) -> Iterator[int]:
    """Run a server until the end; return the port on which it takes connections."""
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        wait_until(lambda: accepts(port) or server.poll() is not None, tell=(folder / "log").read_text)
        assert server.poll() is None, (folder / "log").read_text()
        yield port
    finally:
        server.terminate()
        server.wait(20)


@contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    require("redis")
    port = free_port()
    with running(folder, port, "redis-server", "--port", str(port), "--bind", HERE, "--save", "") as found:
        yield found


@contextmanager
def mosquitto(folder: Path) -> Iterator[int]:
    require("mosquitto")
    port = free_port()
    (folder / "mosquitto.conf").write_text(f"listener {port} {HERE}\nallow_anonymous true\n")
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    with running(folder, port, program, "-c", "mosquitto.conf") as found:
        yield found


@contextmanager
def coilmq(folder: Path) -> Iterator[int]:
    port = free_port()
    with running(folder, port, sys.executable, str(Path(__file__).with_name("stomp_broker.py")), str(port)) as found:
        yield found


@contextmanager
def collector() -> Iterator[int]:
    """A server that takes what clients send, and replies nothing; it ends when it is told to."""
    with closing(socket.create_server((HERE, 0))) as listening:
        listening.settimeout(0.05)
        ended = threading.Event()

        def take(connection: socket.socket) -> None:
            with connection:
                while connection.recv(1 << 16):
                    pass

        def serve() -> None:
            while not ended.is_set():
                with suppress(TimeoutError):
                    take(listening.accept()[0])

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield int(listening.getsockname()[1])
        finally:
            ended.set()
            thread.join(20)
