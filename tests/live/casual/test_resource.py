"""Branches that came to us: the table of states and replies, row by row (casual specification, section 11)."""

from __future__ import annotations

import pytest

from tests.live.casual.play import Peer, Play, services_of, uuid, xid
from wirelake.live.casual.store import CountBranches, Enqueue
from wirelake.live.casual.wire import NIL
from wirelake.live.core.effects import Store
from wirelake.protocols import casual as c

OK, RDONLY, HEURRB, HEURCOM, RBROLLBACK, RBOTHER, RBTIMEOUT = 0, 3, 6, 7, 100, 104, 106
NOTA, PROTO, RMFAIL = -4, -6, -7


@pytest.fixture
def play() -> Play:
    return Play(services_of(echo=lambda value: value, bad=lambda value: 1 / 0))


@pytest.fixture
def peer(play: Play) -> Peer:
    return play.peer()


def test_an_unknown_branch_is_not_there(peer: Peer) -> None:
    assert peer.prepare(xid(1)) == peer.commit(xid(1)) == peer.commit_one_phase(xid(1)) == peer.rollback(xid(1)) == NOTA
    assert peer.prepare(c.Xid(-1)) == peer.commit(c.Xid(0)) == NOTA, "the null xid is no branch, in either form"


def test_two_phases_make_work_visible(peer: Peer) -> None:
    added = peer.enqueue(xid=xid(1))
    assert added != NIL and peer.dequeue() == ()
    assert peer.prepare(xid(1)) == OK
    assert peer.prepare(xid(1)) == OK, "a second prepare has the same reply"
    assert peer.dequeue() == ()
    assert peer.commit(xid(1)) == OK
    assert [message.id for message in peer.dequeue()] == [added]
    assert peer.commit(xid(1)) == OK and peer.prepare(xid(1)) == OK
    assert peer.rollback(xid(1)) == HEURCOM


def test_a_branch_without_work_is_read_only(peer: Peer) -> None:
    assert peer.call("echo", b"x", xid=xid(1)).call.status == 0
    assert peer.prepare(xid(1)) == RDONLY
    assert peer.prepare(xid(1)) == RDONLY
    assert peer.call("echo", xid=xid(2)).call.status == 0
    assert peer.commit_one_phase(xid(2)) == RDONLY and peer.commit_one_phase(xid(2)) == RDONLY


def test_rollback_only_is_rolled_back_at_prepare(peer: Peer) -> None:
    peer.enqueue(xid=xid(1))
    reply = peer.call("bad", b"x", xid=xid(1))
    assert (reply.call.status, reply.transaction.state, reply.xid) == (10, 2, xid(1))
    assert peer.prepare(xid(1)) == RBROLLBACK
    assert peer.prepare(xid(1)) == RBROLLBACK and peer.rollback(xid(1)) == OK
    assert peer.commit_one_phase(xid(1)) == RBROLLBACK and peer.commit(xid(1)) == HEURRB
    assert peer.dequeue() == ()


def test_a_timeout_is_told_at_prepare(play: Play, peer: Peer) -> None:
    from wirelake.live.core.effects import Call

    play.holds = (Call,)
    assert peer.call("echo", b"x", xid=xid(1), timeout=2_000_000) is None
    play.wait(3)
    (reply,) = peer.heard
    assert (reply.call.status, reply.transaction.state) == (13, 1)
    play.let_go()
    assert len(peer.heard) == 1, "the reply of the service came too late"
    assert peer.prepare(xid(1)) == RBTIMEOUT


def test_commit_needs_prepare_or_one_phase(peer: Peer) -> None:
    added = peer.enqueue(xid=xid(1))
    assert peer.commit(xid(1)) == PROTO
    assert peer.commit_one_phase(xid(1)) == OK and peer.commit_one_phase(xid(1)) == OK
    assert [message.id for message in peer.dequeue()] == [added]


