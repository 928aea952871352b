"""Branches: the part of a transaction that one domain has, by its xid, and what of it is known where.

A branch came from another domain, which asks us to prepare and to commit it, or it is the root of a transaction of our
own. Work in our queues is kept by the store under its xid; ``peers`` are domains to which it went on. What becomes of a
branch is decided in ``resource.py`` and ``coordinator.py``; here is who it is, and how it is found.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..core.effects import Done, Result, Store
from .connections import Inbound
from .events import TransactionEnded
from .peers import Peer
from .store import BranchRecord, Find, Load, Loaded, PeerBranch
from .wire import NIL, XA_OK, XA_RBROLLBACK, XAER_NOTA, XAER_RMFAIL, Xid, is_null

if TYPE_CHECKING:
    from .session import CasualSession

State = Literal["unknown", "active", "busy", "prepared", "committed", "rolled_back", "read_only"]
FEW = 256
"""Messages whose branch ends in a moment."""
FINISHED = frozenset(("committed", "rolled_back", "read_only"))
Then = Callable[["Branch", float], None]


class Branch(msgspec.Struct, eq=False):
    """``state`` busy: something is decided about it right now; what is asked meanwhile waits in ``after``."""

    xid: Xid
    state: State = "unknown"
    connections: dict[Inbound, None] = {}
    """It is rolled back with any of those that it came over, unless it is prepared."""
    peers: dict[str, PeerBranch] = {}
    work: int = 0
    """Messages that it has added or taken here."""
    running: int = 0
    """Requests to the store that have not completed."""
    calls: int = 0
    """Services that run in it, and requests to peers without a reply."""
    spoiled: int = 0
    """Why it can only be rolled back: an XA code, or 0."""
    is_recorded: bool = False
    """Whether the store has a durable record of it."""
    was_prepared: bool = False
    by_hand: bool = False
    outcome: int = XA_OK
    """What the coordinator is told when it asks again."""
    execution: bytes = NIL
    """The chain of calls that it belongs to."""
    ended: Callable[[TransactionEnded, float], None] | None = None
    """Who began it and hears how it ended, if the transaction is ours."""
    after: list[Callable[[float], None]] = []
    quiet: list[Callable[[float], None]] = []
    on_rollback: dict[Any, Callable[[float], None]] = {}
    """What waits in it, such as a dequeue, and how to end that."""
    untold: dict[str, PeerBranch] = {}
    """Peers that have not replied to its outcome yet."""

    def spoil(self, code: int = XA_RBROLLBACK) -> None:
        """It can only be rolled back from now on."""
        self.spoiled = self.spoiled or code

    @property
    def is_long(self) -> bool:
        """Tell whether it takes a while to end it."""
        return self.work > FEW

    @property
    def is_told_by_store(self) -> bool:
        """Tell whether the record in the store, of a branch that has ended, gives the same replies as this."""
        if self.outcome != XA_OK or self.peers:
            return False
        if self.state == "committed":
            return self.was_prepared
        return self.state == "rolled_back" and self.spoiled in (0, XA_RBROLLBACK)

    @property
    def takes_work(self) -> bool:
        return self.state == "active"

    def begin(self) -> None:
        self.running += 1

    def end(self, now: float) -> None:
        """A request has its reply: what waited for quiet goes on with the last one."""
        self.running -= 1
        if not self.running:
            waiting, self.quiet = self.quiet, []
            for then in waiting:
                then(now)

    def when_quiet(self, then: Callable[[float], None], now: float) -> None:
        if self.running:
            self.quiet.append(then)
        else:
            then(now)

    def end_waiting(self, now: float) -> None:
        """Dequeues that wait in it get no message any more."""
        waiting, self.on_rollback = self.on_rollback, {}
        for end in waiting.values():
            end(now)

    def settle(self, state: State, now: float) -> None:
        """What was decided is done: whoever asked meanwhile goes on."""
        self.state = state
        while self.after and self.state != "busy":
            self.after.pop(0)(now)


class Branches:
    """All branches that are not forgotten, by xid."""

    def __init__(self, session: CasualSession) -> None:
        self.session = session
        self.by_xid: dict[Xid, Branch] = {}
        self._tombstones: dict[Xid, None] = {}
        """Finished ones, the oldest first."""

    def load(self, done: Callable[[float], None], now: float) -> None:
        """Read what an earlier process has left, before anybody is served."""

        def loaded(result: Result, now: float) -> None:
            if not isinstance(result, Done):  # the disk may be better the next time
                self.session.note("error", "cannot read the store; trying again", reason=repr(result))
                self.session.at(now + 1.0, lambda now: self.load(done, now))
                return
            self.adopt(result.value, now)
            done(now)

        self.session.want_then(Store(Load(self.session.time(now))), loaded)

    def adopt(self, loaded: Loaded, now: float) -> None:
        """Take over branches of the store that nobody cares for."""
        for record in loaded.branches:
            if record.xid not in self.by_xid:
                branch = self.by_xid[record.xid] = Branch(record.xid)
                self._recall(branch, record)
                if record.state == "preparing":
                    self.session.coordinator.give_up(branch, now)
                elif branch.state in FINISHED:
                    self.session.coordinator.tell_outcome(branch, now)
        for message in loaded.ready:
            self.session.queues.offer(message, now)

    def _recall(self, branch: Branch, record: BranchRecord) -> None:
        branch.is_recorded, branch.by_hand, branch.outcome = True, record.by_hand, XA_OK
        branch.was_prepared = True
        branch.peers = {peer.peer: peer for peer in record.peers}
        match record.state:
            case "prepared":
                branch.state, branch.work = "prepared", FEW + 1  # nobody knows how much it is
            case "preparing":
                branch.state = "busy"
            case "committed" | "rolled_back":
                branch.state = record.state
                branch.untold = dict(branch.peers)
                self._bury(branch)

    def find(self, xid: Xid, then: Then, now: float) -> None:
        """Call ``then`` with the branch: one that nobody knows is ``unknown``, and forgotten if it stays so."""
        branch = self.by_xid.get(xid)
        if branch is None:
            branch = self.make(xid)
            branch.after.append(lambda now: then(branch, now))
            self.look_up(branch)
        elif branch.state == "unknown":
            branch.after.append(lambda now: then(branch, now))
        else:
            then(branch, now)

    def is_new(self, xid: Xid) -> bool:
        """Tell whether nobody here knows of a branch; the store may."""
        return xid not in self.by_xid and not is_null(xid)

    def make(self, xid: Xid) -> Branch:
        """Return a branch of which nobody knows yet what the store has of it: who asks for it waits in ``after``."""
        branch = self.by_xid[xid] = Branch(xid)
        return branch

    def look_up(self, branch: Branch) -> None:
        """Read what the store has of a branch, then go on with those who wait."""
        self.session.want_then(Store(Find(branch.xid)), lambda result, now: self._found(branch, result, now))

    def _found(self, branch: Branch, result: Result, now: float) -> None:
        record = result.value if isinstance(result, Done) else None
        branch.outcome = XAER_NOTA if isinstance(result, Done) else XAER_RMFAIL
        if record is not None and record.state != "preparing":
            self._recall(branch, record)
        self.known(branch, now)

    def known(self, branch: Branch, now: float) -> None:
        """Go on with those who waited to know what a branch is."""
        waiting, branch.after = branch.after, []
        for then in waiting:
            then(now)
        if branch.state == "unknown":
            self.forget(branch)

    def join(self, connection: Inbound, xid: Xid, then: Then, now: float) -> None:
        """Call ``then`` with the branch of work that came over a connection; an unknown branch begins with it."""

        def found(branch: Branch, now: float) -> None:
            self.enter(connection, branch, now)
            then(branch, now)

        self.find(xid, found, now)

    def enter(self, connection: Inbound, branch: Branch, now: float) -> None:
        """Work came over a connection: the branch ends with it, unless it is prepared by then."""
        if connection.is_lost:
            return
        if branch.state == "unknown":
            branch.state, branch.outcome = "active", XA_OK
            self.session.watch(branch, now)
        if branch.state == "active":
            branch.connections[connection] = None
            connection.branches[branch] = None

    def root(self, ended: Callable[[TransactionEnded, float], None]) -> Branch:
        """Begin a transaction of our own."""
        xid = self.session.ids.xid()
        branch = self.by_xid[xid] = Branch(xid, "active", ended=ended)
        return branch

    def involve(self, branch: Branch, peer: Peer) -> PeerBranch:
        """Return the branch that a peer has, or will have, of the transaction: it is remembered before the first
        request goes out.
        """
        known = branch.peers.get(peer.name)
        if known is None:
            xid = self.session.ids.branch(branch.xid)
            known = branch.peers[peer.name] = PeerBranch(peer.name, xid, peer.resource)
            peer.branches[branch] = None
        return known

    def finish(self, branch: Branch, now: float) -> None:
        """Leave its connections and peers: it is prepared or finished."""
        for connection in branch.connections:
            connection.branches.pop(branch, None)
        branch.connections.clear()
        for name in branch.peers:
            self.session.peers.named(name).branches.pop(branch, None)
        self.session.timers.drop(branch)
        if branch.state in FINISHED:
            branch.end_waiting(now)
            if branch.ended is None:
                (self.forget if branch.is_told_by_store else self._bury)(branch)
            elif not branch.untold:
                self.forget(branch)

    def _bury(self, branch: Branch) -> None:
        self._tombstones[branch.xid] = None
        if len(self._tombstones) > self.session.options.limits.tombstones:
            oldest = next(iter(self._tombstones))
            del self._tombstones[oldest]
            old = self.by_xid.get(oldest)
            if old is not None and not old.untold and not old.after:
                self.forget(old)

    def forget(self, branch: Branch) -> None:
        self.by_xid.pop(branch.xid, None)
