"""DSA 2.0: an IoT bus of subscribe, list, invoke and set streams. Little endian, with a table of tagged headers.

Two reading modes: ``strict`` is the document to the letter, ``compat`` also accepts what known peers really send.
"""

from __future__ import annotations

from typing import Any

from ...spec import (
    UNSET,
    AtLeast,
    Body,
    Empty,
    FrameLength,
    HeadReaches,
    Labels,
    LengthOf,
    Message,
    OrderOf,
    Present,
    Struct,
    Tags,
    TagTable,
    choose,
    derived,
    field,
    fixed,
    flag,
    flag8,
    labelled,
    le,
    many,
    messages_in,
    msgpack,
    nested,
    optional,
    tag,
    text,
    u8,
    view,
    within,
)

MAX_TOTAL = 65472
MAX_HEADER = 16320
MAX_BODY = 49152
MAX_STRING = 32767
MAX_REQUEST_ID = 2147483647
SHORT_HEAD, LONG_HEAD = 7, 15
CLOSED_FROM = 0x20

SUB, LIST, INVOKE, SET, PREFLIGHT, CLOSE = 0x01, 0x02, 0x03, 0x04, 0x07, 0x0F
SUB_R, LIST_R, INVOKE_R, SET_R, PREFLIGHT_R = 0x81, 0x82, 0x83, 0x84, 0x87
F0, F1, F2, F3, ACK, PING = 0xF0, 0xF1, 0xF2, 0xF3, 0xF8, 0xF9

STATUS = Labels(
    "status",
    {
        0x00: "ok",
        0x01: "initializing",
        0x0E: "not_available",
        0x10: "dropped",
        0x20: "closed",
        0x2E: "disconnected",
        0x40: "permission_denied",
        0x41: "not_supported",
        0x44: "invalid_message",
        0x45: "invalid_parameter",
        0x48: "busy",
        0x50: "internal_error",
        0x61: "alias_loop",
        0xC9: "connection_error",
        0xF9: "connection_error_old",
    },
)
PERMISSION = Labels("permission", {0x00: "none", 0x10: "list", 0x20: "read", 0x30: "write", 0x40: "config"})
QOS = Labels("qos", {0: "latest value", 1: "all values while connected", 2: "durable", 3: "persistent"})

STRING = text(le.u16, most=MAX_STRING)


def _on(*codes: int) -> frozenset[int]:
    return frozenset(codes)


REQUESTS = _on(SUB, LIST, INVOKE, SET, PREFLIGHT)


class Headers(TagTable):
    """The dynamic headers, in any order."""

    status: int | None = tag(
        0x00,
        labelled(u8, STATUS),
        _on(SUB_R, LIST_R, INVOKE_R, SET_R, PREFLIGHT_R, F1, F3),
        "open below 0x20, absent means 0",
        title="Status",
        role="status",
        default=None,
    )
    sequence_id: int | None = tag(
        0x01, le.i32, _on(INVOKE, SUB_R, INVOKE_R), "groups the pages of one payload", title="Sequence ID", default=None
    )
    page_id: int | None = tag(
        0x02,
        le.i32,
        _on(INVOKE, SET, SUB_R, INVOKE_R),
        "first page -N, then 1..N-1; 0 = not paged",
        title="Page ID",
        default=None,
    )
    audit_log: str | None = tag(
        0x04, STRING, _on(INVOKE_R, SET_R), "for the parent broker's audit trail", title="Audit Log", default=None
    )
    error_detail: str | None = tag(
        0x05, STRING, _on(INVOKE_R, SET_R), "explains an error status", title="Error Detail", default=None
    )
    alias_count: int | None = tag(0x08, u8, REQUESTS, "aliases passed so far", title="Alias Count", default=None)
    priority: bool = flag(0x10, REQUESTS, "this stream goes before others", title="Priority", default=False)
    no_stream: bool = flag(0x11, REQUESTS, "close as soon as the data is complete", title="No Stream", default=False)
    qos: int | None = tag(0x12, labelled(u8, QOS), _on(SUB), "quality of a subscription", title="QoS", default=None)
    queue_size: int | None = tag(
        0x14, le.i32, _on(SUB), "preferred queue size in bytes", title="Queue Size", default=None
    )
    queue_duration: int | None = tag(
        0x15, le.i32, _on(SUB), "preferred queue duration in seconds", title="Queue Duration", default=None
    )
    refreshed: bool = flag(
        0x20, _on(INVOKE, LIST_R, INVOKE_R), "the receiver drops its cache first", title="Refreshed", default=False
    )
    pub_path: str | None = tag(0x21, STRING, _on(LIST_R), "path of the pub folder", title="Pub Path", default=None)
    skippable: bool = flag(
        0x30, _on(INVOKE_R), "may be dropped when a newer one is queued", title="Skippable", default=False
    )
    max_permission: int | None = tag(
        0x32, labelled(u8, PERMISSION), _on(INVOKE), "caps the permission", title="Max Permission", default=None
    )
    attribute_field: str | None = tag(
        0x41, STRING, _on(SET), "set this @attribute instead of the value", title="Attribute Field", default=None
    )
    permission_token: str | None = tag(
        0x60, STRING, REQUESTS, "opaque to the protocol", title="Permission Token", default=None
    )
    target_path: str | None = tag(
        0x80,
        STRING,
        REQUESTS,
        "path of the request, empty is the root",
        title="Target Path",
        required=REQUESTS,
        role="address",
        default=None,
    )
    source_path: str | None = tag(
        0x81, STRING, _on(SUB_R, LIST_R), "was meant for a withdrawn method", title="Source Path", default=None
    )