@pytest.mark.parametrize("is_prepared", [False, True])
def test_rollback_undoes_active_and_prepared_work(peer: Peer, is_prepared: bool) -> None:
    stored = peer.enqueue(payload=b"kept")
    assert [message.id for message in peer.dequeue(xid=xid(1))] == [stored]
    peer.enqueue(payload=b"gone", xid=xid(1))
    if is_prepared:
        assert peer.prepare(xid(1)) == OK
    assert peer.dequeue() == ()
    assert peer.rollback(xid(1)) == OK and peer.rollback(xid(1)) == OK
    (message,) = peer.dequeue()
    assert (message.id, message.redelivered) == (stored, 1)
    assert peer.commit(xid(1)) == HEURRB


def test_a_lost_connection_rolls_back_what_is_not_prepared(play: Play, peer: Peer) -> None:
    peer.enqueue(xid=xid(1))
    peer.enqueue(xid=xid(2), payload=b"two")
    assert peer.prepare(xid(2)) == OK
    peer.drop()
    again = play.peer()
    assert again.prepare(xid(1)) == RBROLLBACK
    assert again.commit(xid(2)) == OK, "over another connection"
    assert [message.payload for message in again.dequeue()] == [b"two"]


def test_a_promise_and_an_outcome_survive_the_process(play: Play, peer: Peer) -> None:
    peer.enqueue(payload=b"one", xid=xid(1))
    peer.enqueue(payload=b"two", xid=xid(2))
    peer.enqueue(payload=b"three", xid=xid(3))
    peer.enqueue(payload=b"four", xid=xid(4))
    assert peer.prepare(xid(1)) == peer.prepare(xid(2)) == OK
    assert peer.commit(xid(2)) == peer.commit_one_phase(xid(3)) == OK
    play = play.restart()
    peer = play.peer()
    assert peer.commit(xid(2)) == peer.commit_one_phase(xid(3)) == OK and peer.rollback(xid(2)) == HEURCOM
    assert peer.prepare(xid(4)) == NOTA, "it was only active"
    assert peer.prepare(xid(1)) == OK and peer.commit(xid(1)) == OK
    assert sorted(message.payload for _ in range(3) for message in peer.dequeue()) == [b"one", b"three", b"two"]
    assert peer.dequeue() == ()


def test_a_branch_of_whose_end_the_store_tells_takes_no_memory(play: Play, peer: Peer) -> None:
    for number in (1, 2):
        peer.enqueue(xid=xid(number))
        assert peer.prepare(xid(number)) == OK
    assert peer.commit(xid(1)) == OK and peer.rollback(xid(2)) == OK
    assert play.session.branches.by_xid == {}
    assert peer.commit(xid(1)) == OK and peer.rollback(xid(1)) == HEURCOM
    assert peer.rollback(xid(2)) == OK and peer.commit(xid(2)) == HEURRB and peer.prepare(xid(2)) == RBROLLBACK


@pytest.mark.parametrize("end", ["prepare", "rollback", "commit_one_phase"])
def test_work_for_a_branch_that_is_prepared_or_finished_is_refused(peer: Peer, end: str) -> None:
    peer.enqueue(payload=b"for others")
    peer.enqueue(xid=xid(1))
    getattr(peer, end)(xid(1))
    reply = peer.call("echo", xid=xid(1))
    assert reply.call.status == 14
    assert peer.enqueue(xid=xid(1)) == NIL
    assert peer.dequeue(xid=xid(1)) == () and peer.dequeue(xid=xid(1), block=True) == ()


def test_work_after_a_restart_does_not_revive_a_finished_branch(play: Play, peer: Peer) -> None:
    peer.enqueue(xid=xid(1))
    assert peer.commit_one_phase(xid(1)) == OK
    peer = play.restart().peer()
    assert peer.call("echo", xid=xid(1)).call.status == 14 and peer.enqueue(xid=xid(1)) == NIL


def test_branches_with_the_same_gtrid_are_told_apart(peer: Peer) -> None:
    peer.enqueue(payload=b"one", xid=xid(1, 1))
    peer.enqueue(payload=b"two", xid=xid(1, 2))
    peer.enqueue(payload=b"three", xid=xid(1, 1, 131077))
    assert peer.rollback(xid(1, 1)) == OK
    assert peer.prepare(xid(1, 2)) == OK and peer.commit(xid(1, 2)) == OK
    assert [message.payload for message in peer.dequeue()] == [b"two"]
    assert peer.commit_one_phase(xid(1, 1, 131077)) == OK
    assert [message.payload for message in peer.dequeue()] == [b"three"]


