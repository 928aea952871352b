"""casual transactions: the calling domain's side of two-phase commit, with votes, failures, branches in doubt."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
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
    correlation: bytes
    code: int | None


def transact(play: Play, peers: list[Peer]) -> Process:
    """Work in one branch per peer, then the end that the votes, or the application, decide."""
    java = peers[0].client.java
    found = Transaction(
        NARAYANA_XID if java else CASUAL_XID, play.rng.randbytes(28) if java else play.uuid(), play.stage.now
    )
    if play.stage.simulation.truth is not None:
        play.stage.simulation.truth.transactions.append(found)
    yield from _Coordinator(play, peers, found).run()
    if found.outcome not in ("in_doubt", "open"):
        found.ended_us = play.stage.now


class _Coordinator:
    def __init__(self, play: Play, peers: list[Peer], found: Transaction) -> None:
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
            found.branches.append(branch)
            self.parts.append(Part(peer, peer.link, branch, p.Xid(found.format, found.gtrid, bqual)))

    def run(self) -> Process:
        for part in self.parts:
            part.link.busy += 1
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
        finally:
            for part in self.parts:
                part.link.busy -= 1

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
        yield from self._ask_all(p.ResourceCommitRequest, p.ResourceCommitReply, [part], [code], TMONEPHASE)
        part.branch.result = code
        self._settle(committed=code in (XA_OK, XA_RDONLY))

    def _two_phases(self) -> Process:
        votes = [self._vote() for _ in self.parts]
        for part in self.parts:
            part.branch.prepare_sent = True
        yield from self._ask_all(p.ResourcePrepareRequest, p.ResourcePrepareReply, self.parts, votes)
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
        if commit:
            yield from self._ask_all(p.ResourceCommitRequest, p.ResourceCommitReply, parts, codes)
        else:
            yield from self._ask_all(p.ResourceRollbackRequest, p.ResourceRollbackReply, parts, codes)
        for part, code in zip(parts, codes, strict=True):
            part.branch.result = code
        self._settle(committed=commit)

    def _ask_all(self, request: Any, reply: Any, parts: list[Part], codes: Any, flags: int = 0) -> Process:
        """The same request on every branch at once; replies as they come. A code of None gets no reply."""
        asked = [self._ask(request, part, code, flags) for part, code in zip(parts, codes, strict=True)]
        passed = 0
        for one in sorted(asked, key=lambda one: one.wait):
            yield one.wait - passed
            passed = one.wait
            if one.code is None:
                continue
            message = reply(
                correlation=one.correlation,
                execution=self.execution,
                xid=one.part.xid,
                resource=p.ResourceResult(one.part.peer.resource, one.code),
            )
            outcome: Outcome = "ok" if one.code in (XA_OK, XA_RDONLY) else "error"
            one.part.link.reply(one.exchange, message, outcome, one.code)

    def _ask(self, request: Any, part: Part, code: int | None, flags: int) -> Asked:
        correlation = self.play.uuid()
        message = request(
            correlation=correlation,
            execution=self.execution,
            xid=part.xid,
            resource=p.Resource(part.peer.resource),
            flags=flags,
        )
        exchange = part.link.ask("to_server", message, "", correlation.hex(), limit_us=LIMIT_US)
        wait = LIMIT_US if code is None else self.stage.delay(2_200)
        return Asked(wait, part, exchange, correlation, code)

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
