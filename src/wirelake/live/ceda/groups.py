"""Puts the pieces of split messages together, those of one connection and direction; all that can grow is bounded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf

from msgspec.structs import replace

from ...codec.walk import read_signature
from ...protocols.ceda.messages import GROUP, FirstPiece, NextPiece
from ...spec.declare import Cell
from .data import MAX_BLOB, Blob, Message, octets, without
from .wire import CEDA4_WS, GROUP_PUB, PUBLISH, layout_of

OVERHEAD = 1024
"""What a group takes beside its pieces, roughly."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    blob: int = MAX_BLOB
    groups: int = 256
    held: int = 64 << 20
    all_held: int = 256 << 20
    """Of all connections together."""
    quiet_seconds: float = 60.0


@dataclass(slots=True)
class Group:
    """A message of which some pieces have come."""

    first: Message
    head: FirstPiece
    pieces: list[bytes] = field(default_factory=list)
    held: int = 0
    last: float = 0.0

    @property
    def size(self) -> int:
        return self.held + len(self.first.body) + OVERHEAD


@dataclass(slots=True)
class Pool:
    """What the groups of all connections take."""

    held: int = 0


@dataclass(slots=True, eq=False)
class Merger:
    """One message after the other goes in; whole ones come out. ``counts`` is told what is dropped."""

    limits: GroupLimits
    counts: Counter[str]
    pool: Pool = field(default_factory=Pool)
    open: dict[tuple[int, str], Group] = field(default_factory=dict)
    held: int = 0

    def clear(self) -> None:
        """Give back everything: nobody goes on with it."""
        for key in list(self.open):
            self._take_out(key)

    def take(self, message: Message, dialect: str, now: float) -> Message | None:
        """The message itself if it is no piece; the whole one if this was its last piece; else None."""
        body = message.body
        if message.is_bad or (message.code == PUBLISH and not self.open):
            return message
        if b"\x0e\0" not in body and b"\x0f\0" not in body:
            return message
        piece = read_signature(GROUP, layout_of(CEDA4_WS), (Cell(GROUP.fid, "BYTES", octets(body, GROUP.fid)),))
        match piece:
            case FirstPiece() if message.code != PUBLISH:
                return self._begin(message, piece, _key(message, dialect), now)
            case NextPiece(index=index):
                is_plain = message.code == PUBLISH
                key = self._published(message.topic, index) if is_plain else _key(message, dialect)
                if key is not None:
                    return self._go_on(message, piece, key, now)
        return message

    def expire(self, now: float) -> float:
        """Drops groups that got nothing for too long; gives when to look again."""
        quiet = self.limits.quiet_seconds
        for key, group in list(self.open.items()):
            if now - group.last >= quiet:
                self._drop(key, "groups_expired")
        return min((group.last for group in self.open.values()), default=inf) + quiet

    def _published(self, topic: str, index: int) -> tuple[int, str] | None:
        """The group that a Java client goes on with by plain publishes: it does so after the first piece."""
        begun = [key for key, one in self.open.items() if one.first.code == GROUP_PUB and one.first.topic == topic]
        waiting = [key for key in begun if len(self.open[key].pieces) == index]
        return (waiting or begun)[-1] if begun else None

    def _begin(self, message: Message, piece: FirstPiece, key: tuple[int, str], now: float) -> Message | None:
        if key in self.open:
            self._drop(key, "groups_restarted")
        limits, position = self.limits, piece.position
        if piece.count < 1 or not 0 <= piece.total_length <= limits.blob or not 1 <= position <= 4094:
            self.counts["groups_refused"] += 1
            return None
        if len(self.open) >= limits.groups:
            self.expire(now)
        if len(self.open) >= limits.groups:
            self.counts["groups_refused"] += 1
            return None
        group = Group(replace(message, body=without(message.body, 0, position)), piece)
        self.open[key] = group
        self.pool.held += group.size
        return self._add(key, octets(message.body, position), piece.piece_length, now)

    def _go_on(self, message: Message, piece: NextPiece, key: tuple[int, str], now: float) -> Message | None:
        group = self.open.get(key)
        if group is not None and now - group.last >= self.limits.quiet_seconds:
            self._drop(key, "groups_expired")
            group = None
        if group is None or piece.index != len(group.pieces):
            if group is not None:
                self._drop(key, "groups_out_of_order")
            self.counts["pieces_dropped"] += 1
            return None
        return self._add(key, octets(message.body, group.head.position), piece.piece_length, now)

    def _add(self, key: tuple[int, str], data: bytes | None, length: int, now: float) -> Message | None:
        group = self.open[key]
        if data is None or len(data) != length or group.held + length > group.head.total_length:
            self._drop(key, "groups_broken")
            return None
        if self.held + length > self.limits.held or self.pool.held + length > self.limits.all_held:
            self._drop(key, "groups_refused")
            return None
        group.pieces.append(data)
        group.held += length
        group.last = now
        self.held += length
        self.pool.held += length
        if len(group.pieces) < group.head.count:
            return None
        if group.held != group.head.total_length:
            self._drop(key, "groups_broken")
            return None
        self._take_out(key)
        self.counts["groups_merged"] += 1
        whole = Blob(group.head.position, b"".join(group.pieces))
        return replace(group.first, blob=whole, pieces=group.head.count)

    def _drop(self, key: tuple[int, str], why: str) -> None:
        self._take_out(key)
        self.counts[why] += 1

    def _take_out(self, key: tuple[int, str]) -> None:
        group = self.open.pop(key)
        self.held -= group.held
        self.pool.held -= group.size


def _key(message: Message, dialect: str) -> tuple[int, str]:
    """What the pieces of one message share. The type too, so that a reply never goes on with a request."""
    is_keyed = message.code == GROUP_PUB and dialect == CEDA4_WS
    return message.code, message.reply_topic if is_keyed else message.topic
