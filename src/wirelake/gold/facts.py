"""Facts: what gold needs to know about a message, in the same columns for all protocols.

Which field is the address, the correlation, the status, is declared as its ``role``; roles are resolved once per
protocol to paths of columns, and whole columns are taken from there. The rest is declared as ``conduct``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..columnar.nulls import nulls
from ..columnar.schema import TIMESTAMP, documented
from ..protocols import load
from ..spec import nodes as n
from ..spec.conduct import CLOSE, REPLY, REQUEST, RESULTS, TimeUnit, columns_read
from ..spec.roles import Place, places
from . import arrays
from .fact_draft import Draft, as_text, column_at
from .fact_rules import apply_conduct

INTRODUCTION = pa.map_(pa.string(), pa.string())
FACTS = documented(
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
    ("address", pa.string(), "topic, service, path or queue; null in replies: their exchange has it"),
    ("correlation", pa.string(), "what ties a reply to its request; binary ids in hex"),
    ("status", pa.string(), "what a reply says about how it went, as on the wire or in its payload"),
    ("payload_bytes", pa.int64(), "bytes of the payload; null if such messages have none"),
    ("step", pa.int8(), "part in an exchange: 1 request, 2 reply, 3 close of a stream, 0 none"),
    ("pair", pa.int32(), "code of the reply, in requests and in replies"),
    ("lane", pa.int8(), "exchanges of different lanes may have the same correlation; null without streams"),
    ("wants_reply", pa.bool_(), "requests: whether a reply may come at all"),
    ("limit_us", pa.int64(), "requests: how long the requester waits; null = no limit"),
    ("once", pa.bool_(), "requests of streams: the first complete reply is the last"),
    ("result", pa.string(), "replies: ok, error or timeout"),
    ("ends", pa.bool_(), "replies: nothing more comes to this request"),
    ("more", pa.bool_(), "replies of streams: this is a part only, more of it is under way"),
    ("piece", pa.int32(), "index of a piece of a split message, from 0; null if it is whole"),
    ("pieces", pa.int32(), "first piece: how many there are"),
    ("place", pa.string(), "what ties a request without id to an error that may belong to it"),
    ("version", pa.string(), "version of the payload's format"),
    ("payload_hash", pa.int64(), "requests through a broker: a hash of the payload, to find the other leg"),
    ("audit_id", pa.string(), "copies for audit: the id that the broker gave to a message it sent on"),
    ("masked_id", pa.string(), "copies for audit: the id that the original sender had given"),
    ("execution", pa.string(), "the chain of calls it belongs to, in hex"),
    ("xid_format", pa.int64(), "format of the transaction id; null if there is none or it is a null xid"),
    ("gtrid", pa.binary(), "global transaction id"),
    ("bqual", pa.binary(), "branch qualifier"),
    ("flags", pa.int64(), "flags of the message, where transactions need them"),
    ("resource", pa.int32(), "the coordinator's number for the peer of a transaction branch"),
    ("piece_key", pa.string(), "what the pieces of one message have in common, besides what its stream has"),
    ("heartbeat", pa.bool_(), "it says nothing but that the peer is alive"),
    ("own_id", pa.bool_(), "a reply that may carry an id of its sender's own making"),
    ("introduction", INTRODUCTION, "what a handshake or login says about the peers"),
)
"""The schema of facts. Rows come sorted by connection, ts, order."""

FEW = frozenset(("capture", "connection", "direction", "message", "protocol", "kind", "result"))
"""Texts that are the same in many facts."""
CODED_FACTS = arrays.with_coded(FACTS, FEW)
"""The facts as ``facts`` makes them: those texts are numbers."""
FED = pa.schema([field for field in CODED_FACTS if field.name not in ("notes", "raw_text", "payload_bytes")])
"""What the steps of this room read of them."""

MESSAGES = pa.schema([FACTS.field(i) for i in range(FACTS.get_field_index("payload_bytes") + 1)])
"""silver/messages: the first part of the facts."""

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
_US_PER = {"us": 1, "ms": 1000, "s": 1_000_000}
_NULL_FORMATS = (-1, 0)
_IS_SET = {pa.binary(): r"[^\x00]", pa.string(): "."}
"""What a transaction id has unless it is none: not only zeros, or any character."""


@dataclass(frozen=True)
class _Plan:
    """A protocol as this module reads it."""

    names: tuple[str, ...]
    codes: NDArray[np.int64]
    kinds: tuple[str, ...]
    parts: NDArray[np.int8]
    pairs: NDArray[np.int32]
    roles: dict[n.Role, tuple[Place, ...]]
    options: dict[str, Any]
    columns: tuple[str, ...]


@lru_cache(maxsize=64)
def _plan(protocol: n.Protocol) -> _Plan:
    about = [cls.__message__ for cls in protocol.messages]
    replies = {code for one in about for code in one["answers"]}
    roles = places(protocol)
    with_roles = [place.path[0] for listed in roles.values() for place in listed]
    return _Plan(
        tuple(one["name"] for one in about),
        np.array([one["code"] for one in about], np.int64),
        tuple(one["kind"] for one in about),
        np.array([REQUEST * (one["answer"] is not None) or REPLY * (one["code"] in replies) for one in about], np.int8),
        np.array([one["code"] if one["answer"] is None else one["answer"] for one in about], np.int32),
        roles,
        {name: option.default for name, option in protocol.options.items()},
        tuple(dict.fromkeys((*with_roles, *columns_read(protocol.conduct)))),
    )


def needed_columns(protocol: n.Protocol | str) -> tuple[str, ...]:
    """Return the columns behind the envelope that ``facts`` reads."""
    return _plan(load(protocol)).columns


def facts(protocol: n.Protocol | str, records: pa.RecordBatch, **options: Any) -> pa.RecordBatch:
    """Return the facts of messages of one protocol.

    ``records`` have the envelope (``notes``, ``raw_text`` and ``order`` may be missing) and ``needed_columns``.
    ``options`` are the reading options: a dialect may count time in another unit.
    """
    declared = load(protocol)
    plan = _plan(declared)
    missing = [name for name in plan.columns if name not in records.schema.names]
    if missing:
        raise ValueError(f"facts of {declared.name} need the columns {', '.join(missing)}")
    draft = _draft(plan, declared.conduct.units, records, plan.options | options)
    if len(records):
        codes = dict(zip(plan.names, plan.codes.tolist(), strict=True))
        payload = _of_role(plan, "payload", records, draft.which) if declared.conduct.brokered else None
        apply_conduct(declared.conduct, draft, codes, payload)
    return _finished(declared.name, draft)


def fed(made: pa.RecordBatch | pa.Table) -> pa.RecordBatch | pa.Table:
    """Return facts as the steps of this room read them (FED)."""
    chosen = made.select(FED.names)
    return chosen if chosen.schema.equals(FED) else chosen.cast(FED)


def _draft(plan: _Plan, units: tuple[TimeUnit, ...], records: pa.RecordBatch, options: dict[str, Any]) -> Draft:
    order = np.argsort(plan.codes)
    code = arrays.integers(records.column("code"))
    which = order[np.searchsorted(plan.codes, code, sorter=order)]
    part = plan.parts[which]
    status = _of_role(plan, "status", records, which)
    columns = {
        "kind": arrays.coded_spread(plan.kinds, which),
        "address": arrays.only(_texts(plan, "address", records, which), part != REPLY),
        "correlation": _texts(plan, "correlation", records, which),
        "status": _texts(plan, "status", records, which),
        "execution": _texts(plan, "execution", records, which),
        "version": _texts(plan, "version", records, which),
        "payload_bytes": _payload_bytes(plan, records, which),
        **_xid(plan, records, which),
    }
    draft = Draft(
        records,
        plan.names,
        which,
        columns,
        columns["status"] if status is None else status,
        part,
        plan.pairs[which],
        np.zeros(len(records), np.int8),
        part == REPLY,
        part == REQUEST,
        np.zeros(len(records), np.int64),
        options,
    )
    _take_limits(plan, units, draft)
    return draft


def _mask(place: Place, which: NDArray[np.int64], plan: _Plan) -> arrays.Mask:
    wanted = np.zeros(len(plan.names), np.bool_)
    wanted[list(place.messages)] = True
    return wanted[which]


def _of_role(plan: _Plan, role: n.Role, records: pa.RecordBatch, which: NDArray[np.int64]) -> pa.Array | None:
    """Return the field with this role, if all messages have it in one type (whole numbers count as one)."""
    found: pa.Array | None = None
    for place in plan.roles.get(role, ()):
        part = column_at(records, place.path)
        part = part.cast(pa.int64()) if pa.types.is_integer(part.type) else part
        if found is not None and found.type != part.type:
            return None
        found = _merged(found, part, _mask(place, which, plan))
    return found


def _merged(found: pa.Array | None, part: pa.Array, mask: arrays.Mask) -> pa.Array:
    """Add the values of the messages that have a field to those of other fields with its role."""
    if found is None:
        return arrays.only(part, mask)
    if not mask.any():
        return found
    return pc.coalesce(found, arrays.only(part, mask)) if found.null_count else found


def _texts(plan: _Plan, role: n.Role, records: pa.RecordBatch, which: NDArray[np.int64]) -> pa.Array:
    """Return the field with this role as text; an empty text is none, except that an address may be the root."""
    found: pa.Array | None = None
    for place in plan.roles.get(role, ()):
        mask = _mask(place, which, plan)
        if mask.any():
            found = _merged(found, as_text(column_at(records, place.path)), mask)
    if found is None:
        return nulls(len(records), pa.string())
    if role == "address":
        return found
    return arrays.only(found, (arrays.lengths(found) > 0) | ~arrays.valid(found))


def _payload_bytes(plan: _Plan, records: pa.RecordBatch, which: NDArray[np.int64]) -> pa.Array | None:
    found: pa.Array | None = None
    for place in plan.roles.get("payload", ()):
        mask = _mask(place, which, plan)
        if mask.any():
            found = _merged(found, pc.binary_length(column_at(records, place.path)).cast(pa.int64()), mask)
    return found


def _take_limits(plan: _Plan, units: tuple[TimeUnit, ...], draft: Draft) -> None:
    """The limits that messages state. A unit may depend on a reading option."""
    for place in plan.roles.get("timeout", ()):
        mask = _mask(place, draft.which, plan)
        if not mask.any():
            continue
        raw = arrays.integers(column_at(draft.records, place.path))
        draft.limit_us = np.where(mask, _microseconds(raw, place.unit), draft.limit_us)
        for unit in units:
            draft.limit_us = np.where(mask & draft.select(unit), _microseconds(raw, unit.unit), draft.limit_us)


def _microseconds(raw: NDArray[np.int64], unit: str) -> NDArray[np.int64]:
    factor = _US_PER.get(unit, 1)
    value = np.clip(raw, 0, np.iinfo(np.int64).max // factor)
    return value // 1000 if unit == "ns" else value * factor


def _xid(plan: _Plan, records: pa.RecordBatch, which: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return transaction ids. One that is not an XA id is a global id without branches, of format 0; zero is none."""
    found: dict[str, pa.Array] = {}
    for place in plan.roles.get("xid", ()):
        mask = _mask(place, which, plan)
        if not mask.any():
            continue
        for name, part in _xid_parts(column_at(records, place.path), mask).items():
            found[name] = part if name not in found else pc.coalesce(found[name], part)
    return found


