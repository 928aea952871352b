"""What the protocol says of connections, calls, transactions, queues and conversations, in raw frames over a socket."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.live.casual.play import uuid, xid
from tests.live.casual.raw import Process, Wire
from wirelake.codec import encode
from wirelake.live.casual.wire import NIL, NULL_XID
from wirelake.protocols import casual as c

HUB = """\
[casual]
name = "rules"
storage = "casual.db"
services = "rules_services:domain"
queues = [
    {name = "qA", retries = 1}, {name = "poison"}, {name = "delayed", retries = 3, retry_seconds = 3600},
    {name = "one", limit = 1},
]
"""
SERVICES = """\
import asyncio
from wirelake.live.casual import Domain, Reply
domain = Domain()

@domain.service("echo", transaction="none")
async def echo(value):
    return value

@domain.service("nothing", transaction="none")
def nothing(value):
    return None

@domain.service("fails", transaction="join")
def fails(value):
    return Reply(value, code=-7, failed=True)

@domain.service("raises", transaction="join")
def raises(value):
    raise RuntimeError(value)

@domain.service("for.ever", transaction="join")
async def for_ever(value):
    await asyncio.Event().wait()

@domain.service("secret", category=".admin")
def secret(value):
    return value

@domain.service("auto", transaction="auto")
async def auto(value):
    await domain.enqueue("qA", value)

@domain.service("atomic", transaction="atomic")
async def atomic(value):
    await domain.enqueue("qA", value)
    if value == b"no":
        return Reply(value, failed=True)

@domain.conversational("chat")
async def chat(talk, first):
    said = first if talk.has_control else await talk.receive()
    await talk.send(said, passes_control=True)
    return await talk.receive()

@domain.conversational("waits")
async def waits(talk, first):
    await asyncio.Event().wait()

@domain.conversational("put", transaction="auto")
async def put(talk, first):
    await domain.enqueue("qA", first)
    return Reply(first, failed=first == b"no")

@domain.conversational("put.apart", transaction="atomic")
async def put_apart(talk, first):
    await domain.enqueue("qA", first)
    return Reply(first, failed=first == b"no")
