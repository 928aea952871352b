"""Messages in pieces: the one assembler. It says which piece completes a message, and which comes at the wrong moment.

The first piece says how many there are, the others follow with their numbers; pieces of other messages may go between.
A piece that is not the next one of an open group breaks the group; the rest of it is then left alone until a first
piece opens a new one, so one fault is one row. Matching counts a reply in pieces when it is complete; violations report
the faults.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..kernels import piece_codes as codes
from ..kernels.piece_codes import Groups, PieceRows
from ..spec.conduct import CLOSE, REQUEST, Pieces
from . import arrays
from .arrays import FOR_EVER, Ints, Mask, flags, integers, joined
from .fact_groups import ProtocolFacts

OPEN_GROUPS = pa.schema(
    [(name, pa.int64()) for name in ("connection", "key", "slot", "group_key", "next", "total", "bytes", "last_us")]
)
"""Groups that are not complete; ``connection`` is a number of the matcher's."""


@dataclass
class PieceFaults:
    """Pieces at the wrong moment. ``expected`` of ``count`` pieces should have come; a loss after ``since`` excuses."""

    rows: Ints
    fault: Ints
    piece: Ints
    expected: Ints
    count: Ints
    since: Ints
    how: Pieces

    def sentences(self) -> list[str]:
        columns = (self.fault.tolist(), self.piece.tolist(), self.expected.tolist(), self.count.tolist())
        return [_sentence(self.how.word, *row) for row in zip(*columns, strict=True)]


def _sentence(word: str, fault: int, piece: int, expected: int, count: int) -> str:
    came = {
        codes.WRONG_PIECE: f"{word} {piece}",
        codes.OTHER_MESSAGE: f"{word} {piece} of another message",
        codes.FIRST_TOO_SOON: f"a first {word}",
        codes.NO_PIECE: "another message",
    }
    if fault == codes.FIRST_IS_MISSING:
        return f"{word} {piece} of a message whose first {word} did not come"
    return f"{came[fault]} where {word} {expected} of {count} must come"


@dataclass
class Assembled:
    """By row of the facts: whether a message is whole with it, and the bytes of all its pieces."""

    whole: Mask
    bytes: Ints
    faults: PieceFaults | None = None


class Assembler:
    """Puts pieces together. Feeding it in parts gives the same result."""

    def __init__(self, carry: pa.Table | None = None) -> None:
        self._open = arrays.empty(OPEN_GROUPS) if carry is None else carry

    def carry(self) -> pa.Table:
        return self._open

    def forget(self, last_us: Mapping[int, int]) -> None:
        """Drop the groups that are over by now; ``last_us`` are the times of the last facts of all connections."""
        if len(self._open):
            owners = integers(self._open["connection"]).tolist()
            now = np.array([last_us.get(owner, FOR_EVER) for owner in owners], np.int64)
            self._open = arrays.where(self._open, now - integers(self._open["last_us"]) <= codes.QUIET_US)

    def feed(self, facts: ProtocolFacts, connection: NDArray[np.int32], how: Pieces | None) -> Assembled:
        """Take facts of one protocol; ``connection`` is the number of the connection of each."""
        piece = integers(facts.table["piece"], -1) if how is not None else np.zeros(0, np.int64)
        result = Assembled(np.ones(len(facts), np.bool_), integers(facts.table["length"]).copy())
        old = self._of(connection)
        if how is None or not ((piece >= 0).any() or old.any()):
            return result
        before, self._open = arrays.where(self._open, old), arrays.where(self._open, ~old)
        key, slot = _places(facts, how.per_stream)
        chosen = _concerned(facts, piece, key, integers(before["key"]), how.per_stream)
        rows = _rows(before, facts, chosen, slot, how.per_stream)
        key, owner = (
            np.concatenate([integers(before[name]), new[chosen]])
            for name, new in (("key", key), ("connection", connection))
        )
        groups = _assembled(rows, key, integers(before["next"]))
        self._open = pa.concat_tables([self._open, _incomplete(rows, groups, key, owner)]).combine_chunks()
        new = Groups(*(column[len(before) :] for column in groups))
        result.whole[chosen] = new.whole
        result.bytes[chosen] = np.where(new.whole, new.bytes, result.bytes[chosen])
        result.faults = _faults(chosen, piece, new, how)
        return result

    def _of(self, connection: NDArray[np.int32]) -> Mask:
        """The open groups of these connections: others belong to other protocols, or are silent."""
        return np.isin(integers(self._open["connection"]), np.unique(connection))