HEADERS: Tags[Headers] = Tags(
    Headers,
    anywhere=choose("mode", strict=False, compat=True),
    demand=choose("mode", strict=True, compat=False),
    waived="page_id",
)
WITH_IDS = HeadReaches(LONG_HEAD)
REQUEST_ID = within(le.u32, 1, MAX_REQUEST_ID, "request_id_range")
CONTENT = ("frame_only", False)


class Entry(Struct):
    """One pair of a list: an @attribute, a $metadata or the name of a child; no value means that it is gone."""

    key: str = field(text(le.u16, least=1, most=MAX_STRING), "what changed")
    value: Any = field(msgpack(le.u16, most=MAX_STRING, absent_if_empty=True), "its value", default=UNSET)
    removed = derived(Empty("value"), "the key is gone")


class HandshakeF0(Struct):
    version: tuple[int, ...] = field(many(u8, 2), "protocol version, 2.0")
    dsid: str = field(STRING, "the client's id")
    public_key: bytes = field(fixed(65), "uncompressed P-256 point")
    salt: bytes = field(fixed(32), "new random bytes")


class HandshakeF1(Struct):
    dsid: str = field(STRING, "the server's id")
    public_key: bytes = field(fixed(65), "uncompressed P-256 point")
    salt: bytes = field(fixed(32), "new random bytes")


class HandshakeF2(Struct):
    token: str = field(STRING, "token, or empty")
    is_responder: bool = field(flag8, "the client can reply to requests")
    path: str = field(STRING, "where the server hangs in the client's tree")
    auth: bytes = field(fixed(32), "HMAC of the server's salt")


class HandshakeF3(Struct):
    allow_requester: bool = field(flag8, "not reliable")
    path: str = field(STRING, "where the client hangs in the server's tree")
    auth: bytes = field(fixed(32), "HMAC of the client's salt")


class DsaMessage(Message):
    total_length = derived(FrameLength(), "bytes of the whole message")
    header_length = derived(FrameLength(less="body"), "fixed part and dynamic headers")
    header_order = derived(OrderOf("headers"), "the headers in wire order")
    body_length = derived(LengthOf("body"), "bytes behind the header")


class Stream(DsaMessage, head_least=LONG_HEAD, head_rule="ids_missing"):
    """A message that belongs to a stream: its ids are always there."""

    request_id: int | None = optional(
        REQUEST_ID, "the stream, chosen by the requester", when=WITH_IDS, role="correlation", default=None
    )
    ack_id: int | None = optional(
        le.u32, "number of this message of its sender, 0 = no ack wanted", when=WITH_IDS, default=None
    )
    headers: Headers = field(HEADERS, "dynamic headers", default=Headers())


class ControlMessage(DsaMessage, kind="control"):
    """Handshake, ack and ping: the ids come together or not at all."""

    request_id: int | None = optional(le.u32, "no meaning here", when=WITH_IDS, default=None)
    ack_id: int | None = optional(le.u32, "no meaning here", when=WITH_IDS, default=None)
    headers: Headers = field(HEADERS, "dynamic headers", default=Headers())


NO_BODY = Body(exactly=0)


class SubscribeRequest(Stream, code=SUB, kind="request", answer=SUB_R):
    """Asks for the value at a path and its changes."""

    body: bytes | None = field(NO_BODY, "empty", default=None)


class ListRequest(Stream, code=LIST, kind="request", answer=LIST_R):
    """Asks for what is at a path: metadata, attributes, children."""

    body: bytes | None = field(NO_BODY, "empty", default=None)


class InvokeRequest(Stream, code=INVOKE, kind="request", answer=INVOKE_R):
    """Runs an action."""

    body: bytes | None = field(
        Body(opaque_if="headers.page_id"), "parameters as MessagePack", default=None, role="payload"
    )
    value: Any = view(msgpack(absent_if_empty=True), "the parameters", of="body", only=CONTENT, default=UNSET)
    value_present = derived(Present("value"), "there are parameters", only=CONTENT)


