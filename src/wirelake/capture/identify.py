"""Which protocol a connection speaks, found from its first bytes; TLS and WebSocket are recognised on the way.

A candidate says yes if the first frame is whole and clean, no if it cannot be one, and waits otherwise. The decision
falls when nobody waits: it depends on the bytes and on the order of the packets, not on where a window of the capture
ends. The protocol is that of the connection, so either direction may decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

from ..codec.detect import is_clean
from ..codec.frame import Buffer, measure, plausible, read_int
from ..codec.stream import Decoded, Readings, StreamDecoder, torn
from ..errors import DecodeError, Incomplete
from ..spec import nodes as n
from ..spec.resolve import Layout
from . import websocket as ws
from .protocol_reader import ProtocolReader

LIMIT = 1 << 16
"""A decision falls within so many bytes of a direction. A frame that claims more is judged by its header alone."""
_TRIES = (1 << 10, 1 << 12, 1 << 14, LIMIT)
"""How many bytes are searched, where the beginning is not known, before the next try."""
_ENOUGH = 2
"""Messages that prove a protocol in the middle of a stream."""

_OTHERS = b"\x16GH"
"""How TLS and HTTP begin."""

Kind = Literal["plain", "websocket", "encrypted", "foreign"]


class Decision(NamedTuple):
    kind: Kind
    protocol: str = ""


Answer = Decision | bool | None
"""A decision, False if there is none, None while it cannot be told."""
FOREIGN = Decision("foreign")
ENCRYPTED = Decision("encrypted")


@dataclass(frozen=True)
class Candidates:
    """The protocols that come into question, in the order of preference."""

    plain: Mapping[str, ProtocolReader]
    websocket: Mapping[str, ProtocolReader]


@dataclass(slots=True)
class _Side:
    """One direction: its first bytes, and whether they are the first at all."""

    is_begun: bool
    head: bytearray = field(default_factory=bytearray)
    seen: int = 0
    tried: int = 0
    said_no: bool = False


@dataclass(slots=True)
class Chooser:
    """Decides about one connection. ``assigned`` is the protocol if the user, the capture or the port says it;
    ``is_websocket_port``: that port is for WebSocket.
    """

    is_whole: bool
    assigned: str = ""
    is_websocket_port: bool = False
    sides: tuple[_Side, ...] = ()

    def copy(self) -> Chooser:
        made = replace(self)
        made.sides = tuple(replace(side, head=bytearray(side.head)) for side in self.sides)
        return made

    def at_once(self) -> Decision | None:
        """What can be said without a byte."""
        if self.assigned and not self.is_whole:
            return Decision("websocket" if self.is_websocket_port else "plain", self.assigned)
        return None

    def is_plain(self, first: int) -> bool:
        """Whether the very first byte of a connection is enough: it is neither TLS nor HTTP."""
        return bool(self.assigned) and not self.sides and first not in _OTHERS

    def add(self, direction: int, data: bytes | None, candidates: Candidates) -> Decision | None:
        """Looks at a chunk, or at a gap (None); a decision if that is enough for one."""
        self.sides = self.sides or (_Side(self.is_whole), _Side(self.is_whole))
        side = self.sides[direction]
        if data is None:
            return self._gap(side, direction, candidates)
        side.seen += len(data)
        if len(side.head) < 2 * LIMIT and not side.said_no:
            side.head += data
        return self._decide(side, direction, candidates, final=False)

    def end(self, candidates: Candidates) -> Decision:
        """No more comes."""
        for direction, side in enumerate(self.sides):
            if side.head and not side.said_no:
                decision = self._decide(side, direction, candidates, final=True)
                if decision is not None and decision.kind != "foreign":
                    return decision
        return Decision("plain", self.assigned) if self.assigned else FOREIGN

    def _gap(self, side: _Side, direction: int, candidates: Candidates) -> Decision | None:
        decision = self._decide(side, direction, candidates, final=True) if side.head and not side.said_no else None
        side.is_begun, side.said_no, side.tried = False, False, 0
        side.head.clear()
        if decision is None or decision.kind == "foreign":
            return Decision("plain", self.assigned) if self.assigned else None
        return decision

    def _decide(self, side: _Side, direction: int, candidates: Candidates, final: bool) -> Decision | None:
        if not side.said_no:
            found = self._look(side, direction, candidates, final)
            if isinstance(found, Decision):
                return found
            side.said_no = found is False
        if not side.said_no:
            return None
        side.head.clear()
        other = self.sides[1 - direction]
        return FOREIGN if other.said_no or side.seen > LIMIT else None

    def _look(self, side: _Side, direction: int, candidates: Candidates, final: bool) -> Answer:
        """A decision, False if this direction shows none of the protocols, or None: wait for more bytes."""
        if not side.is_begun:
            return self._search(side, candidates, final)
        head = side.head
        encrypted = is_tls(head)
        if encrypted:
            return ENCRYPTED
        upgrade = _websocket(head)
        if upgrade:
            return self._within(upgrade, head, candidates, final)
        if (encrypted is None or upgrade is None) and not final:
            return None
        if self.assigned:
            return Decision("plain", self.assigned)
        return _first(((name, verdict(way.readings, head)) for name, way in candidates.plain.items()), "plain", final)

    def _within(self, upgrade: _Upgrade, head: bytearray, candidates: Candidates, final: bool) -> Answer:
        """The protocol within WebSocket messages."""
        if self.assigned:
            return Decision("websocket", self.assigned)
        for name, way in candidates.websocket.items():
            if upgrade.path in way.protocol.captured.websocket_paths:
                return Decision("websocket", name)
        raw = bytes(head[upgrade.size :])
        answers = ((name, _carried(way, raw)) for name, way in candidates.websocket.items())
        return _first(answers, "websocket", final)

    def _search(self, side: _Side, candidates: Candidates, final: bool) -> Answer:
        """Looks for messages in the middle of a stream: two of them decide."""
        if self.assigned:
            return Decision("plain", self.assigned)
        while side.tried < len(_TRIES):
            size = _TRIES[side.tried]
            if len(side.head) < size and not final:
                return None
            side.tried += 1
            for name, way in candidates.plain.items():
                if _speaks(way.readings, bytes(side.head[:size])):
                    return Decision("plain", name)
        return False


def _first(answers: Iterator[tuple[str, bool | None]], kind: Kind, final: bool) -> Answer:
    told = dict(answers)
    if None in told.values() and not final:
        return None
    yes = next((name for name, answer in told.items() if answer), None)
    return Decision(kind, yes) if yes is not None else False


# --- what first bytes show


def verdict(readings: Readings, head: Buffer) -> bool | None:
    """Whether the first frame in ``head`` is one of these readings; None: too few bytes to tell."""
    answers = [_verdict(layout, readings, head) for layout in readings.choices]
    return True if True in answers else None if None in answers else False


def _verdict(layout: Layout, readings: Readings, head: Buffer) -> bool | None:
    end = len(head)
    if not _known_code(layout, head):
        return False
    try:
        header = measure(layout, head, 0, end)
    except Incomplete:
        return None
    except DecodeError:
        return False
    answer = plausible(layout, head, 0, end)
    if not answer or header.length > LIMIT:
        return answer
    if header.length > end:
        return None
    try:
        return is_clean(readings.codec(layout).decode(bytes(head[: header.length])))
    except DecodeError:
        return False


def _known_code(layout: Layout, head: Buffer) -> bool:
    """Whether the code, if the header begins with it, is one of a message."""
    part = layout.frame.parts[0]
    if not isinstance(part, n.Code) or len(head) < part.wire.size:
        return True
    return read_int(part.wire, head, 0) in layout.messages


def _speaks(readings: Readings, data: bytes) -> bool:
    decoder = StreamDecoder.of(readings, lost=torn())
    decoder.push(data)
    messages = 0
    while messages < _ENOUGH and (event := decoder.step()) is not None:
        messages += isinstance(event, Decoded)
    return messages >= _ENOUGH


def is_tls(head: Buffer) -> bool | None:
    """Whether a TLS handshake begins here; None: too few bytes to tell."""
    expected = (
        lambda b: b == 0x16,
        lambda b: b == 3,
        lambda b: b <= 4,
        lambda b: b <= 0x41,
        None,
        lambda b: b in (1, 2),
    )
    for at, holds in enumerate(expected):
        if at >= len(head):
            return None
        if holds is not None and not holds(head[at]):
            return False
    return True


class _Upgrade(NamedTuple):
    """An HTTP head that asks for a WebSocket or grants it."""

    path: str
    size: int


def _websocket(head: Buffer) -> _Upgrade | Literal[False] | None:
    """The WebSocket upgrade that begins here, False if there is none, None: too few bytes to tell."""
    for start in (b"GET ", b"HTTP/1.1 101"):
        if bytes(head[: len(start)]) == start[: len(head)]:
            break
    else:
        return False
    end = bytes(head[: ws.MAX_HEAD]).find(b"\r\n\r\n")
    if end < 0:
        return None if len(head) < ws.MAX_HEAD else False
    text = bytes(head[: end + 4])
    return _Upgrade(ws.path_of(text), end + 4) if ws.is_upgrade(text) else False


def _carried(way: ProtocolReader, raw: bytes) -> bool | None:
    """Whether the first WebSocket message in these bytes begins as this protocol does."""
    carries = way.protocol.captured.websocket
    if carries == "frames":
        return verdict(way.readings, raw)
    is_client = len(raw) > 1 and bool(raw[1] & 0x80)
    unwrapper = ws.Unwrapper(carries, is_client, phase="frames")
    first, is_whole = b"", False
    for piece in unwrapper.feed(raw):
        if piece.lost:
            return False
        first += piece.data
        is_whole = is_whole or piece.ends_message
        if is_whole and carries == "message":
            break
    if carries == "stream":
        return verdict(way.readings, first)
    if not is_whole:
        return None if len(first) < LIMIT else False
    try:
        return is_clean(way.readings.codec(way.readings.fallback).decode(first))
    except DecodeError:
        return False
