"""The two legs of an exchange over a broker that gives its own ids (mb).

Nothing in the headers ties them. If the broker's audit stream was captured, it does; otherwise a request that the
broker sends belongs to the oldest request with the same topic, version and payload that it got shortly before, has not
replied to and has not sent on, and the row says that this is a guess: a broker sends on in the order in which it got
the requests.

A request that the broker sends is looked at when every audit copy that may be about it, or about a request that it may
belong to, has come: ``WINDOW_US`` after it. Until then both legs wait, also when they have their replies: so rows do
not depend on how the facts are cut into feeds. Both legs must be fed to the same step, all connections with a server in
the order of time.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..capture.chunks import SERVER_DIGITS
from . import arrays
from .arrays import FOR_EVER, Ints, Mask, coded, integers, valid

WINDOW_US = 5_000_000
"""A broker sends on at once, and copies at once; after this time it is another message."""
AUDITS = pa.schema([(name, pa.string()) for name in ("server", "audit_id", "masked_id")] + [("ts", pa.int64())])
_NO_TIME = -(1 << 60)
"""Far from all times, and no difference to it overflows."""
OTHER = ("other_connection", "other_correlation", "other_leg_how")
_READ = (
    *("message", "direction", "connection", "correlation", "address", "version", "payload_hash"),
    *("request_ts", "reply_ts", "order", *OTHER),
)


def has_legs(table: pa.Table) -> bool:
    """Say whether any of these requests may have a leg elsewhere."""
    return bool(table["payload_hash"].null_count < len(table))


def with_copies(audits: pa.Table, matched: pa.Table) -> pa.Table:
    """Return audit copies and those among these rows (MATCHED)."""
    copies = arrays.where(matched, valid(matched["audit_id"]))
    if not len(copies):
        return audits
    made = {"server": _servers(copies["connection"]), "ts": copies["ts"]}
    return pa.concat_tables([audits, arrays.table_of(AUDITS, made, copies)]).combine_chunks()


def latest_of(table: pa.Table, audits: pa.Table) -> tuple[Ints, Ints]:
    """Return, for each request and each copy, the latest time that is known of its server."""
    servers = pa.concat_arrays([_servers(table["connection"]), arrays.joined(audits["server"])])
    times = np.concatenate([integers(one, _NO_TIME) for one in (table["request_ts"], audits["ts"])])
    names, server = coded(servers)
    latest = np.full(len(names), _NO_TIME, np.int64)
    np.maximum.at(latest, server, times)
    return latest[server][: len(table)], latest[server][len(table) :]


def still_needed(audits: pa.Table, now: Ints) -> pa.Table:
    """Return the copies whose messages may not have been looked at yet."""
    return arrays.where(audits, integers(audits["ts"], _NO_TIME) + 2 * WINDOW_US >= now)


def join(table: pa.Table, ended: Ints, now: Ints, audits: pa.Table) -> tuple[pa.Table, Mask]:
    """Return the requests with the other legs that are known now, and which of them nothing later can change.

    ``ended`` are the times at which connections ended, or negative; everything up to ``now`` is known.
    """
    settled = np.ones(len(table), np.bool_)
    rows = np.flatnonzero(valid(table["payload_hash"]))
    if not len(rows):
        return table, settled
    legs = _Legs(table, rows, ended, now)
    if len(audits):
        legs.take_audits(audits)
    legs.guess()
    settled[rows] = legs.settled()
    return legs.written(table), settled


def _servers(connections: pa.ChunkedArray) -> pa.Array:
    return pc.utf8_slice_codeunits(arrays.joined(connections).cast(pa.string()), 0, SERVER_DIGITS)


class _Legs:
    """Requests that a broker forwards: ``near`` those it got, ``far`` those it sent."""

    def __init__(self, table: pa.Table, rows: Ints, ended: Ints, now: Ints) -> None:
        chosen = table.select(_READ).take(pa.array(rows)).combine_chunks()
        self.rows, self.chosen, self.now = rows, chosen, now[rows]
        self.far = arrays.which(chosen["direction"], ["to_client"]) >= 0
        self.ts, self.order = integers(chosen["request_ts"], _NO_TIME), integers(chosen["order"])
        self.closed = np.where(ended[rows] > 0, ended[rows], FOR_EVER)
        """Until when the request is open."""
        self.closed = np.minimum(self.closed, integers(chosen["reply_ts"], FOR_EVER))
        self.tied = valid(chosen["other_leg_how"])
        self.other = np.full(len(rows), -1, np.int64)
        self.is_audited = np.zeros(len(rows), np.bool_)
        """Whether a copy tells where its other leg is: it is not guessed."""
        self.half_known: dict[int, str] = {}
        """The ids that other legs have which were not captured."""
        self.ripe = self._has_passed(WINDOW_US)

    def _has_passed(self, window: int) -> Mask:
        return np.asarray((self.ts == _NO_TIME) | (self.ts + window < self.now), np.bool_)

    def settled(self) -> Mask:
        """A request that was got is tied, or too old for all that are not ripe yet."""
        return np.where(self.far, self.ripe, self.tied | self._has_passed(2 * WINDOW_US))

    def _tie(self, near: Any, far: Any) -> None:
        self.other[near], self.other[far] = far, near
        self.tied[near] = self.tied[far] = True

    # --- what the broker says itself

    def take_audits(self, audits: pa.Table) -> None:
        names = list(zip(_servers(self.chosen["connection"]).to_pylist(), self._column("correlation"), strict=True))
        far: dict[Any, int] = {names[row]: row for row in np.flatnonzero(self.far).tolist()}
        near: dict[Any, list[int]] = defaultdict(list)
        for row in np.flatnonzero(~self.far)[np.argsort(self.ts[~self.far], kind="stable")].tolist():
            near[names[row]].append(row)
        for copy in audits.sort_by("ts").to_pylist():
            server, ts = copy["server"], copy["ts"]
            sent = far.get((server, copy["audit_id"]), -1)
            got = [row for row in near[server, copy["masked_id"]] if self._is_near(row, ts)]
            self.is_audited[got] = True
            if sent >= 0 and self._is_near(sent, ts):
                self.is_audited[sent] = True
                self._take_audit(sent, got, copy["masked_id"])
            elif got and not self.tied[got[0]] and self._has_passed(2 * WINDOW_US)[got[0]]:
                self._half_tie(got[0], copy["audit_id"])

    def _take_audit(self, sent: int, got: list[int], masked: str | None) -> None:
        if self.tied[sent] or not self.ripe[sent]:
            return
        for row in got:
            if not self.tied[row] and self._is_near(row, int(self.ts[sent])):
                self._tie(row, sent)
                return
        if masked is not None:
            self._half_tie(sent, masked)

    def _half_tie(self, row: int, name: str) -> None:
        self.half_known[row] = name
        self.tied[row] = True

    def _is_near(self, row: int, ts: int | None) -> bool:
        return ts is None or abs(ts - int(self.ts[row])) <= WINDOW_US

    def _column(self, name: str) -> list[str | None]:
        return list(self.chosen[name].to_pylist())

    # --- what has to be guessed

    def guess(self) -> None:
        asks = ~self.tied & ~self.is_audited & (~self.far | self.ripe)
        rows = np.flatnonzero(asks)
        keys = [key[rows] for key in self._same()]
        order = rows[np.lexsort((self.order[rows], self.ts[rows], *keys))]
        bounds = arrays.run_starts(*(key[order] for key in self._same()))
        starts, sizes = bounds[:-1], np.diff(bounds)
        plain = starts[sizes == 2]
        near, far = order[plain], order[plain + 1]
        fits = ~self.far[near] & self.far[far] & (self.ts[far] - self.ts[near] <= WINDOW_US)
        fits &= self.ts[far] <= self.closed[near]
        self._tie(near[fits], far[fits])
        for start, size in zip(starts[sizes > 2].tolist(), sizes[sizes > 2].tolist(), strict=True):
            self._walk(order[start : start + size])

    def _same(self) -> tuple[Ints, ...]:
        texts = (self.chosen["message"], self.chosen["address"], self.chosen["version"])
        servers = _servers(self.chosen["connection"])
        return *(coded(column)[1] for column in (*texts, servers)), integers(self.chosen["payload_hash"])

    def _walk(self, members: Ints) -> None:
        """Give each request that was sent the oldest that fits. One that does not fit now never will again."""
        waiting: deque[tuple[int, int, int]] = deque()
        columns = (members, self.far[members], self.ts[members], self.closed[members])
        for row, is_far, ts, closed in zip(*(column.tolist() for column in columns), strict=True):
            if not is_far:
                waiting.append((row, ts, closed))
                continue
            while waiting:
                near, asked, until = waiting.popleft()
                if ts - asked <= WINDOW_US and ts <= until:
                    self._tie(near, row)
                    break

    # --- the rows

    def written(self, table: pa.Table) -> pa.Table:
        found = np.flatnonzero(self.other >= 0)
        if not len(found) and not self.half_known:
            return table
        where = np.full(len(table), -1, np.int64)
        where[self.rows[found]] = self.rows[self.other[found]]
        how = np.full(len(table), -1, np.int64)
        how[self.rows[found]] = self.is_audited[found]
        how[[self.rows[row] for row in self.half_known]] = 1
        take, is_new = pa.array(where, mask=where < 0), pa.array(how >= 0)
        names = pc.coalesce(table["correlation"].take(take), self._half_names(len(table)))
        values = (
            table["connection"].take(take).cast(pa.string()),
            names,
            arrays.spread(("guessed", "audit"), np.maximum(how, 0), pa.string()),
        )
        made = {name: pc.if_else(is_new, value, table[name]) for name, value in zip(OTHER, values, strict=True)}
        return arrays.replaced(table, made).combine_chunks()

    def _half_names(self, size: int) -> pa.Array:
        names = np.full(size, None, object)
        for row, name in self.half_known.items():
            names[self.rows[row]] = name
        return pa.array(names, pa.string())