"""
OK, RDONLY, RBROLLBACK, RBTIMEOUT, HEURRB, HEURCOM, NOTA, PROTO = 0, 3, 100, 106, 6, 7, -4, -6
ONE_PHASE = 0x40000000
PREPARE, COMMIT, ROLLBACK = c.ResourcePrepareRequest, c.ResourceCommitRequest, c.ResourceRollbackRequest
NOREPLY, NOTRAN, NOTIME, SENDONLY, RECVONLY = 4, 8, 0x20, 0x800, 0x1000
SVCERR, SVCFAIL, SVCSUCC, PASS = 2, 4, 8, 0x20
Connect = Callable[..., Wire]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    directory = tmp_path_factory.mktemp("rules")
    (directory / "hub.toml").write_text(HUB)
    (directory / "rules_services.py").write_text(SERVICES)
    started = Process(directory)
    yield started
    assert started.process.poll() is None, "the domain has ended"
    started.kill()
    assert "a mistake" not in (directory / "stderr").read_text()


@pytest.fixture
def connect(process: Process) -> Iterator[Connect]:
    wires: list[Wire] = []

    def begin(versions: Sequence[int] | None = (1000,)) -> Wire:
        wires.append(Wire(process.address, versions))
        return wires[-1]

    yield begin
    for wire in wires:
        wire.close()
    wire = Wire(process.address)
    for queue in ("qA", "qA.error", "poison", "poison.error", "one"):
        while wire.take(queue=queue):
            pass
    wire.close()


@pytest.fixture
def wire(connect: Connect) -> Wire:
    return connect()


_numbers = iter(range(1_000, 1_000_000))


def new_xid(form: int = 42) -> c.Xid:
    return xid(next(_numbers), form=form)


# --- connections (8)


@pytest.mark.parametrize("versions", [(1000, 1001, 1002), (1004, 1003, 1002, 1001, 1000), (1, 1000)])
def test_the_common_version_is_chosen(connect: Connect, versions: tuple[int, ...]) -> None:
    assert connect(versions).hello.protocol.version == 1000


@pytest.mark.parametrize("versions", [(), (1001,), (0,), (-1, 999)])
def test_no_common_version_is_told_and_closed(connect: Connect, versions: tuple[int, ...]) -> None:
    wire = connect(versions)
    assert wire.hello.protocol.version == 0 and wire.is_closed()


def call_frame(flags: int = 0) -> bytes:
    call = c.ServiceCallRequest(
        uuid(1), uuid(2), c.Service("echo", 0), c.Parent(""), NULL_XID, flags, c.Buffer("X_OCTET/", b"")
    )
    return encode(call)


@pytest.mark.parametrize("frame", [call_frame(), struct.pack(">Q16sQ", 7202, uuid(1), 16) + bytes(16)])
def test_before_the_handshake_nothing_else_is_allowed(connect: Connect, frame: bytes) -> None:
    wire = connect(None)
    wire.socket.settimeout(5.0)  # less than the time that a peer has to introduce itself
    wire.send_bytes(frame)
    assert wire.is_closed()


def test_a_second_handshake_is_closed(wire: Wire) -> None:
    wire.send(c.DomainConnectRequest, c.Domain(uuid(1), "raw"), c.Offer((1000,)))
    assert wire.is_closed()


@pytest.mark.parametrize("code", [1, 3102, 6102, 7202, 7302, 0x1_0000_0C1C, 1 << 63])
def test_unknown_types_are_skipped(wire: Wire, code: int) -> None:
    wire.send_bytes(struct.pack(">Q16sQ", code, uuid(1), 40) + bytes(40))
    assert wire.is_quiet()


@pytest.mark.parametrize(
    "frame",
    [
        struct.pack(">Q16sQ", 3100, uuid(1), 1 << 62),
        struct.pack(">Q16sQ", 3100, uuid(1), (1 << 28) + 1),
        struct.pack(">Q16sQ", 9999, uuid(1), 1 << 62),
        struct.pack(">Q16sQ", 3100, uuid(1), 1 << 63),
        call_frame()[:24] + struct.pack(">Q", len(call_frame()) - 32 + 1) + call_frame()[32:] + b"\0",
        call_frame()[:24] + struct.pack(">Q", len(call_frame()) - 32 + 8) + call_frame()[32:] + b"\0\0\0\0\0\0\0\1",
        call_frame()[:48] + struct.pack(">q", -1) + call_frame()[56:],
        call_frame()[:48] + struct.pack(">q", 1 << 40) + call_frame()[56:],
        struct.pack(">Q16sQ16s", 5201, uuid(1), 40, uuid(2)) + struct.pack(">qqq", 42, 65, 64),
        struct.pack(">Q16sQ16s", 7300, uuid(1), 56, uuid(2)) + uuid(3) + struct.pack(">qqq", 0, 1 << 60, 0),
    ],
)
def test_frames_that_cannot_be_are_closed_and_others_go_on(connect: Connect, frame: bytes) -> None:
    wire, other = connect(), connect()
    wire.send_bytes(frame)
    assert wire.is_closed() and other.call("echo", payload=b"x").buffer.payload == b"x"


def test_a_bool_is_zero_or_one(wire: Wire) -> None:
    frame = encode(c.QueueDequeueRequest(uuid(1), uuid(2), "qA", NULL_XID, c.Selector("", NIL), False))
    wire.send_bytes(frame[:-1] + b"\2")
    assert wire.is_closed()


def test_java_adds_eight_zero_bytes(wire: Wire) -> None:
    frame = call_frame()
    wire.send_bytes(frame[:24] + struct.pack(">Q", len(frame) - 32 + 8) + frame[32:] + bytes(8))
    assert wire.receive().call.status == OK


def test_replies_that_nobody_waits_for_are_ignored(wire: Wire) -> None:
    wire.send(c.ServiceCallReply, c.Call(0, 0), NULL_XID, c.TransactionState(0), c.Buffer("", b""))
    wire.send(c.DomainConnectReply, c.Domain(uuid(1), "x"), c.Chosen(1000))
    wire.send(c.ConversationSend, c.Nodes(()), 0, 0, c.Buffer("", b""))
    wire.send(c.ConversationDisconnectLate)
    assert wire.is_quiet()


def test_a_correlation_in_progress_is_a_loop(wire: Wire) -> None:
    branch = new_xid()
    dequeue = c.QueueDequeueRequest(uuid(9_001), uuid(500), "qA", branch, c.Selector("nobody", NIL), True)
    call = c.ServiceCallRequest(
        uuid(9_001), uuid(500), c.Service("echo", 0), c.Parent(""), branch, 0, c.Buffer("NULL", b"")
    )
    connect = c.ConversationConnectRequest(
        uuid(9_001),
        uuid(500),
        c.Service("chat", 0),
        c.Parent(""),
        NULL_XID,
        SENDONLY,
        c.Nodes((1,)),
        c.Buffer("NULL", b""),
    )
    roll_back = c.ResourceRollbackRequest(uuid(9_001), uuid(500), branch, c.Resource(-1), 0)
    wire.send_bytes(encode(dequeue) + encode(dequeue) + encode(connect) + encode(roll_back) + encode(call))
    reply = wire.receive()
    assert (reply.correlation, reply.call.status, reply.transaction.state) == (uuid(9_001), 12, 2)
    assert wire.is_quiet()
    assert wire.send(ROLLBACK, branch, c.Resource(-1), 0)
    replies = {type(message): message for message in (wire.receive(), wire.receive())}
    assert replies[c.QueueDequeueReply].message == () and replies[c.ResourceRollbackReply].resource.state == OK


def test_blocked_dequeues_never_keep_a_commit_from_being_read(connect: Connect) -> None:
    """Ten thousand of them, and the commit that wakes one of them is behind them on the same connection."""
    wire, branch = connect(), new_xid()
    ask = [
        encode(c.QueueDequeueRequest(uuid(100_000 + n), uuid(500), "qA", NULL_XID, c.Selector("", NIL), True))
        for n in range(10_000)
    ]
    assert wire.enqueue(b"x", branch) != NIL
    wire.send_bytes(b"".join(ask))
    wire.send(COMMIT, branch, c.Resource(-1), ONE_PHASE)
    got = [wire.receive(), wire.receive()]
    (dequeued,) = (message for message in got if isinstance(message, c.QueueDequeueReply))
    assert dequeued.correlation == uuid(100_000) and dequeued.message[0].payload == b"x"
    wire.close()
    other = connect()
    assert other.enqueue(b"y") != NIL and other.dequeue() == [b"y"], "they ended with their connection"


# --- discovery (9)


def test_discovery_replies_with_what_is_offered(wire: Wire) -> None:
    asked = ("echo", "no", "secret", "auto", "echo")
    reply = wire.ask(c.DomainDiscoverRequest, c.Domain(uuid(1), "raw"), asked, ("qA", "one.error", "*", "", "delayed"))
    assert [(one.name, one.transaction, one.hops, one.timeout) for one in reply.services] == [
        ("echo", 3, 0, 0),
        ("auto", 0, 0, 0),
    ]
    assert [(one.name, one.retries) for one in reply.queues] == [("qA", 1), ("one.error", 0), ("delayed", 3)]
    assert reply.domain.name == "rules" and reply.domain.id != NIL


# --- calls (10)


@pytest.mark.parametrize("null", [NULL_XID, c.Xid(0)])
def test_a_call_without_a_transaction(wire: Wire, null: c.Xid) -> None:
    reply = wire.call("echo", ".json/", b'{"a":1}', null)
    assert (reply.call, reply.xid, reply.transaction.state) == (c.Call(0, 0), null, 0)
    assert reply.buffer == c.Buffer(".json/", b'{"a":1}')


@pytest.mark.parametrize(
    "buffer", [("NULL", b""), ("", b""), ("CSTRING/", b"\0"), (".binary/", b"\0\1"), ("X/y", b"z")]
)
def test_buffers_go_there_and_back(wire: Wire, buffer: tuple[str, bytes]) -> None:
    reply = wire.call("echo", *buffer)
    assert reply.call.status == OK and reply.buffer == c.Buffer(buffer[0] or "NULL", buffer[1])
    assert wire.call("nothing", *buffer).buffer == c.Buffer("NULL", b"")


@pytest.mark.parametrize(
    ("service", "timeout", "status", "code", "state", "payload", "vote"),
    [
        ("nobody", 0, 6, 0, 2, b"", RBROLLBACK),
        ("secret", 0, 6, 0, 2, b"", RBROLLBACK),
        ("raises", 0, 10, 0, 2, b"", RBROLLBACK),
        ("fails", 0, 11, -7, 2, b"why", RBROLLBACK),
        ("for.ever", 1_000, 13, 0, 1, b"", RBTIMEOUT),
    ],
)
def test_a_failed_call_has_its_code_and_spoils_its_transaction(
    wire: Wire, service: str, timeout: int, status: int, code: int, state: int, payload: bytes, vote: int
) -> None:
    branch = new_xid()
    assert wire.enqueue(b"x", branch) != NIL
    reply = wire.call(service, payload=b"why", xid=branch, timeout=timeout)
    assert (reply.call.status, reply.call.code, reply.transaction.state) == (status, code, state)
    assert reply.xid == branch and reply.buffer.payload == payload and bool(reply.buffer.type) == bool(payload)
    assert wire.resource(PREPARE, branch) == vote and wire.resource(PREPARE, branch) == vote
    assert wire.resource(ROLLBACK, branch) == OK and wire.dequeue() == []
    assert wire.call(service, payload=b"why", timeout=timeout).transaction.state == 0


@pytest.mark.parametrize("service", ["echo", "nobody", "raises", "fails", "auto"])
def test_a_call_without_reply_has_none_and_no_transaction(wire: Wire, service: str) -> None:
    branch = new_xid()
    buffer = c.Buffer("X_OCTET/", b"later")
    wire.send(c.ServiceCallRequest, c.Service(service, 0), c.Parent(""), branch, NOREPLY, buffer)
    if service == "auto":
        assert wire.take(block=True)[0].payload == b"later"
    assert wire.is_quiet() and wire.resource(PREPARE, branch) == NOTA


def test_a_call_outside_the_transaction_of_its_caller(wire: Wire) -> None:
    branch = new_xid()
    assert wire.call("auto", payload=b"x", xid=branch, flags=NOTRAN).call.status == OK
    assert wire.dequeue() == [b"x"] and wire.resource(COMMIT, branch) == NOTA


def test_a_call_that_waits_for_ever_has_no_limit(wire: Wire) -> None:
    call = c.ServiceCallRequest, c.Service("for.ever", 1), c.Parent(""), NULL_XID, NOTIME, c.Buffer("NULL", b"")
    wire.send(*call)
    assert wire.call("for.ever", timeout=20_000).call.status == 13 and wire.is_quiet()


def test_transaction_modes(wire: Wire) -> None:
    branch = new_xid()
    assert wire.call("auto", payload=b"joined", xid=branch).call.status == OK
    assert wire.call("atomic", payload=b"own", xid=branch).call.status == OK
    assert wire.call("atomic", payload=b"no").call.status == 11
    assert wire.dequeue() == [b"own"] and wire.dequeue() == []
    assert wire.resource(PREPARE, branch) == OK and wire.resource(COMMIT, branch) == OK
    assert wire.dequeue() == [b"joined"]


# --- transactions (11)


def test_an_unknown_branch_is_not_there(wire: Wire) -> None:
    for kind, flags in ((PREPARE, 0), (COMMIT, 0), (COMMIT, ONE_PHASE), (ROLLBACK, 0)):
        assert wire.resource(kind, new_xid(), flags) == NOTA
        assert wire.resource(kind, c.Xid(0), flags) == NOTA == wire.resource(kind, NULL_XID, flags)


def test_work_is_promised_committed_and_remembered(connect: Connect) -> None:
    """Prepared over one connection, which is lost, and committed over another one."""
    one, branch = connect(), new_xid()
    assert one.enqueue(b"x", branch) != NIL and one.resource(COMMIT, branch) == PROTO
    assert one.resource(PREPARE, branch) == OK and one.resource(PREPARE, branch) == OK
    one.close()
    other = connect()
    assert other.dequeue() == []
    assert other.call("echo", xid=branch).call.status == 14 and other.enqueue(b"late", branch) == NIL
    assert other.take(branch) == ()
    assert other.resource(COMMIT, branch) == OK and other.resource(COMMIT, branch) == OK
    assert other.resource(ROLLBACK, branch) == HEURCOM and other.resource(COMMIT, branch, ONE_PHASE) == OK
    assert other.dequeue() == [b"x"]
    assert other.call("echo", xid=branch).call.status == 14 and other.enqueue(b"late", branch) == NIL


@pytest.mark.parametrize("is_prepared", [False, True])
def test_work_is_rolled_back_and_that_is_remembered(wire: Wire, is_prepared: bool) -> None:
    branch = new_xid()
    assert wire.enqueue(b"x", branch) != NIL
    assert not is_prepared or wire.resource(PREPARE, branch) == OK
    assert wire.resource(ROLLBACK, branch) == OK and wire.resource(ROLLBACK, branch) == OK
    assert wire.resource(COMMIT, branch) == HEURRB and wire.resource(COMMIT, branch, ONE_PHASE) == RBROLLBACK
    assert wire.resource(PREPARE, branch) == RBROLLBACK and wire.dequeue() == []


def test_one_phase(wire: Wire) -> None:
    branch = new_xid()
    assert wire.enqueue(b"x", branch) != NIL and wire.resource(COMMIT, branch, ONE_PHASE) == OK
    assert wire.resource(COMMIT, branch, ONE_PHASE) == OK and wire.dequeue() == [b"x"]


@pytest.mark.parametrize(("kind", "flags"), [(PREPARE, 0), (COMMIT, ONE_PHASE)])
def test_a_branch_without_work_is_read_only(wire: Wire, kind: Any, flags: int) -> None:
    branch = new_xid()
    assert wire.take(branch) == () and wire.call("echo", xid=branch).call.status == OK
    assert wire.resource(kind, branch, flags) == RDONLY and wire.resource(kind, branch, flags) == RDONLY
    assert wire.enqueue(b"late", branch) == NIL


def test_active_work_is_rolled_back_with_its_connection(connect: Connect) -> None:
    one, branch = connect(), new_xid()
    assert one.enqueue(b"kept") != NIL
    assert one.dequeue(branch) == [b"kept"] and one.enqueue(b"gone", branch) != NIL
    one.close()
    other = connect()
    (message,) = other.take(block=True)
    assert (message.payload, message.redelivered) == (b"kept", 1)
    assert other.dequeue() == [] and other.resource(PREPARE, branch) == RBROLLBACK


@pytest.mark.parametrize("sizes", [(1, 1), (64, 64), (28, 0), (127, 1), (1, 127)])
@pytest.mark.parametrize("form", [131077, 42, 1, -2, 1 << 62])
def test_foreign_xids_are_opaque(wire: Wire, sizes: tuple[int, int], form: int) -> None:
    number = next(_numbers)
    gtrid, bqual = number.to_bytes(127, "little")[: sizes[0]], bytes(range(sizes[1]))
    if sizes[0] == 1:
        gtrid = bytes([number % 256])
    branch = c.Xid(form, gtrid, bqual)
    if wire.resource(PREPARE, branch) != NOTA:
        return  # one byte does not tell many apart
    assert wire.call("auto", payload=b"x", xid=branch).xid == branch
    assert wire.resource(PREPARE, branch) == OK and wire.resource(COMMIT, branch) == OK
    assert wire.dequeue() == [b"x"]


def test_another_coordinator_with_the_same_gtrid(connect: Connect) -> None:
    one, other, number = connect(), connect(), next(_numbers)
    branches = [xid(number, 1), xid(number, 2), xid(number, 1, 131077)]
    for wire, branch in zip((one, other, other), branches, strict=True):
        assert wire.enqueue(str(branch.format).encode() + branch.bqual, branch) != NIL
    assert other.resource(ROLLBACK, branches[1]) == OK
    assert one.resource(PREPARE, branches[0]) == OK and other.resource(COMMIT, branches[2], ONE_PHASE) == OK
    assert one.dequeue() == [b"131077" + branches[2].bqual]
    assert other.resource(COMMIT, branches[0]) == OK and other.dequeue() == [b"42" + branches[0].bqual]


@pytest.mark.parametrize("number", [-(1 << 31), -2, 0, 7, (1 << 31) - 1])
def test_the_number_of_a_resource_is_echoed(wire: Wire, number: int) -> None:
    reply = wire.ask(ROLLBACK, new_xid(), c.Resource(number), 0)
    assert (reply.resource.id, reply.resource.state) == (number, NOTA)


# --- queues (12)


def test_missing_queues_take_and_give_nothing(wire: Wire) -> None:
    for queue in ("missing", ""):
        assert wire.enqueue(b"x", queue=queue) == NIL and wire.take(queue=queue) == ()
        assert wire.take(queue=queue, block=True) == ()


def test_ids_are_made_or_kept_and_used_once(wire: Wire) -> None:
    branch, ident = new_xid(), uuid(next(_numbers))
    assert wire.enqueue(b"x", id=ident) == ident
    assert wire.enqueue(b"y", id=ident) == NIL and wire.enqueue(b"y", branch, id=ident) == NIL
    assert wire.enqueue(b"y", queue="poison", id=ident) == NIL
    (message,) = wire.take(id=ident)
    assert (message.id, message.payload, message.redelivered) == (ident, b"x", 0)
    assert wire.enqueue(b"z", id=ident) == ident


@pytest.mark.parametrize("available", [0, -1, -(1 << 63), 1, 1_500_000_000_000_000, 1_500_000_000_000_000_000])
def test_what_is_not_in_the_future_is_available_at_once(wire: Wire, available: int) -> None:
    before = time.time_ns() // 1_000
    assert wire.enqueue(b"x", available=available) != NIL
    (message,) = wire.take()
    seen = available // 1_000 if available >= 10**17 else available
    assert message.available == seen and before <= message.timestamp <= time.time_ns() // 1_000


def test_what_is_available_later_waits_but_not_for_who_names_it(wire: Wire) -> None:
    ident, hour = uuid(next(_numbers)), time.time_ns() // 1_000 + 3_600_000_000
    assert wire.enqueue(b"later", id=ident, available=hour) == ident
    assert wire.take() == () and wire.take(properties="x") == ()
    (message,) = wire.take(id=ident, properties="x")
    assert (message.payload, message.available) == (b"later", hour)
    correlation = wire.send(c.QueueDequeueRequest, "qA", NULL_XID, c.Selector("", NIL), True)
    soon = time.time_ns() // 1_000 + 50_000
    wire.send(c.QueueEnqueueRequest, "qA", NULL_XID, c.Enqueued(NIL, "", "", soon, "X_OCTET/", b"soon"))
    assert any(wire.receive().id)
    reply = wire.receive()
    assert reply.correlation == correlation and reply.message[0].payload == b"soon"
    assert time.time_ns() // 1_000 > soon


def test_selectors_compare_bytes(wire: Wire) -> None:
    for properties in ("a", "A", "a\0", "", "ä"):
        assert wire.enqueue(properties.encode(), properties=properties) != NIL
    for properties in ("a\0", "ä", "A"):
        assert wire.take(properties=properties)[0].payload == properties.encode()
    assert wire.take(properties="b") == ()
    assert [wire.dequeue(), wire.dequeue(), wire.dequeue()] == [[b"a"], [b""], []]


def test_waiting_dequeues_are_served_in_the_order_of_their_arrival(connect: Connect) -> None:
    first, second, third, writer = (connect() for _ in range(4))
    for wire, properties in ((first, "p"), (second, ""), (third, "p")):
        wire.send(c.QueueDequeueRequest, "qA", NULL_XID, c.Selector(properties, NIL), True)
        assert wire.is_quiet()
    for payload, properties in ((b"1", "q"), (b"2", "p"), (b"3", "p")):
        assert writer.enqueue(payload, properties=properties) != NIL
    assert [wire.receive().message[0].payload for wire in (second, first, third)] == [b"1", b"2", b"3"]


def test_uncommitted_messages_are_invisible_to_their_own_branch_too(wire: Wire) -> None:
    branch = new_xid()
    assert wire.enqueue(b"x", branch) != NIL and wire.take(branch) == () and wire.take() == ()
    assert wire.resource(COMMIT, branch, ONE_PHASE) == OK and wire.dequeue() == [b"x"]


def test_a_blocked_dequeue_ends_with_its_branch(wire: Wire) -> None:
    branch = new_xid()
    wire.send(c.QueueDequeueRequest, "qA", branch, c.Selector("", NIL), True)
    wire.send(ROLLBACK, branch, c.Resource(-1), 0)
    got = {type(message): message for message in (wire.receive(), wire.receive())}
    assert got[c.QueueDequeueReply].message == () and got[c.ResourceRollbackReply].resource.state == OK


@pytest.mark.parametrize(("queue", "retries"), [("qA", 1), ("poison", 0)])
def test_what_is_rolled_back_too_often_moves_to_the_error_queue(wire: Wire, queue: str, retries: int) -> None:
    ident = wire.enqueue(b"bad", queue=queue, properties="kept", available=5)
    (first,) = [wire.take(branch := new_xid(), queue)[0]]
    for attempt in range(retries + 1):
        if attempt:
            (message,) = wire.take(branch := new_xid(), queue)
            assert (message.redelivered, message.available) == (attempt, 0)
        assert wire.resource(ROLLBACK, branch) == OK
    assert wire.take(queue=queue) == ()
    for redelivered in (0, 1):
        (message,) = wire.take(branch := new_xid(), f"{queue}.error")
        assert (message.id, message.redelivered, message.available) == (ident, redelivered, 0)
        assert (message.properties, message.payload, message.timestamp) == ("kept", b"bad", first.timestamp)
        assert wire.resource(ROLLBACK, branch) == OK


def test_a_message_whose_consumers_die_ends_in_the_error_queue(connect: Connect) -> None:
    ident = connect().enqueue(b"poison")
    for redelivered in (0, 1):
        consumer = connect()
        (message,) = consumer.take(new_xid(), block=True)
        assert (message.id, message.redelivered) == (ident, redelivered)
        consumer.close()
    (message,) = connect().take(queue="qA.error", block=True)
    assert (message.id, message.payload, message.redelivered) == (ident, b"poison", 0)
    assert connect().take() == ()


def test_a_retry_waits_for_its_delay_and_shows_it(wire: Wire) -> None:
    ident, branch = wire.enqueue(b"x", queue="delayed"), new_xid()
    assert wire.dequeue(branch, "delayed") == [b"x"] and wire.resource(ROLLBACK, branch) == OK
    assert wire.take(queue="delayed") == ()
    (message,) = wire.take(queue="delayed", id=ident)
    assert message.redelivered == 1 and message.available > time.time_ns() // 1_000 + 3_000_000_000


def test_a_full_queue_refuses(wire: Wire) -> None:
    assert wire.enqueue(b"x", queue="one") != NIL and wire.enqueue(b"y", queue="one") == NIL
    assert wire.dequeue(queue="one") == [b"x"] and wire.enqueue(b"y", queue="one") != NIL


# --- conversations (13 and 15)


def open_document(
    wire: Wire, flags: int, service: str = "chat", xid: c.Xid = NULL_XID, first: bytes = b"first"
) -> tuple[bytes, Any]:
    opening = c.Service(service, 0), c.Parent(""), xid, flags, c.Nodes((3, 4)), c.Buffer("X_OCTET/", first)
    return wire.send(c.ConversationConnectRequest, *opening), wire.receive()


def say(wire: Wire, correlation: bytes, payload: bytes, happened: int = 0, route: tuple[int, ...] = ()) -> None:
    buffer = c.Buffer("X_OCTET/", payload)
    wire.send_bytes(encode(c.ConversationSend(correlation, uuid(500), c.Nodes(route), happened, 0, buffer)))


def test_a_conversation_of_the_document(wire: Wire) -> None:
    correlation, connected = open_document(wire, RECVONLY)
    assert (connected.correlation, connected.status, connected.route.nodes) == (correlation, 0, (3, 4))
    assert len(connected.recording.nodes) == 1 and connected.recording.nodes[0] > 0
    said = wire.receive()
    assert (said.correlation, said.events, said.status, said.buffer.payload) == (correlation, PASS, 0, b"first")
    assert said.route.nodes == (3, 4)
    say(wire, correlation, b"bye", PASS, (12_345,))
    said = wire.receive()
    assert (said.events, said.status, said.buffer.payload) == (SVCSUCC, 0, b"bye")
    say(wire, correlation, b"too late")
    assert wire.is_quiet()


def test_the_initiator_may_have_control_first(wire: Wire) -> None:
    correlation, connected = open_document(wire, SENDONLY)
    assert connected.status == 0 and wire.is_quiet()
    say(wire, correlation, b"go", PASS)
    assert wire.receive().buffer.payload == b"go"
    say(wire, correlation, b"end", PASS)
    assert wire.receive().events == SVCSUCC


@pytest.mark.parametrize(
    ("flags", "service", "status"),
    [(SENDONLY, "nobody", 6), (SENDONLY, "secret", 6), (0, "chat", 4), (SENDONLY | RECVONLY, "chat", 4)],
)
def test_refused_conversations(wire: Wire, flags: int, service: str, status: int) -> None:
    _, reply = open_document(wire, flags, service)
    assert reply.status == status and wire.is_quiet()


def test_a_conversation_in_a_finished_branch_is_refused(wire: Wire) -> None:
    branch = new_xid()
    assert wire.enqueue(b"x", branch) != NIL and wire.resource(ROLLBACK, branch) == OK
    assert open_document(wire, SENDONLY, xid=branch)[1].status == 14


def test_who_sends_without_control_hears_of_it(wire: Wire) -> None:
    branch = new_xid()
    correlation, _ = open_document(wire, SENDONLY, "waits", branch)
    say(wire, correlation, b"yours", PASS)
    say(wire, correlation, b"mine")
    said = wire.receive()
    assert (said.correlation, said.events, said.status) == (correlation, SVCERR, 10)
    assert wire.is_quiet() and wire.resource(PREPARE, branch) == RBROLLBACK


@pytest.mark.parametrize("happened", [SVCSUCC, SVCFAIL, SVCERR])
def test_only_a_service_ends_a_conversation_with_an_outcome(wire: Wire, happened: int) -> None:
    branch = new_xid()
    correlation, _ = open_document(wire, SENDONLY, xid=branch)
    say(wire, correlation, b"done", happened)
    said = wire.receive()
    assert (said.correlation, said.events, said.status) == (correlation, SVCERR, 10)
    assert wire.is_quiet() and wire.resource(PREPARE, branch) == RBROLLBACK


def test_a_disconnect_spoils_the_transaction(wire: Wire) -> None:
    branch = new_xid()
    correlation, _ = open_document(wire, SENDONLY, xid=branch)
    wire.send_bytes(encode(c.ConversationDisconnect(correlation, uuid(500), c.Nodes((5,)), 1)))
    assert wire.is_quiet() and wire.resource(PREPARE, branch) == RBROLLBACK


def open_late(wire: Wire, duplex: int, service: str = "chat") -> tuple[bytes, Any]:
    opening = c.LateService(service, 5_000_000_000), c.Parent(""), NULL_XID, duplex, c.Buffer("X_OCTET/", b"first")
    return wire.send(c.ConversationConnectRequestLate, *opening), wire.receive()


@pytest.mark.parametrize("versions", [(1000,), (1000, 1001)])
def test_a_late_conversation(connect: Connect, versions: tuple[int, ...]) -> None:
    wire = connect(versions)
    correlation, connected = open_late(wire, 0)
    assert isinstance(connected, c.ConversationConnectReplyLate) and connected.code.result == 0
    said = wire.receive()
    assert (said.duplex, said.code.result, said.buffer.payload) == (0, -1, b"first")
    late = c.ConversationSendLate(correlation, uuid(500), 0, c.OutcomeAndCode(-1, 0), c.Buffer("X_OCTET/", b"bye"))
    wire.send_bytes(encode(late))
    said = wire.receive()
    assert (said.duplex, said.code, said.buffer.payload) == (2, c.OutcomeAndCode(0, 0), b"bye")
    assert open_late(wire, 0, "nobody")[1].code.result == 6 and open_late(wire, 2)[1].code.result == 4
    assert wire.is_quiet()


@pytest.mark.parametrize("service", ["put", "put.apart"])
def test_a_conversational_service_has_a_transaction_of_its_own(wire: Wire, service: str) -> None:
    _, connected = open_document(wire, RECVONLY, service)
    assert connected.status == 0 and wire.receive().events == SVCSUCC
    assert wire.dequeue() == [b"first"]
    branch = new_xid()
    assert open_document(wire, RECVONLY, service, branch)[1].status == 0
    assert wire.receive().events == SVCSUCC
    assert wire.dequeue() == ([b"first"] if service == "put.apart" else [])
    assert wire.resource(COMMIT, branch, ONE_PHASE) == (RDONLY if service == "put.apart" else OK)


@pytest.mark.parametrize("service", ["put", "put.apart"])
def test_a_conversational_service_that_fails_has_done_nothing(wire: Wire, service: str) -> None:
    open_document(wire, RECVONLY, service, first=b"no")
    assert wire.receive().events == SVCFAIL and wire.dequeue() == []


# --- units of time (14)


def test_peers_that_offer_more_count_in_nanoseconds(connect: Connect) -> None:
    wire, before = connect((1000, 1001)), time.time_ns()
    hour = before + 3_600_000_000_000
    ident = wire.enqueue(b"x", available=hour)
    assert wire.take() == ()
    (message,) = wire.take(id=ident)
    assert message.available == hour and before <= message.timestamp <= time.time_ns()
    assert wire.call("for.ever", timeout=50_000_000).call.status == 13
