"""The two legs of an exchange over a broker that gives its own ids (mb).

Nothing in the headers ties them. If the broker's audit stream was captured, it does; otherwise a request that the
broker sends belongs to the latest request with the same topic, version and payload that it got shortly before and has
not replied to, and the row says that this is a guess. Both legs must be fed to the same step, all connections with a
server in the order of time.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..capture.chunks import SERVER_DIGITS
from . import arrays
from .arrays import Ints, Mask, coded, flags, integers, valid

WINDOW_US = 5_000_000
"""A broker sends on at once; after this time it is another message."""
AUDITS = pa.schema([("audit_id", pa.string()), ("masked_id", pa.string()), ("ts", pa.int64())])
NO_AUDITS = AUDITS.empty_table()
_NO_TIME = np.iinfo(np.int64).min
OTHER = ("other_connection", "other_correlation", "other_leg_how")
_READ = (
    *("direction", "connection", "correlation", "address", "version", "payload_hash", "request_ts", "reply_ts"),
    *("order", *OTHER),
)


def join(table: pa.Table, is_new: Mask, over: Ints, new: pa.Table, audits: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Return the requests with their other legs, as far as they are known now, and the audit copies to keep."""
    legs = np.flatnonzero(valid(table["payload_hash"]))
    if not len(legs):
        return table, NO_AUDITS
    found = _Legs(table, legs, is_new, over)
    found.guess()
    audits = _audits(new, audits)
    if len(audits):
        found.take_audits(audits)
    return found.written(table), _kept(audits, found.latest)


def _audits(new: pa.Table, before: pa.Table) -> pa.Table:
    copies = new.filter(pc.is_valid(new["audit_id"]))
    fresh = pa.table([copies["audit_id"], copies["masked_id"], copies["ts"].cast(pa.int64())], schema=AUDITS)
    return pa.concat_tables([before, fresh]).combine_chunks()


def _kept(audits: pa.Table, latest: int) -> pa.Table:
    """Copies that may still come before their message."""
    return audits.filter(pc.greater(audits["ts"], latest - WINDOW_US)) if len(audits) else audits


