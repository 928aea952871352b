"""Connections, discovery and calls of a domain that serves (casual specification, sections 8 to 10, 14, 16, 19)."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from tests.live.casual.play import EPOCH, Peer, Play, services_of, uuid, xid
from wirelake.codec import encode
from wirelake.live.casual.handlers import Reply, Services
from wirelake.live.casual.options import DomainLimits
from wirelake.live.casual.wire import NIL, NULL_XID
from wirelake.live.core.effects import Call, Store
from wirelake.protocols import casual as c

TPNOREPLY, TPNOTRAN, TPNOTIME = 4, 8, 0x20


@pytest.fixture
def play() -> Play:
    services = services_of(echo=lambda value: value, bad=lambda value: 1 / 0, fail=lambda value: Reply(value, 7, True))
    services.service("hidden", category=".admin")(lambda value: value)
    services.service("atomic", transaction="atomic", timeout=2.5)(lambda value: value)
    return Play(services)


@pytest.fixture
def peer(play: Play) -> Peer:
    return play.peer()


# --- the connection


@pytest.mark.parametrize("versions", [(1000,), (1000, 1001, 1002), (1004, 1003, 1002, 1001, 1000)])
def test_the_highest_common_version_is_chosen(play: Play, versions: tuple[int, ...]) -> None:
    peer = play.peer(greets=False)
    reply = peer.greet(versions)
    assert (reply.protocol.version, reply.domain.name, peer.is_closed) == (1000, "us", False)
    assert reply.domain.id == play.session.identity.id != NIL


def test_without_a_common_version_the_connection_is_closed(play: Play) -> None:
    peer = play.peer(greets=False)
    assert peer.greet((1001,)).protocol.version == 0 and peer.is_closed


def test_a_message_before_the_handshake_closes_the_connection(play: Play) -> None:
    peer = play.peer(greets=False)
    assert peer.enqueue() is None and peer.is_closed


def test_a_second_handshake_closes_the_connection(peer: Peer) -> None:
    assert peer.greet() is None and peer.is_closed


def test_a_peer_that_says_nothing_is_closed_after_a_while(play: Play) -> None:
    silent, talking = play.peer(greets=False), play.peer()
    play.wait(11)
    assert silent.is_closed and not talking.is_closed


def test_unknown_types_are_skipped(peer: Peer) -> None:
    for code in (0, 7202, 9999, 1 << 32 | 3100, (1 << 64) - 1):
        peer.send_bytes(struct.pack(">Q16sQ", code, uuid(1), 3) + b"abc")
    assert peer.call("echo", b"x").call.status == 0


@pytest.mark.parametrize(
    "wire",
    [
        struct.pack(">Q16sQ", 3100, uuid(1), 1 << 62),
        struct.pack(">Q16sQ", 9999, uuid(1), (1 << 63) + 5),
        struct.pack(">Q16sQ", 3100, uuid(1), 3) + b"abc",
        encode(c.QueueEnqueueReply(uuid(1), uuid(2), uuid(3))) + b"\1" * 5,
        encode(c.QueueDequeueRequest(uuid(1), uuid(2), "q", NULL_XID, c.Selector("", NIL), False))[:-1] + b"\2",
    ],
)
def test_undecodable_frames_close_the_connection_and_no_other(play: Play, peer: Peer, wire: bytes) -> None:
    other = play.peer()
    peer.send_bytes(wire)
    if wire.endswith(b"\1" * 5):
        peer.send_bytes(b"\1" * 27)
    assert peer.is_closed and other.call("echo", b"x").call.status == 0


def test_a_reply_that_nobody_waits_for_is_ignored(peer: Peer) -> None:
    peer.send(c.QueueEnqueueReply(uuid(1), uuid(2), uuid(3)))
    peer.send(c.DomainConnectReply(uuid(1), uuid(2), c.Domain(uuid(3), "x"), c.Chosen(1000)))
    assert peer.call("echo", b"x").call.status == 0


def test_java_pads_its_calls(peer: Peer) -> None:
    buffer = c.Buffer("X_OCTET/", b"x")
    frame = encode(c.ServiceCallRequest(uuid(9), uuid(8), c.Service("echo", 0), c.Parent(""), NULL_XID, 0, buffer))
    padded = frame[:24] + (len(frame) - 32 + 8).to_bytes(8, "big") + frame[32:] + bytes(8)
    peer.send_bytes(padded)
    (reply,) = peer.heard
    assert (reply.correlation, reply.buffer) == (uuid(9), buffer)


def test_bytes_may_come_one_by_one(peer: Peer) -> None:
    buffer = c.Buffer(".json/", b"[1]")
    frame = encode(c.ServiceCallRequest(uuid(9), uuid(8), c.Service("echo", 0), c.Parent(""), NULL_XID, 0, buffer))
    for place in range(len(frame)):
        peer.send_bytes(frame[place : place + 1])
    (reply,) = peer.heard
    assert reply.buffer == buffer


# --- discovery


def discover(peer: Peer, services: tuple[str, ...] = (), queues: tuple[str, ...] = ()) -> Any:
    return peer.say(c.DomainDiscoverRequest, c.Domain(uuid(99), "them"), services, queues)


def test_discovery_replies_with_what_is_there(play: Play, peer: Peer) -> None:
    reply = discover(peer, ("echo", "nobody", "hidden", "atomic", "q"), ("q", "q.error", "none", "echo"))
    assert (reply.domain.name, reply.domain.id) == ("us", play.session.identity.id)
    assert [tuple(map(str, (one.name, one.transaction, one.timeout, one.hops))) for one in reply.services] == [
        ("echo", "1", "0", "0"),
        ("atomic", "2", "2500000", "0"),
    ]
    assert [(one.name, one.retries) for one in reply.queues] == [("q", 1), ("q.error", 0)]
    assert discover(peer).services == discover(peer).queues == ()


def test_late_peers_get_times_in_nanoseconds(play: Play) -> None:
    late = play.peer(versions=(1000, 1001))
    assert [one.timeout for one in discover(late, ("atomic",)).services] == [2_500_000_000]
    late.enqueue(available=int((EPOCH + 50) * 1e9) + 123)
    (message,) = late.dequeue()
    assert message.available == int((EPOCH + 50) * 1e9) + 123
    assert abs(message.timestamp - (EPOCH + play.now) * 1e9) < 1e6
    early = play.peer()
    early.enqueue(available=int((EPOCH + 50) * 1e6))
    (message,) = early.dequeue()
    assert message.available == int((EPOCH + 50) * 1e6)
    assert abs(message.timestamp - (EPOCH + play.now) * 1e6) < 1e3


# --- calls


def test_a_call_has_its_reply(peer: Peer) -> None:
    reply = peer.call("echo", b"x", xid=NULL_XID)
    assert (reply.call.status, reply.call.code, reply.transaction.state) == (0, 0, 0)
    assert reply.buffer == c.Buffer("X_OCTET/", b"x") and reply.xid == NULL_XID
    assert peer.call("echo", kind="NULL").buffer == c.Buffer("NULL", b"")
    assert peer.call("echo", b"x", xid=c.Xid(0)).xid == c.Xid(0), "the null xid of the document comes back as it is"
    assert peer.call("echo", b"x", xid=xid(1)).xid == xid(1)


@pytest.mark.parametrize(
    ("service", "status", "code", "buffer"),
    [
        ("bad", 10, 0, c.Buffer("", b"")),
        ("fail", 11, 7, c.Buffer("X_OCTET/", b"x")),
        ("nobody", 6, 0, c.Buffer("", b"")),
        ("hidden", 6, 0, c.Buffer("", b"")),
    ],
)
def test_what_goes_wrong_has_its_code(peer: Peer, service: str, status: int, code: int, buffer: c.Buffer) -> None:
    reply = peer.call(service, b"x")
    assert (reply.call.status, reply.call.code, reply.buffer, reply.transaction.state) == (status, code, buffer, 0)
    reply = peer.call(service, b"x", xid=xid(1))
    assert (reply.call.status, reply.transaction.state) == (status, 2)
    assert peer.prepare(xid(1)) == 100


def test_a_call_without_reply_gets_none_whatever_happens(play: Play, peer: Peer) -> None:
    for service in ("echo", "bad", "nobody"):
        assert peer.call(service, b"x", flags=TPNOREPLY) is None
    assert peer.call("echo", b"x", flags=TPNOREPLY, xid=xid(1)) is None
    assert peer.prepare(xid(1)) == -4, "it ran outside the transaction"
    assert not peer.heard and play.session.timers.deadline is None


def test_a_call_of_a_correlation_in_progress_is_a_loop(play: Play, peer: Peer) -> None:
    play.holds = (Call,)
    buffer = c.Buffer("X_OCTET/", b"x")
    request = c.ServiceCallRequest(uuid(9), uuid(8), c.Service("echo", 0), c.Parent(""), NULL_XID, 0, buffer)
    peer.send(request)
    peer.send(request)
    assert [reply.call.status for reply in peer.heard] == [12]
    play.let_go()
    assert [reply.call.status for reply in peer.heard] == [12, 0]


def test_the_time_of_the_caller_is_the_deadline(play: Play, peer: Peer) -> None:
    play.holds = (Call,)
    peer.call("echo", b"x", timeout=1_000_000)
    peer.call("echo", b"y", timeout=1_000_000, flags=TPNOTIME)
    peer.call("atomic", b"z")
    play.wait(1.5)
    assert [reply.call.status for reply in peer.heard] == [13]
    play.wait(1.5)
    assert [reply.call.status for reply in peer.heard] == [13, 13], "the service has a limit of its own"
    play.let_go()
    assert [reply.buffer.payload for reply in peer.heard][2:] == [b"y"]


def test_calls_go_on_when_their_connection_is_lost(play: Play, peer: Peer) -> None:
    play.holds = (Call,)
    peer.call("echo", b"x")
    peer.drop()
    play.let_go()
    assert play.session.counts["sends_dropped"] >= 1 and not play.session.outstanding


@pytest.mark.parametrize("mode", ["auto", "join", "atomic", "none"])
@pytest.mark.parametrize("has_transaction", [False, True])
def test_a_service_joins_begins_or_does_without_a_transaction(mode: str, has_transaction: bool) -> None:
    seen: list[Any] = []
    services = Services()
    play = Play(services)

    def run(invocation: Any) -> Any:
        from wirelake.live.casual.handlers import Answer

        seen.append(invocation.branch)
        return Answer(0)

    from wirelake.live.casual.handlers import ServiceEntry

    services.add(ServiceEntry("it", run, mode))
    peer = play.peer()
    assert peer.call("it", b"", xid=xid(1) if has_transaction else NULL_XID).call.status == 0
    (branch,) = seen
    joins = has_transaction and mode in ("auto", "join")
    begins = mode == "atomic" or (mode == "auto" and not has_transaction)
    assert (branch is not None) == (joins or begins)
    assert not joins or branch.xid == xid(1)
    assert not begins or (branch.xid != xid(1) and branch.state == "committed")


def test_bad_json_is_an_input_that_is_not_accepted(peer: Peer) -> None:
    assert peer.call("echo", b"{", kind=".json/").call.status == 17
    assert peer.call("echo", b'{"a": 1}', kind=".json/").buffer == c.Buffer(".json/", b'{"a":1}')
    assert peer.call("echo", b"text\0", kind="CSTRING/").buffer == c.Buffer("CSTRING/", b"text\0")
    assert peer.call("echo", b"\x01\x02", kind="X_C_TYPE/thing").buffer == c.Buffer("X_C_TYPE/thing", b"\x01\x02")
    field = bytes.fromhex("000000000400000100000000000000080000000000" + "00012c")
    assert peer.call("echo", field, kind="CFIELD/").buffer == c.Buffer("CFIELD/", field)


# --- limits


def test_too_many_calls_stop_the_reading_until_some_have_ended() -> None:
    play = Play(services_of(echo=lambda value: value), limits=DomainLimits(requests=3))
    peer = play.peer()
    play.holds = (Call,)
    for _ in range(3):
        assert peer.link.is_readable
        peer.call("echo", b"x")
    assert not peer.link.is_readable
    play.let_go()
    assert peer.link.is_readable and len(peer.heard) == 3


def test_large_requests_stop_the_reading() -> None:
    play = Play(services_of(echo=lambda value: value), limits=DomainLimits(bytes=1_000))
    peer = play.peer()
    play.holds = (Call, Store)
    peer.call("echo", bytes(1_200))
    assert not peer.link.is_readable
    play.let_go()
    assert peer.link.is_readable


def test_blocked_dequeues_never_keep_a_commit_from_being_read() -> None:
    play = Play(limits=DomainLimits(requests=3))
    peer = play.peer()
    peer.enqueue(xid=xid(1))
    for _ in range(10):
        assert peer.dequeue(block=True) is None
        assert peer.link.is_readable
    assert peer.commit_one_phase(xid(1)) == 0
    assert len(peer.heard) == 1 and peer.link.is_readable


def test_ten_thousand_blocked_dequeues_cost_nothing_while_they_wait(play: Play, peer: Peer) -> None:
    for _ in range(10_000):
        peer.dequeue(block=True)
    stores = play.store.counts["requests"]
    other = play.peer()
    assert other.enqueue(payload=b"one") != NIL
    assert play.store.counts["requests"] - stores == 2, "an enqueue, and the dequeue of who is first"
    assert [message.payload for reply in peer.heard for message in reply.message] == [b"one"]
    peer.drop()
    assert len(play.session.queues.waiters) == 0
    assert other.enqueue(payload=b"two") != NIL and [m.payload for m in other.dequeue()] == [b"two"]


# --- limits of a connection


def test_a_message_above_the_frame_limit_closes_the_connection_and_no_other() -> None:
    play = Play(services_of(echo=lambda value: value), limits=DomainLimits(frame=1_000))
    peer, other = play.peer(), play.peer()
    peer.send_bytes(struct.pack(">Q16sQ", 3100, uuid(1), 1_001))
    assert peer.is_closed and not other.is_closed


def test_an_idle_peer_is_disconnected_and_one_that_waits_is_not() -> None:
    play = Play(services_of(echo=lambda value: value), idle_seconds=10.0)
    idle, waiting = play.peer(), play.peer()
    waiting.dequeue(block=True)
    play.wait(9.0)
    assert not idle.is_closed
    play.wait(2.0)
    assert idle.is_closed and not waiting.is_closed
