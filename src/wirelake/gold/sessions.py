"""``gold/sessions``: one row per connection, when it has ended, or when nothing more will come.

Counts of messages, silences, heartbeats and what the peers say about themselves come from the facts; bytes come from
the accounts, which are cumulative; who, when and how it ended comes from the connection itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..columnar.schema import TIMESTAMP, documented
from ..spec.conduct import HANDSHAKE
from .arrays import Ints, Mask, flags, integers
from .fact_groups import Runs, introductions, runs_of, to_client
from .facts import INTRODUCTION
from .open import open_rows

REMEMBER_US = 300_000_000
"""How long it is remembered that a connection has its row: its last packets may come in a later commit."""
NONE = "none"

SESSIONS = documented(
    ("capture", pa.string(), "the file or tap in which it was seen first"),
    ("connection", pa.string(), "the connection"),
    ("protocol", pa.string(), "the protocol; null if nothing of it was understood"),
    ("client", pa.string(), "address of the side that connected"),
    ("server", pa.string(), "address of the side that was connected to"),
    ("first_ts", TIMESTAMP, "when it was first seen"),
    ("last_ts", TIMESTAMP, "when it was last seen; if it ended, its end"),
    ("opened", pa.bool_(), "its beginning was captured"),
    ("ended", pa.string(), "`closed` or `reset`; null if its end was not captured"),
    ("ended_ts", TIMESTAMP, "when it ended"),
    ("duration_us", pa.int64(), "from first to last seen"),
    ("handshake", pa.string(), "how handshake or login went: `complete`, `refused`; `none` if none was seen"),
    ("facts", INTRODUCTION, "peer details: domains, ids, versions, user, service name ..."),
    ("messages_to_server", pa.int64(), "messages of the client"),
    ("messages_to_client", pa.int64(), "messages of the server"),
    ("bytes_to_server", pa.int64(), "captured bytes of the client"),
    ("bytes_to_client", pa.int64(), "captured bytes of the server"),
    ("heartbeats", pa.int64(), "messages that only say that a peer is alive"),
    ("longest_gap_to_server_us", pa.int64(), "longest time between two messages of the client"),
    ("longest_gap_to_client_us", pa.int64(), "longest time between two messages of the server"),
    ("quarantined_bytes", pa.int64(), "captured bytes that are no message, both ways"),
    ("quarantined_ranges", pa.int64(), "in how many ranges"),
    ("missing_bytes", pa.int64(), "bytes that were never captured, both ways"),
    ("violations", pa.int64(), "its rows in gold/violations"),
)


@dataclass
class Session:
    """What is known of a connection. Of pairs, the first is to_server."""

    capture: str | None = None
    protocol: str | None = None
    client: str | None = None
    server: str | None = None
    first_us: int | None = None
    last_us: int | None = None
    opened: bool = False
    ended: str | None = None
    ended_us: int | None = None
    handshake: str = NONE
    facts: dict[str, str] = field(default_factory=dict)
    messages: list[int] = field(default_factory=lambda: [0, 0])
    bytes: list[int] = field(default_factory=lambda: [0, 0])
    heartbeats: int = 0
    spoke_us: list[int | None] = field(default_factory=lambda: [None, None])
    gap_us: list[int | None] = field(default_factory=lambda: [None, None])
    quarantined: list[int] = field(default_factory=lambda: [0, 0])
    ranges: int = 0
    missing: list[int] = field(default_factory=lambda: [0, 0])
    violations: int = 0

    def row(self, connection: str) -> dict[str, Any]:
        first, last = self.first_us, self.ended_us if self.ended and self.ended_us is not None else self.last_us
        return {
            "capture": self.capture,
            "connection": connection,
            "protocol": self.protocol,
            "client": self.client,
            "server": self.server,
            "first_ts": first,
            "last_ts": last,
            "opened": self.opened,
            "ended": self.ended,
            "ended_ts": self.ended_us,
            "duration_us": None if first is None or last is None else last - first,
            "handshake": self.handshake,
            "facts": sorted(self.facts.items()),
            "messages_to_server": self.messages[0],
            "messages_to_client": self.messages[1],
            "bytes_to_server": self.bytes[0],
            "bytes_to_client": self.bytes[1],
            "heartbeats": self.heartbeats,
            "longest_gap_to_server_us": self.gap_us[0],
            "longest_gap_to_client_us": self.gap_us[1],
            "quarantined_bytes": sum(self.quarantined),
            "quarantined_ranges": self.ranges,
            "missing_bytes": sum(self.missing),
            "violations": self.violations,
        }


@dataclass
class SessionsCarry:
    sessions: dict[str, Session] = field(default_factory=dict)
    done: dict[str, int] = field(default_factory=dict)
    """Connections that have their row already, with the times of their ends."""


class Sessions:
    """The step. ``carry`` is what an earlier one gave by ``carry()``; feeding it in pieces gives the same rows."""

    def __init__(self, carry: SessionsCarry | None = None) -> None:
        carry = carry if carry is not None else SessionsCarry()
        self._sessions, self._done = carry.sessions, carry.done

    def carry(self) -> SessionsCarry:
        return SessionsCarry(self._sessions, self._done)

    def feed(
        self,
        facts: pa.Table,
        connections: pa.Table,
        accounts: pa.Table | None = None,
        quarantined: pa.Table | None = None,
        violations: pa.Table | None = None,
    ) -> None:
        """What a commit brings: facts sorted by connection, ts, order; CONNECTIONS that were seen since the last one;
        accounts of connections and directions, counted from their beginning; new rows of silver/quarantine and of
        gold/violations. Rows come by ``settle``.
        """
        self._take_connections(connections)
        self._take_facts(facts)
        if accounts is not None:
            self._take_accounts(accounts)
        for table, name in ((quarantined, "ranges"), (violations, "violations")):
            for connection, count in _counted(table):
                session = self._session(connection)
                setattr(session, name, getattr(session, name) + count)

    def settle(self, watermark: int, final: bool = False) -> pa.Table:
        """The rows of connections that ended; with ``final``, of all others too."""
        done = [name for name, one in self._sessions.items() if final or one.ended]
        rows = []
        for name in sorted(done, key=lambda name: (self._sessions[name].first_us or 0, name)):
            session = self._sessions.pop(name)
            rows.append(session.row(name))
            self._done[name] = watermark if session.ended_us is None else session.ended_us
        self._done = {name: ended for name, ended in self._done.items() if ended + REMEMBER_US >= watermark}
        return pa.Table.from_pylist(rows, SESSIONS)

    def open(self) -> pa.Table:
        """Connections that have not ended, for gold/open."""
        return open_rows(self._open())

    def _open(self) -> Iterator[dict[str, Any]]:
        for name, one in self._sessions.items():
            yield {
                "kind": "session",
                "protocol": one.protocol,
                "connection": name,
                "address": one.server,
                "since_ts": one.first_us,
                "detail": f"{one.messages[0]} messages to the server and {one.messages[1]} to the client so far",
            }

    def _session(self, connection: str) -> Session:
        """The session of a connection. What still comes for one that has its row already is kept out of the table."""
        if connection in self._done:
            return Session()
        return self._sessions.setdefault(connection, Session())

    def _take_connections(self, connections: pa.Table) -> None:
        for row in connections.to_pylist():
            session = self._session(row["connection"])
            session.client, session.server = row["client"], row["server"]
            session.capture = session.capture or row["capture"]
            session.protocol = session.protocol or row["protocol"]
            session.opened = session.opened or bool(row["is_whole"])
            session.first_us = row["first_us"] if session.first_us is None else session.first_us
            session.last_us = _latest(session.last_us, row["last_us"])
            session.ended = row["ended"] or session.ended
            session.ended_us = row["ended_us"] if row["ended_us"] is not None else session.ended_us

    def _take_facts(self, facts: pa.Table) -> None:
        if not facts.num_rows:
            return
        runs = runs_of(facts)
        starts = runs.starts[:-1]
        first = facts.select(["capture", "protocol", "ts"]).take(pa.array(starts))
        sessions = [self._session(name) for name in runs.names]
        side, ts = to_client(facts), integers(facts["ts"])
        timed = facts.column("ts").null_count == 0
        to_server = np.add.reduceat((side == 0).astype(np.int64), starts).tolist()
        beats = np.add.reduceat(flags(facts["heartbeat"]).astype(np.int64), starts).tolist()
        lengths, last = runs.lengths.tolist(), ts[runs.starts[1:] - 1].tolist()
        captures, protocols = first.column("capture").to_pylist(), first.column("protocol").to_pylist()
        for i, session in enumerate(sessions):
            session.capture = session.capture or captures[i]
            session.protocol = session.protocol or protocols[i]
            session.messages[0] += to_server[i]
            session.messages[1] += lengths[i] - to_server[i]
            session.heartbeats += beats[i]
            if timed:
                session.first_us = int(ts[starts[i]]) if session.first_us is None else session.first_us
                session.last_us = _latest(session.last_us, last[i])
        if timed:
            for way in (0, 1):
                _take_gaps(sessions, runs, ts, side == way, way)
        said_at = introductions(facts)
        owner = np.searchsorted(runs.starts, [row for row, _ in said_at], "right") - 1
        for at, (_, said) in zip(owner.tolist(), said_at, strict=True):
            session = sessions[at]
            session.handshake = said.pop(HANDSHAKE, session.handshake)
            session.facts |= said

    def _take_accounts(self, accounts: pa.Table) -> None:
        names = ("connection", "direction", "protocol", "bytes_in", "bytes_quarantined", "bytes_missing")
        for connection, direction, protocol, bytes_in, quarantined, missing in zip(
            *(accounts.column(name).to_pylist() for name in names), strict=True
        ):
            session = self._session(connection)
            way = int(direction in ("to_client", 1))
            session.protocol = session.protocol or protocol
            session.bytes[way], session.quarantined[way], session.missing[way] = bytes_in, quarantined, missing


def _latest(known: int | None, new: int | None) -> int | None:
    return new if known is None else known if new is None else max(known, new)


def _take_gaps(sessions: list[Session], runs: Runs, ts: Ints, mask: Mask, way: int) -> None:
    """The longest time between two messages of one side, also across the cut between two feeds."""
    rows = np.flatnonzero(mask)
    if not len(rows):
        return
    owner = np.searchsorted(runs.starts, rows, "right") - 1
    first = np.flatnonzero(np.concatenate([[True], owner[1:] != owner[:-1]]))
    spoke = ts[rows]
    gaps = np.diff(spoke, prepend=spoke[:1])
    gaps[first] = -1
    longest = np.maximum.reduceat(gaps, first).tolist()
    last = spoke[np.append(first[1:], len(rows)) - 1].tolist()
    for at, i in enumerate(owner[first].tolist()):
        session = sessions[i]
        before = session.spoke_us[way]
        found = longest[at] if before is None else max(longest[at], int(spoke[first[at]]) - before)
        if found >= 0:
            session.gap_us[way] = _latest(session.gap_us[way], found)
        session.spoke_us[way] = last[at]


def _counted(table: pa.Table | None) -> list[tuple[str, int]]:
    """How many rows each connection has."""
    if table is None or not table.num_rows:
        return []
    counts = pc.value_counts(table.column("connection"))
    return list(zip(counts.field("values").to_pylist(), counts.field("counts").to_pylist(), strict=True))