class _Legs:
    """Requests that a broker forwards: ``near`` those it got, ``far`` those it sent."""

    def __init__(self, table: pa.Table, rows: Ints, is_new: Mask, over: Ints) -> None:
        chosen = table.select(_READ).take(pa.array(rows)).combine_chunks()
        self.rows = rows
        self.far = flags(pc.equal(chosen["direction"], "to_client"))
        self.ts = integers(chosen["request_ts"], _NO_TIME)
        self.order = integers(chosen["order"])
        self.reply = integers(chosen["reply_ts"], arrays.FOR_EVER)
        ended = over[rows]
        self.reply = np.where(ended == _NO_TIME, self.reply, np.minimum(self.reply, ended))
        """Until when the request is open."""
        self.is_new = is_new[rows]
        self.chosen = chosen
        self.other = np.full(len(rows), -1, np.int64)
        self.known = valid(chosen["other_leg_how"])
        self.audited: dict[int, tuple[str | None, str | None]] = {}
        self.latest = int(self.ts.max())

    def guess(self) -> None:
        order = np.lexsort((self.order, self.ts, *self._same()))
        same = [column[order] for column in self._same()]
        bounds = arrays.run_starts(*same)
        starts, sizes = bounds[:-1], np.diff(bounds)
        plain = starts[sizes == 2]
        near, far = order[plain], order[plain + 1]
        simple = ~self.far[near] & self.far[far] & ~self.known[near] & self.is_new[far]
        fits = simple & self._fits(near, far)
        self._tie(near[fits], far[fits])
        for start, size in zip(starts[sizes > 2].tolist(), sizes[sizes > 2].tolist(), strict=True):
            self._walk(order[start : start + size].tolist())

    def _same(self) -> tuple[Ints, ...]:
        servers = pc.utf8_slice_codeunits(self.chosen["connection"], 0, SERVER_DIGITS)
        texts = (self.chosen["address"], self.chosen["version"], servers)
        return *(coded(column)[1] for column in texts), integers(self.chosen["payload_hash"])

    def _fits(self, near: Ints, far: Ints) -> Mask:
        return (self.ts[far] - self.ts[near] <= WINDOW_US) & (self.ts[far] <= self.reply[near])

    def _tie(self, near: Ints, far: Ints) -> None:
        self.other[near], self.other[far] = far, near

    def _walk(self, members: list[int]) -> None:
        waiting: list[int] = []
        for row in members:
            if not self.far[row]:
                if not self.known[row]:
                    waiting.append(row)
                continue
            if not self.is_new[row]:
                continue
            for near in reversed(waiting):
                if self._fits(np.array([near]), np.array([row]))[0]:
                    waiting.remove(near)
                    self._tie(np.array([near]), np.array([row]))
                    break

    def take_audits(self, audits: pa.Table) -> None:
        """What the broker says itself counts more than a guess."""
        ids = self.chosen["correlation"].to_pylist()
        connections = self.chosen["connection"].to_pylist()
        far = {ids[row]: row for row in np.flatnonzero(self.far).tolist()}
        near = {ids[row]: row for row in np.flatnonzero(~self.far).tolist()}
        for copy in audits.to_pylist():
            sent, got = far.get(copy["audit_id"]), near.get(copy["masked_id"])
            self._forget(sent, got)
            if sent is not None and self._in_time(sent, copy["ts"]):
                self.audited[sent] = (connections[got] if got is not None else None, copy["masked_id"])
            if got is not None and sent is not None and self._in_time(got, copy["ts"]):
                self.audited[got] = (connections[sent], copy["audit_id"])

    def _forget(self, sent: int | None, got: int | None) -> None:
        """A guess that turns out to be wrong: another request was sent on as this one."""
        if sent is None:
            return
        guessed = int(self.other[sent])
        if guessed >= 0 and guessed != got:
            self.other[guessed] = self.other[sent] = -1
        elif not self.is_new[sent]:
            given = self.chosen["correlation"][sent]
            for row in np.flatnonzero(flags(pc.equal(self.chosen["other_correlation"], given))):
                if row != got and not self.far[row]:
                    self.audited[int(row)] = (None, None)

    def _in_time(self, row: int, ts: int) -> bool:
        return bool(abs(ts - int(self.ts[row])) <= WINDOW_US and ts <= int(self.reply[row]))

    def written(self, table: pa.Table) -> pa.Table:
        changed = np.flatnonzero(self.other >= 0)
        if not len(changed) and not self.audited:
            return table
        where = np.full(len(table), -1, np.int64)
        where[self.rows[changed]] = self.rows[self.other[changed]]
        tied = where >= 0
        take = pa.array(np.where(tied, where, 0), mask=~tied)
        mask = pa.array(tied)
        values = {
            "other_connection": pc.if_else(mask, table["connection"].take(take), table["other_connection"]),
            "other_correlation": pc.if_else(mask, table["correlation"].take(take), table["other_correlation"]),
            "other_leg_how": pc.if_else(mask, "guessed", table["other_leg_how"]),
        }
        if self.audited:
            values = self._with_audits(values)
        return arrays.replaced(table, values).combine_chunks()

    def _with_audits(self, values: dict[str, pa.ChunkedArray]) -> dict[str, pa.ChunkedArray]:
        lists = {name: column.to_pylist() for name, column in values.items()}
        for row, (connection, correlation) in self.audited.items():
            at = int(self.rows[row])
            for name, value in zip(OTHER, (connection, correlation, correlation and "audit"), strict=True):
                lists[name][at] = value
        return {name: pa.chunked_array([pa.array(column, pa.string())]) for name, column in lists.items()}
