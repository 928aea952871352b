"""The same messages declared with the ``construct`` library, as its manual would have it, with wirelake's checks.

construct gives containers, not our records: ``agrees`` tells whether a container holds what a record holds. Its
compiled form is the quicker one for all four (but repeated cells and headers it does not compile). Not done here:
padding of casual calls, versions with huge numbers, names that are not UTF-8 kept as bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from construct import (
    Adapter,
    Byte,
    Bytes,
    Check,
    Computed,
    Const,
    Construct,
    Container,
    Error,
    FixedSized,
    Float32l,
    Float64l,
    FocusedSeq,
    GreedyBytes,
    GreedyRange,
    If,
    IfThenElse,
    Int16sl,
    Int16ul,
    Int32sl,
    Int32ub,
    Int32ul,
    Int64sb,
    Int64sl,
    Int64ub,
    NullTerminated,
    PascalString,
    Pass,
    Peek,
    Prefixed,
    Struct,
    Switch,
    Tell,
    Terminated,
    ValidationError,
    len_,
    this,
)

from wirelake.protocols import casual, ceda, dsa, mb
from wirelake.spec import UNSET, Cell

from .hand_records import MB_LINE, unpack_value


@dataclass(frozen=True)
class Declared:
    """A declaration, and how to compare what it finds with a record."""

    construct: Construct
    agrees: Callable[[Any, Any], bool]

    def parser(self) -> Callable[[bytes], Any]:
        parse: Callable[[bytes], Any] = self.construct.compile().parse
        return parse


# --- casual: service_call_request

_TEXT = PascalString(Int64sb, "utf8")
_BRANCH = Struct(
    "gtrid_length" / Int64sb,
    "bqual_length" / Int64sb,
    Check(this.gtrid_length + this.bqual_length <= 128),
    "gtrid" / Bytes(this.gtrid_length),
    "bqual" / Bytes(this.bqual_length),
)
_CASUAL = Struct(
    "type" / Const(3100, Int64ub),
    "correlation" / Bytes(16),
    "size" / Int64ub,
    Check(this.size <= casual.MAX_PAYLOAD),
    "execution" / Bytes(16),
    "service" / Struct("name" / _TEXT, "timeout" / Int64sb),
    "parent" / Struct("name" / _TEXT),
    "xid" / Struct("format" / Int64sb, "branch" / If((this.format != -1) & (this.format != 0), _BRANCH)),
    "flags" / Int64sb,
    "buffer" / Struct("type" / _TEXT, "payload" / Prefixed(Int64sb, GreedyBytes)),
    "end" / Tell,
    Check(this.end == this.size + 32),
    Terminated,
)


def _casual_agrees(found: Any, message: casual.ServiceCallRequest) -> bool:
    branch = found.xid.branch or Container(gtrid=b"", bqual=b"")
    return message == casual.ServiceCallRequest(
        found.correlation,
        found.execution,
        casual.Service(found.service.name, found.service.timeout),
        casual.Parent(found.parent.name),
        casual.Xid(found.xid.format, branch.gtrid, branch.bqual),
        found.flags,
        casual.Buffer(found.buffer.type, found.buffer.payload),
    )


# --- dsa: subscribe_response


class _Value(Adapter):
    """MessagePack; no bytes are no value."""

    def _decode(self, obj: bytes, context: Any, path: str) -> Any:
        return unpack_value(obj) if obj else UNSET


class _Map(_Value):
    def _decode(self, obj: bytes, context: Any, path: str) -> Any:
        value = super()._decode(obj, context, path)
        if value is not UNSET and not isinstance(value, dict):
            raise ValidationError("the metadata is not a map", path=path)
        return value


_DSA_TEXT = Struct("length" / Int16ul, Check(this.length <= dsa.MAX_STRING), "bytes" / Bytes(this.length))
_DSA_HEADER = Struct(
    "code" / Byte,
    "value" / Switch(this.code, {0x00: Byte, 0x01: Int32sl, 0x02: Int32sl, 0x81: _DSA_TEXT}, default=Error),
)
_DSA_NAMES = {0x00: "status", 0x01: "sequence_id", 0x02: "page_id", 0x81: "source_path"}
_DSA = Struct(
    "total_length" / Int32ul,
    Check((this.total_length >= dsa.LONG_HEAD) & (this.total_length <= dsa.MAX_TOTAL)),
    "header_length" / Int16ul,
    Check((this.header_length >= dsa.LONG_HEAD) & (this.header_length <= dsa.MAX_HEADER)),
    Check(this.header_length <= this.total_length),
    Check(this.total_length - this.header_length <= dsa.MAX_BODY),
    "method" / Const(dsa.SUB_R, Byte),
    "request_id" / Int32ul,
    Check((this.request_id >= 1) & (this.request_id <= dsa.MAX_REQUEST_ID)),
    "ack_id" / Int32ul,
    "headers"
    / FixedSized(
        this.header_length - dsa.LONG_HEAD, FocusedSeq("found", "found" / GreedyRange(_DSA_HEADER), Terminated)
    ),
    "body" / Peek(GreedyBytes),
    "content"
    / If(len_(this.body) > 0, Struct("meta" / _Map(Prefixed(Int16ul, GreedyBytes)), "value" / _Value(GreedyBytes))),
    "end" / Tell,
    Check(this.end == this.total_length),
    Terminated,
)


def _dsa_agrees(found: Any, message: dsa.SubscribeResponse) -> bool:
    headers = {_DSA_NAMES[header.code]: header.value for header in found.headers}
    return (
        (found.request_id, found.ack_id, found.body) == (message.request_id, message.ack_id, message.body)
        and message.headers == dsa.Headers(**headers, order=tuple(headers))
        and (found.content.meta, found.content.value) == (message.value_meta, message.value)
    )


# --- mb: publish, with its length before it


class _Line(Adapter):
    """The words of the header line."""

    def _decode(self, obj: bytes, context: Any, path: str) -> Any:
        line = MB_LINE(obj + b"\n")
        if line is None:
            raise ValidationError("not a header line", path=path)
        topic, version, _, _, _, request_id, parent_request_id = line.groups()
        if len(topic) > 255 or len(version) > 20 or len(obj) >= mb.MAX_HEADER_WINDOW:
            raise ValidationError("too long", path=path)
        return Container(
            topic=topic.decode(),
            version=version.decode(),
            request_id=request_id.decode() if request_id is not None else None,
            parent_request_id=parent_request_id.decode() if parent_request_id is not None else None,
        )


_MB_MESSAGE = Struct(
    "header" / _Line(NullTerminated(GreedyBytes, term=b"\n")),
    "payload" / GreedyBytes,
    Check(len_(this.payload) <= mb.MAX_PAYLOAD),
)
_MB = FocusedSeq("message", "message" / Prefixed(Int32ub, _MB_MESSAGE), Terminated)


def _mb_agrees(found: Any, message: mb.Publish) -> bool:
    header = found.header
    return message == mb.Publish(
        header.topic, header.version, header.request_id, header.parent_request_id, None, found.payload
    )


# --- ceda: publish

_CEDA_CELL = Struct(
    "head" / Int16ul,
    "fid" / Computed(this.head >> 4),
    Check(this.fid <= 4094),
    "type" / Computed((this.head >> 1) & 7),
    "value"
    / Switch(
        this.type,
        {
            0: Pass,
            1: Int32sl,
            2: Int64sl,
            3: Int16sl,
            4: Float32l,
            5: Float64l,
            6: PascalString(Int16ul, "utf8"),
            7: Prefixed(Int16ul, GreedyBytes),
        },
    ),
)
_CEDA_NAMES = ("NONE", "INT", "LONG", "SHORT", "FLOAT", "DOUBLE", "STRING", "BYTES")
_CEDA = Struct(
    "magic" / Const(b"\x82"),
    "short" / Byte,
    Check((this.short >= 1) & (this.short <= ceda.EXTENDED)),
    "payload_length" / IfThenElse(this.short == ceda.EXTENDED, Int16ul, Computed(this.short)),
    "payload"
    / FixedSized(
        this.payload_length,
        Struct(
            "type" / Const(b"\x61"),
            "topic" / PascalString(Byte, "utf8"),
            "body" / Peek(GreedyBytes),
            "record" / GreedyRange(_CEDA_CELL),
            Terminated,
        ),
    ),
    Terminated,
)


def _ceda_agrees(found: Any, message: ceda.Publish) -> bool:
    cells = tuple(Cell(cell.fid, _CEDA_NAMES[cell.type], cell.value) for cell in found.payload.record)
    return (found.payload.topic, found.payload.body, cells) == (message.topic, message.body, message.record)


DECLARED = {
    "casual": Declared(_CASUAL, _casual_agrees),
    "dsa": Declared(_DSA, _dsa_agrees),
    "mb": Declared(_MB, _mb_agrees),
    "ceda": Declared(_CEDA, _ceda_agrees),
}
