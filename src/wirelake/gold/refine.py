"""What a declaration cannot say about the messages of the built-in protocols: limits that are not on the wire,
answers that mean a failure, requests that nobody answers, messages in pieces.

A refinement gets the messages of its protocol and the facts that roles gave, and changes those facts.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from . import arrays
from .arrays import Mask

SECOND = 1_000_000
NO_STEP, REQUEST, ANSWER, CLOSE = 0, 1, 2, 3
RESULTS = ("ok", "error", "timeout")
OK, ERROR, TIMEOUT = 0, 1, 2
NO_REPLY_WANTED = "no reply wanted"


@dataclass
class Draft:
    """Facts in the making. ``result`` counts in ``RESULTS``; it matters in answers only."""

    records: pa.RecordBatch
    names: tuple[str, ...]
    which: NDArray[np.int64]
    """Per row, the place of its message in ``names``."""
    columns: dict[str, pa.Array]
    step: NDArray[np.int8]
    pair: NDArray[np.int32]
    result: NDArray[np.int8]
    ends: Mask
    wants_reply: Mask
    limit_us: NDArray[np.int64]
    """0: none."""
    options: dict[str, Any]

    def __len__(self) -> int:
        return len(self.which)

    def is_one_of(self, *names: str) -> Mask:
        wanted = np.array([name in names for name in self.names], np.bool_)
        return wanted[self.which]

    def has(self, mask: Mask) -> bool:
        return bool(mask.any())

    def column(self, path: str) -> pa.Array:
        return column_at(self.records, tuple(path.split(".")))


def column_at(records: pa.RecordBatch, path: tuple[str, ...]) -> pa.Array:
    """A column, or a part of a nested one."""
    column = records.column(path[0])
    return pc.struct_field(column, list(path[1:])) if len(path) > 1 else column


class Refinement(NamedTuple):
    columns: tuple[str, ...]
    """Columns that it reads besides those with roles."""
    apply: Callable[[Draft], None]


# --- casual

TPNOREPLY, TPNOTIME, TPETIME = 0x04, 0x20, 13
XA_FINE = (0, 3)
_CASUAL_LIMITS = {
    "domain_connect_request": 10 * SECOND,
    "domain_discover_request": 10 * SECOND,
    "resource_prepare_request": 30 * SECOND,
    "resource_commit_request": 30 * SECOND,
    "resource_rollback_request": 30 * SECOND,
    "queue_enqueue_request": 30 * SECOND,
    "queue_dequeue_request": 30 * SECOND,
}
_RESOURCE_REPLIES = ("resource_prepare_reply", "resource_commit_reply", "resource_rollback_reply")


def _casual(draft: Draft) -> None:
    limits = np.array([_CASUAL_LIMITS.get(name, 0) for name in draft.names], np.int64)[draft.which]
    draft.limit_us = np.where(limits > 0, limits, draft.limit_us)
    if draft.options.get("profile") == "late":
        # The one message whose limit is declared in nanoseconds has been converted already.
        draft.limit_us[draft.is_one_of("service_call_request", "conversation_connect_request")] //= 1000
    _casual_flags(draft)
    if draft.has(dequeues := draft.is_one_of("queue_dequeue_request")):
        draft.limit_us[dequeues & arrays.flags(draft.column("block"), len(draft))] = 0
    _casual_results(draft)


def _casual_flags(draft: Draft) -> None:
    calls = draft.is_one_of("service_call_request", "conversation_connect_request")
    if draft.has(calls):
        flags = arrays.integers(draft.column("flags"))
        draft.limit_us[calls & (flags & TPNOTIME != 0)] = 0
        unheard = draft.is_one_of("service_call_request") & (flags & TPNOREPLY != 0)
        draft.wants_reply[unheard] = False
        draft.limit_us[unheard] = 0


def _casual_results(draft: Draft) -> None:
    status = arrays.integers(draft.columns["status"].cast(pa.int64()))
    xatmi = draft.is_one_of("service_call_reply", "conversation_connect_reply", "conversation_connect_reply_late")
    # -1 stands for "not set".
    draft.result[xatmi & ~np.isin(status, (0, -1))] = ERROR
    draft.result[xatmi & (status == TPETIME)] = TIMEOUT
    draft.result[draft.is_one_of("domain_connect_reply") & (status == 0)] = ERROR
    draft.result[draft.is_one_of(*_RESOURCE_REPLIES) & ~np.isin(status, XA_FINE)] = ERROR
    if draft.has(stored := draft.is_one_of("queue_enqueue_reply")):
        nil = pc.equal(draft.column("id"), pa.scalar(bytes(16), pa.binary()))
        draft.result[stored & arrays.flags(nil, len(draft))] = ERROR


# --- dsa

INITIALIZING, CLOSED, INTERNAL_ERROR = 0x01, 0x20, 0x50
ENDED_BY_ANSWERER = frozenset({0x83, 0x84})
"""Answers to invoke and set: some responders send a close in their place."""


def _dsa(draft: Draft) -> None:
    """An absent status is 0. Pages are counted from -N, then 1 .. N-1."""
    size = len(draft)
    status = arrays.integers(draft.column("headers.status"))
    answers = draft.step == ANSWER
    single = draft.is_one_of("set_response", "preflight_response")
    draft.ends = answers & (single | (status >= CLOSED))
    draft.result[answers & (status > CLOSED)] = ERROR
    closes = draft.is_one_of("close")
    draft.step[closes] = CLOSE
    told = pc.is_valid(draft.column("headers.error_detail")).to_numpy(zero_copy_only=False)
    status = np.where(closes & (status < CLOSED), np.where(told, INTERNAL_ERROR, CLOSED), status)
    draft.result[closes & (status > CLOSED)] = ERROR
    draft.columns["status"] = arrays.with_nulls(status, answers | closes, pa.string())
    draft.columns["lane"] = pa.array(draft.is_one_of("subscribe_request", "subscribe_response").astype(np.int8))
    draft.columns["once"] = pa.array(arrays.flags(draft.column("headers.no_stream"), size))
    draft.columns["more"] = pa.array(answers & (status == INITIALIZING))
    page = arrays.integers(draft.column("headers.page_id"))
    paged = (page != 0) & (page != -1)
    draft.columns["piece"] = arrays.with_nulls(np.maximum(page, 0), paged, pa.int32())
    draft.columns["pieces"] = arrays.with_nulls(-page, paged & (page < 0), pa.int32())


# --- mb

DEFAULT_LIMIT_US = 5 * SECOND
AUDIT, HEARTBEAT = "system.message", "system.heartbeat"
_FORM_A = r'^\s*\{\s*"error"\s*:'
_FORM_B = b"error:"


def _mb(draft: Draft) -> None:
    topic, rid = draft.column("topic"), draft.column("request_id")
    named = pc.is_valid(rid).to_numpy(zero_copy_only=False)
    to_server = _equal(draft.records.column("direction"), "to_server")
    publishes, requests, responses = (draft.is_one_of(name) for name in ("publish", "request", "response"))
    draft.limit_us = np.where(requests & named & (draft.limit_us == 0), DEFAULT_LIMIT_US, draft.limit_us)
    draft.limit_us[~named] = 0
    # The broker answers a publish with an id; what it publishes itself has an id too, and no answer.
    asking = publishes & named & to_server
    draft.step[asking] = REQUEST
    draft.wants_reply[asking] = True
    draft.pair[publishes] = draft.pair[responses][0] if responses.any() else RESPONSE_CODE
    draft.wants_reply[requests & ~named] = False
    beats = _equal(topic, HEARTBEAT) & ~named
    draft.step[beats] = NO_STEP
    draft.columns["kind"] = pc.if_else(pa.array(beats), "control", draft.columns["kind"])
    draft.columns["address"] = pc.if_else(pa.array(responses), pa.scalar(None, pa.string()), draft.columns["address"])
    _mb_errors(draft, responses)
    _mb_places(draft, requests & ~named & ~beats, responses)
    payload = draft.column("payload")
    _mb_audit(draft, publishes & _equal(topic, AUDIT), payload)
    forwarded = requests & ~pc.starts_with(topic, "system.").to_numpy(zero_copy_only=False)
    draft.columns["payload_hash"] = _hashes(payload, forwarded)


RESPONSE_CODE = 3


def _equal(column: pa.Array, value: str) -> Mask:
    return arrays.flags(pc.equal(column, value), len(column))


def _hashes(payload: pa.Array, wanted: Mask) -> pa.Array:
    hashes = np.zeros(len(payload), np.int64)
    hashes[wanted] = arrays.hashed(payload.filter(pa.array(wanted)))
    return arrays.with_nulls(hashes, wanted, pa.int64())


def _mb_places(draft: Draft, nameless: Mask, responses: Mask) -> None:
    """Where a request without id went: an error comes back from there under an id that the broker made up."""
    failed = responses & (draft.result != OK)
    failed &= ~_equal(draft.columns["status"], "INVALID_REQUEST_ID")
    wanted = nameless | failed
    place = pc.binary_join_element_wise(draft.column("topic"), draft.column("version"), " ")
    draft.columns["place"] = arrays.only(place, wanted)


def _mb_errors(draft: Draft, responses: Mask) -> None:
    """Answers that are errors: those of the broker ``{"error":{...}}`` and those of services, ``error:{...}``."""
    payload = pc.fill_null(draft.column("payload"), b"")
    looks = pc.or_(pc.starts_with(payload, _FORM_B), pc.match_substring_regex(payload, _FORM_A))
    rows = np.flatnonzero(responses & arrays.flags(looks, len(draft)))
    codes: dict[int, str] = {}
    for row in rows.tolist():
        code = _error_code(payload[row].as_py())
        if code is not None:
            codes[row] = code
    if not codes:
        return
    failed = np.fromiter(codes, np.int64, len(codes))
    draft.result[failed] = ERROR
    draft.result[[row for row, code in codes.items() if code == "TIMEOUT"]] = TIMEOUT
    texts = np.full(len(draft), None, object)
    texts[failed] = list(codes.values())
    draft.columns["status"] = pa.array(texts, pa.string())


def _error_code(payload: bytes) -> str | None:
    """The code of an error answer; ``error`` if it has none; None if it is no error."""
    marked = payload.startswith(_FORM_B)
    problem = _loaded(payload.removeprefix(_FORM_B) if marked else payload)
    if not marked:
        problem = problem.get("error") if isinstance(problem, dict) else None
    if isinstance(problem, dict) and isinstance(problem.get("code"), str):
        return str(problem["code"])
    return "error" if marked else None


def _loaded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _mb_audit(draft: Draft, copies: Mask, payload: pa.Array) -> None:
    """The only place where the ids of both legs of an exchange occur together."""
    if not copies.any():
        return
    own, masked = np.full(len(draft), None, object), np.full(len(draft), None, object)
    for row in np.flatnonzero(copies).tolist():
        copy = _loaded(payload[row].as_py() or b"")
        match copy:
            case {"maskedId": str(original), "message": {"header": {"requestId": str(given)}}}:
                own[row], masked[row] = given, original
            case _:
                pass
    draft.columns["audit_id"], draft.columns["masked_id"] = pa.array(own, pa.string()), pa.array(masked, pa.string())


# --- ceda

LOGIN_REQUESTS, LOGIN_RESULT = (3, 18, 19), 4
LOGIN_LIMIT_US = 15 * SECOND


def _ceda(draft: Draft) -> None:
    """A request without reply topic cannot be answered. Login and its result are one message with two codes."""
    topic = draft.column("reply_topic")
    nowhere = draft.is_one_of("request") & ~arrays.flags(pc.greater(pc.binary_length(topic), 0), len(draft))
    draft.wants_reply[nowhere] = False
    if draft.has(logins := draft.is_one_of("login")):
        control = arrays.integers(draft.column("control_code"))
        asks, answers = logins & np.isin(control, LOGIN_REQUESTS), logins & (control == LOGIN_RESULT)
        draft.step[asks], draft.step[answers] = REQUEST, ANSWER
        draft.pair[logins] = LOGIN_CODE
        draft.wants_reply[asks] = True
        draft.limit_us[asks] = LOGIN_LIMIT_US
        draft.ends[answers] = True
        _ceda_login_results(draft, answers)
    draft.columns["piece"] = draft.column("group.index").cast(pa.int32())
    draft.columns["pieces"] = draft.column("group.count").cast(pa.int32())


LOGIN_CODE = 0x13


def _ceda_login_results(draft: Draft, answers: Mask) -> None:
    """Field 1 is 1 if the login went well."""
    rows = np.flatnonzero(answers)
    texts = np.full(len(draft), None, object)
    for row, cells in zip(rows.tolist(), draft.column("record").take(pa.array(rows)).to_pylist(), strict=True):
        said = next((cell["long"] for cell in cells or () if cell["fid"] == 1), None)
        texts[row] = None if said is None else str(said)
        if said != 1:
            draft.result[row] = ERROR
    draft.columns["status"] = pa.array(texts, pa.string())


REFINEMENTS = {
    "casual": Refinement(("flags", "block", "id"), _casual),
    "dsa": Refinement(("headers",), _dsa),
    "mb": Refinement(("topic", "version", "request_id", "payload"), _mb),
    "ceda": Refinement(("reply_topic", "control_code", "record", "group"), _ceda),
}
