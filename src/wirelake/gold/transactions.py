"""``gold/transactions``: what became of distributed transactions, put together from all connections that took part.

Two steps, because a transaction crosses connections. ``branch_events`` picks the few messages that move one; it works
on any part of the connections. ``Transactions`` is fed the events of all of them.

A branch is one qualifier on one connection; a prepare, commit or rollback that comes over a connection where the branch
was never seen goes on with an unfinished branch of that qualifier and resource: the coordinator says its decision again
after a reconnect. How a reply ends a branch is declared (``Conduct.branches``).

A transaction is decided when each of its branches has ended and LINGER_US have passed since its last event: a branch
that another capture of the same time shows would else be cut off. What comes later, under the same id, is another row.

Most events are calls that do work in a branch, and until something is decided about it nothing can be said but how many
there were, and when: these are only counted, as columns (``call_counts``). Objects are made for the transactions of
which a prepare, commit or rollback was seen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ..columnar.schema import TIMESTAMP, documented
from ..spec.conduct import Branches, Outcome
from . import arrays
from .arrays import flags, integers
from .branch_events import COMMIT, COMMITTED, EVENTS, PREPARE, REPLIES, ROLLED_BACK, VOTE, WORK
from .call_counts import CALLS, IN_DOUBT, MAX_EXECUTIONS, CallCounts, undecided
from .declarations import Declarations
from .open import OPEN, open_rows

LINGER_US = 60_000_000
NO_TIME = 0
"""The time of events of streams that have none."""

BRANCH = documented(
    ("bqual", pa.string(), "branch qualifier, in hex"),
    ("connection", pa.string(), "the connection to the peer that has the branch"),
    ("resource", pa.int32(), "the coordinator's number for that peer; null if nothing was asked of it"),
    ("calls", pa.int64(), "requests that did work in the branch"),
    ("vote", pa.int32(), "status of the reply to prepare; null if none came"),
    ("decision", pa.string(), "`commit` or `rollback`; null if none was sent"),
    ("one_phase", pa.bool_(), "the commit was asked for without a prepare"),
    ("result", pa.int32(), "status of the last reply to the decision; null if none came"),
    ("outcome", pa.string(), "`committed`, `rolled_back`, `read_only`, `in_doubt`"),
)
TRANSACTIONS = documented(
    ("protocol", pa.string(), "the protocol"),
    ("xid_format", pa.int64(), "format of the transaction id"),
    ("gtrid", pa.string(), "global transaction id, in hex"),
    ("first_ts", TIMESTAMP, "first message with this id"),
    ("ended_ts", TIMESTAMP, "reply that ended the last branch; null if a branch did not end"),
    ("last_ts", TIMESTAMP, "last message with this id"),
    ("duration_us", pa.int64(), "from the first message to the end; null if it did not end"),
    ("outcome", pa.string(), "worst of the branches: `in_doubt`, `rolled_back`, `committed`, `read_only`"),
    ("calls", pa.int64(), "requests that did work in it"),
    ("prepare_us", pa.int64(), "from the first prepare to the last vote"),
    ("commit_us", pa.int64(), "from the first commit to the last reply to one"),
    ("connections", pa.int32(), "how many connections took part"),
    ("executions", pa.list_(pa.string()), "the chains of calls it belongs to"),
    ("branches", pa.list_(pa.struct(list(BRANCH))), "its branches, in the order of their first messages"),
)

_ORDER = ("ts", "order", "connection", "step")
_KEYS = pa.schema([(name, pa.string() if name == "connection" else EVENTS.field(name).type) for name in _ORDER])
_SORTING = [(name, "ascending") for name in _ORDER]
_BRANCH_COLUMNS = tuple(BRANCH.names)
_branch_values = attrgetter(*_BRANCH_COLUMNS)
_WORST_FIRST: tuple[Outcome, ...] = ("in_doubt", "rolled_back", "committed")

Key = tuple[str, int, bytes]


@dataclass(slots=True)
class Branch:
    bqual: bytes
    connection: str
    first_us: int
    resource: int | None = None
    calls: int = 0
    vote: int | None = None
    decision: str | None = None
    one_phase: bool = False
    result: int | None = None
    outcome: str | None = None

    def place(self) -> tuple[int, str, bytes]:
        return self.first_us, self.connection, self.bqual

    def row(self) -> dict[str, Any]:
        row = dict(zip(_BRANCH_COLUMNS, _branch_values(self), strict=True))
        row["bqual"], row["outcome"] = self.bqual.hex(), self.outcome or IN_DOUBT
        return row


@dataclass(slots=True)
class Transaction:
    protocol: str
    format: int
    gtrid: bytes
    first_us: int
    last_us: int
    ended_us: int | None = None
    prepare_from: int | None = None
    prepare_to: int | None = None
    commit_from: int | None = None
    commit_to: int | None = None
    branches: list[Branch] = field(default_factory=list)
    numbers: dict[tuple[bytes, str], int] = field(default_factory=dict)
    """(qualifier, connection) -> place in branches."""
    executions: dict[str, int] = field(default_factory=dict)
    """With the time of the first message of each."""

    @property
    def key(self) -> Key:
        return self.protocol, self.format, self.gtrid

    @property
    def has_ended(self) -> bool:
        return all(branch.outcome is not None for branch in self.branches)

    def is_over(self, now: int) -> bool:
        return self.last_us + LINGER_US < now and self.has_ended

    def branch(self, ts: int, bqual: bytes, connection: str, step: int, resource: int | None) -> Branch:
        """Return the branch that a request belongs to; a new one if it is the first."""
        number = self.numbers.get((bqual, connection))
        if number is None and step != WORK:
            number = self._unfinished(bqual, resource)
        if number is None:
            number = len(self.branches)
            self.branches.append(Branch(bqual, connection, ts))
        self.numbers[bqual, connection] = number
        branch = self.branches[number]
        branch.first_us = min(branch.first_us, ts)
        return branch

    def executed(self, ts: int, execution: str | None) -> None:
        """Name a chain of calls; of too many, the first are kept."""
        if not execution:
            return
        known = self.executions
        known[execution] = min(ts, known.get(execution, ts))
        if len(known) > MAX_EXECUTIONS:
            del known[max(known, key=lambda one: (known[one], one))]

    def _unfinished(self, bqual: bytes, resource: int | None) -> int | None:
        """Return the branch that goes on over another connection."""
        for number, known in enumerate(self.branches):
            if known.bqual == bqual and known.outcome is None and known.resource == resource:
                return number
        return None

    def row(self) -> dict[str, Any]:
        outcomes = {branch.outcome or IN_DOUBT for branch in self.branches}
        ended = self.ended_us or None if self.has_ended else None
        return {
            "protocol": self.protocol,
            "xid_format": self.format,
            "gtrid": self.gtrid.hex(),
            "first_ts": self.first_us or None,
            "ended_ts": ended,
            "last_ts": self.last_us or None,
            "duration_us": None if ended is None else ended - self.first_us,
            "outcome": next((outcome for outcome in _WORST_FIRST if outcome in outcomes), "read_only"),
            "calls": sum(branch.calls for branch in self.branches),
            "prepare_us": _span(self.prepare_from, self.prepare_to),
            "commit_us": _span(self.commit_from, self.commit_to),
            "connections": len({branch.connection for branch in self.branches}),
            "executions": sorted(self.executions, key=lambda one: (self.executions[one], one)),
            "branches": [branch.row() for branch in sorted(self.branches, key=Branch.place)],
        }


def _least(known: int | None, new: int) -> int:
    return new if known is None else min(known, new)


def _span(start: int | None, end: int | None) -> int | None:
    return end - start if start and end else None


@dataclass
class TransactionsCarry:
    """Transactions of which something is decided, and the calls of those of which nothing is."""

    known: list[Transaction] = field(default_factory=list)
    calls: pa.Table = field(default_factory=lambda: arrays.empty(CALLS))


class Transactions:
    """The step. ``carry`` is what an earlier one gave by ``carry()``; feeding it in parts gives the same rows."""

    def __init__(self, carry: TransactionsCarry | None = None, protocols: Declarations | None = None) -> None:
        carry = carry if carry is not None else TransactionsCarry()
        self._protocols = protocols or Declarations()
        self._known: dict[Key, Transaction] = {one.key: one for one in carry.known}
        self._calls = CallCounts(carry.calls)
        self._gtrids: pa.Array | None = None

    def carry(self) -> TransactionsCarry:
        return TransactionsCarry(list(self._known.values()), self._calls.counted())

    def count(self, calls: pa.Table, moved: pa.Array) -> pa.Table:
        """Count calls that came in any order; return those that are to be fed in the order of time, because something
        else is known of their transaction. ``moved`` are the ids of those of which that is still to be fed.
        """
        known = pa.concat_arrays([moved, self._known_gtrids()])
        if len(known):
            moves = flags(pc.is_in(calls["gtrid"], value_set=known))
            self._calls.add(arrays.where(calls, ~moves))
            return arrays.where(calls, moves)
        self._calls.add(calls)
        return arrays.empty(EVENTS)

    def feed(self, events: pa.Table) -> pa.Table:
        """Take events of all connections since the feed before. Return rows for those whose id was used again."""
        decided: list[Transaction] = []
        is_work = integers(events["step"]) == WORK
        moves = arrays.where(events, ~is_work)
        moved = moves.column("gtrid").combine_chunks().drop_null()
        self._recall(moved)
        events = pa.concat_tables([self.count(arrays.where(events, is_work), moved), moves])
        keys = events.select(_ORDER).cast(_KEYS)
        columns = [column.to_pylist() for column in events.take(pc.sort_indices(keys, _SORTING)).columns]
        for event in zip(*columns, strict=True):
            self._event(decided, *event)
        return _rows(decided)

    def settle(self, watermark: int, final: bool = False) -> pa.Table:
        """Return what is decided now that everything up to ``watermark`` was fed; with ``final``, the rest too."""
        settled = [one for one in self._known.values() if final or one.is_over(watermark)]
        rows = _rows([self._forget(one.key) for one in settled])
        return pa.concat_tables([rows, _rows_of_calls(self._calls.take_all())]) if final and len(self._calls) else rows

    def open(self) -> pa.Table:
        """Return what is undecided, for gold/open."""
        return pa.concat_tables([open_rows(self._open()), _open_calls(self._calls.counted())])

    def _open(self) -> Iterator[dict[str, Any]]:
        for one in self._known.values():
            unended = [branch for branch in one.branches if branch.outcome is None]
            prepared = sum(branch.vote in self._branches(one.protocol).promises for branch in unended)
            yield {
                "kind": "transaction",
                "protocol": one.protocol,
                "connection": min(one.branches, key=Branch.place).connection if one.branches else None,
                "correlation": one.gtrid.hex(),
                "since_ts": one.first_us or None,
                "detail": _detail(len(unended), len(one.branches), prepared) if unended else "all branches have ended",
            }

    def _known_gtrids(self) -> pa.Array:
        if self._gtrids is None:
            self._gtrids = pa.array([gtrid for _, _, gtrid in self._known], pa.binary())
        return self._gtrids

    def _recall(self, gtrids: pa.Array) -> None:
        """Make objects of the transactions with these ids of which only calls were known."""
        for row in self._calls.take(gtrids).to_pylist():
            one = self._begun((row["protocol"], row["xid_format"], row["gtrid"]), row["first"])
            one.last_us = max(one.last_us, row["last"])
            one.executed(row["first"], row["execution"])
            branch = one.branch(row["first"], row["bqual"] or b"", row["connection"], WORK, None)
            branch.calls += row["calls"]

    def _begun(self, key: Key, ts: int) -> Transaction:
        """Return the transaction with this id, which has an event at this time."""
        one = self._known.get(key)
        if one is None:
            one = self._known[key] = Transaction(*key, ts, ts)
            self._gtrids = None
        one.first_us, one.last_us = min(one.first_us, ts), max(one.last_us, ts)
        return one

    def _forget(self, key: Key) -> Transaction:
        one = self._known.pop(key)
        self._gtrids = None
        return one

    def _branches(self, protocol: str) -> Branches:
        return self._protocols.conduct(protocol).branches or Branches()

    def _event(
        self,
        decided: list[Transaction],
        ts: int,
        _order: int,
        protocol: str,
        connection: str,
        step: int,
        xid_format: int | None,
        gtrid: bytes | None,
        bqual: bytes | None,
        resource: int | None,
        status: int | None,
        one_phase: bool,
        execution: str | None,
    ) -> None:
        if gtrid is None or xid_format is None:
            return
        key = (protocol, xid_format, gtrid)
        one = self._known.get(key)
        if step in REPLIES:
            if one is not None:
                self._reply(one, ts, (bqual or b"", connection), step, status)
            return
        if one is not None and one.is_over(ts):
            decided.append(self._forget(key))
        one = self._begun(key, ts)
        one.executed(ts, execution)
        branch = one.branch(ts, bqual or b"", connection, step, resource)
        if step == WORK:
            branch.calls += 1
            return
        branch.resource = resource if branch.resource is None else branch.resource
        if step == PREPARE:
            one.prepare_from = _least(one.prepare_from, ts)
            return
        branch.decision = "commit" if step == COMMIT else "rollback"
        branch.one_phase = one_phase
        if step == COMMIT:
            one.commit_from = _least(one.commit_from, ts)

    def _reply(self, one: Transaction, ts: int, place: tuple[bytes, str], step: int, status: int | None) -> None:
        """Take the reply to a prepare, commit or rollback of this branch."""
        number = one.numbers.get(place)
        if number is None:
            return
        branch, conduct = one.branches[number], self._branches(one.protocol)
        one.last_us = max(one.last_us, ts)
        if step == VOTE:
            branch.vote = status
            one.prepare_to = max(ts, one.prepare_to or ts)
            ends = conduct.votes
        else:
            branch.result = status
            commits = conduct.one_phase_commits if branch.one_phase else conduct.commits
            ends = conduct.rollbacks if step == ROLLED_BACK else commits
            if step == COMMITTED:
                one.commit_to = max(ts, one.commit_to or ts)
        if branch.outcome is None and status is not None and status in ends:
            branch.outcome = ends[status]
            one.ended_us = max(ts, one.ended_us or ts)


def _detail(unended: Any, branches: Any, prepared: int = 0) -> str:
    return f"{unended} of {branches} branches have not ended, {prepared} of them prepared"


def _timed(found: dict[str, Any]) -> dict[str, Any]:
    """Return the columns with times in place of numbers."""
    times = {name: found[name] for name in ("first_ts", "last_ts")}
    return found | {
        name: pc.if_else(pc.equal(column, NO_TIME), None, column).cast(TIMESTAMP) for name, column in times.items()
    }


def _rows_of_calls(calls: pa.Table) -> pa.Table:
    """Return transactions with nothing but calls: in doubt."""
    return arrays.table_of(TRANSACTIONS, _timed(undecided(calls)))


def _open_calls(calls: pa.Table) -> pa.Table:
    if not len(calls):
        return arrays.empty(OPEN)
    found = _timed(undecided(calls))
    branches = found["branches"]
    few = pc.list_value_length(branches).dictionary_encode()
    made = {
        "kind": pa.repeat("transaction", len(branches)),
        "protocol": found["protocol"],
        "connection": branches.flatten().field("connection").take(branches.offsets[:-1]),
        "correlation": found["gtrid"],
        "since_ts": found["first_ts"],
        "detail": arrays.spread([_detail(one, one) for one in few.dictionary.to_pylist()], few.indices, pa.string()),
    }
    return arrays.table_of(OPEN, made)


def _rows(decided: list[Transaction]) -> pa.Table:
    decided.sort(key=lambda one: (one.first_us, one.gtrid))
    return pa.Table.from_pylist([one.row() for one in decided], TRANSACTIONS)
