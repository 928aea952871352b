"""Marks: what sessions, transactions and violations need to know of a message beyond the common view.

They are the last columns of the facts. What a handshake or login tells about the peers is a small table per protocol,
here, because a declaration does not say which of its fields introduce a peer. A password, a token or a key is never
among it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..spec.nodes import Protocol


def column(name: str, type_: pa.DataType, doc: str) -> pa.Field:
    """A column of a table, with the sentence that its documentation is made of."""
    return pa.field(name, type_, metadata={"doc": doc})


TOLD = pa.map_(pa.string(), pa.string())
MARKS = (
    column("flags", pa.int64(), "flags of the message, where it has some"),
    column("resource", pa.int32(), "the coordinator's number for the peer of a transaction branch"),
    column("piece_key", pa.string(), "what the pieces of one message have in common, besides what its stream has"),
    column("heartbeat", pa.bool_(), "it says nothing but that the peer is alive"),
    column("own_id", pa.bool_(), "an answer that may carry an id of its sender's own making (mb: by system topics)"),
    column("told", TOLD, "what a handshake or login tells about the peers; null for all other messages"),
)
HANDSHAKE, COMPLETE, REFUSED = "handshake", "complete", "refused"
"""The key, and its two values, by which a handshake message tells how the handshake went."""

Row = Mapping[str, Any]
Teller = Callable[[Row], dict[str, Any]]

CLOSED_FROM = 0x20
LOGIN_CODES, LOGIN_RESULT = (3, 18, 19), 4
SYSTEM, REGISTER, BEAT = "system.", "system.service.register", "system.heartbeat"
_HEARTBEATS = {"dsa": "ping", "ceda": "heartbeat"}


def needed_columns(protocol: Protocol) -> tuple[str, ...]:
    """The columns that marks are made of; where one is missing, so is the mark."""
    return _NEEDED.get(protocol.name, ())


def marks(protocol: Protocol, records: pa.RecordBatch) -> dict[str, pa.Array]:
    """The marks that these messages of a protocol have, by name; those that are not there are null for all of them."""
    names = {cls.__message__["name"]: cls.__message__["code"] for cls in protocol.messages}
    codes = records.column("code").to_numpy(zero_copy_only=False)
    found: dict[str, pa.Array] = {"told": _told(protocol, records, codes, names)}
    match protocol.name:
        case "casual":
            found |= {"flags": _of(records, "flags"), "resource": _of(records, "resource.id")}
        case "dsa":
            # A sequence id that is absent is 0.
            found["piece_key"] = _of(records, "headers.sequence_id")
        case "ceda":
            found["piece_key"] = _group_key(records, codes == names["group_pub"])
        case "mb":
            topic = _of(records, "topic")
            if topic is not None:
                found["heartbeat"], found["own_id"] = pc.equal(topic, BEAT), pc.starts_with(topic, SYSTEM)
    if protocol.name in _HEARTBEATS:
        found["heartbeat"] = pa.array(codes == names[_HEARTBEATS[protocol.name]])
    return {field.name: _cast(found.get(field.name), field.type, records.num_rows) for field in MARKS}


def _cast(array: pa.Array | None, type_: pa.DataType, rows: int) -> pa.Array:
    if array is None:
        return pa.nulls(rows, type_)
    return array if array.type == type_ else array.cast(type_)


def _of(records: pa.RecordBatch, path: str) -> pa.Array | None:
    """A column by its dotted path, if these records have it."""
    first, *inner = path.split(".")
    if first not in records.schema.names:
        return None
    array = records.column(first)
    for name in inner:
        if not pa.types.is_struct(array.type) or array.type.get_field_index(name) < 0:
            return None
        array = pc.struct_field(array, name)
    return array


def _group_key(records: pa.RecordBatch, group_pub: np.ndarray[Any, Any]) -> pa.Array | None:
    """Of the pieces of a blob: the reply topic of a group_pub that has one, in all other cases the topic."""
    index, topic, reply_topic = _of(records, "group.index"), _of(records, "topic"), _of(records, "reply_topic")
    if index is None or topic is None or index.null_count == len(index):
        return None
    key = topic
    if reply_topic is not None:
        key = pc.if_else(pc.and_(pa.array(group_pub), pc.is_valid(reply_topic)), reply_topic, topic)
    return pc.if_else(pc.is_valid(index), key, pa.scalar(None, pa.string()))


# --- what peers tell about themselves


def _casual_request(row: Row) -> dict[str, Any]:
    versions = (row["protocol"] or {}).get("versions") or ()
    return _domain("client", row) | {"offered_versions": ",".join(map(str, versions))}


def _casual_reply(row: Row) -> dict[str, Any]:
    version = (row["protocol"] or {}).get("version")
    return _domain("server", row) | {"version": version, HANDSHAKE: COMPLETE if version else REFUSED}


def _domain(side: str, row: Row) -> dict[str, Any]:
    domain = row["domain"] or {}
    identity = domain.get("id")
    return {f"{side}_domain": domain.get("name"), f"{side}_id": None if identity is None else identity.hex()}


def _is_refusal(row: Row) -> bool:
    return ((row["headers"] or {}).get("status") or 0) >= CLOSED_FROM


def _dsa_f0(row: Row) -> dict[str, Any]:
    hello = row["handshake"] or {}
    return {"client_dsid": hello.get("dsid"), "version": ".".join(map(str, hello.get("version") or ()))}


def _dsa_f1(row: Row) -> dict[str, Any]:
    if _is_refusal(row):
        return {HANDSHAKE: REFUSED, "status": (row["headers"] or {}).get("status")}
    return {"server_dsid": (row["handshake"] or {}).get("dsid")}


def _dsa_f2(row: Row) -> dict[str, Any]:
    return {"is_responder": (row["handshake"] or {}).get("is_responder")}


def _dsa_f3(row: Row) -> dict[str, Any]:
    if _is_refusal(row):
        return {HANDSHAKE: REFUSED, "status": (row["headers"] or {}).get("status")}
    return {HANDSHAKE: COMPLETE, "path": (row["handshake"] or {}).get("path")}


def _ceda_login(row: Row) -> dict[str, Any]:
    """Who logs in, or how that went. Field 5 is the password and is not looked at."""
    cells = {cell["fid"]: cell for cell in row["record"] or () if cell["fid"] != 5}

    def value(fid: int, kind: str) -> Any:
        return (cells.get(fid) or {}).get(kind)

    if row["control_code"] == LOGIN_RESULT:
        ok = value(1, "long") == 1
        told = {HANDSHAKE: COMPLETE if ok else REFUSED, "login_result": value(4, "text")}
        return told | {"connection_id": value(6, "long") if ok else None}
    if row["control_code"] not in LOGIN_CODES:
        return {}
    named = row["control_code"] == LOGIN_CODES[0]
    return {"user": value(4, "text") if named else None, "masked": row["masked"]}


def _mb_register(row: Row) -> dict[str, Any]:
    """The name a service gives itself."""
    if row["topic"] != REGISTER:
        return {}
    try:
        name = json.loads(row["payload"] or b"").get("name")
    except (ValueError, AttributeError, RecursionError):
        return {}
    return {"name": name if isinstance(name, str) else None}


_TELLERS: dict[str, tuple[tuple[str, ...], dict[str, Teller]]] = {
    "casual": (
        ("domain", "protocol"),
        {"domain_connect_request": _casual_request, "domain_connect_reply": _casual_reply},
    ),
    "dsa": (
        ("headers", "handshake"),
        {"handshake_f0": _dsa_f0, "handshake_f1": _dsa_f1, "handshake_f2": _dsa_f2, "handshake_f3": _dsa_f3},
    ),
    "mb": (("topic", "payload"), {"request": _mb_register}),
    "ceda": (("control_code", "record", "masked"), {"login": _ceda_login}),
}
_ONLY_TOPIC = {"mb": REGISTER}
"""Where the messages that tell something are told apart from many others of their kind by their topic."""


_NEEDED: dict[str, tuple[str, ...]] = {
    "casual": ("flags", "resource"),
    "ceda": ("group", "topic", "reply_topic"),
}
_NEEDED = {name: tuple(dict.fromkeys((*_NEEDED.get(name, ()), *columns))) for name, (columns, _) in _TELLERS.items()}


def _told(
    protocol: Protocol, records: pa.RecordBatch, codes: np.ndarray[Any, Any], names: Mapping[str, int]
) -> pa.Array | None:
    """None if nobody tells anything."""
    needed, tellers = _TELLERS.get(protocol.name, ((), {}))
    if not tellers or any(name not in records.schema.names for name in needed):
        return None
    by_code = {names[name]: teller for name, teller in tellers.items()}
    wanted = np.isin(codes, list(by_code))
    if protocol.name in _ONLY_TOPIC:
        topic = pc.equal(records.column("topic"), _ONLY_TOPIC[protocol.name])
        wanted &= pc.fill_null(topic, False).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return None
    picked = records.select(needed).take(pa.array(rows)).to_pylist()
    told = [by_code[code](row) for code, row in zip(codes[rows].tolist(), picked, strict=True)]
    return _sparse_maps(records.num_rows, rows, told)


def _sparse_maps(total: int, rows: np.ndarray[Any, Any], told: list[dict[str, Any]]) -> pa.Array:
    """Maps at some rows, null at all others. A value that is not known is left out."""
    pairs = [[(key, _text(value)) for key, value in one.items() if value is not None] for one in told]
    offsets = np.zeros(total + 1, np.int32)
    offsets[rows + 1] = [len(one) for one in pairs]
    offsets = np.cumsum(offsets, dtype=np.int32)
    absent = np.ones(total + 1, bool)
    absent[rows] = False
    absent[total] = False
    flat = [pair for one in pairs for pair in one]
    keys, values = pa.array([key for key, _ in flat], pa.string()), pa.array([value for _, value in flat], pa.string())
    return pa.MapArray.from_arrays(pa.array(offsets, pa.int32(), mask=absent), keys, values)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
