"""Data messages of CEDA as sessions handle them: the header in parts, the record as bytes, a blob beside it.

A blob is cut into pieces when it is written, and put together again by ``groups``. Records are checked without being
read, taken apart as bytes, and written from plain values.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache, cached_property, lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace

from ...codec.quick_heads import QuickHead
from ...codec.quick_records import record_checker, record_cutter
from ...codec.records import by_id, cells_writer
from ...errors import DecodeError, EncodeError
from ...protocols.ceda import EXTENDED, PIECE, RECORD, UNASSIGNED
from ...spec.declare import Cell
from .wire import CEDA4_WS, GROUP_PUB, NAMES, P2P, PUBLISH, REPLY, check_sendable, decode_payload, layout_of

MAX_BLOB = 10_240_000
MAX_KEY = 200
MAX_KEYS = 500_000
FIRST, NEXT = struct.Struct("<Bhhihi"), struct.Struct("<Bhi")
"""Signatures of the first piece of a blob, and of the others."""
Record = Mapping[int, Any] | Iterable[Cell]
"""Values by number (int, float, str, bytes, None), or cells where the exact types matter."""

_KINDS = {str: "STRING", float: "DOUBLE", type(None): "NONE"}
is_record, cells = record_checker(RECORD), record_cutter(RECORD)


class Blob(msgspec.Struct, frozen=True):
    """Bytes that are too long for a record, with the number of their field."""

    position: int
    data: bytes


class Message(msgspec.Struct, frozen=True, dict=True):
    """A received message: ``record`` has its values by number, ``cells`` with their exact types and in their order.

    ``body`` is the record as it came, less what belongs to the ``blob``; ``error`` says what is wrong with it if it is
    undecodable (``is_bad``). ``pieces``: from how many messages it was put together. ``is_image``: it tells how things
    were before we came. ``generation``: on which of our connections it came.
    """

    code: int
    topic: str
    body: bytes
    connection_id: int = UNASSIGNED
    server_id: str = ""
    signal_id: str = ""
    reply_topic: str = ""
    blob: Blob | None = None
    pieces: int = 1
    is_bad: bool = False
    is_image: bool = False
    generation: int = 0
    charset: str = "utf-8"
    errors: str = "strict"

    def __repr__(self) -> str:
        return f"Message(topic={self.topic!r}, record={self.record!r})"

    @property
    def kind(self) -> str:
        """publish, request, reply, p2p or group_pub."""
        return NAMES[self.code]

    @property
    def size(self) -> int:
        """Bytes of the record and the blob."""
        return len(self.body) + (len(self.blob.data) if self.blob is not None else 0)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The typed values in the order in which they came; none where the record is wrong."""
        if self.is_bad:
            return ()
        message = self._decoded()
        blob = () if self.blob is None else (Cell(self.blob.position, "BYTES", self.blob.data),)
        return (*message.record, *blob)

    @property
    def record(self) -> dict[int, Any]:
        """The values by number; of equal numbers the last one counts. A blob is among them."""
        return by_id(self.cells)

    @cached_property
    def error(self) -> DecodeError | None:
        """What is wrong with the record; its offset counts from the start of the body."""
        if self.is_bad:
            try:
                self._decoded()
            except DecodeError as error:
                if error.offset is not None:
                    error.offset -= 4 if len(self.body) + 2 < EXTENDED else 6
                return error
        return None

    def _decoded(self) -> Any:
        return decode_payload(b"\x61\x00" + self.body, CEDA4_WS, self.charset, self.errors)


class BadMessage(Exception):
    """The part before the record is wrong; the record codec knows how."""


def read_data(payload: bytes, dialect: str, charset: str = "utf-8", errors: str = "strict") -> Message:
    """The message in the payload of a data type. The record is not looked at."""
    code = payload[0]
    try:
        found = _head(dialect, code).read(payload)
    except (IndexError, UnicodeDecodeError):
        raise BadMessage from None
    at, topic = found[:2]
    if code == PUBLISH:  # the commonest, and a call with just what it has is quicker
        return Message(code, topic, payload[at:], charset=charset, errors=errors)
    return Message(code, topic, payload[at:], *found[2:], charset=charset, errors=errors)  # type: ignore[misc]


def names(message: Message) -> tuple[bytes, ...]:
    """The names in the header of a message, in wire order."""
    return tuple(getattr(message, name).encode() for name in _head(CEDA4_WS, message.code).texts)


