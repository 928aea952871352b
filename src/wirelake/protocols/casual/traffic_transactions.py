"""casual transactions: the calling domain's side of two-phase commit, with votes, failures, branches in doubt."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple

from ...generate.simulation import Gone, Link, Process
from ...generate.truth import Branch, Exchange, Outcome, Transaction
from . import messages as p
from .conduct import LIMIT_US, XA_OK, XA_RDONLY

if TYPE_CHECKING:
    from .traffic import Peer, Play

TMONEPHASE = 0x40000000
XA_RBROLLBACK, XA_RBDEADLOCK, XA_RBTIMEOUT = map(p.XA_RETURN.code, ("XA_RBROLLBACK", "XA_RBDEADLOCK", "XA_RBTIMEOUT"))
CASUAL_XID, NARAYANA_XID = 42, 131077
PREPARE = p.ResourcePrepareRequest, p.ResourcePrepareReply
COMMIT = p.ResourceCommitRequest, p.ResourceCommitReply
ROLLBACK = p.ResourceRollbackRequest, p.ResourceRollbackReply

Kept = list[tuple[deque[p.Dequeued], p.Dequeued]]


class Part(NamedTuple):
    """A branch, and the peer that has it."""

    peer: Peer
    link: Link
    branch: Branch
    xid: p.Xid


class Asked(NamedTuple):
    wait: int
    part: Part
    exchange: Exchange
    ids: dict[str, Any]
    code: int | None


def transact(play: Play, peers: list[Peer]) -> Process:
    """Work in one branch per peer, then the end that the votes, or the application, decide."""
    java = peers[0].client.java
    gtrid = play.rng.randbytes(28) if java else play.uuid()
    transaction = Transaction(NARAYANA_XID if java else CASUAL_XID, gtrid, play.stage.now)
    if play.stage.simulation.truth is not None:
        play.stage.simulation.truth.transactions.append(transaction)
    yield from _Coordinator(play, peers, transaction).run()
    if transaction.outcome not in ("in_doubt", "open"):
        transaction.ended_us = play.stage.now


class _Coordinator:
    def __init__(self, play: Play, peers: list[Peer], transaction: Transaction) -> None:
        self.play = play
        self.stage = play.stage
        self.execution = play.uuid()
        self.added: Kept = []
        self.taken: Kept = []
        self.parts: list[Part] = []
        for peer in peers:
            assert peer.link is not None
            bqual = play.rng.randbytes(12) if peer.client.java else play.uuid()
            branch = Branch(peer.link.connection.number, bqual)
            transaction.branches.append(branch)
            xid = p.Xid(transaction.format, transaction.gtrid, bqual)
            self.parts.append(Part(peer, peer.link, branch, xid))

    def run(self) -> Process:
        with ExitStack() as in_use:
            for part in self.parts:
                in_use.enter_context(part.link.in_use())
            yield from self._run()

    def _run(self) -> Process:
        try:
            ok = yield from self._work()
            yield self.stage.delay(1_000)
            if not ok or self.stage.chance(0.05):
                yield from self._finish(self.parts, commit=False)
            elif len(self.parts) == 1 and self.stage.chance(0.6):
                yield from self._one_phase(self.parts[0])
            else:
                yield from self._two_phases()
        except Gone:
            self._undo()

    def _work(self) -> Generator[int, None, bool]:
        play = self.play
        for peer, link, branch, xid in self.parts:
            for _ in range(1 + int(play.rng.random() * 2)):
                branch.calls += 1
                kind = play.rng.random()
                if kind < 0.6:
                    ok = yield from play.call(link, peer, self.execution, xid=xid)
                elif kind < 0.85:
                    ok = yield from play.enqueue(link, peer, self.execution, xid=xid, added=self.added)
                else:
                    ok = yield from play.dequeue(link, peer, self.execution, xid=xid, taken=self.taken)
                if not ok:
                    return False
        return True

    # --- how it ends

    def _one_phase(self, part: Part) -> Process:
        part.branch.one_phase, part.branch.decision = True, "commit"
        fate = self.play.rng.random()
        code = XA_RDONLY if fate < 0.1 else XA_RBROLLBACK if fate > 0.97 else XA_OK
        yield from self._ask_all(COMMIT, [part], [code], TMONEPHASE)
        part.branch.result = code
        self._settle(committed=code in (XA_OK, XA_RDONLY))

    def _two_phases(self) -> Process:
        votes = [self._vote() for _ in self.parts]
        for part in self.parts:
            part.branch.prepare_sent = True
        yield from self._ask_all(PREPARE, self.parts, votes)
        for part, vote in zip(self.parts, votes, strict=True):
            part.branch.vote = vote
        if any(vote not in (XA_OK, XA_RDONLY) for vote in votes):
            yield from self._finish([part for part in self.parts if part.branch.vote in (XA_OK, None)], commit=False)
            return
        prepared = [part for part in self.parts if part.branch.vote == XA_OK]
        if prepared and self.stage.chance(0.02):
            return  # the coordinator is gone: what is prepared stays in doubt
        yield self.stage.delay(400)
        yield from self._finish(prepared, commit=True)

    def _vote(self) -> int | None:
        fate = self.play.rng.random()
        if fate < 0.82:
            return XA_OK
        if fate < 0.95:
            return XA_RDONLY
        rolled_back: int = self.stage.pick((XA_RBROLLBACK, XA_RBDEADLOCK, XA_RBTIMEOUT))
        return None if fate > 0.99 else rolled_back

    def _finish(self, parts: list[Part], *, commit: bool) -> Process:
        for part in parts:
            part.branch.decision = "commit" if commit else "rollback"
        codes = [None if self.stage.chance(0.005) else XA_OK for _ in parts]
        yield from self._ask_all(COMMIT if commit else ROLLBACK, parts, codes)
        for part, code in zip(parts, codes, strict=True):
            part.branch.result = code
        self._settle(committed=commit)

    def _ask_all(self, kinds: tuple[Any, Any], parts: list[Part], codes: Any, flags: int = 0) -> Process:
        """The same request on every branch at once; replies as they come. A code of None gets no reply."""
        request, reply = kinds
        asked = [self._ask(request, part, code, flags) for part, code in zip(parts, codes, strict=True)]
        passed = 0
        for wait, part, exchange, ids, code in sorted(asked, key=lambda request: request.wait):
            yield wait - passed
            passed = wait
            if code is not None:
                message = reply(**ids, xid=part.xid, resource=p.ResourceResult(part.peer.resource, code))
                outcome: Outcome = "ok" if code in (XA_OK, XA_RDONLY) else "error"
                part.link.reply(exchange, message, outcome, code)

    def _ask(self, request: Any, part: Part, code: int | None, flags: int) -> Asked:
        ids = self.play.ids(self.execution)
        message = request(**ids, xid=part.xid, resource=p.Resource(part.peer.resource), flags=flags)
        exchange = self.play.ask(part.link, message, limit_us=LIMIT_US)
        wait = LIMIT_US if code is None else self.stage.delay(2_200)
        return Asked(wait, part, exchange, ids, code)

    # --- what it does to queues

    def _settle(self, committed: bool) -> None:
        if not committed:
            self._undo()
            return
        for queue, message in self.added:
            self.play.store(queue, message)

    def _undo(self) -> None:
        """What was taken from queues goes back to their front, with one more redelivery."""
        for queue, m in self.taken:
            again = m.redelivered + 1
            queue.appendleft(p.Dequeued(m.id, m.properties, m.reply, 0, m.type, m.payload, again, m.timestamp))
