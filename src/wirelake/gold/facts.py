"""Facts: what gold needs to know about a message, in the same columns for all protocols.

Which field is the address, the correlation, the status, is declared as its ``role``; roles are resolved once per
protocol to paths of columns, and whole columns are taken from there. What roles cannot say is in ``refine``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..protocols import BUILT_IN, load
from ..spec import nodes as n
from . import arrays, marks, refine

TIMESTAMP = pa.timestamp("us", "UTC")

_FACTS: tuple[tuple[str, pa.DataType, str], ...] = (
    ("capture", pa.string(), "the file or tap it came from"),
    ("connection", pa.string(), "the connection, the same in every run"),
    ("direction", pa.string(), "to_server or to_client"),
    ("offset", pa.int64(), "first byte of the frame in its stream"),
    ("length", pa.int32(), "bytes of the frame"),
    ("ts", TIMESTAMP, "when the frame was complete"),
    ("order", pa.int64(), "place in the capture of what completed it: with ts, the order of both directions"),
    ("message", pa.string(), "which message"),
    ("code", pa.int32(), "its code on the wire"),
    ("notes", pa.list_(pa.string()), "tolerated oddities that were seen"),
    ("raw_text", pa.map_(pa.string(), pa.binary()), "bytes of texts that are not UTF-8, by path"),
    ("protocol", pa.string(), "which protocol"),
    ("kind", pa.string(), "request, response, event or control"),
    ("address", pa.string(), "topic, service, path or queue; null in answers: their exchange has it"),
    ("correlation", pa.string(), "what ties a reply to its request; binary ids in hex"),
    ("status", pa.string(), "what an answer says about how it went, as on the wire; error codes of mb"),
    ("payload_bytes", pa.int64(), "bytes of the payload; null if such messages have none"),
    ("step", pa.int8(), "part in an exchange: 1 request, 2 answer, 3 close of a stream, 0 none"),
    ("pair", pa.int32(), "code of the answer, in requests and in answers"),
    ("lane", pa.int8(), "exchanges of different lanes may have the same correlation (dsa: 1 = subscription)"),
    ("wants_reply", pa.bool_(), "requests: whether an answer may come at all"),
    ("limit_us", pa.int64(), "requests: how long the requester waits; null = no limit"),
    ("once", pa.bool_(), "requests of streams: the first complete answer is the last"),
    ("result", pa.string(), "answers: ok, error or timeout"),
    ("ends", pa.bool_(), "answers: nothing more comes to this request"),
    ("more", pa.bool_(), "answers of streams: this is a part only, more of it is under way"),
    ("piece", pa.int32(), "index of a piece of a split message, from 0; null if it is whole"),
    ("pieces", pa.int32(), "first piece: how many there are"),
    ("place", pa.string(), "mb: topic and version of requests without id, and of errors that may belong to them"),
    ("version", pa.string(), "version of the payload's format"),
    ("payload_hash", pa.int64(), "requests of mb: a hash of the payload, to find the other leg"),
    ("audit_id", pa.string(), "audit copies of mb: the id that the broker gave to a message it sent on"),
    ("masked_id", pa.string(), "audit copies of mb: the id that the original sender had given"),
    ("execution", pa.string(), "casual: the chain of calls it belongs to, in hex"),
    ("xid_format", pa.int64(), "format of the transaction id; null if there is none or it is a null xid"),
    ("gtrid", pa.binary(), "global transaction id"),
    ("bqual", pa.binary(), "branch qualifier"),
)
FACTS = pa.schema([*(pa.field(name, kind, metadata={"doc": doc}) for name, kind, doc in _FACTS), *marks.MARKS])
"""The schema of facts. Rows come sorted by connection, ts, order."""

FED = pa.schema([field for field in FACTS if field.name not in ("notes", "raw_text", "payload_bytes")])
"""What the steps of this room read of them."""

MESSAGES = pa.schema(
    [FACTS.field(i) for i in range(FACTS.get_field_index("payload_bytes") + 1) if FACTS.field(i).name != "order"]
)
"""silver/messages: the first part of the facts, without their order."""

ENVELOPE = (
    "capture",
    "connection",
    "direction",
    "offset",
    "length",
    "ts",
    "order",
    "message",
    "code",
    "notes",
    "raw_text",
)
_PER_US = {"ns": 1000, "us": 1}
_IN_US = {"ms": 1000, "s": 1_000_000}

Path = tuple[str, ...]


@dataclass(frozen=True)
class _Place:
    """Where a role is: a path of columns, and the messages (by their place) whose role it is."""

    path: Path
    messages: tuple[int, ...]
    unit: str = ""


@dataclass(frozen=True)
class _Plan:
    """A protocol as this module reads it."""

    names: tuple[str, ...]
    codes: NDArray[np.int64]
    kinds: tuple[str, ...]
    steps: NDArray[np.int8]
    pairs: NDArray[np.int32]
    roles: dict[str, tuple[_Place, ...]]
    refinement: refine.Refinement | None

    @property
    def columns(self) -> tuple[str, ...]:
        found = [place.path[0] for places in self.roles.values() for place in places]
        return tuple(dict.fromkeys(found + list(self.refinement.columns if self.refinement else ())))


@lru_cache(maxsize=64)
def _plan(protocol: n.Protocol) -> _Plan:
    about = [cls.__message__ for cls in protocol.messages]
    answers = {one["answer"] for one in about if one["answer"] is not None}
    steps = [
        refine.REQUEST if one["answer"] is not None else refine.ANSWER if one["code"] in answers else 0 for one in about
    ]
    pairs = [one["code"] if one["answer"] is None else one["answer"] for one in about]
    built_in = protocol.name in BUILT_IN and load(protocol.name) is protocol
    return _Plan(
        tuple(one["name"] for one in about),
        np.array([one["code"] for one in about], np.int64),
        tuple(one["kind"] for one in about),
        np.array(steps, np.int8),
        np.array(pairs, np.int32),
        _roles(protocol),
        refine.REFINEMENTS[protocol.name] if built_in else None,
    )


def _roles(protocol: n.Protocol) -> dict[str, tuple[_Place, ...]]:
    found: dict[str, dict[tuple[Path, str], list[int]]] = {}
    for which, cls in enumerate(protocol.messages):
        for role, path, unit in _fields_with_roles(cls.__wire_fields__, ()):
            found.setdefault(role, {}).setdefault((path, unit), []).append(which)
    return {
        role: tuple(_Place(path, tuple(messages), unit) for (path, unit), messages in places.items())
        for role, places in found.items()
    }


def _fields_with_roles(fields: tuple[n.Field, ...], above: Path) -> list[tuple[str, Path, str]]:
    found: list[tuple[str, Path, str]] = []
    for field in fields:
        path = (*above, field.column or field.key)
        if field.role is not None:
            found.append((field.role, path, field.unit))
        elif isinstance(field.wire, n.Nested | n.Tags):
            found += _fields_with_roles(field.wire.struct.__wire_fields__, path)
    return found


def needed_columns(protocol: n.Protocol | str) -> tuple[str, ...]:
    """The columns behind the envelope that ``facts`` reads."""
    declared = load(protocol)
    return tuple(dict.fromkeys((*_plan(declared).columns, *marks.needed_columns(declared))))


def facts(protocol: n.Protocol | str, records: pa.RecordBatch, **options: Any) -> pa.RecordBatch:
    """The facts of messages of one protocol.

    ``records`` have the envelope (``notes``, ``raw_text`` and ``order`` may be missing) and ``needed_columns``.
    ``options`` are the reading options: with ``profile="late"`` casual's limits are nanoseconds.
    """
    declared = load(protocol)
    plan = _plan(declared)
    missing = [name for name in plan.columns if name not in records.schema.names]
    if missing:
        raise ValueError(f"facts of {declared.name} need the columns {', '.join(missing)}")
    draft = _draft(plan, records, options)
    if plan.refinement is not None and len(records):
        plan.refinement.apply(draft)
    draft.columns |= marks.marks(declared, records)
    return _finished(declared.name, draft)


def _draft(plan: _Plan, records: pa.RecordBatch, options: dict[str, Any]) -> refine.Draft:
    order = np.argsort(plan.codes)
    code = arrays.integers(records.column("code"))
    which = order[np.searchsorted(plan.codes, code, sorter=order)]
    step = plan.steps[which]
    columns = {
        "kind": arrays.spread(plan.kinds, which, pa.string()),
        "address": _texts(plan, "address", records, which),
        "correlation": _texts(plan, "correlation", records, which),
        "status": _texts(plan, "status", records, which),
        "execution": _texts(plan, "execution", records, which),
        "version": _texts(plan, "version", records, which),
        "payload_bytes": _payload_bytes(plan, records, which),
        **_xid(plan, records, which),
    }
    return refine.Draft(
        records,
        plan.names,
        which,
        columns,
        step,
        plan.pairs[which],
        np.zeros(len(records), np.int8),
        step == refine.ANSWER,
        step == refine.REQUEST,
        _limits(plan, records, which),
        options,
    )


def _mask(place: _Place, which: NDArray[np.int64], plan: _Plan) -> arrays.Mask:
    wanted = np.zeros(len(plan.names), np.bool_)
    wanted[list(place.messages)] = True
    return wanted[which]


def _texts(plan: _Plan, role: str, records: pa.RecordBatch, which: NDArray[np.int64]) -> pa.Array:
    """The field with this role as text; an empty text is none, except that an address may be the root."""
    found: pa.Array | None = None
    for place in plan.roles.get(role, ()):
        column = _text(refine.column_at(records, place.path))
        column = arrays.only(column, _mask(place, which, plan))
        found = column if found is None else pc.coalesce(found, column)
    if found is None:
        return pa.nulls(len(records), pa.string())
    if role == "address":
        return found
    return pc.if_else(pc.equal(found, ""), pa.scalar(None, pa.string()), found)


def _text(column: pa.Array) -> pa.Array:
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_binary(column.type):
        return arrays.hexed(column)
    return column.cast(pa.string())


def _payload_bytes(plan: _Plan, records: pa.RecordBatch, which: NDArray[np.int64]) -> pa.Array:
    found: pa.Array | None = None
    for place in plan.roles.get("payload", ()):
        length = pc.binary_length(refine.column_at(records, place.path)).cast(pa.int64())
        length = arrays.only(length, _mask(place, which, plan))
        found = length if found is None else pc.coalesce(found, length)
    return pa.nulls(len(records), pa.int64()) if found is None else found


def _limits(plan: _Plan, records: pa.RecordBatch, which: NDArray[np.int64]) -> NDArray[np.int64]:
    found = np.zeros(len(records), np.int64)
    for place in plan.roles.get("timeout", ()):
        raw = arrays.integers(refine.column_at(records, place.path))
        value = raw // _PER_US[place.unit] if place.unit in _PER_US else raw * _IN_US.get(place.unit, 1)
        found = np.where(_mask(place, which, plan), np.maximum(value, 0), found)
    return found


def _xid(plan: _Plan, records: pa.RecordBatch, which: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Transaction ids; formats -1 and 0 are the null xid."""
    found: dict[str, pa.Array] = {}
    for place in plan.roles.get("xid", ()):
        mask = _mask(place, which, plan)
        number = refine.column_at(records, (*place.path, "format"))
        mask &= ~np.isin(arrays.integers(number, -1), (-1, 0))
        for name, part in (
            ("xid_format", number),
            *((one, refine.column_at(records, (*place.path, one))) for one in ("gtrid", "bqual")),
        ):
            part = arrays.only(part, mask)
            found[name] = part if name not in found else pc.coalesce(found[name], part)
    return found


def _finished(name: str, draft: refine.Draft) -> pa.RecordBatch:
    asks, answers = draft.step == refine.REQUEST, np.isin(draft.step, (refine.ANSWER, refine.CLOSE))
    columns = draft.columns | {
        "protocol": arrays.spread((name,), np.zeros(len(draft), np.int8), pa.string()),
        "step": pa.array(draft.step),
        "pair": pa.array(draft.pair),
        "wants_reply": arrays.with_nulls(draft.wants_reply, asks, pa.bool_()),
        "limit_us": arrays.with_nulls(draft.limit_us, asks & (draft.limit_us > 0), pa.int64()),
        "result": arrays.only(arrays.spread(refine.RESULTS, draft.result, pa.string()), answers),
        "ends": pa.array(draft.ends),
    }
    for known in ENVELOPE:
        if known in draft.records.schema.names:
            columns[known] = draft.records.column(known)
    made = [_as(columns.get(field.name), field.type, len(draft)) for field in FACTS]
    return pa.RecordBatch.from_arrays(made, schema=FACTS)


def _as(column: pa.Array | None, kind: pa.DataType, size: int) -> pa.Array:
    if column is None:
        return pa.nulls(size, kind)
    return column if column.type == kind else column.cast(kind)
