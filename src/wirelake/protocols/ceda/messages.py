"""CEDA4: a trading bus. Small binary frames, little endian but for one length in one dialect.

Two dialects: ``ceda4`` is what the published document says, ``ceda4-ws`` what the deployed Java programs put on the
wire: they differ in the byte order of the extended length, in masking, in the reply topic of group_pub and in the
body of logout."""

from __future__ import annotations

from enum import IntEnum

from ...spec import (
    Body,
    Cell,
    Cells,
    CellType,
    Form,
    IfLeft,
    Labels,
    Masked,
    Message,
    PayloadLength,
    Run,
    Setting,
    Signature,
    Struct,
    Wide,
    With,
    derived,
    field,
    fixed,
    labelled,
    le,
    messages_in,
    optional,
    text,
    u8,
    view,
)

MAX_PAYLOAD = 65535
MAX_CELL_BYTES = 65000
UNASSIGNED = 0xFFFFFF
EXTENDED = 126
PIECE = 32768
"""Bytes of a blob that known senders put into one piece."""


class ControlCode(IntEnum):
    """What the record of a control message means."""

    LOGIN = 3
    LOGIN_RESULT = 4
    LOGOUT = 5
    SUB = 6
    SUB_RESULT = 7
    UNSUB = 8
    UNSUB_RESULT = 9
    SUB_BATCH = 13
    UNSUB_BATCH = 14
    LOGIN_SID = 18
    LOGIN_VS = 19
    SUBSCRIBE_WITH_IMAGE = 20


LOGIN_REQUESTS = (ControlCode.LOGIN, ControlCode.LOGIN_SID, ControlCode.LOGIN_VS)
CONTROL_CODES = Labels("control_code", {int(code): code.name for code in ControlCode})

USER, PASSWORD = 4, 5
"""The cells of a login with the user's name and, in clear text, the password."""
RESULT, TEXT, CONNECTION_ID = 1, 4, 6
"""The cells of a login's result: ``LOGIN_OK`` or not, why, and the number of the connection."""
LOGIN_OK = 1

STR8 = text(u8, strict=True)
RECORD: Cells[tuple[Cell, ...]] = Cells(
    head=le.u16,
    id_shift=4,
    type_shift=1,
    type_mask=7,
    flag_mask=1,
    id_max=4094,
    types=(
        CellType("NONE", None),
        CellType("INT", le.i32),
        CellType("LONG", le.i64),
        CellType("SHORT", le.i16),
        CellType("FLOAT", le.f32),
        CellType("DOUBLE", le.f64),
        CellType(
            "STRING",
            Run(le.u16, "strict_text", most=MAX_CELL_BYTES, charset=Setting("charset"), errors=Setting("errors")),
        ),
        CellType("BYTES", Run(le.u16, "bytes", most=MAX_CELL_BYTES)),
    ),
)
WS = ("dialect", "ceda4-ws")


class FirstPiece(Struct):
    """Signature of the first piece of a split message."""

    kind: int = field(le.u8)
    index: int = field(le.i16)
    count: int = field(le.i16)
    total_length: int = field(le.i32)
    position: int = field(le.i16)
    piece_length: int = field(le.i32)


class NextPiece(Struct):
    """Signature of a later piece."""

    kind: int = field(le.u8)
    index: int = field(le.i16)
    piece_length: int = field(le.i32)


GROUP: Signature[FirstPiece | NextPiece] = Signature(
    "record", fid=0, kind=1, forms=(Form(15, FirstPiece, first=True), Form(7, NextPiece, first=False))
)


class CedaMessage(Message, kw_only=True):
    """What every frame has; the mask key only behind a WebSocket client."""

    mask_key: bytes | None = optional(fixed(4), "mask of a WebSocket client", only=WS, default=None)
    payload_length = derived(PayloadLength(), "bytes behind the frame header")
    extended_length = derived(Wide(EXTENDED), "the length took the two-byte form")
    masked = derived(Masked(), "the payload was masked")


class Heartbeat(CedaMessage, code=0x01, kind="control"):
    """A sign of life; only servers echo it."""


class Control(CedaMessage, kind="control"):
    control_code: int = field(labelled(u8, CONTROL_CODES), "what the record means")
    body: bytes | None = field(Body(), "the record as it came", json="body_hex", default=None, role="payload")
    record: tuple[Cell, ...] = view(RECORD, "typed, numbered values in wire order", of="body", default=())


