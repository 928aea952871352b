"""WebSocket connections: the HTTP part and the frames taken off, so that the bytes of the protocol are left.

One ``Unwrapper`` per direction. It is fed with chunks and gives pieces; it never waits for a whole frame, so that what
it keeps is a header at most. Where frames cannot be followed (bytes are missing, or they are no WebSocket frames), it
gives the raw bytes as lost until a chunk begins with a frame again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ..codec.frame import apply_mask

MAX_HEAD = 1 << 16
"""A longer HTTP head is none."""
_TEXT, _BINARY, _CONTROL = 1, 2, 8
_OPCODES = frozenset((0, _TEXT, _BINARY, 8, 9, 10))
_FIN, _MASKED = 0x80, 0x80

Carries = Literal["", "stream", "message", "frames"]


class Piece(NamedTuple):
    """Bytes of the protocol. ``ends_message``: behind them a WebSocket message ends. ``lost``: they are none."""

    data: bytes
    ends_message: bool = False
    lost: bool = False


@dataclass(slots=True)
class Unwrapper:
    """One direction of a WebSocket connection. ``carries`` says what is left of it, as in the declaration."""

    carries: Carries
    is_client: bool
    phase: Literal["head", "frames", "lost"] = "head"
    held: bytes = b""
    """The beginning of an HTTP head or of a frame's header."""
    left: int = 0
    """Bytes of the frame at hand that are still to come."""
    key: bytes = b""
    turned: int = 0
    is_last: bool = False
    is_control: bool = False
    envelope: int = 0
    """Bytes that belong to no message of the protocol. Whoever counts them sets it back."""

    def feed(self, data: bytes) -> list[Piece]:
        """The pieces that a chunk brings."""
        data, self.held = self.held + data, b""
        pieces: list[Piece] = []
        at = 0
        if self.phase == "head":
            at = self._head(data)
        if self.phase == "lost":
            if self._resumes(data, at):
                self.phase, self.left = "frames", 0
            elif data[at:]:
                pieces.append(Piece(data[at:], lost=True))
                return pieces
        while self.phase == "frames" and at < len(data):
            if self.left:
                at = self._payload(data, at, pieces)
                continue
            behind = self._header(data, at, pieces)
            if not behind:
                break
            at = behind
        if self.phase == "lost" and at < len(data):
            pieces.append(Piece(data[at:], lost=True))
        return pieces

    def gap(self) -> None:
        """Bytes are missing here: frames cannot be followed."""
        self.envelope += len(self.held)
        self.held, self.left, self.phase = b"", 0, "lost"

    def finish(self) -> list[Piece]:
        """Nothing more comes: what was kept is no message."""
        self.envelope += len(self.held)
        self.held = b""
        return []

    # --- HTTP

    def _head(self, data: bytes) -> int:
        end = data.find(b"\r\n\r\n")
        if end < 0:
            if len(data) > MAX_HEAD:
                self.phase = "lost"
            else:
                self.held = data
                return len(data)
            return 0
        self.phase = "frames" if is_upgrade(data[: end + 4]) else "lost"
        if self.phase == "lost":
            return 0
        self.envelope += end + 4
        return end + 4

    # --- frames

    def _header(self, data: bytes, at: int, pieces: list[Piece]) -> int:
        """Reads the header at ``at``; gives the position behind it, 0 if it is not all there or none."""
        header = read_header(data, at)
        if header is None:
            self.held = data[at:]
            return 0
        if header.length < 0:
            self.phase = "lost"
            pieces.append(Piece(data[at:], lost=True))
            self.phase, self.left = "lost", 0
            return len(data)
        self.is_control, self.is_last = header.opcode >= _CONTROL, header.is_last
        self.left, self.key, self.turned = header.length, header.key, 0
        behind = at + header.size
        if self.carries == "frames" and not self.is_control:
            # The protocol reads the header itself; what follows is passed on as it is.
            pieces.append(Piece(data[at:behind], ends_message=not self.left))
            self.key = b""
        else:
            self.envelope += header.size
            if not self.left and not self.is_control and self.is_last:
                pieces.append(Piece(b"", ends_message=True))
        return behind

    def _payload(self, data: bytes, at: int, pieces: list[Piece]) -> int:
        taken = data[at : at + self.left]
        self.left -= len(taken)
        if self.is_control:
            self.envelope += len(taken)
        else:
            if self.key:
                turn = self.turned % 4
                self.turned += len(taken)
                taken = apply_mask(taken, self.key[turn:] + self.key[:turn])
            pieces.append(Piece(taken, ends_message=not self.left and self.is_last))
        return at + len(taken)

    def _resumes(self, data: bytes, at: int) -> bool:
        """Whether a frame seems to begin here: a header as this side writes it, and another one behind it, or the end
        of the chunk at or within the frame.
        """
        steps = 0
        while at < len(data) and steps < 3:
            header = read_header(data, at)
            if header is None:
                return steps > 0
            if header.length < 0 or bool(header.key) != self.is_client or (header.opcode == 0 and not steps):
                return False
            at += header.size + header.length
            steps += 1
        return steps > 0


class Header(NamedTuple):
    """A frame's header; a length of -1 says that it is none."""

    size: int
    length: int
    opcode: int
    is_last: bool
    key: bytes


_NONE = Header(0, -1, 0, False, b"")


def read_header(data: bytes, at: int) -> Header | None:
    """The header at ``at``; None while it is not all there."""
    available = len(data) - at
    if available < 1:
        return None
    opcode = data[at] & 0x0F
    if data[at] & 0x70 or opcode not in _OPCODES:
        return _NONE
    if available < 2:
        return None
    length, size = data[at + 1] & 0x7F, 2
    if length >= 126:
        wide = 2 if length == 126 else 8
        size += wide
        if available < size:
            return None
        length = int.from_bytes(data[at + 2 : at + 2 + wide], "big")
        if length < (126 if wide == 2 else 1 << 16) or length >= 1 << 63:
            return _NONE
    if opcode >= _CONTROL and (length > 125 or not data[at] & _FIN):
        return _NONE
    key = b""
    if data[at + 1] & _MASKED:
        size += 4
        if available < size:
            return None
        key = data[at + size - 4 : at + size]
    return Header(size, length, opcode, bool(data[at] & _FIN), key)


def is_upgrade(head: bytes) -> bool:
    """Whether this HTTP head asks for a WebSocket, or grants one."""
    first, *lines = head.split(b"\r\n")
    if not first.startswith((b"GET ", b"HTTP/1.1 101")):
        return False
    fields = {name.strip().lower(): value.strip().lower() for name, _, value in (x.partition(b":") for x in lines)}
    return b"websocket" in fields.get(b"upgrade", b"")


def path_of(head: bytes) -> str:
    """What a request asks for."""
    words = head.split(b"\r\n", 1)[0].split(b" ")
    return words[1].partition(b"?")[0].decode("latin-1") if words[0] == b"GET" and len(words) > 1 else ""
