"""Queues over the wire: dequeues that wait, in order, whatever makes a message ready (specification, section 12)."""

from __future__ import annotations

import pytest

from tests.live.casual.play import EPOCH, Peer, Play, uuid, xid
from wirelake.live.casual.store import QueueSettings
from wirelake.live.casual.wire import NIL
from wirelake.live.core.effects import Store


@pytest.fixture
def play() -> Play:
    return Play()


@pytest.fixture
def peer(play: Play) -> Peer:
    return play.peer()


def payloads(peer: Peer) -> list[bytes]:
    """What blocked dequeues got, in order."""
    found = [message.payload for reply in peer.heard for message in reply.message]
    peer.heard.clear()
    return found


def test_missing_queues_have_no_id_and_no_message(peer: Peer) -> None:
    assert peer.enqueue("missing") == NIL
    assert peer.dequeue("missing") == peer.dequeue("missing", block=True) == peer.dequeue("") == ()


def test_an_id_that_is_in_use_is_refused(peer: Peer) -> None:
    assert peer.enqueue(id=uuid(5)) == uuid(5) and peer.enqueue(id=uuid(5)) == NIL
    assert peer.enqueue("other", id=uuid(5)) == NIL


def test_messages_come_in_the_order_of_their_enqueue_and_once(play: Play, peer: Peer) -> None:
    for number in range(5):
        peer.enqueue(payload=b"%d" % number)
    other = play.peer()
    assert [other.dequeue()[0].payload for _ in range(5)] == [b"0", b"1", b"2", b"3", b"4"]
    assert other.dequeue() == ()


@pytest.mark.parametrize("how", ["enqueue", "commit", "one phase", "rollback", "lost connection"])
def test_a_blocked_dequeue_gets_what_becomes_ready(play: Play, peer: Peer, how: str) -> None:
    other = play.peer()
    if how in ("rollback", "lost connection"):
        other.enqueue(payload=b"it")
        assert len(other.dequeue(xid=xid(1))) == 1
    assert peer.dequeue(block=True) is None
    match how:
        case "enqueue":
            other.enqueue(payload=b"it")
        case "commit":
            other.enqueue(payload=b"it", xid=xid(1))
            other.prepare(xid(1))
            assert not peer.heard
            other.commit(xid(1))
        case "one phase":
            other.enqueue(payload=b"it", xid=xid(1))
            other.commit_one_phase(xid(1))
        case "rollback":
            other.rollback(xid(1))
        case "lost connection":
            other.drop()
    assert payloads(peer) == [b"it"]


def test_a_blocked_dequeue_gets_a_message_when_its_time_has_come(play: Play, peer: Peer) -> None:
    soon = int((EPOCH + play.now + 10) * 1e6)
    peer.enqueue(payload=b"before", available=soon)
    assert peer.dequeue(block=True) is None
    play.wait(9)
    assert not peer.heard
    play.wait(2)
    assert payloads(peer) == [b"before"]
    assert peer.dequeue(block=True) is None
    peer.enqueue(payload=b"after", available=int((EPOCH + play.now + 10) * 1e6))
    play.wait(11)
    assert [reply.message[0].payload for reply in peer.heard if hasattr(reply, "message")] == [b"after"]


def test_a_retry_waits_for_its_delay(play: Play) -> None:
    play = Play(queues=(QueueSettings("q", retries=3, retry_seconds=5.0),))
    peer = play.peer()
    peer.enqueue(payload=b"x")
    assert len(peer.dequeue(xid=xid(1))) == 1 and peer.rollback(xid(1)) == 0
    assert peer.dequeue() == () and peer.dequeue(block=True) is None
    play.wait(6)
    (reply,) = peer.heard
    assert reply.message[0].redelivered == 1
    assert abs(reply.message[0].available - (EPOCH + 105) * 1e6) < 1e5


def test_blocked_dequeues_are_served_in_order_among_those_that_fit(play: Play, peer: Peer) -> None:
    first, second, third, fourth = (play.peer() for _ in range(4))
    assert first.dequeue(block=True, properties="b") is None
    assert second.dequeue(block=True, id=uuid(7)) is None
    assert third.dequeue(block=True) is None and fourth.dequeue(block=True) is None
    peer.enqueue(payload=b"1", properties="a")
    peer.enqueue(payload=b"2", properties="b")
    peer.enqueue(payload=b"3", id=uuid(7), properties="x")
    peer.enqueue(payload=b"4", properties="b")
    assert [payloads(one) for one in (first, second, third, fourth)] == [[b"2"], [b"3"], [b"1"], [b"4"]]


def test_a_selector_by_id_ignores_the_time(play: Play, peer: Peer) -> None:
    later = int((EPOCH + play.now + 1000) * 1e6)
    peer.enqueue(payload=b"x", id=uuid(7), available=later)
    assert peer.dequeue() == ()
    assert [message.payload for message in peer.dequeue(id=uuid(7), properties="nonsense")] == [b"x"]


def test_what_woke_a_dequeue_goes_to_the_next_if_another_message_was_taken(play: Play, peer: Peer) -> None:
    """The first in line is woken by one message and takes an older one: nobody may sleep beside a message."""
    general, picky, last = play.peer(), play.peer(), play.peer()
    assert general.dequeue(block=True) is None
    assert picky.dequeue(block=True, properties="p") is None and last.dequeue(block=True) is None
    play.holds = (Store,)
    peer.enqueue(payload=b"plain")
    peer.enqueue(payload=b"picked", properties="p")
    play.let_go()
    play.let_go()
    assert sorted(payloads(general) + payloads(picky) + payloads(last)) == [b"picked", b"plain"]


def test_a_message_for_a_connection_that_is_gone_goes_back(play: Play, peer: Peer) -> None:
    other = play.peer()
    peer.enqueue(payload=b"x")
    play.holds = (Store,)
    other.dequeue()
    other.drop()
    play.let_go()
    play.let_go()
    play.holds = ()
    assert [message.payload for message in peer.dequeue()] == [b"x"]


def test_waiting_dequeues_look_again_now_and_then(play: Play, peer: Peer) -> None:
    from wirelake.live.casual.store import Enqueue, QueueMessage

    assert peer.dequeue(block=True) is None
    moved = Enqueue("q", QueueMessage(uuid(3), payload=b"by hand"), None, play.session.time(play.now))
    play.store.run([moved])
    assert not peer.heard
    play.wait(6)
    assert payloads(peer) == [b"by hand"]


def test_poison_ends_in_the_error_queue(peer: Peer) -> None:
    peer.enqueue(payload=b"poison", properties="p")
    for number in range(2):
        assert [m.redelivered for m in peer.dequeue(xid=xid(number))] == [number]
        assert peer.rollback(xid(number)) == 0
    assert peer.dequeue() == ()
    (message,) = peer.dequeue("q.error", xid=xid(9))
    assert (message.payload, message.properties, message.redelivered, message.available) == (b"poison", "p", 0, 0)
    assert peer.rollback(xid(9)) == 0
    assert [m.redelivered for m in peer.dequeue("q.error")] == [1], "it stays there"
