"""The domain as one resource of other coordinators: prepare, commit and rollback of branches that came to us."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from ...protocols import casual
from ...protocols.casual import ResourceResult
from ..core.effects import Done, Result
from .branches import FINISHED, Branch
from .connections import Inbound
from .store import Find, Prepare, Told
from .wire import (
    HEURISTIC,
    TMONEPHASE,
    XA_HEURCOM,
    XA_HEURRB,
    XA_OK,
    XA_RBOTHER,
    XA_RBROLLBACK,
    XA_RDONLY,
    XAER_NOTA,
    XAER_PROTO,
    XAER_RMFAIL,
    is_null,
    is_rolled_back,
)

if TYPE_CHECKING:
    from .session import CasualSession

Reply = Callable[[int], None]
AT_ONCE = 32
"""Branches of a lost connection that are rolled back in one turn, and in one batch of the store."""


class _Asked(msgspec.Struct, eq=False):
    """What a coordinator asks of a branch, until it has its reply, a message of ``kind``."""

    connection: Inbound
    message: Any
    kind: Any
    act: Callable[[Branch, Reply, float], None]

    def found(self, branch: Branch, now: float) -> None:
        if branch.state == "busy":
            branch.after.append(lambda now: self.found(branch, now))
        elif branch.state == "unknown":
            self.reply(branch.outcome)
        else:
            self.act(branch, self.reply, now)

    def reply(self, code: int) -> None:
        connection, message = self.connection, self.message
        connection.decisions.discard(message.correlation)
        result = ResourceResult(message.resource.id, code)
        connection.send(self.kind(message.correlation, message.execution, message.xid, result))


class Resource:
    """Replies to coordinators, as the state of each branch allows."""

    def __init__(self, session: CasualSession) -> None:
        self.session = session

    def prepare_asked(self, connection: Inbound, message: casual.ResourcePrepareRequest, now: float) -> None:
        self._asked(_Asked(connection, message, casual.ResourcePrepareReply, self._prepare), now)

    def commit_asked(self, connection: Inbound, message: casual.ResourceCommitRequest, now: float) -> None:
        commit = self._commit_one_phase if message.flags & TMONEPHASE else self._commit
        self._asked(_Asked(connection, message, casual.ResourceCommitReply, commit), now)

    def rollback_asked(self, connection: Inbound, message: casual.ResourceRollbackRequest, now: float) -> None:
        self._asked(_Asked(connection, message, casual.ResourceRollbackReply, self._roll_back), now)

    def _asked(self, asked: _Asked, now: float) -> None:
        connection, message = asked.connection, asked.message
        if connection.is_open(message.correlation):
            return
        connection.decisions.add(message.correlation)
        if is_null(message.xid):
            asked.reply(XAER_NOTA)
        else:
            self.session.branches.find(message.xid, asked.found, now)

    # --- prepare

    def _prepare(self, branch: Branch, reply: Reply, now: float) -> None:
        match branch.state:
            case "prepared":
                reply(XA_OK)
            case "read_only":
                reply(XA_RDONLY)
            case "committed":
                reply(XA_OK if branch.was_prepared else XAER_PROTO)
            case "rolled_back":
                reply(branch.spoiled if is_rolled_back(branch.spoiled) else XA_RBROLLBACK)
            case _:
                branch.state = "busy"
                branch.when_quiet(lambda now: self._prepare_quiet(branch, reply, now), now)

    def _prepare_quiet(self, branch: Branch, reply: Reply, now: float) -> None:
        branch.end_waiting(now)
        if branch.calls:
            branch.spoil()  # who asks to prepare while a service still works for it cannot mean all of it
        if branch.spoiled:
            self._refuse(branch, branch.spoiled, reply, now)
        else:
            self.session.coordinator.prepare(branch, lambda code, now: self._voted(branch, code, reply, now), now)

    def _voted(self, branch: Branch, code: int, reply: Reply, now: float) -> None:
        if code != XA_OK:
            self._refuse(branch, code, reply, now)
        elif not branch.peers and not branch.work:
            self._read_only(branch, reply, now)
        else:
            peers = tuple(branch.peers.values())
            prepare = Prepare(branch.xid, peers, self.session.time(now))
            self.session.store(prepare, lambda result, now: self._prepared(branch, result, reply, now), now)

    def _prepared(self, branch: Branch, result: Result, reply: Reply, now: float) -> None:
        if not isinstance(result, Done):
            self._refuse(branch, XA_RBOTHER, reply, now)
            return
        branch.is_recorded = branch.was_prepared = True
        self.session.counts["prepared"] += 1
        reply(XA_OK)
        branch.settle("prepared", now)
        self.session.branches.finish(branch, now)

    def _read_only(self, branch: Branch, reply: Reply, now: float) -> None:
        if branch.is_recorded:
            self.session.store(Told(branch.xid, 0, self.session.time(now)), lambda result, now: None, now)
        reply(XA_RDONLY)
        branch.settle("read_only", now)
        self.session.branches.finish(branch, now)

    def _refuse(self, branch: Branch, code: int, reply: Reply, now: float) -> None:
        """Roll it back, and say why. If the disk does not even take that, the coordinator has to ask again."""
        branch.spoil(code if is_rolled_back(code) else XA_RBROLLBACK)

        def done(result: int, now: float) -> None:
            if result == XAER_RMFAIL and not branch.untold:
                reply(XAER_RMFAIL)
                branch.settle("active", now)
            else:
                reply(result if result in HEURISTIC else code)

        self.session.coordinator.roll_back(branch, done, now)

    # --- commit

    def _commit(self, branch: Branch, reply: Reply, now: float) -> None:
        match branch.state:
            case "prepared":
                branch.state = "busy"
                done = lambda code, now: self._committed(branch, code, reply, now)  # noqa: E731
                self.session.coordinator.commit(branch, done, now)
            case "active":
                reply(XAER_PROTO)
            case "committed":
                reply(branch.outcome)
            case "read_only":
                reply(XA_RDONLY)
            case _:
                reply(XA_HEURRB)

    def _committed(self, branch: Branch, code: int, reply: Reply, now: float) -> None:
        reply(code)
        if code == XAER_RMFAIL and not branch.untold:
            branch.settle("prepared", now)  # the disk took no more: the promise holds

    def _commit_one_phase(self, branch: Branch, reply: Reply, now: float) -> None:
        match branch.state:
            case "active":
                branch.state = "busy"
                branch.when_quiet(lambda now: self._one_phase_quiet(branch, reply, now), now)
            case "rolled_back":
                reply(branch.spoiled if is_rolled_back(branch.spoiled) else XA_RBROLLBACK)
            case _:
                self._commit(branch, reply, now)

    def _one_phase_quiet(self, branch: Branch, reply: Reply, now: float) -> None:
        branch.end_waiting(now)
        if branch.calls:
            branch.spoil()
        if branch.spoiled:
            self._refuse(branch, branch.spoiled, reply, now)
        else:
            voted = lambda code, now: self._one_phase_voted(branch, code, reply, now)  # noqa: E731
            self.session.coordinator.prepare(branch, voted, now)

    def _one_phase_voted(self, branch: Branch, code: int, reply: Reply, now: float) -> None:
        """Below us it takes two phases: our own outcome has to be durable before theirs, or nobody could tell it after
        a crash.
        """
        if code != XA_OK:
            self._refuse(branch, code, reply, now)
            return
        if not branch.peers and not branch.work:
            self._read_only(branch, reply, now)
            return

        def done(code: int, now: float) -> None:
            if code == XAER_RMFAIL and not branch.untold:
                self._refuse(branch, XA_RBOTHER, reply, now)
            else:
                reply(code)

        self.session.coordinator.commit(branch, done, now)

    # --- rollback

    def _roll_back(self, branch: Branch, reply: Reply, now: float) -> None:
        match branch.state:
            case "rolled_back":
                reply(branch.outcome)
            case "read_only":
                reply(XA_OK)
            case "committed":
                reply(XA_HEURCOM)
            case _:
                before = branch.state
                branch.state = "busy"
                branch.end_waiting(now)

                def done(code: int, now: float) -> None:
                    reply(code)
                    if code == XAER_RMFAIL and not branch.untold:
                        branch.settle(before, now)

                self.session.coordinator.roll_back(branch, done, now)

    def lost(self, connection: Inbound, now: float) -> None:
        """Roll back what came over a connection that is gone, unless it is prepared."""
        left = list(connection.branches)
        connection.branches.clear()
        for branch in left:
            branch.connections.pop(connection, None)
            if branch.state == "active":
                branch.spoil()
        self._abandon(left, now)

    def _abandon(self, left: list[Branch], now: float) -> None:
        """Roll back some now, and more when the store has done these: others have to be served too."""
        for branch in left[:AT_ONCE]:
            self.abandon(branch, XA_RBROLLBACK, now)
        if left[AT_ONCE:]:
            # Requests to the store complete in their order, so this one does behind those.
            self.session.store(Find(left[0].xid), lambda result, now: self._abandon(left[AT_ONCE:], now), now)

    def abandon(self, branch: Branch, code: int, now: float) -> None:
        """Roll back an active branch that nobody asked to roll back."""
        if branch.state == "unknown" or branch.state in FINISHED or branch.state == "prepared":
            return
        branch.spoil(code)
        if branch.state == "busy":
            return  # its coordinator asks for something already
        branch.state = "busy"
        branch.end_waiting(now)

        def done(result: int, now: float) -> None:
            if result == XAER_RMFAIL and not branch.untold:  # the disk is full
                branch.settle("active", now)
                self.session.at(now + 1.0, lambda now: self.abandon(branch, code, now))

        self.session.coordinator.roll_back(branch, done, now)
