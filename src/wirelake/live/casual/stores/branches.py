"""The rules of branches: work that is volatile, prepared, committed or rolled back, and who has to be told."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from itertools import chain

from ...storage.database import Database, Row, any_of, in_powers
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
MOST_ROWS = 64
"""Of one statement."""
OUTCOMES = ("committed", "rolled_back")
VOLATILE = f"""branch IS NOT NULL
    AND NOT EXISTS (SELECT 1 FROM branches WHERE branches.xid = messages.branch AND branches.state = {PREPARED})"""
"""The work of branches that are not prepared, which does not survive its process."""


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
        volatile = self._database.execute(f"SELECT DISTINCT branch FROM messages WHERE {VOLATILE} AND {mine}", owners)
        ready: list[Ready] = []
        for (branch,) in volatile:
            key = bytes(branch)
            ready += self._queues.roll_back({key: request.now})[key]
        rows = self._database.execute(
            f"SELECT {RECORD} FROM branches WHERE is_open = 1 AND {mine} ORDER BY since, xid", owners
        )
        self._database.execute(
            f"UPDATE branches SET owner = ? WHERE is_open = 1 AND {mine}", (self._database.owner, *owners)
        )
        self._database.execute("DELETE FROM branches WHERE is_open = 0 AND until <= ?", (request.now,))
        return Loaded(tuple(map(read_record, rows)), tuple(ready))

    def find_all(self, requests: Sequence[Find]) -> list[BranchRecord | None]:
        records = self._find([pack_xid(request.xid) for request in requests])
        return [records.get(pack_xid(request.xid)) for request in requests]

    def _find(self, branches: Sequence[bytes]) -> dict[bytes, BranchRecord]:
        """Return the records that there are. Nobody else changes them before the end of this batch."""
        marks, values = any_of(branches)
        rows = self._database.execute(
            f"SELECT {RECORD} FROM branches WHERE xid IN ({marks}) ORDER BY xid {{for_update}}", values
        )
        return {bytes(row[0]): read_record(row) for row in rows}

    def begin(self, request: Begin) -> None:
        self._write([self._row(pack_xid(request.xid), PREPARING, request.peers, 0, request.now)])

    def prepare_all(self, requests: Sequence[Prepare]) -> list[Settled]:
        """Prepare branches, each of which is there once."""
        keys = [pack_xid(request.xid) for request in requests]
        records = self._find(keys)
        results, rows = [], []
        for key, request in zip(keys, requests, strict=True):
            record = records.get(key)
            results.append(Settled(record=record))
            if record is None or record.state == "preparing":
                rows.append(self._row(key, PREPARED, request.peers, 0, request.now))
        self._write(rows)
        return results

    def commit_all(self, requests: Sequence[Commit]) -> list[Settled]:
        """Commit branches, each of which is there once."""
        return self._end(requests, is_commit=True)

    def roll_back_all(self, requests: Sequence[Rollback]) -> list[Settled]:
        return self._end(requests, is_commit=False)

    def _end(self, requests: Sequence[Commit | Rollback], *, is_commit: bool, by_hand: bool = False) -> list[Settled]:
        keys = [pack_xid(request.xid) for request in requests]
        records = self._find(keys)
        ending = {
            key: request.now
            for key, request in zip(keys, requests, strict=True)
            if key not in records or records[key].state not in OUTCOMES
        }
        end = self._queues.commit if is_commit else self._queues.roll_back
        ready = end(ending) if ending else {}
        results, rows = [], []
        for key, request in zip(keys, requests, strict=True):
            record = records.get(key)
            results.append(Settled(tuple(ready.get(key, ())), record))
            if key not in ending:
                continue
            if request.peers or request.until:
                state = COMMITTED if is_commit else ROLLED_BACK
                rows.append(self._row(key, state, request.peers, request.until, request.now, by_hand=by_hand))
            elif record is not None:
                self._database.execute("DELETE FROM branches WHERE xid = ?", (key,))
        self._write(rows)
        self._sweep(len(ending), requests[-1].now)
        return results

    def resolve(self, request: Resolve) -> Settled:
        """Decide a prepared branch; one that is not there, or not prepared, stays as it is."""
        key = pack_xid(request.xid)
        record = self._find([key]).get(key)
        if record is None or record.state != "prepared":
            return Settled(record=record)
        kind = Commit if request.is_commit else Rollback
        end = kind(request.xid, record.peers, request.until, request.now)
        return self._end([end], is_commit=request.is_commit, by_hand=True)[0]

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
        row = self._database.find(f"SELECT count(DISTINCT branch) FROM messages WHERE {VOLATILE}")
        counts: dict[str, int] = dict.fromkeys(STATES, 0)
        counts["active"] = 0 if row is None else int(row[0])
        for state, count in self._database.execute(
            "SELECT state, count(*) FROM branches WHERE is_open = 1 GROUP BY state"
        ):
            counts[STATES[state]] = count
        return counts

    def _row(
        self, branch: bytes, state: int, peers: tuple[PeerBranch, ...], until: int, now: int, *, by_hand: bool = False
    ) -> Row:
        is_open = state in (PREPARING, PREPARED) or bool(peers)
        return branch, state, pack_peers(peers), until, now, int(by_hand), int(is_open), self._database.owner

    def _write(self, rows: Sequence[Row]) -> None:
        for part in in_powers(rows, MOST_ROWS):
            self._database.execute(_write_of(len(part)), list(chain.from_iterable(part)))

    def _sweep(self, ended: int, now: int) -> None:
        """Drop tombstones that are old enough, now and then."""
        self._until_sweep -= ended
        if self._until_sweep <= 0:
            self._until_sweep = SWEEP_EVERY
            self._database.execute(
                """DELETE FROM branches WHERE xid IN
                    (SELECT xid FROM branches WHERE is_open = 0 AND until <= ? LIMIT ?)""",
                (now, SWEEP_MOST),
            )


@cache
def _write_of(rows: int) -> str:
    return f"""INSERT INTO branches (xid, state, peers, until, since, by_hand, is_open, owner)
        VALUES {", ".join([f"({', '.join('?' * 8)})"] * rows)}
        ON CONFLICT (xid) DO UPDATE SET state = excluded.state, peers = excluded.peers, until = excluded.until,
            since = excluded.since, by_hand = excluded.by_hand, is_open = excluded.is_open, owner = excluded.owner"""