class Subscribe(Control, code=0x11):
    """Asks for topics: one (SUB), several joined by | (SUB_BATCH), or with their image."""


class Unsubscribe(Control, code=0x12):
    """Takes topics back."""


class Login(Control, code=0x13, secret_cells=(PASSWORD,)):
    """Login and its result."""


class Logout(CedaMessage, code=0x14, kind="control"):
    """The peer leaves."""

    control_code: int | None = optional(
        labelled(u8, CONTROL_CODES), "defined, never sent", only=WS, when=IfLeft(), default=None
    )
    body: bytes | None = field(
        Body(),
        "the record as it came",
        json="body_hex",
        only=WS,
        when=With("control_code"),
        default=None,
        role="payload",
    )
    record: tuple[Cell, ...] = view(RECORD, "typed, numbered values in wire order", of="body", only=WS, default=())


class Publish(CedaMessage, code=0x61, kind="event"):
    """Data for everyone who subscribed the topic."""

    topic: str = field(STR8, "where it is routed", role="address")
    body: bytes | None = field(Body(), "the record as it came", json="body_hex", default=None, role="payload")
    record: tuple[Cell, ...] = view(RECORD, "typed, numbered values in wire order", of="body", default=())


class Request(CedaMessage, code=0x62, kind="request", answer=0x63):
    """A call; its reply comes back on reply_topic."""

    topic: str = field(STR8, "where the call is routed", role="address")
    connection_id: int = field(le.u24, "the caller's connection, 16777215 = unassigned")
    server_id: str = field(STR8, "the service that is wanted")
    signal_id: str = field(STR8, "free text of the sender")
    reply_topic: str = field(STR8, "where the reply goes", role="correlation")
    body: bytes | None = field(Body(), "the record as it came", json="body_hex", default=None, role="payload")
    record: tuple[Cell, ...] = view(RECORD, "typed, numbered values in wire order", of="body", default=())
    group: FirstPiece | NextPiece | None = view(GROUP, "piece of a split message", of="body", default=None)


class Reply(CedaMessage, code=0x63, kind="response"):
    """The reply to a request, on its reply topic."""

    topic: str = field(STR8, "the reply topic of the request", role="correlation")
    connection_id: int = field(le.u24, "repeated from the request")
    server_id: str = field(STR8, "repeated from the request")
    signal_id: str = field(STR8, "repeated from the request")
    body: bytes | None = field(Body(), "the record as it came", json="body_hex", default=None, role="payload")
    record: tuple[Cell, ...] = view(RECORD, "typed, numbered values in wire order", of="body", default=())
    group: FirstPiece | NextPiece | None = view(GROUP, "piece of a split message", of="body", default=None)


class P2p(CedaMessage, code=0x64, kind="event"):
    """A message for one service, without a reply topic."""

    topic: str = field(STR8, "where it is routed", role="address")
    connection_id: int = field(le.u24, "the sender's connection")
    server_id: str = field(STR8, "the service that is wanted")
    signal_id: str = field(STR8, "free text of the sender")
    body: bytes | None = field(Body(), "the record as it came", json="body_hex", default=None, role="payload")
    record: tuple[Cell, ...] = view(RECORD, "typed, numbered values in wire order", of="body", default=())
    group: FirstPiece | NextPiece | None = view(GROUP, "piece of a split message", of="body", default=None)


class GroupPub(CedaMessage, code=0x65, kind="event"):
    """A publish in pieces; in ceda4-ws the reply topic is the key of the group."""

    topic: str = field(STR8, "where it is routed", role="address")
    connection_id: int = field(le.u24, "the sender's connection")
    server_id: str = field(STR8, "usually empty")
    signal_id: str = field(STR8, "usually empty")
    reply_topic: str | None = optional(STR8, "key of the group", only=WS, default=None)
    body: bytes | None = field(Body(), "the record as it came", json="body_hex", default=None, role="payload")
    record: tuple[Cell, ...] = view(RECORD, "typed, numbered values in wire order", of="body", default=())
    group: FirstPiece | NextPiece | None = view(GROUP, "piece of a split message", of="body", default=None)


MESSAGES = messages_in(globals())
