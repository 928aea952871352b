"""One message at a time, written by hand: what one would write for just this kind of message.

Each function takes one whole frame and gives the record that ``wirelake.decode`` gives, after the same checks, or
raises ValueError. Their shape is on purpose the plain one: a cursor, ``struct``, slices, one regular expression, the
MessagePack library.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from struct import Struct
from typing import Any

import msgpack

from wirelake.protocols import casual, ceda, dsa, load, mb
from wirelake.spec import UNSET, Cell
from wirelake.spec.resolve import layout

from .traffic import OPTIONS


class Malformed(ValueError):
    """The frame breaks a rule."""


# --- casual: service_call_request

_CASUAL = layout(load("casual"), **OPTIONS["casual"])
CASUAL_HEAD = Struct(">Q16sQ16sq").unpack_from
I64 = Struct(">q").unpack_from
I64_I64 = Struct(">qq").unpack_from
CASUAL_CODE = 3100
_CASUAL_HEADER = 32
JAVA_PADDING = bytes(8)


def read_casual(frame: bytes) -> Any:
    end = len(frame)
    if end < 56:
        raise Malformed("too short")
    code, correlation, size, execution, length = CASUAL_HEAD(frame, 0)
    if code != CASUAL_CODE:
        raise Malformed("type")
    if size > casual.MAX_PAYLOAD or size + _CASUAL_HEADER != end:
        raise Malformed("size")
    at, stop = 56, 56 + length
    if length < 0 or stop + 16 > end:
        raise Malformed("service.name")
    name = frame[at:stop].decode("utf-8", "surrogateescape")
    timeout, length = I64_I64(frame, stop)
    at, stop = stop + 16, stop + 16 + length
    if length < 0 or stop + 8 > end:
        raise Malformed("parent.name")
    parent = frame[at:stop].decode("utf-8", "surrogateescape")
    (form,) = I64(frame, stop)
    at = stop + 8
    if form not in (-1, 0):
        if at + 16 > end:
            raise Malformed("xid")
        gtrid_length, bqual_length = I64_I64(frame, at)
        at += 16
        if gtrid_length < 0 or bqual_length < 0 or gtrid_length + bqual_length > 128:
            raise Malformed("xid")
        middle = at + gtrid_length
        stop = middle + bqual_length
        if stop > end:
            raise Malformed("xid")
        xid = casual.Xid(form, frame[at:middle], frame[middle:stop])
        at = stop
    else:
        xid = casual.Xid(form)
    if at + 16 > end:
        raise Malformed("flags")
    flags, length = I64_I64(frame, at)
    at, stop = at + 16, at + 16 + length
    if length < 0 or stop + 8 > end:
        raise Malformed("buffer.type")
    kind = frame[at:stop].decode("utf-8", "surrogateescape")
    (length,) = I64(frame, stop)
    at, stop = stop + 8, stop + 8 + length
    if length < 0 or stop > end:
        raise Malformed("buffer.payload")
    notes: tuple[str, ...] = ()
    if stop != end:
        if frame[stop:] != JAVA_PADDING:
            raise Malformed("leftover bytes")
        notes = ("java_padding",)
    return casual.ServiceCallRequest(
        correlation,
        execution,
        casual.Service(name, timeout),
        casual.Parent(parent),
        xid,
        flags,
        casual.Buffer(kind, frame[at:stop]),
        wire_length=end,
        notes=notes,
        layout=_CASUAL,
    )


# --- dsa: subscribe_response

_DSA = layout(load("dsa"), **OPTIONS["dsa"])
DSA_HEAD = Struct("<IHBII").unpack_from
U16 = Struct("<H").unpack_from
I32 = Struct("<i").unpack_from
DSA_CODE = 0x81
_MAX_DEPTH = 256


def _no_extension(code: int, data: bytes) -> None:
    """Extension types are read as null."""


def unpack_value(data: bytes) -> Any:
    try:
        value = msgpack.unpackb(data, strict_map_key=False, unicode_errors="surrogateescape", ext_hook=_no_extension)
    except TypeError as error:
        raise Malformed("an array or a map as a map's key") from error
    if len(data) > _MAX_DEPTH and _depth(value) > _MAX_DEPTH:
        raise Malformed("nested too deeply")
    return value


def _depth(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + max(map(_depth, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(_depth, value), default=0)
    return 0


def read_dsa(frame: bytes) -> Any:
    end = len(frame)
    if end < dsa.LONG_HEAD:
        raise Malformed("too short")
    total, head, method, request_id, ack_id = DSA_HEAD(frame, 0)
    if total != end or total > dsa.MAX_TOTAL:
        raise Malformed("total_length")
    if not dsa.LONG_HEAD <= head <= dsa.MAX_HEADER or head > total or total - head > dsa.MAX_BODY:
        raise Malformed("header_length")
    if method != DSA_CODE:
        raise Malformed("method")
    if not 1 <= request_id <= dsa.MAX_REQUEST_ID:
        raise Malformed("request_id")
    status = sequence_id = page_id = source_path = None
    order = []
    at = dsa.LONG_HEAD
    while at < head:
        code = frame[at]
        at += 1
        if code == 0x00:
            if at >= head:
                raise Malformed("headers.status")
            status = frame[at]
            at += 1
            order.append("status")
        elif code == 0x01:
            if at + 4 > head:
                raise Malformed("headers.sequence_id")
            (sequence_id,) = I32(frame, at)
            at += 4
            order.append("sequence_id")
        elif code == 0x02:
            if at + 4 > head:
                raise Malformed("headers.page_id")
            (page_id,) = I32(frame, at)
            at += 4
            order.append("page_id")
        elif code == 0x81:
            if at + 2 > head:
                raise Malformed("headers.source_path")
            (length,) = U16(frame, at)
            at += 2
            if length > dsa.MAX_STRING or at + length > head:
                raise Malformed("headers.source_path")
            source_path = frame[at : at + length].decode("utf-8", "surrogateescape")
            at += length
            order.append("source_path")
        else:
            raise Malformed("this header is unknown, or not allowed on a subscribe response")
    value_meta = value = UNSET
    if head < end and not page_id:
        if head + 2 > end:
            raise Malformed("value_meta")
        (length,) = U16(frame, head)
        at = head + 2
        stop = at + length
        if stop > end:
            raise Malformed("value_meta")
        if length:
            value_meta = unpack_value(frame[at:stop])
            if not isinstance(value_meta, dict):
                raise Malformed("value_meta")
        if stop < end:
            value = unpack_value(frame[stop:])
    return dsa.SubscribeResponse(
        request_id,
        ack_id,
        dsa.Headers(
            status=status, sequence_id=sequence_id, page_id=page_id, source_path=source_path, order=tuple(order)
        ),
        frame[head:],
        value_meta,
        value,
        wire_length=end,
        layout=_DSA,
    )


# --- mb: publish, with its length before it

_MB = layout(load("mb"), **OPTIONS["mb"])
U32 = Struct(">I").unpack_from
_LEVEL = "[A-Za-z][0-9A-Za-z]*"
_NUMBER = "(?:0|[1-9][0-9]*)"
_PRE = "(?:0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_BUILD = "[0-9A-Za-z-]+"
_VERSION = rf"({_NUMBER})\.({_NUMBER})\.({_NUMBER})(?:-{_PRE}(?:\.{_PRE})*)?(?:\+{_BUILD}(?:\.{_BUILD})*)?"
_UUID4 = "[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
MB_LINE = re.compile(
    rf"(?i:publish):({_LEVEL}(?:\.{_LEVEL}){{0,4}}):({_VERSION})(?::({_UUID4})?(?::({_UUID4})?:?)?)?\n".encode()
).match


def read_mb(frame: bytes) -> Any:
    end = len(frame)
    if end < 4:
        raise Malformed("too short")
    (size,) = U32(frame, 0)
    if size > mb.MAX_FRAME or size + 4 != end:
        raise Malformed("length")
    line = MB_LINE(frame, 4)
    if line is None:
        raise Malformed("header line")
    at = line.end()
    if at - 4 > mb.MAX_HEADER_WINDOW or end - at > mb.MAX_PAYLOAD:
        raise Malformed("too long")
    topic, version, major, minor, patch, request_id, parent_request_id = line.groups()
    if len(topic) > 255 or len(version) > 20:
        raise Malformed("topic or version")
    if len(version) > 15 and max(int(major), int(minor), int(patch)) > mb.MAX_VERSION_NUMBER:
        raise Malformed("version")
    return mb.Publish(
        topic.decode(),
        version.decode(),
        request_id.decode() if request_id is not None else None,
        parent_request_id.decode() if parent_request_id is not None else None,
        None,
        frame[at:],
        wire_length=end,
        layout=_MB,
    )


# --- ceda: publish

_CEDA = layout(load("ceda"), **OPTIONS["ceda"])
CEDA_NUMBERS = {
    1: ("INT", 4, Struct("<i").unpack_from),
    2: ("LONG", 8, Struct("<q").unpack_from),
    3: ("SHORT", 2, Struct("<h").unpack_from),
    4: ("FLOAT", 4, Struct("<f").unpack_from),
    5: ("DOUBLE", 8, Struct("<d").unpack_from),
}
CEDA_STRING = 6
CEDA_LAST_ID = 4094


def read_ceda(frame: bytes) -> Any:
    end = len(frame)
    if end < 3 or frame[0] != 0x82:
        raise Malformed("magic")
    size, at = frame[1], 2
    if size == ceda.EXTENDED:
        if end < 5:
            raise Malformed("payload_length")
        (size,) = U16(frame, 2)
        if size < ceda.EXTENDED:
            raise Malformed("payload_length")
        at = 4
    elif not 1 <= size < ceda.EXTENDED:
        raise Malformed("payload_length")
    if at + size != end:
        raise Malformed("payload_length")
    if frame[at] != 0x61:
        raise Malformed("type")
    if at + 2 > end:
        raise Malformed("topic")
    start = at + 2
    at = start + frame[at + 1]
    if at > end:
        raise Malformed("topic")
    topic = frame[start:at].decode()
    body = frame[at:]
    cells = []
    while at < end:
        if at + 2 > end:
            raise Malformed("record")
        (head,) = U16(frame, at)
        at += 2
        fid = head >> 4
        if fid > CEDA_LAST_ID:
            raise Malformed("record")
        kind = head >> 1 & 7
        bits = None
        if kind in CEDA_NUMBERS:
            name, width, unpack = CEDA_NUMBERS[kind]
            if at + width > end:
                raise Malformed("record")
            (value,) = unpack(frame, at)
            if value != value:
                bits = int.from_bytes(frame[at : at + width], "little")
            at += width
        elif kind == 0:
            name, value = "NONE", None
        else:
            if at + 2 > end:
                raise Malformed("record")
            (length,) = U16(frame, at)
            start = at + 2
            at = start + length
            if length > ceda.MAX_CELL_BYTES or at > end:
                raise Malformed("record")
            if kind == CEDA_STRING:
                name, value = "STRING", frame[start:at].decode()
            else:
                name, value = "BYTES", frame[start:at]
        if bits is None and not head & 1:
            cells.append(Cell(fid, name, value))
        else:
            cells.append(Cell(fid, name, value, bits, bool(head & 1)))
    return ceda.Publish(topic, body, tuple(cells), wire_length=end, layout=_CEDA)


READERS: dict[str, Callable[[bytes], Any]] = {
    "casual": read_casual,
    "dsa": read_dsa,
    "mb": read_mb,
    "ceda": read_ceda,
}
