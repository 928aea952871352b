"""``wirelake tap`` and ``wirelake export`` as users run them: processes of their own, real sockets, real kills."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from click.testing import CliRunner

from tests.live.tapping import by_client, recorded
from tests.waiting import until
from wirelake.capture.chunks import TO_CLIENT, TO_SERVER
from wirelake.cli import cli

COMMAND = (sys.executable, "-c", "from wirelake.cli import main; main()")
HERE = "127.0.0.1"
SECONDS = 50.0
GONE = (ConnectionResetError, BrokenPipeError)


class Tap:
    """A running ``wirelake tap``."""

    def __init__(self, upstream: tuple[str, int], directory: Path, *options: str, before: str = "") -> None:
        command = [*COMMAND, "tap", f"{HERE}:0", f"{upstream[0]}:{upstream[1]}", str(directory), *options]
        if before:
            command = ["sh", "-c", f'{before}; exec "$@"', "sh", *command]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate(timeout=SECONDS)[1]
        self.ready = json.loads(line)
        host, _, port = self.ready["listening"]["tap"].rpartition(":")
        self.address = (host, int(port))

    def end(self, *signals: signal.Signals) -> tuple[int, list[dict[str, Any]]]:
        """The status with which it ends, and what it has logged."""
        for one in signals:
            self.process.send_signal(one)
        out, err = self.process.communicate(timeout=SECONDS)
        assert out == ""
        return self.process.returncode, [json.loads(line) for line in err.splitlines()]

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate(timeout=SECONDS)


@contextmanager
def echo() -> Iterator[tuple[str, int]]:
    """A server that says everything twice."""

    def answer(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while data := connection.recv(1 << 16):
                connection.sendall(data + data)

    def accept() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=answer, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server((HERE, 0)) as listener:
        thread = threading.Thread(target=accept)
        thread.start()
        try:
            yield listener.getsockname()
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(SECONDS)


def received(connection: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count and (data := connection.recv(1 << 16)):
        found += data
    return bytes(found)


# --- as it should be


def test_a_tap_says_where_it_listens_passes_everything_on_and_ends_with_a_summary(tmp_path: Path) -> None:
    with echo() as server:
        tap = Tap(server, tmp_path / "captures", "-p", "mb")
        assert tap.ready == {
            "listening": {"tap": f"{HERE}:{tap.address[1]}"},
            "upstream": f"{HERE}:{server[1]}",
            "directory": str(tmp_path / "captures"),
        }
        sent = Random(1).randbytes(300_000)
        with socket.create_connection(tap.address, timeout=SECONDS) as client:
            threading.Thread(target=client.sendall, args=(sent,)).start()
            assert len(received(client, 600_000)) == 600_000
            port = client.getsockname()[1]
            with socket.create_connection(tap.address, timeout=SECONDS) as idle:
                idle.sendall(b"x")
                assert received(idle, 2) == b"xx"
                status, logs = tap.end(signal.SIGTERM)
                assert idle.recv(1) == b""
    assert status == 0
    assert [line["text"] for line in logs] == ["listening", "ending", "ended"]
    assert all(line["level"] == "info" and line["ts"].endswith("Z") for line in logs)
    assert (logs[1]["signal"], logs[1]["connections"]) == ("SIGTERM", 2)
    summary = {name: logs[2][name] for name in ("connections", "bytes_to_server", "bytes_to_client", "files")}
    assert summary == {"connections": 2, "bytes_to_server": 300_001, "bytes_to_client": 600_002, "files": 1}
    assert (logs[2]["bytes_recorded"], logs[2]["bytes_unrecorded"]) == (900_003, 0)
    found = by_client(tmp_path / "captures")
    assert found[port].both[0] == sent and len(found[port].both[1]) == 600_000
    assert {one.connection.protocol for one in found.values()} == {"mb"}
    assert {one.connection.ended for one in found.values()} == {"closed"}


def test_a_second_signal_ends_it_at_once(tmp_path: Path) -> None:
    with socket.create_server((HERE, 0)) as server:
        tap = Tap(server.getsockname(), tmp_path, "--drain-seconds", "600", "-v")
        with socket.create_connection(tap.address, timeout=SECONDS) as client:
            peer, _ = server.accept()
            client.setblocking(False)
            with suppress(BlockingIOError):  # until nobody takes any more
                while True:
                    client.send(bytes(1 << 16))
            assert peer.recv(1) == b"\0"
            tap.process.send_signal(signal.SIGINT)
            assert tap.process.stderr is not None
            logs = []
            while not logs or logs[-1]["text"] != "ending":
                logs.append(json.loads(tap.process.stderr.readline()))
            status, rest = tap.end(signal.SIGINT)
            peer.close()
    assert status == 0
    assert [line["text"] for line in (*logs, *rest)] == ["listening", "connected", "ending", "disconnected", "ended"]


def test_what_cannot_be_recorded_is_passed_on_all_the_same_and_told(tmp_path: Path) -> None:
    with echo() as server:
        tap = Tap(server, tmp_path, before="ulimit -f 300")  # blocks: no file may be longer
        with socket.create_connection(tap.address, timeout=SECONDS) as client:
            for number in range(40):
                client.sendall(bytes([number]) * 20_000)
                assert received(client, 40_000) == bytes([number]) * 40_000
        status, logs = tap.end(signal.SIGTERM)
    assert status == 1
    (problem,) = (line for line in logs if line["level"] == "error")
    assert "recording has stopped, traffic goes on" in problem["text"] and "File too large" in problem["text"]
    assert logs[-1]["bytes_unrecorded"] > 100_000
    assert logs[-1]["bytes_recorded"] + logs[-1]["bytes_unrecorded"] == 40 * 60_000


def test_nobody_has_to_read_the_log_for_traffic_to_go_on(tmp_path: Path) -> None:
    with echo() as server:
        tap = Tap(server, tmp_path, "-v")
        for _ in range(500):  # more lines than a pipe takes
            with socket.create_connection(tap.address, timeout=SECONDS) as client:
                client.sendall(b"x")
                assert received(client, 2) == b"xx"
        status, logs = tap.end(signal.SIGTERM)
    assert status == 0 and logs[-1]["connections"] == 500
    assert sum(len(json.dumps(line)) for line in logs) > 1 << 16


def test_files_are_rotated_as_the_options_say(tmp_path: Path) -> None:
    with echo() as server:
        tap = Tap(server, tmp_path, "--rotate-mb", "0.1")
        with socket.create_connection(tap.address, timeout=SECONDS) as client:
            for _ in range(20):
                client.sendall(bytes(10_000))
                assert len(received(client, 20_000)) == 20_000
        _, logs = tap.end(signal.SIGTERM)
    assert logs[-1]["files"] == len(list(tmp_path.iterdir())) >= 5
    (one,) = recorded(tmp_path).values()
    assert list(map(len, one.both)) == [200_000, 400_000]


# --- killed


@dataclass
class Link:
    """A connection through the tap, and what each end has received."""

    number: int
    port: int = 0
    at: tuple[bytearray, bytearray] = field(default_factory=lambda: (bytearray(), bytearray()))


class Traffic:
    """Many connections that talk both ways, until somebody cuts them."""

    def __init__(self, seed: int) -> None:
        self.links = [Link(number) for number in range(6)]
        self.received = 0
        self._seed = seed
        self._noise = Random(seed).randbytes(1 << 20)
        self._tasks: set[asyncio.Task[None]] = set()

    async def play(self, tap_to: Any, after: int) -> None:
        """Starts a tap with ``tap_to(address)``, and kills it when about so many bytes have been received."""
        listener = await asyncio.start_server(self._accept, HERE, 0)
        tap = await asyncio.to_thread(tap_to, listener.sockets[0].getsockname())
        clients = [asyncio.create_task(self._connect(link, tap.address)) for link in self.links]
        await until(lambda: self.received >= after)
        await asyncio.to_thread(tap.kill)
        await asyncio.gather(*clients, *self._tasks)
        listener.close()

    async def _connect(self, link: Link, address: tuple[str, int]) -> None:
        reader, writer = await asyncio.open_connection(*address)
        link.port = writer.get_extra_info("sockname")[1]
        writer.write(struct.pack("<I", link.number))
        await self._talk(reader, writer, link.at[TO_CLIENT], Random(link.number))

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            head = await reader.readexactly(4)
        except (asyncio.IncompleteReadError, *GONE):
            writer.close()
            return
        (number,) = struct.unpack("<I", head)
        self.links[number].at[TO_SERVER].extend(head)
        await self._talk(reader, writer, self.links[number].at[TO_SERVER], Random(-number))

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, got: bytearray, rng: Random
    ) -> None:
        speaking = asyncio.create_task(self._speak(writer, rng))
        with suppress(*GONE):
            while data := await reader.read(1 << 16):
                got += data
                self.received += len(data)
        speaking.cancel()
        with suppress(asyncio.CancelledError):
            await speaking
        writer.transport.abort()

    async def _speak(self, writer: asyncio.StreamWriter, rng: Random) -> None:
        with suppress(*GONE):
            while True:
                at, size = rng.randrange(1 << 19), rng.choice((1, 20, 300, 5_000, 70_000))
                writer.write(self._noise[at : at + size])
                await writer.drain()
                await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_somebody_has_received_is_in_the_capture_when_the_tap_is_killed(seed: int, tmp_path: Path) -> None:
    chance = Random(seed)
    traffic = Traffic(seed)

    def tap_to(address: tuple[str, int]) -> Tap:
        return Tap(address, tmp_path, "--rotate-mb", "0.5")

    async def play() -> None:
        async with asyncio.timeout(SECONDS):
            await traffic.play(tap_to, int(10 ** chance.uniform(3, 6.7)))

    asyncio.run(play())
    found = by_client(tmp_path)
    compared = 0
    for link in traffic.links:
        for way in (TO_SERVER, TO_CLIENT):
            got = bytes(link.at[way])
            compared += len(got)
            if got:
                assert found[link.port].streams[way].startswith(got)
                assert found[link.port].gaps[way] == []
    assert compared >= 1000


# --- mistakes


@pytest.mark.parametrize(
    ("listen", "upstream", "said"),
    [
        ("4001", "127.0.0.1:3001", "'4001' is not an address; write HOST:PORT"),
        ("127.0.0.1:70000", "127.0.0.1:3001", "'127.0.0.1:70000' is not an address"),
        ("127.0.0.1:x", "127.0.0.1:3001", "'127.0.0.1:x' is not an address"),
        ("::1:4001", "127.0.0.1:3001", "an IPv6 address is written in brackets"),
        ("[::1]:4001", "127.0.0.1:0", "give both host and port of the server"),
        ("127.0.0.1:0", ":3001", "give both host and port of the server"),
    ],
)
def test_a_bad_address_is_named(listen: str, upstream: str, said: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["tap", listen, upstream, str(tmp_path / "captures")])
    assert done.exit_code == 2
    assert said in done.stderr and done.stdout == ""
    assert not (tmp_path / "captures").exists()


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=SECONDS)


def test_what_prevents_a_start_is_said_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with socket.create_server((HERE, 0)) as taken:
        address = f"{HERE}:{taken.getsockname()[1]}"
        done = run("tap", address, "127.0.0.1:9", str(tmp_path / "captures"))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == f"Error: cannot listen on {address}: address already in use\n"
    done = run("tap", "127.0.0.1:0", "127.0.0.1:9", str(tmp_path / "file"))
    assert (done.returncode, done.stderr) == (1, f"Error: cannot record into {tmp_path}/file: File exists\n")
    done = run("tap", "127.0.0.1:0", "127.0.0.1:9", str(tmp_path / "file" / "below"))
    assert (done.returncode, done.stderr) == (1, f"Error: cannot record into {tmp_path}/file/below: Not a directory\n")
    done = run("tap", "192.0.2.1:0", "127.0.0.1:9", str(tmp_path / "captures"))
    assert (done.returncode, done.stderr) == (
        1, "Error: cannot listen on 192.0.2.1:0: cannot assign requested address\n",
    )  # fmt: skip


def test_a_server_that_is_not_there_is_told(tmp_path: Path) -> None:
    with socket.create_server((HERE, 0)) as closed:
        address = closed.getsockname()
    tap = Tap(address, tmp_path)
    with socket.create_connection(tap.address, timeout=SECONDS) as client:
        assert client.recv(1) == b""
    status, logs = tap.end(signal.SIGTERM)
    (problem,) = (line for line in logs if line["level"] == "warn")
    assert problem["text"] == "the upstream cannot be reached" and problem["upstream"] == f"{HERE}:{address[1]}"
    assert (status, logs[-1]["unreachable"]) == (0, 1)