def write_data(message: Message, dialect: str) -> bytes:
    payload = _head(dialect, message.code).write(message) + message.body
    check_sendable(payload, dialect)
    return payload


@cache
def _head(dialect: str, code: int) -> QuickHead:
    return QuickHead(layout_of(dialect), code)


class Keys:
    """Keys for the groups of published blobs: in the deployed dialect the reply topic is one."""

    def __init__(self, process: int) -> None:
        self._process = f"{process:08x}"
        self._count = 0

    def next(self, topic: str) -> str:
        self._count = self._count % MAX_KEYS + 1
        key = f"{topic}.{self._process}.{self._count}"
        if len(key) > MAX_KEY:
            text = f"the topic is too long for a blob: its key {key!r} has more than {MAX_KEY} characters"
            raise EncodeError(text, rule="int_range", path="reply_topic")
        return key


def payloads(message: Message, dialect: str, key: str = "", piece: int = PIECE) -> list[bytes]:
    """Return one payload, or one for each piece of the blob. ``key`` is that of a published blob."""
    if message.blob is None:
        return [write_data(message, dialect)]
    return [write_data(part, dialect) for part in _split(message, message.blob, key, piece)]


def check_blob(blob: Blob, most: int = MAX_BLOB) -> None:
    if not 1 <= blob.position <= 4094:
        raise EncodeError(f"a blob is field 1..4094, not {blob.position}", rule="cell_id", path="blob.position")
    if len(blob.data) > most:
        raise EncodeError(f"{len(blob.data)} bytes, at most {most}", rule="cell_limit", path="blob")


def _split(message: Message, blob: Blob, key: str, size: int) -> Iterator[Message]:
    check_blob(blob)
    others = without(message.body, blob.position)
    if not blob.data:
        yield replace(message, blob=None, body=others + write_record({blob.position: b""}))
        return
    total, position = len(blob.data), blob.position
    count = -(-total // size)
    if message.code in (PUBLISH, GROUP_PUB):
        message = Message(GROUP_PUB, message.topic, message.body, reply_topic=key)
    for index in range(count):
        data = blob.data[index * size : (index + 1) * size]
        written = write_record({position: data})
        if index == 0:
            signature = FIRST.pack(1, 0, count, total, position, len(data))
            yield replace(message, blob=None, body=others + written + write_record({0: signature}))
        else:
            signature = NEXT.pack(1, index, len(data))
            yield replace(message, blob=None, signal_id="", body=written + write_record({0: signature}))


def answer_to(asked: Message, body: bytes, blob: Blob | None) -> Message | None:
    """The reply to a request, or the p2p that answers one; None if it cannot be answered."""
    if asked.code == P2P:
        return Message(P2P, asked.topic, body, asked.connection_id, asked.server_id, asked.signal_id, blob=blob)
    if not asked.reply_topic:
        return None
    return Message(REPLY, asked.reply_topic, body, asked.connection_id, asked.server_id, asked.signal_id, blob=blob)


# --- records


def raw_cells(body: bytes) -> list[tuple[int, bytes]]:
    """The cells of a good record, as they are written, with their numbers."""
    return [(cell.fid, body[cell.at : cell.stop]) for cell in cells(body)]


def octets(body: bytes, wanted: int) -> bytes | None:
    """The value of cell ``wanted`` of a good record, if it is one of bytes; of several the last one counts."""
    found = None
    for cell in cells(body):
        if cell.fid == wanted:
            found = body[cell.start : cell.stop] if cell.type == "BYTES" else None
    return found


def without(body: bytes, *fids: int) -> bytes:
    """A good record less some of its cells."""
    return b"".join(raw for fid, raw in raw_cells(body) if fid not in fids)


def write_record(record: Record, charset: str = "utf-8") -> bytes:
    """The bytes of a record. Of plain values an int becomes an INT, or a LONG where it needs one; a float a DOUBLE."""
    if isinstance(record, Mapping):
        record = [Cell(fid, _KINDS.get(type(value)) or _kind(value), value) for fid, value in record.items()]
    return _writer(charset)(record, "record")


@lru_cache(maxsize=64)
def _writer(charset: str) -> Callable[[Iterable[Cell], str], bytes]:
    return cells_writer(layout_of(CEDA4_WS, charset).messages[PUBLISH].field("record").wire)


def _kind(value: Any) -> str:
    if isinstance(value, int):
        return "INT" if -0x80000000 <= value < 0x80000000 else "LONG"
    return next((name for kind, name in _KINDS.items() if isinstance(value, kind)), "BYTES")
