"""What moves distributed transactions: requests that carry a transaction id, and the replies to them.

A reply says by its correlation alone where it belongs; its own id may be null or that of another branch. So its event
has the id of the request that the matcher found. Events can therefore be divided by transaction, and ``Transactions``
is fed those of all connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..columnar.schema import CODED
from ..kernels.match_codes import LAST, OPENS, REPLY
from ..spec.conduct import Branches
from . import arrays
from .arrays import Ints, Mask, integers, valid
from .declarations import Declarations
from .match_rows import until_us

WORK, PREPARE, VOTE, COMMIT, COMMITTED, ROLLBACK, ROLLED_BACK = range(7)
NO_STEP = -1
DECISIVE = (PREPARE, COMMIT, ROLLBACK)
"""Steps that ask for something to become of a branch."""
REPLIES = (VOTE, COMMITTED, ROLLED_BACK)

EVENTS = pa.schema(
    [
        ("ts", pa.int64()),
        ("order", pa.int64()),
        ("protocol", CODED),
        ("connection", CODED),
        ("step", pa.int8()),
        ("xid_format", pa.int64()),
        ("gtrid", pa.binary()),
        ("bqual", pa.binary()),
        ("resource", pa.int32()),
        ("status", pa.int32()),
        ("one_phase", pa.bool_()),
        ("execution", pa.string()),
    ]
)
_ID = ("xid_format", "gtrid", "bqual", "resource", "one_phase")
"""What a reply's event has of its request."""
_ASKED = pa.schema(
    [
        ("number", pa.int64()),
        ("connection", CODED),
        ("order", pa.int64()),
        ("until", pa.int64()),
        *(EVENTS.field(name) for name in _ID),
    ]
)
_READ = (*(name for name in EVENTS.names if name not in ("step", "one_phase")), "message", "flags", "limit_us")
_READ += ("number", "part", "request", "at")


@dataclass
class BranchEventsCarry:
    """Requests that want something to become of a branch, and whose replies may still come."""

    asked: pa.Table = field(default_factory=lambda: arrays.empty(_ASKED))


class BranchEvents:
    """The step. ``carry`` is what an earlier one gave by ``carry()``; feeding it in parts gives the same events."""

    def __init__(self, carry: BranchEventsCarry | None = None, protocols: Declarations | None = None) -> None:
        self._protocols = protocols or Declarations()
        self._asked = carry.asked if carry is not None else arrays.empty(_ASKED)

    def carry(self) -> BranchEventsCarry:
        return BranchEventsCarry(self._asked)

    def feed(self, matched: pa.Table, ended: Iterable[str] = ()) -> pa.Table:
        """Return the events (EVENTS) of what was matched (MATCHED). Protocols without transactions have none."""
        events, matched = [arrays.empty(EVENTS)], matched.select(_READ)
        names = pc.unique(matched.column("protocol")).to_pylist()
        for name in names:
            branches = self._protocols.conduct(name).branches
            if branches is not None:
                mine = matched if len(names) == 1 else matched.filter(pc.equal(matched.column("protocol"), name))
                events.append(self._events_of(mine, branches))
        if len(self._asked):
            over = pc.is_in(self._asked.column("connection"), value_set=pa.array(list(ended), pa.string()))
            self._asked = self._asked.filter(pc.invert(over))
        return pa.concat_tables(events)

    def settle(self, watermark: int, known_until: Callable[[str], int | None] | None = None) -> None:
        """Forget requests whose replies would be too late."""
        names = self._asked.column("connection").to_pylist()
        known = [known_until(name) if known_until is not None else None for name in names]
        now = np.array([watermark if time is None else min(time, watermark) for time in known], np.int64)
        self._asked = arrays.where(self._asked, integers(self._asked["until"]) >= now)

    def _events_of(self, rows: pa.Table, branches: Branches) -> pa.Table:
        step = _steps(rows, branches)
        part = integers(rows["part"])
        asks = (part == OPENS) & valid(rows["gtrid"]) & ~np.isin(step, (NO_STEP, *REPLIES))
        asking = arrays.where(rows, asks)
        requests = _requests(asking, step[asks], branches)
        self._remember(asking, requests, np.isin(step[asks], DECISIVE))
        replies = np.isin(part, (REPLY, LAST)) & np.isin(step, REPLIES)
        return pa.concat_tables([requests, self._replies(arrays.where(rows, replies), step[replies])])

    def _remember(self, rows: pa.Table, events: pa.Table, decisive: Mask) -> None:
        if not decisive.any():
            return
        until = pa.array(until_us(integers(rows["ts"]), integers(rows["limit_us"])))
        made = {"until": until} | {name: events.column(name) for name in _ID}
        self._asked = pa.concat_tables([self._asked, arrays.where(arrays.table_of(_ASKED, made, rows), decisive)])
        self._asked = self._asked.combine_chunks()

    def _replies(self, rows: pa.Table, step: NDArray[np.int8]) -> pa.Table:
        """Return the events of replies whose requests are known, and forget these."""
        place = arrays.places(integers(self._asked["number"]), integers(rows["request"]))
        known = place >= 0
        rows, step, place = arrays.where(rows, known), step[known], place[known]
        asked = self._asked.take(pa.array(place, pa.int64()))
        self._asked = arrays.where(self._asked, ~np.isin(np.arange(len(self._asked)), place))
        at = integers(rows["at"])
        made = {
            "ts": pa.array(at),
            # An early reply takes effect right behind its request.
            "order": pa.array(np.where(at > integers(rows["ts"]), integers(asked["order"]), integers(rows["order"]))),
            "step": pa.array(step),
            "status": rows.column("status").cast(pa.int32()),
        }
        return arrays.table_of(EVENTS, made | {name: asked.column(name) for name in _ID}, rows)


def _steps(rows: pa.Table, branches: Branches) -> NDArray[np.int8]:
    steps = step_numbers(branches)
    numbers = np.array([*steps.values(), NO_STEP], np.int8)
    return numbers[arrays.which(rows["message"], list(steps))]


def step_numbers(branches: Branches) -> Mapping[str, int]:
    """Return the step of each message that takes part."""
    named = {
        branches.prepare: PREPARE,
        branches.prepared: VOTE,
        branches.commit: COMMIT,
        branches.committed: COMMITTED,
        branches.rollback: ROLLBACK,
        branches.rolled_back: ROLLED_BACK,
    }
    return dict.fromkeys(sorted(branches.work), WORK) | {name: step for name, step in named.items() if name}


def _requests(rows: pa.Table, step: NDArray[np.int8], branches: Branches) -> pa.Table:
    one_phase = (step == COMMIT) & (integers(rows["flags"]) & branches.one_phase_bits != 0)
    made = {
        "ts": pa.array(integers(rows["ts"])),
        "step": pa.array(step),
        "status": pa.nulls(len(rows), pa.int32()),
        "one_phase": pa.array(one_phase),
    }
    return arrays.table_of(EVENTS, made, rows)


def part_of(events: pa.Table, parts: int) -> Ints:
    """Return which of the parts, into which transactions may be divided, each event belongs to."""
    return arrays.hashed(arrays.joined(events.column("gtrid"))) % parts