def _places(facts: ProtocolFacts, per_stream: bool) -> tuple[Ints, Ints]:
    """Return the key of each row and its slot there. In a stream both sides and all lanes count for themselves."""
    name = joined(facts.table["correlation" if per_stream else "piece_key"])
    key = arrays.mixed(arrays.hashed(name), facts.connection_hashes())
    asks = (integers(facts.table["step"]) == REQUEST).astype(np.int64)
    if not per_stream:
        return arrays.mixed(key, facts.side), np.zeros(len(facts), np.int64)
    return key, facts.side + 2 * asks + 4 * (integers(facts.table["lane"]) & 1)


def _concerned(facts: ProtocolFacts, piece: Ints, key: Ints, known: Ints, per_stream: bool) -> Ints:
    """Return the pieces; where they belong to a stream, also all else that these streams send."""
    is_piece = piece >= 0
    if not per_stream:
        return np.flatnonzero(is_piece)
    same_stream = np.isin(key, np.concatenate([key[is_piece], known]))
    return np.flatnonzero(is_piece | (same_stream & (integers(facts.table["step"]) != REQUEST)))


def _rows(before: pa.Table, facts: ProtocolFacts, chosen: Ints, slot: Ints, per_stream: bool) -> PieceRows:
    """Return the groups of earlier feeds, and behind them the chosen rows."""
    table = facts.table
    role = np.where(integers(table["step"]) == CLOSE, codes.CLOSES, codes.PIECE)
    ends = flags(table["ends"]) & per_stream
    # A group key that is absent is 0; it must stay the same in a stream only.
    group_key = joined(table["piece_key"]).fill_null("0") if per_stream else None
    same = np.zeros(len(facts), np.int64) if group_key is None else arrays.hashed(group_key)

    def both(old: str | int, new: NDArray[Any]) -> Ints:
        known = integers(before[old]) if isinstance(old, str) else np.full(len(before), old)
        return np.concatenate([known, new[chosen]]).astype(np.int64)

    return PieceRows(
        both(codes.GROUP, role),
        both("slot", slot),
        both(0, integers(table["piece"], -1)),
        both("total", integers(table["pieces"])),
        both("group_key", same),
        both(0, ends),
        both("last_us", facts.ts),
        both("bytes", integers(table["length"])),
    )


def _assembled(rows: PieceRows, key: Ints, following: Ints) -> Groups:
    from ..kernels.pieces import assemble  # numba takes a second to load

    size = len(key)
    new = np.full(size - len(following), codes.BROKEN)
    live, whole = np.zeros((2, size), np.bool_)
    nothing = np.zeros((4, size), np.int64)
    following = np.concatenate([following, new])
    groups = Groups(live, following, rows.pieces.copy(), rows.length.copy(), rows.ts.copy(), whole, *nothing)
    order = np.argsort(key, kind="stable")
    assemble(order, arrays.run_starts(key[order]), rows, groups)
    return groups


def _incomplete(rows: PieceRows, groups: Groups, key: Ints, owner: Ints) -> pa.Table:
    columns = [owner, key, rows.slot, rows.key, groups.next, groups.total, groups.bytes, groups.last_us]
    return pa.table([pa.array(column[groups.live].astype(np.int64)) for column in columns], OPEN_GROUPS)


def _faults(chosen: Ints, piece: Ints, groups: Groups, how: Pieces) -> PieceFaults:
    wrong = np.flatnonzero(groups.fault != codes.FINE)
    found = (groups.expected[wrong], groups.of[wrong], groups.since[wrong])
    return PieceFaults(chosen[wrong], groups.fault[wrong], piece[chosen[wrong]], *found, how)
