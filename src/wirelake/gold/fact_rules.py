"""From declared conduct to facts: each function reads one part of a ``Conduct`` and fills in what it says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..spec.conduct import HANDSHAKE, REPLY, REQUEST, RESULTS, Branches, Conduct, Introduction, Pieces, Streams
from . import arrays
from .arrays import Mask
from .fact_draft import Draft, as_text

INT32_MAX = 2**31 - 1


def apply_conduct(conduct: Conduct, draft: Draft, codes: dict[str, int], payload: pa.Array | None) -> None:
    """Complete the facts by all that a protocol declares. ``codes`` are those of its messages."""
    requests = draft.part == REQUEST
    _parts(conduct, draft, codes)
    _limits(conduct, draft)
    for result in conduct.results:
        draft.result[draft.select(result)] = RESULTS.index(result.result)
    if conduct.streams is not None:
        _streams(conduct.streams, draft)
    if conduct.heartbeats:
        draft.columns["heartbeat"] = pa.array(draft.select_any(conduct.heartbeats))
    if conduct.matching.invented:
        draft.columns["own_id"] = pa.array(draft.select_any(conduct.matching.invented))
    if conduct.pieces is not None:
        _pieces(conduct.pieces, draft)
    if conduct.branches is not None:
        _branches(conduct.branches, draft)
    if conduct.brokered and payload is not None:
        draft.columns["payload_hash"] = _hashes(payload, requests & ~draft.select_any(conduct.not_forwarded))
    for introduction in conduct.introductions:
        _introduce(introduction, draft)
    if conduct.facts is not None:
        conduct.facts(draft)
    draft.columns["introduction"] = _sparse_maps(len(draft), draft.introduced)


def _parts(conduct: Conduct, draft: Draft, codes: dict[str, int]) -> None:
    for declared in conduct.parts:
        selected = draft.select(declared)
        draft.part[selected] = declared.part
        if declared.part == REQUEST:
            draft.wants_reply[selected] = True
            draft.pair[selected] = codes[declared.reply]
        if declared.part == REPLY:
            draft.ends[selected] = True
        if declared.kind and selected.any():
            draft.columns["kind"] = pc.if_else(pa.array(selected), declared.kind, draft.columns["kind"])


def _limits(conduct: Conduct, draft: Draft) -> None:
    for limit in conduct.limits:
        selected = draft.select(limit)
        draft.limit_us[selected & (draft.limit_us == 0) if limit.limit_us else selected] = limit.limit_us
    unheard = draft.select_any(conduct.no_reply)
    draft.wants_reply[unheard] = False
    draft.limit_us[unheard] = 0


def _streams(streams: Streams, draft: Draft) -> None:
    replies = draft.part == REPLY
    draft.ends &= ~draft.select_any(streams.continues)
    lane = np.zeros(len(draft), np.int8)
    for number, messages in enumerate(streams.lanes, 1):
        lane[draft.named(messages)] = number
    draft.columns["lane"] = pa.array(lane)
    draft.columns["once"] = pa.array(draft.select_any(streams.once))
    draft.columns["more"] = pa.array(replies & draft.select_any(streams.partial))


def _pieces(declared: Pieces, draft: Draft) -> None:
    index = draft.column(declared.index)
    is_piece = pc.is_valid(index).to_numpy(zero_copy_only=False)
    number = arrays.integers(index)
    if declared.signed:
        is_piece = (number != 0) & (number != -1)
        draft.columns["pieces"] = _int32(-number, is_piece & (number < 0))
    elif declared.count:
        count = draft.column(declared.count)
        draft.columns["pieces"] = _int32(arrays.integers(count), pc.is_valid(count).to_numpy(zero_copy_only=False))
    draft.columns["piece"] = _int32(np.maximum(number, 0), is_piece)
    draft.columns["piece_key"] = _piece_key(declared, draft, is_piece)


def _piece_key(declared: Pieces, draft: Draft, is_piece: Mask) -> pa.Array | None:
    """In a stream all messages have it: one that is whole may come in the middle of another."""
    if not declared.key or not (declared.per_stream or is_piece.any()):
        return None
    key = as_text(draft.column(declared.key))
    for message, path in declared.keys.items():
        own = as_text(draft.column(path))
        key = pc.if_else(pc.and_(pa.array(draft.named((message,))), pc.is_valid(own)), own, key)
    return key if declared.per_stream else arrays.only(key, is_piece)


def _int32(values: NDArray[np.int64], valid: Mask) -> pa.Array:
    return arrays.with_nulls(np.minimum(values, INT32_MAX), valid, pa.int32())


def _branches(branches: Branches, draft: Draft) -> None:
    for name, path in (("flags", branches.flags), ("resource", branches.resource)):
        if path:
            draft.columns[name] = draft.column(path)


def _hashes(payload: pa.Array, wanted: Mask) -> pa.Array:
    hashes = np.zeros(len(payload), np.int64)
    hashes[wanted] = arrays.hashed(payload.filter(pa.array(wanted)))
    return arrays.with_nulls(hashes, wanted, pa.int64())


# --- introductions


def _introduce(declared: Introduction, draft: Draft) -> None:
    selected = draft.select(declared)
    if not selected.any():
        return
    rows = pa.array(np.flatnonzero(selected))
    said = {name: draft.column(path).take(rows).to_pylist() for name, path in declared.facts.items()}
    facts = [{name: _text(values[i], declared.separator) for name, values in said.items()} for i in range(len(rows))]
    if declared.handshake:
        facts = [one | {HANDSHAKE: declared.handshake} for one in facts]
    draft.introduce(selected, facts)


def _text(value: Any, separator: str = ",") -> str | None:
    match value:
        case None:
            return None
        case bool():
            return str(value).lower()
        case bytes():
            return value.hex()
        case list():
            return separator.join(_text(item) or "" for item in value)
        case _:
            return str(value)


def _sparse_maps(size: int, introduced: dict[int, dict[str, Any]]) -> pa.Array | None:
    """Return maps at some rows, null at all others. A value that is not known is left out."""
    if not introduced:
        return None
    rows = np.array(sorted(introduced))
    said = ({name: _text(value) for name, value in introduced[row].items()} for row in rows.tolist())
    pairs = [[(name, text) for name, text in one.items() if text is not None] for one in said]
    offsets = np.zeros(size + 1, np.int32)
    offsets[rows + 1] = [len(one) for one in pairs]
    absent = np.ones(size + 1, np.bool_)
    absent[rows], absent[size] = False, False
    keys, values = (pa.array([pair[i] for one in pairs for pair in one], pa.string()) for i in (0, 1))
    return pa.MapArray.from_arrays(pa.array(np.cumsum(offsets, dtype=np.int32), mask=absent), keys, values)
