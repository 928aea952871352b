"""Take HTTP heads and frame headers off WebSocket streams, so that the bytes of the protocol are left.

One ``Unwrapper`` per direction takes chunks and gives pieces. It never waits for a whole frame, so what it keeps is a
header at most. Where it cannot follow frames (bytes are missing, or are no WebSocket frames), it gives the raw bytes
as lost until a chunk begins with a frame again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from ..codec.frame import apply_mask

MAX_HEAD = 1 << 16
"""Longer HTTP heads are not read."""
_TEXT, _BINARY, _CONTROL = 1, 2, 8
_OPCODES = frozenset((0, _TEXT, _BINARY, 8, 9, 10))
_FIN, _MASKED = 0x80, 0x80

Carries = Literal["", "stream", "message", "frames"]


class Piece(NamedTuple):
    """Bytes of the protocol. ``ends_message``: a WebSocket message ends here. ``lost``: they are in no frame."""

    data: bytes
    ends_message: bool = False
    lost: bool = False


@dataclass(slots=True)
class UnwrapperState:
    """Where an unwrapper is in its stream: plain values."""

    phase: Literal["head", "frames", "lost"] = "head"
    partial: bytes = b""
    """The beginning of an HTTP head or of a frame's header."""
    left: int = 0
    """Bytes of the present frame that are still to come."""
    key: bytes = b""
    unmasked: int = 0
    """Bytes of the present frame that the key was applied to."""
    is_last: bool = False
    is_control: bool = False


class Unwrapper:
    """One direction of a WebSocket connection. ``carries`` says what is left of it, as in the declaration."""

    def __init__(self, carries: Carries, is_client: bool, state: UnwrapperState | None = None) -> None:
        self.carries = carries
        self.is_client = is_client
        self.state = replace(state) if state is not None else UnwrapperState()
        self._envelope_bytes = 0

    def take_envelope_bytes(self) -> int:
        """Return how many bytes belonged to no message of the protocol, since the last call."""
        count, self._envelope_bytes = self._envelope_bytes, 0
        return count

    def feed(self, data: bytes) -> list[Piece]:
        """Return the pieces that a chunk brings."""
        state = self.state
        data, state.partial = state.partial + data, b""
        pieces: list[Piece] = []
        at = self._head(data) if state.phase == "head" else 0
        if state.phase == "lost" and self._resumes(data, at):
            state.phase, state.left = "frames", 0
        while state.phase == "frames" and at < len(data):
            if state.left:
                at = self._payload(data, at, pieces)
                continue
            behind = self._header(data, at, pieces)
            if not behind:
                break
            at = behind
        if state.phase == "lost" and at < len(data):
            pieces.append(Piece(data[at:], lost=True))
        return pieces

    def gap(self) -> None:
        """Give up the present frame: bytes are missing."""
        self.finish()
        self.state.left, self.state.phase = 0, "lost"

    def finish(self) -> None:
        """Count what was kept as envelope: nothing more comes."""
        self._envelope_bytes += len(self.state.partial)
        self.state.partial = b""

    # --- HTTP

    def _head(self, data: bytes) -> int:
        """Return the position behind the HTTP head; the length of the data if it is not all there."""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4 and len(data) <= MAX_HEAD:
            self.state.partial = data
            return len(data)
        if end < 4 or not is_upgrade(data[:end]):
            self.state.phase = "lost"
            return 0
        self.state.phase = "frames"
        self._envelope_bytes += end
        return end

    # --- frames

    def _header(self, data: bytes, at: int, pieces: list[Piece]) -> int:
        """Read the header at ``at``; return the position behind it, 0 if it is not all there or none."""
        state, header = self.state, read_header(data, at)
        if header is None:
            state.partial = data[at:]
            return 0
        if header.length < 0:
            state.phase, state.left = "lost", 0
            return 0
        state.is_control, state.is_last = header.opcode >= _CONTROL, header.is_last
        state.left, state.key, state.unmasked = header.length, header.key, 0
        behind = at + header.size
        if self.carries == "frames" and not state.is_control:
            # The protocol reads the header itself; what follows is passed on as it is.
            pieces.append(Piece(data[at:behind], ends_message=not state.left))
            state.key = b""
        else:
            self._envelope_bytes += header.size
            if not state.left and not state.is_control and state.is_last:
                pieces.append(Piece(b"", ends_message=True))
        return behind

    def _payload(self, data: bytes, at: int, pieces: list[Piece]) -> int:
        state = self.state
        taken = data[at : at + state.left]
        state.left -= len(taken)
        if state.is_control:
            self._envelope_bytes += len(taken)
        else:
            if state.key:
                turn = state.unmasked % 4
                state.unmasked += len(taken)
                taken = apply_mask(taken, state.key[turn:] + state.key[:turn])
            pieces.append(Piece(taken, ends_message=not state.left and state.is_last))
        return at + len(taken)

    def _resumes(self, data: bytes, at: int) -> bool:
        """Return whether a frame seems to begin here: a header as this side writes it, and another one behind it, or
        the end of the chunk at or within the frame.
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
    """The header of a frame; a length of -1 says that there is none."""

    size: int
    length: int
    opcode: int
    is_last: bool
    key: bytes


_NONE = Header(0, -1, 0, False, b"")


def read_header(data: bytes, at: int) -> Header | None:
    """Return the header at ``at``; None while it is not all there."""
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
    """Return whether this HTTP head asks for a WebSocket, or grants one."""
    first, *lines = head.split(b"\r\n")
    if not first.startswith((b"GET ", b"HTTP/1.1 101")):
        return False
    fields = {name.strip().lower(): value.strip().lower() for name, _, value in (x.partition(b":") for x in lines)}
    return b"websocket" in fields.get(b"upgrade", b"")


def path_of(head: bytes) -> str:
    """Return the path that a request asks for; empty if it is none."""
    words = head.split(b"\r\n", 1)[0].split(b" ")
    return words[1].partition(b"?")[0].decode("latin-1") if words[0] == b"GET" and len(words) > 1 else ""