class SetRequest(Stream, code=SET, kind="request", answer=SET_R):
    """Sets a value or an attribute."""

    body: bytes | None = field(
        Body(opaque_if="headers.page_id", empty="refused"), "metadata and value", default=None, role="payload"
    )
    value_meta: Any = view(
        msgpack(le.u16, is_map=True, absent_if_empty=True), "metadata", of="body", only=CONTENT, default=UNSET
    )
    value: Any = view(msgpack(null_if_empty=True), "the value", of="body", only=CONTENT, default=UNSET)
    value_present = derived(Present("value"), "there are bytes for the value", only=CONTENT)


class PreflightRequest(Stream, code=PREFLIGHT, kind="request", answer=PREFLIGHT_R):
    """Asks whether a path may be listed."""

    body: bytes | None = field(NO_BODY, "empty", default=None)


class Close(Stream, code=CLOSE, kind="control", head_or=choose("mode", strict=None, compat=SHORT_HEAD)):
    """Ends a stream; no reply."""

    body: bytes | None = field(NO_BODY, "empty", default=None)


class Reply(Stream, kind="response"):
    closed = derived(AtLeast("headers.status", CLOSED_FROM), "the status ends the stream")


class SubscribeResponse(Reply, code=SUB_R):
    """A value, or only a status."""

    body: bytes | None = field(
        Body(opaque_if="headers.page_id", empty="absent"), "metadata and value", default=None, role="payload"
    )
    value_meta: Any = view(
        msgpack(le.u16, is_map=True, absent_if_empty=True), "metadata", of="body", only=CONTENT, default=UNSET
    )
    value: Any = view(msgpack(null_if_empty=True), "the value", of="body", only=CONTENT, default=UNSET)
    value_present = derived(Present("value"), "there are bytes for the value", only=CONTENT)


class ListResponse(Reply, code=LIST_R):
    """What is at a path, or what changed there."""

    body: bytes | None = field(Body(opaque_if="headers.page_id"), "keys and values", default=None, role="payload")
    entries: tuple[Entry, ...] = view(
        many(nested(Entry), None), "keys and values", of="body", only=CONTENT, default=UNSET
    )


class InvokeResponse(Reply, code=INVOKE_R):
    """A result of an action; the last one has a closing status."""

    body: bytes | None = field(Body(opaque_if="headers.page_id"), "result as MessagePack", default=None, role="payload")
    value: Any = view(msgpack(absent_if_empty=True), "the result", of="body", only=CONTENT, default=UNSET)
    value_present = derived(Present("value"), "there is a result", only=CONTENT)


class SetResponse(Reply, code=SET_R):
    """How the set went."""

    body: bytes | None = field(NO_BODY, "empty", default=None)


class PreflightResponse(Reply, code=PREFLIGHT_R):
    """Whether the path may be listed."""

    body: bytes | None = field(NO_BODY, "empty", default=None)


REFUSAL = AtLeast("headers.status", CLOSED_FROM)


class ClientHello(ControlMessage, code=F0, sent_by="client", as_name="handshake_f0"):
    """The client introduces itself."""

    body: bytes | None = field(Body(), "version, id, key, salt", default=None)
    handshake: HandshakeF0 = view(
        nested(HandshakeF0, flat=False), "version, id, key, salt", of="body", only=CONTENT, default=UNSET
    )


class ServerHello(ControlMessage, code=F1, sent_by="server", as_name="handshake_f1"):
    """The server introduces itself, or refuses by a status."""

    body: bytes | None = field(Body(empty_if=REFUSAL), "id, key, salt", default=None)
    handshake: HandshakeF1 = view(
        nested(HandshakeF1, flat=False), "id, key, salt", of="body", only=CONTENT, default=UNSET
    )


class ClientProof(ControlMessage, code=F2, sent_by="client", as_name="handshake_f2"):
    """The client proves that it has its key."""

    body: bytes | None = field(Body(), "token, role, path, proof", default=None)
    handshake: HandshakeF2 = view(
        nested(HandshakeF2, flat=False), "token, role, path, proof", of="body", only=CONTENT, default=UNSET
    )


class ServerProof(ControlMessage, code=F3, sent_by="server", as_name="handshake_f3"):
    """The server proves that it has its key, or refuses by a status."""

    body: bytes | None = field(Body(empty_if=REFUSAL), "role, path, proof", default=None)
    handshake: HandshakeF3 = view(
        nested(HandshakeF3, flat=False), "role, path, proof", of="body", only=CONTENT, default=UNSET
    )


class Ack(ControlMessage, code=ACK):
    """Everything up to this ack id of the peer was received."""

    body: bytes | None = field(Body(exactly=4), "the ack id", default=None)
    acked_id: int = view(le.u32, "the ack id", of="body", only=CONTENT, default=UNSET)


class Ping(ControlMessage, code=PING):
    """A sign of life; no reply."""

    body: bytes | None = field(NO_BODY, "empty", default=None)


MESSAGES = messages_in(globals())
