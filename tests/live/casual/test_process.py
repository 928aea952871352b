"""A domain as a process, spoken to in raw frames: killed with -9 and started again on the same storage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.live.casual.play import uuid, xid
from tests.live.casual.raw import Process, Wire
from wirelake.live.casual.wire import NIL
from wirelake.protocols import casual as c

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
