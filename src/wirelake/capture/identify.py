"""Identify the protocol of a connection by its first bytes; TLS and WebSocket are recognised on the way.

A candidate says yes if the first frame is whole and clean, no if it cannot be one, and waits otherwise. The decision
falls when no candidate waits: it depends on the bytes and on the order of the packets, not on where a window of the
capture ends. The protocol is that of the connection, so either direction may decide.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Literal, NamedTuple

from ..codec.detect import is_clean
from ..codec.frame import Buffer, code_width, measure, plausible, read_code
from ..codec.stream import Decoded, Readings, StreamDecoder, torn
from ..errors import DecodeError, Incomplete
from ..spec import nodes as n
from ..spec.resolve import Layout
from . import websocket as ws
from .protocol_reader import ProtocolReader

LIMIT = 1 << 16
"""The decision falls within this many bytes of a direction. A frame that claims more is judged by its header alone."""
_SEARCHED_BYTES = (1 << 10, 1 << 12, 1 << 14, LIMIT)
"""How many bytes are searched in each attempt, where the beginning of the stream is not known."""
_ENOUGH_MESSAGES = 2
"""Messages that prove a protocol in the middle of a stream."""

_TLS_HANDSHAKE = (range(0x16, 0x17), range(3, 4), range(5), range(0x42), range(256), range(1, 3))
"""The first bytes of TLS: type and version of the record, its length, type of the handshake message."""
_TLS_OR_HTTP = b"\x16GH"
"""How TLS and HTTP begin."""


class Kind(IntEnum):
    """What a connection is."""

    UNDECIDED = 0
    PLAIN = 1
    WEBSOCKET = 2
    ENCRYPTED = 3
    FOREIGN = 4


class Decision(NamedTuple):
    kind: Kind
    protocol: str = ""


Verdict = Decision | bool | None
"""A decision, False if there is none to expect, None while more bytes are needed."""
FOREIGN, ENCRYPTED = Decision(Kind.FOREIGN), Decision(Kind.ENCRYPTED)


@dataclass(frozen=True)
class Candidates:
    """The protocols that come into question, in the order of preference."""

    plain: Mapping[str, ProtocolReader]
    websocket: Mapping[str, ProtocolReader]


@dataclass(slots=True)
class Head:
    """The first bytes of one direction. ``is_begun``: the stream begins with them."""

    is_begun: bool
    head: bytearray = field(default_factory=bytearray)
    seen: int = 0
    attempts: int = 0
    is_ruled_out: bool = False


@dataclass(slots=True)
class Identifier:
    """Decides about one connection. ``assigned`` is the protocol if the user, the capture or the port names it;
    ``is_websocket_port``: that port is for WebSocket.
    """

    is_whole: bool
    assigned: str = ""
    is_websocket_port: bool = False
    heads: tuple[Head, ...] = ()

    def copy(self) -> Identifier:
        return replace(self, heads=tuple(replace(head, head=bytearray(head.head)) for head in self.heads))

    def at_once(self) -> Decision | None:
        """Return what can be decided without a byte."""
        if self.assigned and not self.is_whole:
            return Decision(Kind.WEBSOCKET if self.is_websocket_port else Kind.PLAIN, self.assigned)
        return None

    def is_plain(self, first: int) -> bool:
        """Return whether the very first byte of a connection is enough: it is neither TLS nor HTTP."""
        return bool(self.assigned) and not self.heads and first not in _TLS_OR_HTTP

    def add(self, direction: int, data: bytes | None, candidates: Candidates) -> Decision | None:
        """Look at a chunk, or at a gap (None); return the decision if that is enough for one."""
        self.heads = self.heads or (Head(self.is_whole), Head(self.is_whole))
        head = self.heads[direction]
        if data is None:
            return self._gap(head, direction, candidates)
        head.seen += len(data)
        if len(head.head) < 2 * LIMIT and not head.is_ruled_out:
            head.head += data
        return self._decide(head, direction, candidates, final=False)

    def end(self, candidates: Candidates) -> Decision:
        """Decide with what there is: no more comes."""
        for direction, head in enumerate(self.heads):
            if head.head and not head.is_ruled_out:
                decision = self._decide(head, direction, candidates, final=True)
                if decision is not None and decision.kind != Kind.FOREIGN:
                    return decision
        return Decision(Kind.PLAIN, self.assigned) if self.assigned else FOREIGN

    def _gap(self, head: Head, direction: int, candidates: Candidates) -> Decision | None:
        has_bytes = bool(head.head) and not head.is_ruled_out
        decision = self._decide(head, direction, candidates, final=True) if has_bytes else None
        head.is_begun, head.is_ruled_out, head.attempts = False, False, 0
        head.head.clear()
        if decision is None or decision.kind == Kind.FOREIGN:
            return Decision(Kind.PLAIN, self.assigned) if self.assigned else None
        return decision

    def _decide(self, head: Head, direction: int, candidates: Candidates, final: bool) -> Decision | None:
        if not head.is_ruled_out:
            verdict = self._look(head, candidates, final)
            if isinstance(verdict, Decision):
                return verdict
            head.is_ruled_out = verdict is False
        if not head.is_ruled_out:
            return None
        head.head.clear()
        other = self.heads[1 - direction]
        return FOREIGN if other.is_ruled_out or head.seen > LIMIT else None

    def _look(self, side: Head, candidates: Candidates, final: bool) -> Verdict:
        if not side.is_begun:
            return self._search(side, candidates, final)
        head = side.head
        encrypted = is_tls(head)
        if encrypted:
            return ENCRYPTED
        upgrade = _websocket(head)
        if upgrade:
            return self._within_websocket(upgrade, head, candidates, final)
        if (encrypted is None or upgrade is None) and not final:
            return None
        if self.assigned:
            return Decision(Kind.PLAIN, self.assigned)
        verdicts = ((name, begins_with_frame(reader.readings, head)) for name, reader in candidates.plain.items())
        return _preferred(verdicts, Kind.PLAIN, final)

    def _within_websocket(self, upgrade: _Upgrade, head: bytearray, candidates: Candidates, final: bool) -> Verdict:
        """Decide by what the WebSocket messages carry."""
        if self.assigned:
            return Decision(Kind.WEBSOCKET, self.assigned)
        for name, reader in candidates.websocket.items():
            if upgrade.path in reader.protocol.captured.websocket_paths:
                return Decision(Kind.WEBSOCKET, name)
        raw = bytes(head[upgrade.size :])
        verdicts = ((name, _carries(reader, raw)) for name, reader in candidates.websocket.items())
        return _preferred(verdicts, Kind.WEBSOCKET, final)

    def _search(self, side: Head, candidates: Candidates, final: bool) -> Verdict:
        """Look for messages in the middle of a stream: two of them decide."""
        if self.assigned:
            return Decision(Kind.PLAIN, self.assigned)
        while side.attempts < len(_SEARCHED_BYTES):
            size = _SEARCHED_BYTES[side.attempts]
            if len(side.head) < size and not final:
                return None
            side.attempts += 1
            for name, reader in candidates.plain.items():
                if _has_messages(reader.readings, bytes(side.head[:size])):
                    return Decision(Kind.PLAIN, name)
        return False


def _preferred(verdicts: Iterable[tuple[str, bool | None]], kind: Kind, final: bool) -> Verdict:
    """Return the first candidate that says yes, unless one still waits."""
    by_name = dict(verdicts)
    if None in by_name.values() and not final:
        return None
    yes = next((name for name, verdict in by_name.items() if verdict), None)
    return Decision(kind, yes) if yes is not None else False


# --- what first bytes show


def begins_with_frame(readings: Readings, head: Buffer) -> bool | None:
    """Return whether a whole, clean frame begins here; None: too few bytes to tell."""
    verdicts = [_begins_with_frame(layout, readings, head) for layout in readings.choices]
    return True if True in verdicts else None if None in verdicts else False


def _begins_with_frame(layout: Layout, readings: Readings, head: Buffer) -> bool | None:
    end = len(head)
    if not _known_code(layout, head):
        return False
    try:
        header = measure(layout, head, 0, end)
    except Incomplete:
        return None
    except DecodeError:
        return False
    verdict = plausible(layout, head, 0, end)
    if not verdict or header.length > LIMIT:
        return verdict
    if header.length > end:
        return None
    try:
        return is_clean(readings.codec(layout).decode(bytes(head[: header.length])))
    except DecodeError:
        return False


def _known_code(layout: Layout, head: Buffer) -> bool:
    """Return whether the code, if all headers begin with one, is that of a message."""
    part = layout.frame.parts[0]
    if (
        not isinstance(part, n.Code)
        or not layout.has_plain_codes
        or layout.others
        or not isinstance(part.wire, n.Int | n.Bits)
    ):
        return True
    return len(head) < code_width(part.wire) or read_code(part.wire, head, 0) in layout.by_code


def _has_messages(readings: Readings, data: bytes) -> bool:
    decoder = StreamDecoder.of(readings, lost=torn())
    decoder.push(data)
    messages = 0
    while messages < _ENOUGH_MESSAGES and (events := decoder.advance(most=_ENOUGH_MESSAGES - messages)):
        messages += sum(isinstance(event, Decoded) for event in events)
    return messages >= _ENOUGH_MESSAGES


def is_tls(head: Buffer) -> bool | None:
    """Return whether a TLS handshake begins here; None: too few bytes to tell."""
    if any(byte not in allowed for byte, allowed in zip(head, _TLS_HANDSHAKE, strict=False)):
        return False
    return True if len(head) >= len(_TLS_HANDSHAKE) else None


class _Upgrade(NamedTuple):
    """An HTTP head that asks for a WebSocket or grants it."""

    path: str
    size: int


def _websocket(head: Buffer) -> _Upgrade | Literal[False] | None:
    """Return the WebSocket upgrade that begins here, False if there is none, None: too few bytes to tell."""
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


def _carries(reader: ProtocolReader, raw: bytes) -> bool | None:
    """Return whether the first WebSocket message in these bytes begins as this protocol does."""
    carries = reader.protocol.captured.websocket
    if carries == "frames":
        return begins_with_frame(reader.readings, raw)
    is_client = len(raw) > 1 and bool(raw[1] & 0x80)
    unwrapper = ws.Unwrapper(carries, is_client, ws.UnwrapperState("frames"))
    first, is_whole = b"", False
    for piece in unwrapper.feed(raw):
        if piece.lost:
            return False
        first += piece.data
        is_whole = is_whole or piece.ends_message
        if is_whole and carries == "message":
            break
    if carries == "stream":
        return begins_with_frame(reader.readings, first)
    if not is_whole:
        return None if len(first) < LIMIT else False
    try:
        return is_clean(reader.readings.codec(reader.readings.fallback).decode(first))
    except DecodeError:
        return False