def test_foreign_xids_are_opaque(peer: Peer) -> None:
    foreign = c.Xid(131077, b"\xff" * 28, b"\x01" * 36)
    assert peer.enqueue(xid=foreign) != NIL
    assert peer.prepare(foreign) == OK and peer.commit(foreign) == OK


def test_a_full_disk_refuses_a_prepare_and_keeps_a_promise(play: Play, peer: Peer) -> None:
    peer.enqueue(payload=b"kept", xid=xid(1))
    assert peer.prepare(xid(1)) == OK
    peer.enqueue(payload=b"lost", xid=xid(2))
    play.disk_is_full = True
    assert peer.enqueue() == NIL
    assert peer.commit(xid(1)) == RMFAIL and peer.prepare(xid(2)) == RMFAIL
    play.disk_is_full = False
    assert peer.prepare(xid(2)) == RBOTHER and peer.commit(xid(1)) == OK
    assert [message.payload for message in peer.dequeue()] == [b"kept"] and peer.dequeue() == ()


def test_requests_that_come_while_something_is_decided_wait_for_it(play: Play, peer: Peer) -> None:
    peer.enqueue(xid=xid(1))
    play.holds = (Store,)
    assert peer.prepare(xid(1)) is None and peer.rollback(xid(1)) is None and peer.commit(xid(1)) is None
    play.let_go()
    assert [type(one).__name__ for one in peer.heard] == [
        "ResourcePrepareReply", "ResourceRollbackReply", "ResourceCommitReply",
    ]  # fmt: skip
    assert [one.resource.state for one in peer.heard] == [OK, OK, HEURRB]


def test_a_branch_begins_with_its_first_message_and_others_wait_for_that(play: Play, peer: Peer) -> None:
    play.holds = (Store,)
    assert peer.enqueue(payload=b"one", xid=xid(1)) is peer.enqueue(payload=b"two", xid=xid(1)) is None
    assert [type(effect.request) for effect in play.held] == [Enqueue], "nobody asks the store before"
    assert peer.prepare(xid(1)) is None
    play.let_go()
    replies = list(peer.heard)
    assert [reply.id != NIL for reply in replies[:2]] == [True, True] and replies[2].resource.state == OK
    play.holds = ()
    assert peer.commit(xid(1)) == OK
    assert [message.payload for _ in range(2) for message in peer.dequeue()] == [b"one", b"two"]


def test_a_branch_whose_connection_is_lost_at_its_first_message_is_rolled_back(play: Play, peer: Peer) -> None:
    other = play.peer()
    play.holds = (Store,)
    peer.enqueue(xid=xid(1))
    assert other.enqueue(xid=xid(1)) is None
    peer.drop()
    play.let_go()
    play.holds = ()
    assert [reply.id for reply in other.heard] == [NIL]
    assert other.prepare(xid(1)) == RBROLLBACK and other.dequeue() == ()
    assert play.store.run([CountBranches()])[0].value["active"] == 0


def test_a_first_message_that_is_refused_begins_the_branch_too(play: Play, peer: Peer) -> None:
    known = peer.enqueue()
    assert peer.enqueue(id=known, xid=xid(1)) == NIL
    assert peer.prepare(xid(1)) == RDONLY
    assert peer.enqueue("nowhere", xid=xid(2)) == NIL
    assert peer.prepare(xid(2)) == RDONLY


def test_an_active_branch_ends_with_the_limit_of_the_domain() -> None:
    play = Play(branch_seconds=5.0)
    peer = play.peer()
    peer.enqueue(xid=xid(1))
    play.wait(6)
    assert peer.prepare(xid(1)) == RBTIMEOUT


def test_a_blocked_dequeue_ends_with_its_branch(play: Play, peer: Peer) -> None:
    assert peer.dequeue(xid=xid(1), block=True) is None
    assert peer.rollback(xid(1)) == OK
    (reply,) = peer.heard
    assert reply.message == () and reply.correlation == uuid(peer.link.number << 32 | 2)
