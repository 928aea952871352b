"""Two-phase commit over the domains to which a transaction went on, whoever began it.

Before the first prepare goes out the store knows whom to roll back after a crash: the protocol has no message by which
a peer could ask. A decision to commit is durable before the first commit goes out, together with the work in our own
queues. After that it is final: whoever has not replied is told again, after reconnects and restarts too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...protocols import casual
from ...protocols.casual import Resource
from ..core.effects import Done, Result
from .branches import Branch
from .events import Outcome, TransactionEnded
from .peers import Peer
from .store import Begin, Commit, PeerBranch, Rollback, Settled, Told
from .wire import (
    HEURISTIC,
    TMNOFLAGS,
    TMONEPHASE,
    XA_HEURCOM,
    XA_HEURRB,
    XA_OK,
    XA_RBOTHER,
    XA_RDONLY,
    XA_RETRY,
    XAER_NOTA,
    XAER_RMFAIL,
    is_rolled_back,
    show_xid,
    worst,
)

if TYPE_CHECKING:
    from .session import CasualSession

PREPARE = (casual.ResourcePrepareRequest, casual.ResourcePrepareReply)
COMMIT = (casual.ResourceCommitRequest, casual.ResourceCommitReply)
ROLLBACK = (casual.ResourceRollbackRequest, casual.ResourceRollbackReply)
Phase = tuple[Any, type]
Codes = dict[str, int]
Done_ = Callable[[int, float], None]
ACTIVE_SECONDS = 2.0
"""How long to wait for the reply to a rollback of work that was never prepared."""
MOST_ATTEMPTS = 3
"""How often a rollback of work that was never prepared is told."""
AGAIN = frozenset((XAER_RMFAIL, XA_RETRY))
"""XA codes after which an outcome is told again."""


@dataclass(slots=True, eq=False)
class Reminder:
    """An outcome that a peer has not replied to. It is told again when the peer is back, and every now and then."""

    coordinator: Coordinator
    branch: Branch
    peer: PeerBranch
    attempts: int = 0

    def due(self, now: float) -> None:
        self.coordinator._remind(self, now)


class Coordinator:
    """Prepares, commits and rolls back what is below a branch."""

    def __init__(self, session: CasualSession) -> None:
        self.session = session
        self._reminders: dict[str, dict[Branch, Reminder]] = {}
        """By peer."""

    @property
    def untold(self) -> int:
        """Outcomes that some peer has not replied to yet."""
        return sum(map(len, self._reminders.values()))

    # --- the phases

    def _tell(
        self,
        branch: Branch,
        peers: Iterable[PeerBranch],
        phase: Phase,
        done: Callable[[Codes, float], None],
        now: float,
        flags: int = TMNOFLAGS,
        seconds: float | None = None,
    ) -> None:
        """Ask peers for something and collect what they reply; a peer that does not has failed."""
        waiting = {one.peer: one for one in peers}
        codes: Codes = {}
        if not waiting:
            done(codes, now)
            return
        count = len(waiting)
        request, reply = phase
        session = self.session

        def replied(name: str, message: Any, now: float) -> None:
            codes[name] = XAER_RMFAIL if message is None else message.resource.state
            if len(codes) == count:
                done(codes, now)

        branch.execution = branch.execution if any(branch.execution) else session.ids.uuid()
        limit = min(session.options.resource_seconds, seconds or session.options.resource_seconds)
        for name, one in waiting.items():
            message = request(session.ids.uuid(), branch.execution, one.xid, Resource(one.resource), flags)
            collect = lambda message, now, name=name: replied(name, message, now)  # noqa: E731
            peer = session.peers.named(name)
            session.peers.ask(peer, message, (reply,), limit, collect, now)

    def prepare(self, branch: Branch, done: Done_, now: float) -> None:
        """Ask all peers to prepare. ``done`` gets XA_OK, and ``branch.peers`` are those that promised; or it gets what
        went wrong, and ``branch.peers`` are those to roll back.
        """
        peers = tuple(branch.peers.values())
        if not peers:
            done(XA_OK, now)
            return

        def begun(result: Result, now: float) -> None:
            if isinstance(result, Done):
                branch.is_recorded = True
                self._tell(branch, peers, PREPARE, voted, now)
            else:
                done(XA_RBOTHER, now)

        def voted(codes: Codes, now: float) -> None:
            bad = [code for code in codes.values() if code not in (XA_OK, XA_RDONLY)]
            left = (one for one in peers if (not is_rolled_back(codes[one.peer]) if bad else codes[one.peer] == XA_OK))
            branch.peers = {one.peer: one for one in left}
            done(worst(bad) if bad else XA_OK, now)

        self.session.store(Begin(branch.xid, peers, self.session.time(now)), begun, now)

    def commit(self, branch: Branch, done: Done_, now: float) -> None:
        """Commit durably what we have of a branch, prepared or not, then all peers. The caller has made it busy.

        A store that takes no more gives XAER_RMFAIL and leaves the branch busy: the caller knows what it was.
        """
        peers = tuple(branch.peers.values())

        def stored(result: Result, now: float) -> None:
            if not isinstance(result, Done):
                done(XAER_RMFAIL, now)
                return
            settled: Settled = result.value
            self._offer(settled, now)
            before = settled.record
            if before is not None and before.state == "rolled_back":  # by hand, or by a hub that shares the store
                self._settled(branch, "rolled_back", XA_HEURRB, done, now)
                return
            branch.is_recorded = bool(peers) or branch.is_recorded
            self._tell(branch, peers, COMMIT, told, now)

        def told(codes: Codes, now: float) -> None:
            code = self._judge(branch, codes, is_commit=True)
            self._settled(branch, "committed", code, done, now)

        until = self.session.tombstone(branch, now)
        commit = Commit(branch.xid, peers, until, self.session.time(now))
        self.session.store(commit, stored, now, is_long=branch.is_long)

    def roll_back(self, branch: Branch, done: Done_, now: float) -> None:
        """Roll back what we have of a branch, then all peers. The caller has made it busy."""
        peers = tuple(branch.peers.values())
        is_prepared = branch.is_recorded

        def stored(result: Result, now: float) -> None:
            if not isinstance(result, Done):
                done(XAER_RMFAIL, now)
                return
            settled: Settled = result.value
            self._offer(settled, now)
            before = settled.record
            if before is not None and before.state == "committed":
                self._settled(branch, "committed", XA_HEURCOM, done, now)
            else:
                # Some peers never reply to the rollback of work that was not prepared.
                self._tell(branch, peers, ROLLBACK, told, now, seconds=None if is_prepared else ACTIVE_SECONDS)

        def told(codes: Codes, now: float) -> None:
            code = self._judge(branch, codes, is_commit=False)
            self._settled(branch, "rolled_back", code, done, now)

        until = self.session.tombstone(branch, now)
        kept = peers if is_prepared else ()
        rollback = Rollback(branch.xid, kept, until, self.session.time(now), is_prepared)
        self.session.store(rollback, stored, now, is_long=branch.is_long)

    def _offer(self, settled: Settled, now: float) -> None:
        for message in settled.ready:
            self.session.queues.offer(message, now)

    def _judge(self, branch: Branch, codes: Codes, *, is_commit: bool) -> int:
        """Return what all the replies to an outcome come to, and see to it that those who failed are told again."""
        results = [XA_OK]
        for name, code in codes.items():
            if code in AGAIN:
                branch.untold[name] = branch.peers[name]
                results.append(XAER_RMFAIL)
            else:
                results.append(self._ended(branch, name, code, is_commit=is_commit))
        return worst(results)

    def _ended(self, branch: Branch, name: str, code: int, *, is_commit: bool) -> int:
        """Return what a final reply to an outcome comes to; what contradicts the outcome is worth a note."""
        fine = code in (XA_OK, XA_RDONLY, XAER_NOTA) or (is_rolled_back(code) and not is_commit)
        if fine or code == (XA_HEURCOM if is_commit else XA_HEURRB):
            return XA_OK
        if is_rolled_back(code):
            code = XA_HEURRB
        self.session.counts["heuristic_outcomes"] += 1
        outcome = "committed" if is_commit else "rolled_back"
        fields = {"xid": show_xid(branch.xid), "peer": name, "code": code, "outcome": outcome}
        self.session.note("error", "a peer did not follow the outcome", **fields)
        return code

    def _settled(self, branch: Branch, state: Any, code: int, done: Done_, now: float) -> None:
        branch.outcome = code
        done(code, now)
        branch.settle(state, now)
        self.session.branches.finish(branch, now)
        if branch.untold:
            self.tell_outcome(branch, now)
        else:
            self._all_told(branch, now)

    # --- again

    def tell_outcome(self, branch: Branch, now: float) -> None:
        """See to it that the peers of a finished branch hear of its outcome."""
        for name, one in branch.untold.items():
            reminder = self._reminders.setdefault(name, {}).setdefault(branch, Reminder(self, branch, one))
            self._later(reminder, now)
        if not branch.untold:
            self._all_told(branch, now)

    def _later(self, reminder: Reminder, now: float) -> None:
        options = self.session.options
        branch = reminder.branch
        if branch.state == "rolled_back" and not branch.is_recorded and reminder.attempts >= MOST_ATTEMPTS:
            # It was only active there, and ends with the connection at the latest. Some peers never reply to this.
            self._forget(reminder)
            if not branch.untold:
                branch.outcome = XA_OK if branch.outcome == XAER_RMFAIL else branch.outcome
                self._all_told(branch, now)
            return
        delay = min(options.retry_seconds * 2.0 ** min(reminder.attempts, 32), options.most_retry_seconds)
        reminder.attempts += 1
        self.session.timers.set(reminder, now + delay)

    def peer_is_ready(self, peer: Peer, now: float) -> None:
        for reminder in list(self._reminders.get(peer.name, {}).values()):
            self.session.timers.drop(reminder)
            self._remind(reminder, now)

    def _remind(self, reminder: Reminder, now: float) -> None:
        branch, one = reminder.branch, reminder.peer
        if not self.session.peers.named(one.peer).is_ready:
            return  # it is told as soon as it is back
        is_commit = branch.state in ("committed", "busy")
        flags = TMONEPHASE if branch.state == "busy" else TMNOFLAGS

        def told(codes: Codes, now: float) -> None:
            self._reminded(reminder, codes[one.peer], now, is_commit=is_commit)

        self._tell(branch, [one], COMMIT if is_commit else ROLLBACK, told, now, flags)

    def _reminded(self, reminder: Reminder, code: int, now: float, *, is_commit: bool) -> None:
        branch, name = reminder.branch, reminder.peer.peer
        if name not in branch.untold:
            return
        if code in AGAIN:
            self._later(reminder, now)
            return
        self._forget(reminder)
        if branch.state == "busy":
            self._one_phase_ended(branch, name, code, now)
            return
        result = self._ended(branch, name, code, is_commit=is_commit)
        branch.outcome = result if branch.outcome == XAER_RMFAIL else worst([branch.outcome, result])
        if not branch.untold:
            self._all_told(branch, now)

    def _forget(self, reminder: Reminder) -> None:
        name = reminder.peer.peer
        del reminder.branch.untold[name]
        del self._reminders[name][reminder.branch]
        self.session.timers.drop(reminder)

    def _all_told(self, branch: Branch, now: float) -> None:
        if branch.is_recorded and branch.peers:
            until = self.session.tombstone(branch, now)
            self.session.store(Told(branch.xid, until, self.session.time(now)), lambda result, now: None, now)
        branch.peers = {}
        if branch.ended is not None:
            self.session.branches.forget(branch)

    # --- transactions of our own

    def give_up(self, branch: Branch, now: float) -> None:
        """Roll back a branch whose peers we were about to prepare when the process ended."""

        def done(code: int, now: float) -> None:
            if branch.state == "busy" and code == XAER_RMFAIL and not branch.untold:
                self.session.at(now + 1.0, lambda now: self.roll_back(branch, done, now))  # the disk is full

        self.roll_back(branch, done, now)

    def end(self, branch: Branch, now: float, *, commits: bool) -> None:
        """Commit or roll back a transaction of ours; an event tells how it ended."""
        if branch.state != "active":
            return
        branch.state = "busy"
        branch.when_quiet(lambda now: self._end(branch, now, commits=commits), now)

    def _end(self, branch: Branch, now: float, *, commits: bool) -> None:
        branch.end_waiting(now)
        if branch.calls:
            branch.spoil()  # nobody knows what becomes of a request without a reply
        if not commits or branch.spoiled:
            reason = "it was spoiled before" if commits else "the application asked for it"
            self._roll_back_root(branch, reason, {}, now)
        elif len(branch.peers) + bool(branch.work) == 0:
            self._finish_root(branch, "committed", {}, now)
        elif len(branch.peers) == 1 and not branch.work:
            self._one_phase(branch, now)
        else:
            self.prepare(branch, lambda code, now: self._voted(branch, code, now), now)

    def _one_phase(self, branch: Branch, now: float) -> None:
        (one,) = branch.peers.values()

        def told(codes: Codes, now: float) -> None:
            if codes[one.peer] in AGAIN:
                branch.untold[one.peer] = one
                self.tell_outcome(branch, now)
            else:
                self._one_phase_ended(branch, one.peer, codes[one.peer], now)

        self._tell(branch, [one], COMMIT, told, now, TMONEPHASE)

    def _one_phase_ended(self, branch: Branch, name: str, code: int, now: float) -> None:
        branch.peers = {}
        if code in (XA_OK, XA_RDONLY):
            self._finish_root(branch, "committed", {}, now)
        elif is_rolled_back(code) or code in (XAER_NOTA, XA_HEURRB):
            self._finish_root(branch, "rolled_back", {}, now, f"{name} rolled it back")
        else:
            outcome: Outcome = "committed" if code == XA_HEURCOM else "unknown"
            self._finish_root(branch, outcome, {name: code}, now)

    def _voted(self, branch: Branch, code: int, now: float) -> None:
        if code != XA_OK:
            self._roll_back_root(branch, f"a domain could not prepare ({code})", {}, now)
        elif not branch.peers and not branch.work:
            self.session.store(Told(branch.xid, 0, self.session.time(now)), lambda result, now: None, now)
            self._finish_root(branch, "committed", {}, now)
        else:
            self.commit(branch, lambda code, now: self._decided(branch, code, now), now)

    def _decided(self, branch: Branch, code: int, now: float) -> None:
        """The decision is durable, or the store takes no more: then it is the other one."""
        if code == XAER_RMFAIL and not branch.untold:
            self._roll_back_root(branch, "the store took no more", {}, now)
            return
        codes = dict.fromkeys(branch.untold, XAER_RMFAIL) | ({"": code} if code in HEURISTIC else {})
        outcome: Outcome = "rolled_back" if code == XA_HEURRB and not branch.untold else "committed"
        self._report(branch, outcome, codes, now)

    def _roll_back_root(self, branch: Branch, reason: str, codes: Codes, now: float) -> None:
        def done(code: int, now: float) -> None:
            if code == XAER_RMFAIL and not branch.untold:  # the disk is full: work in our queues waits
                self.session.at(now + 1.0, lambda now: self.roll_back(branch, done, now))
            else:
                self._report(branch, "rolled_back", {"": code} if code in HEURISTIC else {}, now, reason)

        self.roll_back(branch, done, now)

    def _finish_root(self, branch: Branch, outcome: Outcome, codes: Codes, now: float, reason: str = "") -> None:
        """It has ended, and the store knows nothing of it."""
        self._report(branch, outcome, codes, now, reason)
        branch.settle("committed" if outcome == "committed" else "rolled_back", now)
        self.session.branches.finish(branch, now)

    def _report(self, branch: Branch, outcome: Outcome, codes: Codes, now: float, reason: str = "") -> None:
        if branch.ended is not None:
            branch.ended(TransactionEnded(outcome, codes, reason), now)
