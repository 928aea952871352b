"""Facts of mb that lie in payloads: error replies, copies for audit, the name of a service."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...spec.conduct import ERROR, OK, TIMEOUT, Draft, Selection, When
from .conduct import AUDIT, HEARTBEAT, NAMELESS, REGISTER

REPLIES = Selection(messages=("response",))
NAMELESS_REQUESTS = Selection(messages=("request",), when=(NAMELESS, When("topic", none_of=(HEARTBEAT,))))
COPIES = Selection(messages=("publish",), when=When("topic", one_of=(AUDIT,)))
REGISTRATIONS = Selection(messages=("request",), when=When("topic", one_of=(REGISTER,)))

_BROKERS_ERROR = r'^\s*\{\s*"error"\s*:'
_SERVICES_ERROR = b"error:"


def complete(draft: Draft) -> None:
    replies = draft.select(REPLIES)
    _errors(draft, replies)
    _places(draft, replies)
    _audit(draft)
    registrations = draft.select(REGISTRATIONS)
    draft.introduce(registrations, [_name(payload) for payload in _payloads(draft, registrations)])


def _payloads(draft: Draft, selected: Any) -> list[bytes]:
    return [payload or b"" for payload in draft.column("payload").filter(pa.array(selected)).to_pylist()]


def _errors(draft: Draft, replies: Any) -> None:
    """Replies that are errors: those of the broker are ``{"error":{...}}``, those of services ``error:{...}``."""
    payload = pc.fill_null(draft.column("payload"), b"")
    looks = pc.or_(pc.starts_with(payload, _SERVICES_ERROR), pc.match_substring_regex(payload, _BROKERS_ERROR))
    rows = np.flatnonzero(replies & looks.to_numpy(zero_copy_only=False))
    codes = {row: code for row in rows.tolist() if (code := _error_code(payload[row].as_py())) is not None}
    if not codes:
        return
    failed = np.fromiter(codes, np.int64, len(codes))
    draft.result[failed] = ERROR
    draft.result[[row for row, code in codes.items() if code == "TIMEOUT"]] = TIMEOUT
    texts = np.full(len(draft), None, object)
    texts[failed] = list(codes.values())
    draft.columns["status"] = pa.array(texts, pa.string())


def _error_code(payload: bytes) -> str | None:
    """Return the code of an error reply: ``error`` if it has none, None if the reply is no error."""
    is_services = payload.startswith(_SERVICES_ERROR)
    problem = _loaded(payload.removeprefix(_SERVICES_ERROR) if is_services else payload)
    if not is_services:
        problem = problem.get("error") if isinstance(problem, dict) else None
    if isinstance(problem, dict) and isinstance(problem.get("code"), str):
        return str(problem["code"])
    return "error" if is_services else None


def _loaded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _places(draft: Draft, replies: Any) -> None:
    """Where a request without id went: an error comes back from there under an id that the broker made up."""
    refused = pc.fill_null(pc.equal(draft.columns["status"], "INVALID_REQUEST_ID"), False)
    failed = replies & (draft.result != OK) & ~refused.to_numpy(zero_copy_only=False)
    wanted = draft.select(NAMELESS_REQUESTS) | failed
    place = pc.binary_join_element_wise(draft.column("topic"), draft.column("version"), " ")
    draft.columns["place"] = pc.if_else(pa.array(wanted), place, pa.scalar(None, pa.string()))


def _audit(draft: Draft) -> None:
    """Copies for audit are the only place where the ids of both legs of an exchange occur together."""
    copies = draft.select(COPIES)
    own, masked = np.full(len(draft), None, object), np.full(len(draft), None, object)
    for row, payload in zip(np.flatnonzero(copies).tolist(), _payloads(draft, copies), strict=True):
        match _loaded(payload):
            case {"maskedId": str(original), "message": {"header": {"requestId": str(given)}}}:
                own[row], masked[row] = given, original
            case _:
                pass
    draft.columns["audit_id"], draft.columns["masked_id"] = pa.array(own, pa.string()), pa.array(masked, pa.string())


def _name(payload: bytes) -> dict[str, Any]:
    """The name that a service gives itself."""
    match _loaded(payload):
        case {"name": str(name)}:
            return {"name": name}
        case _:
            return {}
