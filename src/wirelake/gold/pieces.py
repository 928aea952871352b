"""Messages in pieces, and pieces at the wrong moment: pages of dsa, groups of ceda.

The first piece says how many there are, the others follow with their numbers; pieces of other messages may go between.
A piece that is not the next one of an open group breaks the group; the rest of it is then left alone until a first
piece opens a new one. So one fault is one row.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from .answers import Losses
from .violation_rows import GROUP_ORDER, PAGE_ORDER

Place = tuple[int | str | None, ...]

QUIET_US = 60_000_000
"""A group that gets no piece for so long is forgotten."""


@dataclass(frozen=True)
class Splitting:
    """How a protocol splits. ``per_stream``: pieces belong to a stream, which sends nothing else meanwhile, and their
    key only has to stay the same; else the key alone says what belongs together."""

    rule: int
    word: str
    per_stream: bool


SPLITTING = {"dsa": Splitting(PAGE_ORDER, "page", True), "ceda": Splitting(GROUP_ORDER, "piece", False)}


class Finding(NamedTuple):
    row: int
    rule: int
    detail: str


class Piece(NamedTuple):
    """A row that may be a piece; ``number`` is -1 if it is not. ``ends``: its stream ends with it."""

    row: int
    side: int
    stream: str | None
    lane: int
    key: str | None
    number: int
    total: int
    ends: bool
    ts: int


@dataclass
class Group:
    """``next`` is the number of the piece that must come; -1 if the group is broken."""

    key: str | None
    next: int
    count: int
    last_us: int


@dataclass
class Groups:
    """The open groups of one connection."""

    open: dict[Place, Group] = field(default_factory=dict)

    def take(self, how: Splitting, piece: Piece, losses: tuple[Losses, Losses]) -> Finding | None:
        where: Place = (piece.side, piece.stream, piece.lane) if how.per_stream else (piece.side, piece.key)
        group = self.open.get(where)
        if group is not None and piece.ts - group.last_us > QUIET_US:
            del self.open[where]
            group = None
        lost = losses[piece.side]
        if piece.number <= 0:
            return self._begin(how, where, group, piece, lost)
        if group is None:
            self.open[where] = Group(piece.key, -1, 0, piece.ts)
            if lost.before(piece.ts):
                return None
            return Finding(
                piece.row, how.rule, f"{how.word} {piece.number} of a message whose first {how.word} did not come"
            )
        if group.next < 0:
            group.last_us = piece.ts
            return None
        if piece.number == group.next and (not how.per_stream or (piece.key or "0") == (group.key or "0")):
            self._next(where, group, piece)
            return None
        expected, since = group.next, group.last_us
        group.next, group.last_us = -1, piece.ts
        if lost.between(since, piece.ts):
            return None
        other = " of another message" if piece.number == expected else ""
        return Finding(
            piece.row,
            how.rule,
            f"{how.word} {piece.number}{other} where {how.word} {expected} of {group.count} must come",
        )

    def close(self, stream: str | None) -> None:
        """The stream is over, and so are its groups."""
        for where in [where for where in self.open if where[1] == stream]:
            del self.open[where]

    def _begin(self, how: Splitting, where: Place, group: Group | None, piece: Piece, lost: Losses) -> Finding | None:
        """A first piece, or a message that is no piece, and what it interrupts."""
        self.open.pop(where, None)
        if piece.number == 0 and piece.total > 1 and not piece.ends:
            self.open[where] = Group(piece.key, 1, piece.total, piece.ts)
        if group is None or group.next < 0 or lost.between(group.last_us, piece.ts):
            return None
        came = f"a first {how.word}" if piece.number == 0 else "another message"
        return Finding(piece.row, how.rule, f"{came} where {how.word} {group.next} of {group.count} must come")

    def _next(self, where: Place, group: Group, piece: Piece) -> None:
        group.next, group.last_us = group.next + 1, piece.ts
        if group.next == group.count or piece.ends:
            del self.open[where]
