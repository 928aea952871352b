"""A domain as a process, spoken to in raw frames: killed with -9 and started again on the same storage."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.casual.play import uuid, xid
from wirelake.codec import encode
from wirelake.codec.stream import Decoded, StreamDecoder
from wirelake.live.casual.wire import NIL, NULL_XID
from wirelake.protocols import casual as c

COMMAND = [sys.executable, "-c", "from wirelake.cli import main; main()", "serve", "--casual", "127.0.0.1:0"]
SECONDS = 30.0
HUB = """\
[casual]
name = "wl-live"
storage = "casual.db"                        # a plain path is SQLite
services = "live_services:domain"
queues = [{name = "qA", retries = 2}]
"""
SERVICES = """\
from wirelake.live.casual import Domain, Reply
domain = Domain()

@domain.service("name", transaction="auto")  # auto | join | atomic | none; def or async def
def handler(value):
    return value

@domain.service("fails", transaction="join")
async def fails(value):
    return Reply(value, code=7, failed=True)

@domain.service("raises", transaction="none")
def raises(value):
    raise RuntimeError(value)

@domain.service("puts")
async def puts(value):
    await domain.enqueue("qA", value)

@domain.service("puts.from.thread", transaction="join")
def puts_from_thread(value):
    return domain.blocking.enqueue("qA", value)
"""


class Wire:
    """One connection, in frames."""

    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), SECONDS)
        self._decoder = StreamDecoder("casual")
        self._heard: list[Any] = []
        self._count = 0
        self.hello = self.ask(c.DomainConnectRequest, c.Domain(uuid(1), "raw"), c.Offer((1000,)))

    def send(self, kind: Any, *fields: Any) -> bytes:
        self._count += 1
        correlation = uuid(self._count)
        self.socket.sendall(encode(kind(correlation, uuid(500), *fields)))
        return correlation

    def receive(self) -> Any:
        while not self._heard:
            data = self.socket.recv(1 << 16)
            assert data, "the domain closed the connection"
            for event in self._decoder.feed(data):
                assert isinstance(event, Decoded), event
                self._heard.append(event.message)
        return self._heard.pop(0)

    def ask(self, kind: Any, *fields: Any) -> Any:
        correlation = self.send(kind, *fields)
        reply = self.receive()
        assert reply.correlation == correlation and reply.execution == uuid(500)
        return reply

    def call(self, service: str, kind: str, payload: bytes, xid: c.Xid = NULL_XID) -> Any:
        buffer = c.Buffer(kind, payload)
        return self.ask(c.ServiceCallRequest, c.Service(service, 5_000_000), c.Parent(""), xid, 0, buffer)

    def enqueue(self, payload: bytes, xid: c.Xid = NULL_XID, queue: str = "qA") -> bytes:
        message = c.Enqueued(NIL, "", "", 0, "X_OCTET/", payload)
        return self.ask(c.QueueEnqueueRequest, queue, xid, message).id  # type: ignore[no-any-return]

    def dequeue(self, xid: c.Xid = NULL_XID, queue: str = "qA") -> list[bytes]:
        reply = self.ask(c.QueueDequeueRequest, queue, xid, c.Selector("", NIL), False)
        return [message.payload for message in reply.message]

    def resource(self, kind: Any, xid: c.Xid, flags: int = 0) -> int:
        reply = self.ask(kind, xid, c.Resource(-1), flags)
        assert reply.xid == xid and reply.resource.id == -1
        return int(reply.resource.state)


class Process:
    def __init__(self, directory: Path) -> None:
        with (directory / "stderr").open("ab") as errors:
            self.process = subprocess.Popen(
                [*COMMAND, "--config", "hub.toml"], stdout=subprocess.PIPE, stderr=errors, text=True, cwd=directory
            )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, (directory / "stderr").read_text()
        told = json.loads(line)
        assert list(told) == ["listening"] and list(told["listening"]) == ["casual"]
        self.address = told["listening"]["casual"]

    def kill(self, number: int = signal.SIGKILL) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(SECONDS)
        assert self.process.stdout is not None
        self.process.stdout.close()


Start = Callable[[], Process]
Connect = Callable[[Process], Wire]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    (tmp_path / "hub.toml").write_text(HUB)
    (tmp_path / "live_services.py").write_text(SERVICES)
    started: list[Process] = []

    def begin() -> Process:
        started.append(Process(tmp_path))
        return started[-1]

    yield begin
    for process in started:
        process.kill()


@pytest.fixture
def connect() -> Iterator[Connect]:
    wires: list[Wire] = []

    def begin(process: Process) -> Wire:
        wires.append(Wire(process.address))
        return wires[-1]

    yield begin
    for wire in wires:
        wire.socket.close()


def test_services_and_queues_of_a_file(start: Start, connect: Connect) -> None:
    wire = connect(start())
    assert (wire.hello.domain.name, wire.hello.protocol.version) == ("wl-live", 1000)
    found = wire.ask(c.DomainDiscoverRequest, c.Domain(uuid(1), "raw"), ("name", "no"), ("qA", "qA.error", "no"))
    assert [(one.name, one.transaction, one.hops) for one in found.services] == [("name", 0, 0)]
    assert [(one.name, one.retries) for one in found.queues] == [("qA", 2), ("qA.error", 0)]
    for kind, payload in (("X_OCTET/", b"\xff\0"), (".json/", b'{"a":[1]}'), ("CSTRING/", b"hi\0"), ("NULL", b"")):
        reply = wire.call("name", kind, payload)
        assert (reply.call.status, reply.buffer.type, reply.buffer.payload) == (0, kind, payload)
    reply = wire.call("fails", "X_OCTET/", b"why")
    assert (reply.call.status, reply.call.code, reply.buffer.payload) == (11, 7, b"why")
    reply = wire.call("raises", "X_OCTET/", b"")
    assert (reply.call.status, reply.buffer) == (10, c.Buffer("", b""))
    assert wire.call("nobody", "X_OCTET/", b"").call.status == 6
    assert wire.call("name", ".json/", b"{").call.status == 17
    assert wire.call("puts", "X_OCTET/", b"one").call.status == 0
    assert wire.call("puts.from.thread", "X_OCTET/", b"two", xid(1)).call.status == 18, "an id is no octets"
    assert wire.dequeue() == [b"one"] and wire.dequeue() == []


def test_what_was_acknowledged_survives_kill_9(start: Start, connect: Connect) -> None:
    process = start()
    wire = connect(process)
    assert wire.enqueue(b"plain") != NIL and wire.enqueue(b"no", queue="missing") == NIL
    assert wire.enqueue(b"prepared", xid(1)) != NIL and wire.enqueue(b"active", xid(2)) != NIL
    assert wire.enqueue(b"one phase", xid(3)) != NIL
    assert wire.resource(c.ResourcePrepareRequest, xid(1)) == 0
    assert wire.resource(c.ResourceCommitRequest, xid(3), 0x40000000) == 0
    process.kill()
    process = start()
    wire = connect(process)
    assert wire.resource(c.ResourceCommitRequest, xid(2)) == -4
    assert wire.resource(c.ResourceCommitRequest, xid(3), 0x40000000) == 0
    assert wire.dequeue() == [b"plain"] and wire.dequeue() == [b"one phase"] and wire.dequeue() == []
    assert wire.resource(c.ResourceCommitRequest, xid(1)) == 0
    process.kill()
    wire = connect(start())
    assert wire.resource(c.ResourceCommitRequest, xid(1)) == 0 and wire.resource(c.ResourceRollbackRequest, xid(1)) == 7
    assert wire.dequeue(xid(4)) == [b"prepared"]
