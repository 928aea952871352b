"""The rules of branches: work that is volatile, prepared, committed or rolled back, and who has to be told."""

from __future__ import annotations

from ...storage.database import Database
from ..store import (
    Begin,
    BranchRecord,
    Commit,
    Find,
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
from .queues import Queues
from .schema import (
    COMMITTED,
    PREPARED,
    PREPARING,
    RECORD,
    ROLLED_BACK,
    STATES,
    pack_peers,
    pack_xid,
    read_record,
)

SWEEP_EVERY = 64
SWEEP_MOST = 1_000
"""Every so many ends of branches, so many old tombstones go."""
OUTCOMES = ("committed", "rolled_back")


class Branches:
    """The branches of a store; ``queues`` has their work."""

    def __init__(self, database: Database, queues: Queues) -> None:
        self._database = database
        self._queues = queues
        self._until_sweep = SWEEP_EVERY

    def load(self, request: Load) -> Loaded:
        dead = self._database.dead_owners()
        mine, owners = ("1 = 1", []) if dead is None else (f"owner IN ({', '.join('?' * len(dead))})", dead)
        if dead == []:
            return Loaded(())
        volatile = self._database.execute(
            f"SELECT DISTINCT branch FROM messages WHERE branch IS NOT NULL AND owner IS NOT NULL AND {mine}", owners
        )
        ready: list[Ready] = []
        for (branch,) in volatile:
            ready += self._queues.roll_back(bytes(branch), request.now)
        rows = self._database.execute(
            f"SELECT {RECORD} FROM branches WHERE is_open = 1 AND {mine} ORDER BY since, xid", owners
        )
        self._database.execute(
            f"UPDATE branches SET owner = ? WHERE is_open = 1 AND {mine}", (self._database.owner, *owners)
        )
        self._database.execute("DELETE FROM branches WHERE is_open = 0 AND until <= ?", (request.now,))
        return Loaded(tuple(map(read_record, rows)), tuple(ready))

    def find(self, request: Find) -> BranchRecord | None:
        return self._find(pack_xid(request.xid))

    def _find(self, branch: bytes) -> BranchRecord | None:
        row = self._database.find(f"SELECT {RECORD} FROM branches WHERE xid = ? {{for_update}}", (branch,))
        return None if row is None else read_record(row)

    def begin(self, request: Begin) -> None:
        self._write(pack_xid(request.xid), PREPARING, request.peers, 0, request.now)

    def prepare(self, request: Prepare) -> Settled:
        branch = pack_xid(request.xid)
        record = self._find(branch)
        if record is not None and record.state != "preparing":
            return Settled(record=record)
        self._database.execute("UPDATE messages SET owner = NULL WHERE branch = ?", (branch,))
        self._write(branch, PREPARED, request.peers, 0, request.now)
        return Settled(record=record)

    def commit(self, request: Commit) -> Settled:
        return self._end(request, is_commit=True)

    def roll_back(self, request: Rollback) -> Settled:
        return self._end(request, is_commit=False)

    def _end(self, request: Commit | Rollback | Resolve, *, is_commit: bool, by_hand: bool = False) -> Settled:
        branch = pack_xid(request.xid)
        record = self._find(branch)
        if record is not None and record.state in OUTCOMES:
            return Settled(record=record)
        end = self._queues.commit if is_commit else self._queues.roll_back
        ready = end(branch, request.now)
        peers = record.peers if isinstance(request, Resolve) and record is not None else getattr(request, "peers", ())
        if peers or request.until:
            state = COMMITTED if is_commit else ROLLED_BACK
            self._write(branch, state, peers, request.until, request.now, by_hand=by_hand)
        elif record is not None:
            self._database.execute("DELETE FROM branches WHERE xid = ?", (branch,))
        self._sweep(request.now)
        return Settled(ready, record)

    def resolve(self, request: Resolve) -> Settled:
        """Decide a prepared branch; one that is not there, or not prepared, stays as it is."""
        record = self._find(pack_xid(request.xid))
        if record is None or record.state != "prepared":
            return Settled(record=record)
        return self._end(request, is_commit=request.is_commit, by_hand=True)

    def told(self, request: Told) -> None:
        branch = pack_xid(request.xid)
        if request.until:
            self._database.execute(
                "UPDATE branches SET peers = ?, until = ?, is_open = 0 WHERE xid = ? AND state >= ?",
                (pack_peers(()), request.until, branch, COMMITTED),
            )
        else:
            self._database.execute("DELETE FROM branches WHERE xid = ?", (branch,))

    def list(self) -> tuple[BranchRecord, ...]:
        rows = self._database.execute(f"SELECT {RECORD} FROM branches WHERE is_open = 1 ORDER BY since, xid")
        return tuple(map(read_record, rows))

    def count(self) -> dict[str, int]:
        row = self._database.find(
            "SELECT count(DISTINCT branch) FROM messages WHERE branch IS NOT NULL AND owner IS NOT NULL"
        )
        counts: dict[str, int] = dict.fromkeys(STATES, 0)
        counts["active"] = 0 if row is None else int(row[0])
        for state, count in self._database.execute(
            "SELECT state, count(*) FROM branches WHERE is_open = 1 GROUP BY state"
        ):
            counts[STATES[state]] = count
        return counts

    def _write(
        self,
        branch: bytes,
        state: int,
        peers: tuple[PeerBranch, ...],
        until: int,
        now: int,
        *,
        by_hand: bool = False,
    ) -> None:
        is_open = state in (PREPARING, PREPARED) or bool(peers)
        self._database.execute(
            """INSERT INTO branches (xid, state, peers, until, since, by_hand, is_open, owner)
            VALUES (?, ?, ?, ?, ?, ?, ?, ?)
            ON CONFLICT (xid) DO UPDATE SET state = excluded.state, peers = excluded.peers, until = excluded.until,
                since = excluded.since, by_hand = excluded.by_hand, is_open = excluded.is_open,
                owner = excluded.owner""",
            (branch, state, pack_peers(peers), until, now, int(by_hand), int(is_open), self._database.owner),
        )

    def _sweep(self, now: int) -> None:
        """Drop tombstones that are old enough, now and then."""
        self._until_sweep -= 1
        if self._until_sweep <= 0:
            self._until_sweep = SWEEP_EVERY
            self._database.execute(
                """DELETE FROM branches WHERE xid IN
                    (SELECT xid FROM branches WHERE is_open = 0 AND until <= ? LIMIT ?)""",
                (now, SWEEP_MOST),
            )