def _xid_parts(xid: pa.Array, mask: arrays.Mask) -> dict[str, pa.Array]:
    if pa.types.is_struct(xid.type):
        number = pc.struct_field(xid, "format")
        mask = mask & ~np.isin(arrays.integers(number, -1), _NULL_FORMATS)
        parts = {"xid_format": number, "gtrid": pc.struct_field(xid, "gtrid"), "bqual": pc.struct_field(xid, "bqual")}
    else:
        text = xid if pa.types.is_binary(xid.type) else as_text(xid).cast(pa.binary())
        mask = mask & arrays.flags(pc.match_substring_regex(text, _IS_SET.get(xid.type, "[^0]")))
        parts = {
            "xid_format": pa.array(np.zeros(len(text), np.int64)),
            "gtrid": text,
            "bqual": pa.array([b""] * len(text), pa.binary()),
        }
    return {name: arrays.only(part, mask) for name, part in parts.items()}


def _finished(name: str, draft: Draft) -> pa.RecordBatch:
    asks, replies = draft.part == REQUEST, np.isin(draft.part, (REPLY, CLOSE))
    columns = draft.columns | {
        "protocol": arrays.coded_spread((name,), np.zeros(len(draft), np.int32)),
        "step": pa.array(draft.part),
        "pair": pa.array(draft.pair),
        "wants_reply": arrays.with_nulls(draft.wants_reply, asks, pa.bool_()),
        "limit_us": arrays.with_nulls(draft.limit_us, asks & (draft.limit_us > 0), pa.int64()),
        "result": arrays.only(arrays.coded_spread(RESULTS, draft.result), replies),
        "ends": pa.array(draft.ends),
    }
    for known in ENVELOPE:
        if known in draft.records.schema.names:
            columns[known] = draft.records.column(known)
    made = [_as(columns.get(field.name), field.type, len(draft)) for field in CODED_FACTS]
    return pa.RecordBatch.from_arrays(made, schema=CODED_FACTS)


def _as(column: pa.Array | None, kind: pa.DataType, size: int) -> pa.Array:
    if column is None:
        return nulls(size, kind)
    return column if column.type == kind else column.cast(kind)
