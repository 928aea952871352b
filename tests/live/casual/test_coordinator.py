"""Transactions over several domains, message by message: ours, and those that pass through us (section 11)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.casual.play import Peer, Play, services_of, uuid, xid
from wirelake.live.casual import events
from wirelake.live.casual.options import PeerSettings
from wirelake.live.casual.store import ListBranches, QueueMessage
from wirelake.live.casual.wire import NIL, worst
from wirelake.protocols import casual as c

ONE, TWO = PeerSettings(("one", 1)), PeerSettings(("two", 2))
OK, RDONLY, RETRY, HEURMIX, HEURRB, HEURCOM, RBROLLBACK, RBTIMEOUT = 0, 3, 4, 5, 6, 7, 100, 106
NOTA, PROTO, RMFAIL = -4, -6, -7
ONEPHASE = 0x40000000


class Root:
    """A transaction of ours with work at one or two peers."""

    def __init__(self, peers: int = 2, is_local: bool = False) -> None:
        self.play = Play(peers=[ONE, TWO][:peers])
        self.peers = [self.play.served_by(name=name) for name in ("one", "two")[:peers]]
        self.token, self.branch = self.play.session.requests.begin(self.play.now)
        for peer, settings in zip(self.peers, (ONE, TWO), strict=False):
            self.enqueue(settings.name)
            assert peer.answer(c.QueueEnqueueReply, uuid(1)).xid.gtrid == self.branch.xid.gtrid
        if is_local:
            self.enqueue(None)

    def enqueue(self, peer: str | None) -> None:
        message = QueueMessage(NIL, payload=b"x")
        self.play.session.requests.enqueue("q", message, self.play.now, branch=self.branch, peer=peer)
        self.play.settle()

    def end(self, *, commits: bool = True) -> None:
        self.play.session.requests.end(self.token, self.play.now, commits=commits)
        self.play.settle()

    def answer(self, place: int, kind: Any, code: int) -> Any:
        peer = self.peers[place]
        asked = peer.heard.popleft()
        peer.send(kind(asked.correlation, asked.execution, asked.xid, c.ResourceResult(asked.resource.id, code)))
        return asked

    def vote(self, place: int, code: int = OK) -> Any:
        return self.answer(place, c.ResourcePrepareReply, code)

    def commit(self, place: int, code: int = OK) -> Any:
        asked = self.answer(place, c.ResourceCommitReply, code)
        assert isinstance(asked, c.ResourceCommitRequest), asked
        return asked

    def rollback(self, place: int, code: int = OK) -> Any:
        asked = self.answer(place, c.ResourceRollbackReply, code)
        assert isinstance(asked, c.ResourceRollbackRequest), asked
        return asked

    @property
    def outcome(self) -> events.TransactionEnded | None:
        found = [event for event in self.play.events if isinstance(event, events.TransactionEnded)]
        assert len(found) < 2
        return found[0] if found else None

    @property
    def records(self) -> list[tuple[str, int]]:
        (result,) = self.play.store.run([ListBranches()])
        return [(record.state, len(record.peers)) for record in result.value]  # type: ignore[union-attr]

    def is_silent(self) -> bool:
        return not any(peer.heard for peer in self.peers)


def ended(root: Root) -> str:
    assert root.outcome is not None
    return root.outcome.outcome


def test_each_peer_has_its_own_branch_and_number() -> None:
    root = Root()
    root.end()
    asked = [root.vote(0), root.vote(1)]
    assert len({one.xid.bqual for one in asked}) == 2 and len({one.xid.gtrid for one in asked}) == 1
    assert [one.resource.id for one in asked] == [-1, -2]
    assert all(len(one.xid.gtrid) <= 64 and 0 < len(one.xid.bqual) <= 64 for one in asked)


def test_the_decision_is_durable_before_the_first_commit() -> None:
    root = Root()
    root.end()
    assert root.records == [("preparing", 2)], "whom to roll back after a crash"
    root.vote(0)
    assert root.outcome is None and not root.peers[0].heard
    root.vote(1)
    assert root.records == [("committed", 2)]
    assert root.commit(0).flags == 0
    assert root.outcome is None
    root.commit(1)
    assert ended(root) == "committed" and root.records == [] and root.is_silent()


def test_nobody_involved_is_nothing_to_send() -> None:
    root = Root(0)
    root.end()
    assert ended(root) == "committed" and root.records == []


def test_a_single_resource_is_committed_in_one_phase() -> None:
    root = Root(1)
    root.end()
    assert root.commit(0).flags == ONEPHASE
    assert ended(root) == "committed" and root.is_silent()
    local = Root(0, is_local=True)
    local.end()
    assert ended(local) == "committed" and len(local.play.peer().dequeue()) == 1


@pytest.mark.parametrize(
    ("code", "outcome"), [(RDONLY, "committed"), (RBROLLBACK, "rolled_back"), (NOTA, "rolled_back"), (-3, "unknown")]
)
def test_one_phase_has_the_outcome_of_its_reply(code: int, outcome: str) -> None:
    root = Root(1)
    root.end()
    root.commit(0, code)
    assert ended(root) == outcome


def test_one_phase_is_repeated_until_there_is_a_reply() -> None:
    root = Root(1)
    root.end()
    root.peers[0].drop()
    assert root.outcome is None
    root.play.wait(1)
    root.peers[0] = root.play.served_by(name="one")
    assert root.commit(0).flags == ONEPHASE
    assert ended(root) == "committed"


def test_one_peer_and_our_own_queue_take_two_phases() -> None:
    root = Root(1, is_local=True)
    root.end()
    assert isinstance(root.vote(0), c.ResourcePrepareRequest)
    reader = root.play.peer()
    assert len(reader.dequeue()) == 1, "our own work is committed with the decision"
    root.commit(0)
    assert ended(root) == "committed" and root.records == []


def test_read_only_peers_hear_nothing_more() -> None:
    root = Root()
    root.end()
    root.vote(0, RDONLY)
    root.vote(1)
    root.commit(1)
    assert ended(root) == "committed" and root.is_silent() and root.records == []
    root = Root()
    root.end()
    root.vote(0, RDONLY)
    root.vote(1, RDONLY)
    assert ended(root) == "committed" and root.is_silent() and root.records == []


@pytest.mark.parametrize("code", [RBROLLBACK, RBTIMEOUT])
def test_a_peer_that_rolled_back_is_not_told(code: int) -> None:
    root = Root()
    root.end()
    root.vote(0)
    root.vote(1, code)
    assert not root.peers[1].heard
    root.rollback(0)
    assert ended(root) == "rolled_back" and root.records == []


@pytest.mark.parametrize("code", [NOTA, -3, PROTO, RMFAIL, 99])
def test_any_other_vote_rolls_back_everybody(code: int) -> None:
    root = Root()
    root.end()
    root.vote(0)
    root.vote(1, code)
    root.rollback(0)
    root.rollback(1, NOTA)
    assert ended(root) == "rolled_back" and root.records == []


@pytest.mark.parametrize("how", ["time", "loss"])
def test_no_vote_is_a_vote_against(how: str) -> None:
    root = Root()
    root.end()
    root.vote(0)
    if how == "time":
        root.play.wait(31)
        root.peers[1].heard.popleft()
        root.rollback(1)
    else:
        root.peers[1].drop()
    root.rollback(0)
    assert ended(root) == "rolled_back"
    if how == "loss":
        root.play.wait(1)
        root.peers[1] = root.play.served_by(name="two")
        root.rollback(1)
    assert root.records == [] and not root.play.session.coordinator.untold


def test_a_commit_is_told_again_until_there_is_a_reply() -> None:
    root = Root()
    root.end()
    root.vote(0)
    root.vote(1)
    root.commit(0)
    root.peers[1].drop()
    assert ended(root) == "committed" and root.outcome is not None and root.outcome.codes == {TWO.name: RMFAIL}
    assert root.records == [("committed", 2)]
    root.play.wait(1)
    root.peers[1] = root.play.served_by(name="two")
    root.commit(1, RETRY)
    assert root.records == [("committed", 2)]
    root.play.wait(1)
    root.commit(1, NOTA)
    assert root.records == [] and not root.play.session.coordinator.untold


def test_a_commit_is_told_again_after_a_restart() -> None:
    root = Root()
    root.end()
    root.vote(0)
    root.vote(1)
    root.play = root.play.restart()
    root.peers = [root.play.served_by(name=name) for name in ("one", "two")]
    root.commit(0)
    root.commit(1, RDONLY)
    assert root.records == [] and not root.play.session.coordinator.untold


def test_what_was_being_prepared_is_rolled_back_after_a_restart() -> None:
    root = Root()
    root.end()
    root.vote(0)
    root.play = root.play.restart()
    root.peers = [root.play.served_by(name=name) for name in ("one", "two")]
    root.rollback(0)
    root.rollback(1, NOTA)
    assert root.records == [] and not root.play.session.coordinator.untold


@pytest.mark.parametrize("code", [HEURMIX, HEURRB, 8])
def test_heuristic_outcomes_are_reported(code: int) -> None:
    root = Root()
    root.end()
    root.vote(0)
    root.vote(1)
    root.commit(0)
    root.commit(1, code)
    assert root.outcome is not None and list(root.outcome.codes.values()) == [code] and root.records == []
    assert root.play.session.counts["heuristic_outcomes"] == 1


def test_a_lost_peer_spoils_the_transaction_even_if_it_is_back() -> None:
    root = Root()
    root.peers[1].drop()
    root.play.wait(1)
    root.peers[1] = root.play.served_by(name="two")
    root.end()
    root.rollback(0)
    root.rollback(1, NOTA)
    assert ended(root) == "rolled_back"


def test_a_full_disk_makes_it_a_rollback() -> None:
    root = Root()
    root.end()
    root.vote(0)
    root.play.disk_is_full = True
    root.vote(1)
    assert root.outcome is None and root.is_silent()
    root.play.disk_is_full = False
    root.play.wait(2)
    root.rollback(0)
    root.rollback(1)
    assert ended(root) == "rolled_back" and root.records == []


# --- calls and queues of peers


def call(play: Play, *, branch: Any = None, timeout: float | None = 5.0) -> int:
    buffer = c.Buffer("X_OCTET/", b"x")
    token = play.session.requests.call("it", buffer, play.now, timeout=timeout, branch=branch, peer=ONE.name)
    play.settle()
    return token


def reply(peer: Peer, status: int = 0, state: int = 0) -> Any:
    result, buffer = c.Call(status, 9), c.Buffer("X_OCTET/", b"y")
    return peer.answer(c.ServiceCallReply, result, c.NULL_XID, c.TransactionState(state), buffer)


def test_local_replies_on_a_lost_connection() -> None:
    play = Play(peers=[ONE])
    peer = play.served_by()
    requests = play.session.requests
    call(play)
    requests.enqueue("there", QueueMessage(NIL), play.now, peer=ONE.name)
    requests.dequeue("there", play.now, peer=ONE.name, blocks=True)
    requests.discover(("x",), (), play.now, peer=ONE.name)
    play.settle()
    play.events.clear()
    peer.drop()
    assert [event for event in play.events if not isinstance(event, events.PeerLost)] == [
        events.CallEnded(1, 10),
        events.EnqueueEnded(2, NIL, is_lost=True),
        events.DequeueEnded(3, (), is_lost=True),
        events.Discovered(4, (), ()),
    ]


def test_limits_have_the_same_replies_and_the_connection_stays() -> None:
    play = Play(peers=[ONE])
    peer = play.served_by()
    requests = play.session.requests
    call(play, timeout=1.0)
    requests.enqueue("there", QueueMessage(NIL), play.now, peer=ONE.name)
    requests.dequeue("there", play.now, peer=ONE.name)
    requests.dequeue("there", play.now, peer=ONE.name, blocks=True)
    requests.discover(("x",), (), play.now, peer=ONE.name)
    play.settle()
    play.events.clear()
    play.wait(40)
    assert play.events == [
        events.CallEnded(1, 13),
        events.Discovered(5, (), ()),
        events.EnqueueEnded(2, NIL, is_lost=True),
        events.DequeueEnded(3, (), is_lost=True),
    ]
    late = [peer.heard.popleft() for _ in range(5)]
    buffer = c.Buffer("", b"")
    peer.send(c.ServiceCallReply(late[0].correlation, uuid(1), c.Call(0, 0), c.NULL_XID, c.TransactionState(0), buffer))
    assert not peer.is_closed and len(play.events) == 4, "a late reply is ignored"
    call(play)
    assert reply(peer).service.timeout == 5_000_000 and play.events[-1].code == 9


@pytest.mark.parametrize(("status", "state"), [(10, 0), (0, 1), (0, 2), (0, 3), (11, 0)])
def test_a_failed_call_spoils_its_transaction(status: int, state: int) -> None:
    root = Root(1)
    call(root.play, branch=root.branch)
    reply(root.peers[0], status, state)
    root.end()
    root.rollback(0)
    assert ended(root) == "rolled_back"


def test_a_reply_of_an_enqueue_to_a_dequeue_is_no_message() -> None:
    play = Play(peers=[ONE])
    peer = play.served_by()
    play.session.requests.dequeue("there", play.now, peer=ONE.name)
    play.settle()
    peer.answer(c.QueueEnqueueReply, NIL)
    assert play.events[-1] == events.DequeueEnded(1, ())


def test_a_service_that_is_gone_is_forgotten() -> None:
    play = Play(peers=[ONE])
    peer = play.served_by()
    buffer = c.Buffer("X_OCTET/", b"x")
    play.session.requests.call("it", buffer, play.now, timeout=5.0)
    play.settle()
    peer.offer((c.OfferedService("it", "", 0, 0, 0),))
    reply(peer)
    play.session.requests.call("it", buffer, play.now, timeout=5.0)
    play.settle()
    reply(peer, 6)
    play.session.requests.call("it", buffer, play.now, timeout=5.0)
    play.settle()
    assert isinstance(peer.heard[0], c.DomainDiscoverRequest), "asked again"


def test_a_call_without_reply_has_no_transaction_and_ends_at_once() -> None:
    root = Root(1)
    buffer = c.Buffer("X_OCTET/", b"x")
    token = root.play.session.requests.call(
        "it", buffer, root.play.now, branch=root.branch, peer=ONE.name, no_reply=True
    )
    root.play.settle()
    sent = root.peers[0].heard.popleft()
    assert sent.flags & 0xC == 0xC and sent.xid == c.NULL_XID
    assert root.play.events[-1] == events.CallEnded(token, 0)


# --- connections that we make


def test_peers_are_dialled_again_with_growing_delays() -> None:
    from wirelake.live.core.effects import Failed
    from wirelake.live.core.errors import ConnectionFailed

    play = Play(peers=[ONE])
    times = []
    for _ in range(12):
        (dial,) = play.dials
        play.dials.clear()
        play.complete(dial, Failed(ConnectionFailed("nobody is there")))
        before = play.now
        while not play.dials:
            play.wait(0.05)
        times.append(play.now - before)
    assert 0.05 <= times[0] <= 0.2 and 20 <= times[-1] <= 40 and times[3] > times[0]


@pytest.mark.parametrize("version", [0, 1001])
def test_a_version_that_we_did_not_offer_ends_the_connection(version: int) -> None:
    play = Play(peers=[ONE])
    peer = play.answer_dial()
    peer.welcome(version=version)
    assert peer.is_closed
    assert any(isinstance(event, events.PeerLost) and event.is_refused for event in play.events)


def test_a_peer_that_does_not_introduce_itself_is_left() -> None:
    play = Play(peers=[ONE])
    peer = play.answer_dial()
    play.wait(11)
    assert peer.is_closed


def test_whoever_dials_the_reverse_listener_serves_us() -> None:
    play = Play()
    peer = play.reverse()
    peer.welcome("branch office")
    play.session.requests.call("it", c.Buffer("NULL", b""), play.now, peer="branch office")
    play.settle()
    assert reply(peer).service.name == "it"
    assert play.events[-1].status == 0
    again = play.reverse()
    again.welcome("branch office")
    assert peer.is_closed and play.session.peers.by_name["branch office"].connection is again.link.state


def test_whom_we_dial_in_reverse_asks_us() -> None:
    play = Play(services_of(echo=lambda value: value), peers=[PeerSettings(("one", 1), reverse=True)])
    peer = play.answer_dial()
    assert peer.greet().protocol.version == 1000 and peer.call("echo", b"x").call.status == 0
    peer.drop()
    play.wait(1)
    assert len(play.dials) == 1


# --- in the middle


class Middle:
    """A domain between one that calls, and one that has the service ``far``, two hops away from there."""

    def __init__(self) -> None:
        self.play = Play(services_of(near=lambda value: value), peers=[ONE])
        self.below = self.play.served_by()
        self.above = self.play.peer()
        self.root = xid(1)

    def call(self, **more: Any) -> Any:
        assert self.above.call("far", b"x", xid=self.root, **more) is None
        if isinstance(self.below.heard[0], c.DomainDiscoverRequest):
            self.below.offer((c.OfferedService("far", "", 0, 0, 1),))
        asked = self.below.heard[0]
        reply(self.below)
        self.above.heard.popleft()
        return asked

    def answer(self, kind: Any, code: int) -> Any:
        asked = self.below.heard.popleft()
        self.below.send(kind(asked.correlation, asked.execution, asked.xid, c.ResourceResult(asked.resource.id, code)))
        return asked

    def told(self) -> int:
        return int(self.above.heard.popleft().resource.state)


def test_a_call_is_passed_on_with_the_time_that_is_left() -> None:
    middle = Middle()
    assert middle.above.call("far", b"x", xid=xid(1), timeout=5_000_000) is None
    middle.play.wait(2)
    middle.below.offer((c.OfferedService("far", "", 0, 0, 1),))
    asked = reply(middle.below)
    assert asked.execution == uuid(77) and asked.xid.gtrid == xid(1).gtrid and asked.xid != xid(1)
    assert 2_900_000 <= asked.service.timeout <= 3_000_000
    (told,) = middle.above.heard
    assert (told.call.status, told.call.code, told.buffer.payload, told.xid) == (0, 9, b"y", xid(1))


def test_hops_are_counted() -> None:
    middle = Middle()
    domain = c.Domain(uuid(99), "them")
    assert middle.above.say(c.DomainDiscoverRequest, domain, ("far", "near", "none"), ()) is None
    asked = middle.below.offer((c.OfferedService("far", "", 2, 7_000, 1),))
    assert (asked.services, asked.execution) == (("far", "none"), uuid(77))
    (told,) = middle.above.heard
    assert [(one.name, one.hops, one.timeout) for one in told.services] == [("near", 0, 0), ("far", 2, 7_000)]


def test_a_service_is_not_passed_back_to_who_calls() -> None:
    middle = Middle()
    middle.below.link.state.domain_id = uuid(99)
    assert middle.above.call("far", b"x").call.status == 6


def test_prepare_and_commit_go_down_before_the_reply_goes_up() -> None:
    middle = Middle()
    middle.call()
    assert middle.above.prepare(middle.root) is None
    middle.answer(c.ResourcePrepareReply, OK)
    assert middle.told() == OK
    assert middle.above.commit(middle.root) is None
    middle.answer(c.ResourceCommitReply, OK)
    assert middle.told() == OK
    assert middle.above.commit(middle.root) == OK and not middle.below.heard


def test_read_only_below_is_read_only_above() -> None:
    middle = Middle()
    middle.call()
    assert middle.above.prepare(middle.root) is None
    middle.answer(c.ResourcePrepareReply, RDONLY)
    assert middle.told() == RDONLY


@pytest.mark.parametrize("code", [RBROLLBACK, RBTIMEOUT, NOTA, -3])
def test_a_bad_vote_below_is_the_vote_above(code: int) -> None:
    middle = Middle()
    middle.call()
    middle.above.enqueue(xid=middle.root)
    assert middle.above.prepare(middle.root) is None
    middle.answer(c.ResourcePrepareReply, code)
    if code < 100:
        middle.answer(c.ResourceRollbackReply, OK)
    assert middle.told() == code
    assert middle.above.rollback(middle.root) == OK and middle.above.dequeue() == ()


@pytest.mark.parametrize("code", [HEURMIX, HEURRB])
def test_the_worst_reply_goes_up(code: int) -> None:
    middle = Middle()
    middle.call()
    middle.above.enqueue(xid=middle.root)
    middle.above.prepare(middle.root)
    middle.answer(c.ResourcePrepareReply, OK)
    middle.told()
    middle.above.commit(middle.root)
    middle.answer(c.ResourceCommitReply, code)
    assert middle.told() == code and middle.above.commit(middle.root) == code


def test_one_phase_from_above_is_two_phases_below() -> None:
    middle = Middle()
    middle.call()
    assert middle.above.commit_one_phase(middle.root) is None
    assert isinstance(middle.answer(c.ResourcePrepareReply, OK), c.ResourcePrepareRequest)
    middle.answer(c.ResourceCommitReply, OK)
    assert middle.told() == OK


def test_a_loss_above_rolls_back_below_and_a_loss_below_spoils_above() -> None:
    middle = Middle()
    middle.call()
    middle.above.drop()
    assert isinstance(middle.answer(c.ResourceRollbackReply, OK), c.ResourceRollbackRequest)
    middle = Middle()
    middle.call()
    middle.below.drop()
    assert middle.above.prepare(middle.root) == RBROLLBACK


def test_a_commit_that_does_not_get_through_is_repeated_below() -> None:
    middle = Middle()
    middle.call()
    middle.above.prepare(middle.root)
    middle.answer(c.ResourcePrepareReply, OK)
    middle.told()
    middle.above.commit(middle.root)
    middle.below.drop()
    assert middle.told() == RMFAIL and middle.above.commit(middle.root) == RMFAIL
    middle.play.wait(1)
    middle.below = middle.play.served_by()
    middle.answer(c.ResourceCommitReply, OK)
    assert middle.above.commit(middle.root) == OK


def test_the_worst_of_codes() -> None:
    assert worst([OK, RDONLY]) == OK and worst([OK, NOTA, RDONLY]) == NOTA
    assert worst([RBROLLBACK, -7, OK]) == -7 and worst([8, 5]) == 8 and worst([OK, 1234]) == 1234


def test_a_peer_that_never_replies_to_a_rollback_of_active_work_is_not_waited_for_long() -> None:
    root = Root(1)
    root.end(commits=False)
    assert root.outcome is None
    root.play.wait(2.1)
    assert ended(root) == "rolled_back"
    root.play.wait(200)
    assert len(root.peers[0].heard) == 4, "it is told again three times"
    assert not root.play.session.coordinator.untold and root.branch.xid not in root.play.session.branches.by_xid
