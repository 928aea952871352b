"""Peers that mean no good: the domain lives, and no single step keeps others waiting (measured in processor time)."""

from __future__ import annotations

import gc
import struct
import time
from collections.abc import Callable

from tests.live.casual.play import Peer, Play, services_of, uuid, xid
from wirelake.codec import encode
from wirelake.live.casual.options import PeerSettings
from wirelake.live.casual.wire import NIL, NULL_XID
from wirelake.live.core.effects import Store
from wirelake.protocols import casual as c

LONGEST_SECONDS = 0.05
SLICE = 1 << 14
"""What an endpoint hands over before it looks at the clock."""
ECHO = services_of(echo=lambda value: value)


def longest(play: Play, *steps: Callable[[], object]) -> float:
    """Return the processor time of the longest of some steps; the store works between them, as its thread does.

    A hub freezes what it has loaded, so a collection of all that the tests have loaded is not counted.
    """
    taken = []
    gc.disable()
    for step in steps:
        play.holds = (Store,)
        before = time.process_time()
        step()
        taken.append(time.process_time() - before)
        play.holds = ()
        play.let_go()
        play.settle()
    gc.enable()
    return max(taken)


def slices(peer: Peer, wire: bytes) -> list[Callable[[], object]]:
    pieces = [wire[at : at + SLICE] for at in range(0, len(wire), SLICE)]
    return [lambda piece=piece: peer.send_bytes(piece) for piece in pieces]  # type: ignore[misc]


def test_ten_thousand_blocked_dequeues_with_ten_thousand_selectors() -> None:
    play = Play(ECHO)
    bad, good = play.peer(), play.peer()
    wire = b"".join(
        encode(c.QueueDequeueRequest(uuid(n + 1), uuid(1), "q", NULL_XID, c.Selector(f"p{n}", NIL), True))
        for n in range(10_000)
    )
    assert longest(play, *slices(bad, wire)) < LONGEST_SECONDS
    call = lambda: good.call("echo", b"x")  # noqa: E731
    assert longest(play, good.enqueue, lambda: play.wait(5.1), call) < LONGEST_SECONDS
    assert [message.payload for message in good.dequeue()] == [b"x"]
    assert longest(play, bad.drop) < 2 * LONGEST_SECONDS, "10 000 at once; they leave nothing behind"
    assert len(play.session.queues.waiters) == 0 and not play.session.queues.waiters.has_any("q")


def test_thousands_of_branches_that_are_lost_with_their_connection() -> None:
    play = Play(ECHO)
    bad, good = play.peer(), play.peer()
    for number in range(3_000):
        bad.enqueue(xid=xid(number + 1))
    turn = lambda: play.session.tick(play.now)  # noqa: E731
    assert longest(play, bad.drop, *(turn for _ in range(20))) < LONGEST_SECONDS
    assert good.dequeue() == () and good.prepare(xid(3_000)) == 100


def test_garbage_of_every_kind_costs_its_sender_only() -> None:
    play = Play(ECHO)
    good = play.peer()
    for wire in (
        struct.pack(">Q16sQ", 3100, uuid(1), 1 << 62),
        struct.pack(">Q16sQ", 5201, uuid(1), 36) + uuid(2) + struct.pack(">qqqiq", 42, 1 << 40, 1 << 40, 1, 0)[:20],
        encode(c.DomainConnectRequest(uuid(1), uuid(2), c.Domain(uuid(3), "x"), c.Offer((1000,)))),
        encode(c.QueueEnqueueReply(uuid(1), uuid(2), uuid(3)))[:-1] + b"\0" * 40,
        bytes(64),
        b"\xff" * 64,
    ):
        bad = play.peer()
        bad.send_bytes(wire)
        assert good.call("echo", b"x").call.status == 0
    assert play.session.counts["undecodable"] >= 2


def test_the_null_xid_of_the_document_is_no_transaction() -> None:
    play = Play(ECHO)
    peer = play.peer()
    null = c.Xid(0)
    assert peer.call("echo", b"x", xid=null).call.status == 0 and peer.enqueue(xid=null) != NIL
    assert len(peer.dequeue(xid=null)) == 1, "outside any transaction it is ready at once"
    assert peer.prepare(null) == peer.commit(null) == peer.rollback(null) == -4


def test_a_serving_peer_that_replies_twice_never_or_to_nothing() -> None:
    there = PeerSettings(("there", 1))
    play = Play(peers=[there])
    peer = play.served_by()
    requests = play.session.requests
    requests.call("it", c.Buffer("NULL", b""), play.now, timeout=5.0, peer=there.name)
    requests.dequeue("q", play.now, blocks=True, peer=there.name)
    play.settle()
    call, dequeue = peer.heard.popleft(), peer.heard.popleft()
    reply = c.ServiceCallReply(
        call.correlation, uuid(3), c.Call(0, 0), NULL_XID, c.TransactionState(0), c.Buffer("NULL", b"")
    )
    play.events.clear()
    for _ in range(3):
        peer.send(reply)
    peer.send(c.QueueEnqueueReply(uuid(404), uuid(3), uuid(5)))
    peer.send(c.DomainDiscoverReply(dequeue.correlation, uuid(3), c.Domain(uuid(5), "x"), (), ()))
    assert len(play.events) == 1 and not peer.is_closed
    peer.send(c.QueueDequeueReply(dequeue.correlation, uuid(3), ()))
    assert len(play.events) == 2
    peer.send(
        c.ServiceCallRequest(uuid(1), uuid(2), c.Service("x", 0), c.Parent(""), NULL_XID, 0, c.Buffer("NULL", b""))
    )
    assert not peer.is_closed and not peer.heard, "requests travel the other way only"


def test_xids_of_another_coordinator_with_the_same_gtrid() -> None:
    play = Play(ECHO)
    one, other = play.peer(), play.peer()
    one.enqueue(payload=b"one", xid=xid(1, 1))
    other.enqueue(payload=b"other", xid=xid(1, 2))
    assert other.rollback(xid(1, 2)) == 0
    assert one.prepare(xid(1, 1)) == 0 and one.commit(xid(1, 1)) == 0
    assert [message.payload for message in one.dequeue()] == [b"one"] and one.dequeue() == ()


def test_a_peer_that_never_reads_is_closed_in_the_end() -> None:
    from wirelake.live.casual.options import DomainLimits

    play = Play(ECHO, limits=DomainLimits(unsent=100_000))
    peer = play.peer()
    for _ in range(200):
        peer.call("echo", bytes(1_000))
        peer.link.unsent += 1_000  # nobody takes it
    assert peer.is_closed
