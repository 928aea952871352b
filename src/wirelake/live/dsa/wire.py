"""DSA messages as live connections read and write them.

Method and dynamic headers of messages repeat a lot: what the record codec has read once is found again by its bytes.
Everything else is put to the record codec, in ``compat`` mode, which reads it or names the broken rule. So there is one
set of rules. Bodies are bytes here: a broker forwards them unread.

An outgoing message has no ack id before it is written: ``Outgoing`` is stamped by the connection that writes it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec

from ...codec import codec_for, encode
from ...codec.content import read_msgpack, write_msgpack
from ...codec.quick_frames import QuickFrames
from ...errors import BadValue, DecodeError, EncodeError, LimitExceeded
from ...protocols import dsa as p
from ...protocols.dsa import Headers
from ...spec.resolve import layout

COMPAT = layout(p.PROTOCOL, mode="compat", frame_only=True)
_READ = codec_for(COMPAT).decode
_READ_WHOLE = codec_for(layout(p.PROTOCOL, mode="compat")).decode
_CLASSES: dict[int, Any] = {cls.__message__["code"]: cls for cls in p.PROTOCOL.messages}
NAMES: dict[int, str] = {code: cls.__message__["name"] for code, cls in _CLASSES.items()}
"""Names of methods, as the life cycle has them."""
_CARRIERS: dict[Any, Any] = {
    p.HandshakeF0: p.ClientHello,
    p.HandshakeF1: p.ServerHello,
    p.HandshakeF2: p.ClientProof,
    p.HandshakeF3: p.ServerProof,
}
_FRONT = struct.Struct("<IHBII")
_BEHIND_LENGTH = struct.Struct("<HBII")
_SHORT = struct.Struct("<IHB")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_WITH_BODY = frozenset((p.INVOKE, p.SET, p.SUB_R, p.LIST_R, p.INVOKE_R))
"""Methods below F0 that may have a body."""
MAX_KNOWN, MAX_KNOWN_BYTES = 4096, 256
"""How many headers are remembered, and how long they may be; then the memory starts anew."""

PING: Final = _SHORT.pack(p.SHORT_HEAD, p.SHORT_HEAD, p.PING)
REMOVED: Final = b""
"""The value of a pair whose key is gone."""
NULL: Final = b"\xc0"


class DsaTcp:
    """Messages back to back, which say themselves how long they are."""

    name = "dsa-tcp"

    def wrap(self, body: bytes) -> bytes:
        return body


DSA_TCP = DsaTcp()


class Received(msgspec.Struct, frozen=True, gc=False):
    """A message that came. A Close without ids has ``request_id`` 0; ``head`` are its dynamic headers as bytes."""

    method: int
    request_id: int
    ack_id: int
    headers: Headers
    head: bytes
    body: bytes

    def __repr__(self) -> str:
        """Show nothing that could be a secret: headers and bodies carry tokens."""
        return f"<{NAMES[self.method]} {self.request_id}>"

    @property
    def status(self) -> int:
        return self.headers.status or 0

    @property
    def page_id(self) -> int:
        return self.headers.page_id or 0


class Outgoing(msgspec.Struct, gc=False):
    """A message to be written. ``wants_ack``: its source hears when the peer has acknowledged it."""

    method: int
    request_id: int
    head: bytes = b""
    body: bytes = b""
    wants_ack: bool = False

    def __repr__(self) -> str:
        return f"<{NAMES[self.method]} {self.request_id}, {self.size} bytes>"

    @property
    def size(self) -> int:
        return p.LONG_HEAD + len(self.head) + len(self.body)

    def stamped(self, ack_id: int) -> bytes:
        """Return its bytes, with this ack id."""
        header = p.LONG_HEAD + len(self.head)
        front = _FRONT.pack(header + len(self.body), header, self.method, self.request_id, ack_id)
        return b"".join((front, self.head, self.body))


class Reader:
    """What one peer sends: a stream in any pieces becomes messages. Holds at most one frame."""

    __slots__ = ("_frames",)

    def __init__(self) -> None:
        self._frames = QuickFrames(COMPAT)

    def read(self, data: bytes, take: Callable[[Received], object]) -> None:
        """Call ``take`` for each message that is whole now, until it returns a true value. A DecodeError ends the
        stream: the rest of it cannot be read. Its excerpt has the fixed part of the frame, and never a token.
        """
        try:
            self._frames.read(data, _take, take)
        except LimitExceeded as error:
            if not error.excerpt:
                error.excerpt = _U32.pack(error.actual).hex(" ")
            raise


def _take(take: Callable[[Received], object], data: bytes, start: int, stop: int) -> object:
    try:
        message = read_frame(data, start, stop)
    except DecodeError as error:
        error.excerpt = data[start - 4 : min(start - 4 + p.LONG_HEAD, stop)].hex(" ")
        raise
    return take(message)


_known: dict[tuple[int, bytes], Headers] = {}


def read_frame(data: bytes, start: int, stop: int) -> Received:
    """Return the message that ends at ``stop``; ``start`` is behind its length."""
    if stop - start >= p.LONG_HEAD - 4:
        header, method, request_id, ack_id = _BEHIND_LENGTH.unpack_from(data, start)
        split = start - 4 + header
        head = data[start + 11 : split]
        headers = _known.get((method, head))
        if headers is not None and header >= p.LONG_HEAD and 0 < request_id <= p.MAX_REQUEST_ID and split <= stop:
            if split == stop:
                return Received(method, request_id, ack_id, headers, head, b"")
            if method in _WITH_BODY:
                return Received(method, request_id, ack_id, headers, head, data[split:stop])
    return _read_closely(data[start - 4 : stop])


def _read_closely(frame: bytes) -> Received:
    message = _READ(frame)
    method = type(message).__message__["code"]
    header = _U16.unpack_from(frame, 4)[0]
    head = frame[p.LONG_HEAD if header >= p.LONG_HEAD else p.SHORT_HEAD : header]
    if method < p.F0 and len(head) <= MAX_KNOWN_BYTES and message.request_id is not None:
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[method, head] = message.headers
    return Received(method, message.request_id or 0, message.ack_id or 0, message.headers, head, message.body or b"")


@lru_cache(maxsize=4096)
def write_headers(headers: Headers) -> bytes:
    """Return dynamic headers as they are written. EncodeError if they are too long."""
    message = p.ListRequest(request_id=1, ack_id=0, headers=headers)
    return encode(message, mode="compat", frame_only=True)[p.LONG_HEAD :]


def status_head(status: int) -> bytes:
    """Return the headers of a reply that has only a status: it is always written, since some peers need it."""
    return bytes((0, status))


OK: Final = status_head(0)


def control(method: int, body: bytes = b"") -> bytes:
    """Return a handshake message or an ack: without ids."""
    return _SHORT.pack(p.SHORT_HEAD + len(body), p.SHORT_HEAD, method) + body


def refusal(method: int, status: int) -> bytes:
    """Return an F1 or F3 that refuses by a status, in the long form that Java reads."""
    return Outgoing(method, 0, status_head(status)).stamped(0)


def ack(ack_id: int) -> bytes:
    return control(p.ACK, _U32.pack(ack_id))


def read_ack(message: Received) -> int:
    return int(_U32.unpack(message.body)[0])


def read_body(message: Received) -> Any:
    """Return the record of a handshake body; DecodeError if it is not exactly that."""
    return _READ_WHOLE(control(message.method, message.body)).handshake


def write_body(record: Any) -> bytes:
    """Return the body of a handshake message."""
    return encode(_CARRIERS[type(record)](handshake=record), mode="compat")[p.SHORT_HEAD :]


def is_closed(status: int) -> bool:
    """Whether a status ends its stream."""
    return status >= p.CLOSED_FROM


def plain_status(status: int) -> int:
    """Return a status as it counts in a reply: F0 to FF are reserved, and mean an internal error; 02 is C++'s word for
    a list that begins anew.
    """
    return 0x50 if status >= 0xF0 else 0x00 if status == 0x02 else status


def status_name(status: int) -> str:
    return p.STATUS.names.get(status) or f"status 0x{status:02x}"


# --- bodies


def write_value(value: Any, meta: dict[str, Any] | None = None) -> bytes:
    """Return a value body. EncodeError if the metadata is too long, or something is no MessagePack."""
    packed = write_msgpack(meta) if meta else b""
    if len(packed) > p.MAX_STRING:
        raise EncodeError(f"{len(packed)} bytes, at most {p.MAX_STRING}", rule="text_limit", path="value_meta")
    return _U16.pack(len(packed)) + packed + write_msgpack(value)


def read_value(body: bytes) -> tuple[Any, dict[str, Any]]:
    """Return value and metadata of a value body that is not empty. DecodeError says what is wrong with it."""
    if len(body) < 2:
        raise BadValue("2 bytes are needed, 1 left", rule="int_fits", path="value_meta", offset=0)
    behind = 2 + _U16.unpack_from(body)[0]
    if behind > len(body):
        raise BadValue(
            f"metadata of {behind - 2} bytes; {len(body) - 2} remain", rule="bytes_fits", path="value_meta", offset=0
        )
    meta = read_msgpack(body[2:behind], is_map=True) if behind > 2 else {}
    return (read_msgpack(body[behind:]) if behind < len(body) else None), meta


def write_pair(key: bytes, value: bytes) -> bytes:
    """Return a pair of a list: key, and value as MessagePack or REMOVED. EncodeError if either is too long."""
    if not 0 < len(key) <= p.MAX_STRING or len(value) > p.MAX_STRING:
        raise EncodeError(
            f"a key of {len(key)} bytes with a value of {len(value)}: 1 to {p.MAX_STRING} are allowed",
            rule="text_limit",
            path="entries",
        )
    return b"".join((_U16.pack(len(key)), key, _U16.pack(len(value)), value))


def split_pairs(body: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The keys and packed values of a list body, unread. DecodeError where lengths lead beyond the body."""
    at, end = 0, len(body)
    while at < end:
        start = at + 2
        if start > end or (stop := start + _U16.unpack_from(body, at)[0]) + 2 > end:
            raise BadValue("a key leads beyond the body", rule="text_fits", path="entries", offset=at)
        if stop == start:
            raise BadValue("an empty key", rule="text_empty", path="entries", offset=at)
        at = stop + 2 + _U16.unpack_from(body, stop)[0]
        if at > end:
            raise BadValue("a value leads beyond the body", rule="bytes_fits", path="entries", offset=stop)
        yield body[start:stop], body[stop + 2 : at]


def decode_text(data: bytes) -> str:
    """Return a text that is written back as the same bytes, UTF-8 or not."""
    return data.decode("utf-8", "surrogateescape")


def encode_text(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
