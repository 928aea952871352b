from __future__ import annotations

from tests.live.casual.stores.stores import SECOND, Asking, T, uuid, xid
from wirelake.live.casual.store import (
    Begin,
    BranchRecord,
    Commit,
    CountBranches,
    Find,
    ListBranches,
    Load,
    Loaded,
    PeerBranch,
    Prepare,
    Ready,
    Resolve,
    Rollback,
    Settled,
    Told,
)
from wirelake.protocols.casual import Xid

PEERS = (PeerBranch("127.0.0.1:7771", xid(1, b"down"), -1), PeerBranch("[::1]:7772", Xid(131077, b"", b"\0" * 64), -2))


def work(ask: Asking) -> None:
    """Message 1 is there and taken, message 2 added."""
    ask.put(1, T)
    assert ask.take(branch=xid(1)) is not None
    ask.put(2, T + 1, branch=xid(1))


def test_volatile_work_is_rolled_back_by_a_restart_and_counts_as_a_redelivery(ask: Asking) -> None:
    work(ask)
    ask.reopen()
    loaded = ask(Load(T + 9))
    assert loaded == Loaded((), (Ready("a", uuid(1), "", 0),))
    message = ask.take(T + 10)
    assert message is not None
    assert (message.id, message.redelivered) == (uuid(1), 1)
    assert ask.take(T + 10) is None


def test_prepared_work_survives_a_restart_and_can_be_committed(ask: Asking) -> None:
    work(ask)
    assert ask(Prepare(xid(1), PEERS, T + 2)) == Settled()
    ask.reopen()
    record = BranchRecord(xid(1), "prepared", PEERS, since=T + 2)
    assert ask(Load(T + 9)) == Loaded((record,))
    assert ask.take(T + 10) is None
    assert ask(Commit(xid(1), (), T + SECOND, T + 11)) == Settled((Ready("a", uuid(2), "", 0),), record)
    assert ask.take_all() == [2]


def test_prepared_work_can_be_rolled_back_after_a_restart(ask: Asking) -> None:
    work(ask)
    ask(Prepare(xid(1), (), T + 2))
    ask.reopen()
    ask(Load(T + 9))
    assert ask(Rollback(xid(1), (), 0, T + 11)).ready == (Ready("a", uuid(1), "", 0),)
    assert ask.take_all() == [1]
    assert ask(Find(xid(1))) is None


def test_branches_are_told_apart_by_all_of_their_xid(ask: Asking) -> None:
    others = [xid(1, b"other"), Xid(43, xid(1).gtrid, xid(1).bqual), Xid(42, xid(1).gtrid + b"b", b"")]
    work(ask)
    for other in others:
        ask(Commit(other, (), 0, T + 2))
        ask(Rollback(other, (), 0, T + 2))
    assert ask.take(T + 3) is None
    assert ask(Commit(xid(1), (), 0, T + 4)).ready == (Ready("a", uuid(2), "", 0),)


def test_a_second_prepare_changes_nothing(ask: Asking) -> None:
    work(ask)
    ask(Prepare(xid(1), (), T + 2))
    assert ask(Prepare(xid(1), PEERS, T + 3)) == Settled(record=BranchRecord(xid(1), "prepared", since=T + 2))


def test_an_outcome_stays_and_what_comes_later_finds_it(ask: Asking) -> None:
    work(ask)
    ask(Prepare(xid(1), (), T + 2))
    ask(Commit(xid(1), (), T + SECOND, T + 3))
    tombstone = BranchRecord(xid(1), "committed", (), T + SECOND, T + 3)
    for request in (
        Prepare(xid(1), (), T + 4),
        Commit(xid(1), (), 0, T + 4),
        Rollback(xid(1), (), 0, T + 4),
        Resolve(xid(1), False, T + SECOND, T + 4),
    ):
        assert ask(request) == Settled(record=tombstone)
    assert ask(Find(xid(1))) == tombstone
    assert ask.take_all() == [2]


def test_tombstones_are_not_loaded_and_go_when_they_are_old(ask: Asking) -> None:
    ask(Commit(xid(1), (), T + 5, T))
    ask(Rollback(xid(2), (), T + 7, T))
    ask.reopen()
    assert ask(Load(T + 5)) == Loaded(())
    assert ask(Find(xid(1))) is None
    assert ask(Find(xid(2))) == BranchRecord(xid(2), "rolled_back", (), T + 7, T)
    for number in range(3, 200):
        ask(Commit(xid(number), (), 0, T + 8))
    assert ask(Find(xid(2))) is None


def test_a_decision_is_there_until_all_peers_are_told(ask: Asking) -> None:
    ask(Begin(xid(1), PEERS, T))
    ask.reopen()
    assert ask(Load(T)).branches == (BranchRecord(xid(1), "preparing", PEERS, since=T),)
    ask(Commit(xid(1), PEERS[:1], 0, T + 1))
    ask.reopen()
    decision = BranchRecord(xid(1), "committed", PEERS[:1], since=T + 1)
    assert ask(Load(T + 2)).branches == ask(ListBranches()) == (decision,)
    ask(Told(xid(1), T + SECOND, T + 3))
    assert ask(Load(T + 4)) == Loaded(())
    assert ask(Find(xid(1))) == BranchRecord(xid(1), "committed", (), T + SECOND, T + 1)
    ask(Told(xid(1), 0, T + 3))
    assert ask(Find(xid(1))) is None


def test_work_goes_on_while_a_branch_is_preparing(ask: Asking) -> None:
    ask(Begin(xid(1), PEERS, T))
    assert ask.put(1, branch=xid(1)) == uuid(1)
    assert ask(Prepare(xid(1), PEERS, T + 1)).record == BranchRecord(xid(1), "preparing", PEERS, since=T)
    assert ask.put(2, branch=xid(1)) != uuid(2)


def test_an_administrator_decides_what_is_prepared_and_nothing_else(ask: Asking) -> None:
    work(ask)
    assert ask(Resolve(xid(1), True, T + SECOND, T)) == Settled()
    ask(Prepare(xid(1), PEERS, T + 2))
    settled = ask(Resolve(xid(1), True, T + SECOND, T + 3))
    assert settled.ready == (Ready("a", uuid(2), "", 0),)
    record = BranchRecord(xid(1), "committed", PEERS, T + SECOND, T + 3, by_hand=True)
    assert ask(Find(xid(1))) == record
    assert ask(Rollback(xid(1), (), 0, T + 4)) == Settled(record=record)
    assert ask.take_all() == [2]


def test_branches_are_counted_by_state(ask: Asking) -> None:
    for number in range(3):
        ask.put(number, branch=xid(number))
    ask(Prepare(xid(0), (), T))
    ask(Rollback(xid(1), (), T + 5, T))
    ask(Begin(xid(8), PEERS, T))
    ask(Commit(xid(9), PEERS, 0, T))
    assert ask(CountBranches()) == {"active": 1, "preparing": 1, "prepared": 1, "committed": 1, "rolled_back": 0}
