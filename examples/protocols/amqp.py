"""AMQP 0-9-1, after the specification of 13 November 2008 and its XML, with RabbitMQ's extensions.

Bits that follow each other share a byte, the first one being the lowest: here they are declared from the highest.
"""

from __future__ import annotations

from typing import Any

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Selection, When

U8, U16, U32, U64, TEXT, LONG, WHEN = s.u8, s.be.u16, s.be.u32, s.be.u64, s.text(s.u8), s.blob(s.be.u32), s.be.u64
NO = s.within(U8, 0, 0, "reserved")
TYPES = {b"t": s.bool8, b"b": s.be.i8, b"B": U8, b"s": s.be.i16, b"u": U16, b"I": s.be.i32, b"i": U32, b"l": s.be.i64}
TYPES |= {b"f": s.be.f32, b"d": s.be.f64, b"S": LONG, b"x": LONG, b"T": WHEN, b"V": None}
TYPES |= {b"D": s.nested(s.struct("Decimal", scale=s.field(U8, "digits behind the point"), value=s.field(s.be.i32)))}
VALUE = s.choice(s.fixed(1), lambda: {**TYPES, b"A": s.sized(U32, s.many(VALUE, None)), b"F": TABLE}, depth=8)
TABLE = s.sized(U32, s.many(s.nested(s.struct("Entry", name=s.field(TEXT, "its name"), value=s.field(VALUE))), None))
PROPERTIES: dict[str, Any] = {"content_type": TEXT, "content_encoding": TEXT, "headers": TABLE, "delivery_mode": U8}
PROPERTIES |= {"priority": U8, "correlation_id": TEXT, "reply_to": TEXT, "expiration": TEXT, "message_id": TEXT}
PROPERTIES |= {"timestamp": WHEN, "type": TEXT, "user_id": TEXT, "app_id": TEXT, "cluster_id": TEXT}
FLAGS = s.Labels("flags", {1 << 15 - i: name for i, name in enumerate(PROPERTIES)}, bits=True)


class OnChannel(s.Message):
    channel: int = s.field(U16, "which channel; 0 is the connection", role="correlation")


def method(sent_by: str, name: str, ids: tuple[int, int], answer: str = "", bits: str = "", **wires: Any) -> Any:
    """Return a method: its fields by their types, then its bits, the first of which is the lowest."""
    kind = "request" if answer else "response" if name.endswith(("Ok", "Empty")) else "event"
    line: dict[str, Any] = {"kind": kind, "sent_by": sent_by} | ({"answer": tuple(answer.split())} if answer else {})
    roles: dict[str, Any] = {"queue" if "queue" in wires else "routing_key": "address"}
    flags = bits.split()
    packed = {"unused": s.field(s.bits(NO, len(flags), 8 - len(flags)), "always 0", default=0)} if flags else {}
    packed |= {flag: s.field(s.bits(U8, i, 1), flag) for i, flag in reversed(list(enumerate(flags)))}
    fields: dict[str, Any] = {}
    for key, wire in (*wires.items(), *({} if "bits_here" in wires else {"bits_here": None}).items()):
        fields |= packed if wire is None else {key: s.field(wire, key.replace("_", " "), role=roles.get(key))}
    return s.message(name, OnChannel, code=(1, *ids), **line, **fields)


C, S, B = "client", "server", "both"
HERE: dict[str, Any] = {"bits_here": None}
ARGUMENTS: dict[str, Any] = {**HERE, "arguments": TABLE}
DECLARE, QUEUE_BITS = "passive durable auto_delete internal no_wait", "passive durable exclusive auto_delete no_wait"
ROUTE: dict[str, Any] = {"exchange": TEXT, "routing_key": TEXT}
CLOSE: dict[str, Any] = {"reply_code": U16, "reply_text": TEXT, "class_id": U16, "method_id": U16}
TUNE: dict[str, Any] = {"channel_max": U16, "frame_max": U32, "heartbeat": U16}
START: dict[str, Any] = {"major": U8, "minor": U8, "server_properties": TABLE, "mechanisms": LONG, "locales": LONG}
START_OK: dict[str, Any] = {"client_properties": TABLE, "mechanism": TEXT, "response": LONG, "locale": TEXT}
CONSUME: dict[str, Any] = {"ticket": U16, "queue": TEXT, "consumer_tag": TEXT, **HERE, "arguments": TABLE}
QUEUE: dict[str, Any] = {"ticket": U16, "queue": TEXT}
EXCHANGE: dict[str, Any] = {"ticket": U16, "exchange": TEXT}
BETWEEN: dict[str, Any] = {"ticket": U16, "destination": TEXT, "source": TEXT, "routing_key": TEXT}
METHODS = (
    method(S, "ConnectionStart", (10, 10), "connection_start_ok", **START),
    method(C, "ConnectionStartOk", (10, 11), **START_OK),
    method(S, "ConnectionSecure", (10, 20), "connection_secure_ok", challenge=LONG),
    method(C, "ConnectionSecureOk", (10, 21), response=LONG),
    method(S, "ConnectionTune", (10, 30), "connection_tune_ok", **TUNE),
    method(C, "ConnectionTuneOk", (10, 31), **TUNE),
    method(C, "ConnectionOpen", (10, 40), "connection_open_ok", "reserved_2", virtual_host=TEXT, reserved_1=TEXT),
    method(S, "ConnectionOpenOk", (10, 41), reserved_1=TEXT),
    method(B, "ConnectionClose", (10, 50), "connection_close_ok", **CLOSE),
    method(B, "ConnectionCloseOk", (10, 51)),
    method(S, "ConnectionBlocked", (10, 60), reason=TEXT),
    method(S, "ConnectionUnblocked", (10, 61)),
    method(C, "ConnectionUpdateSecret", (10, 70), "connection_update_secret_ok", new_secret=LONG, reason=TEXT),
    method(S, "ConnectionUpdateSecretOk", (10, 71)),
    method(C, "ChannelOpen", (20, 10), "channel_open_ok", reserved_1=TEXT),
    method(S, "ChannelOpenOk", (20, 11), reserved_long=LONG),
    method(B, "ChannelFlow", (20, 20), "channel_flow_ok", "active"),
    method(B, "ChannelFlowOk", (20, 21), "", "active"),
    method(B, "ChannelClose", (20, 40), "channel_close_ok", **CLOSE),
    method(B, "ChannelCloseOk", (20, 41)),
    method(C, "ExchangeDeclare", (40, 10), "exchange_declare_ok", DECLARE, **EXCHANGE, type=TEXT, **ARGUMENTS),
    method(S, "ExchangeDeclareOk", (40, 11)),
    method(C, "ExchangeDelete", (40, 20), "exchange_delete_ok", "if_unused no_wait", **EXCHANGE),
    method(S, "ExchangeDeleteOk", (40, 21)),
    method(C, "ExchangeBind", (40, 30), "exchange_bind_ok", "no_wait", **BETWEEN, **ARGUMENTS),
    method(S, "ExchangeBindOk", (40, 31)),
    method(C, "ExchangeUnbind", (40, 40), "exchange_unbind_ok", "no_wait", **BETWEEN, **ARGUMENTS),
    method(S, "ExchangeUnbindOk", (40, 51)),
    method(C, "QueueDeclare", (50, 10), "queue_declare_ok", QUEUE_BITS, **QUEUE, **ARGUMENTS),
    method(S, "QueueDeclareOk", (50, 11), queue=TEXT, message_count=U32, consumer_count=U32),
    method(C, "QueueBind", (50, 20), "queue_bind_ok", "no_wait", **QUEUE, **ROUTE, **ARGUMENTS),
    method(S, "QueueBindOk", (50, 21)),
    method(C, "QueuePurge", (50, 30), "queue_purge_ok", "no_wait", **QUEUE),
    method(S, "QueuePurgeOk", (50, 31), message_count=U32),
    method(C, "QueueDelete", (50, 40), "queue_delete_ok", "if_unused if_empty no_wait", **QUEUE),
    method(S, "QueueDeleteOk", (50, 41), message_count=U32),
    method(C, "QueueUnbind", (50, 50), "queue_unbind_ok", **QUEUE, **ROUTE, arguments=TABLE),
    method(S, "QueueUnbindOk", (50, 51)),
    method(C, "BasicQos", (60, 10), "basic_qos_ok", "is_global", prefetch_size=U32, prefetch_count=U16),
    method(S, "BasicQosOk", (60, 11)),
    method(C, "BasicConsume", (60, 20), "basic_consume_ok", "no_local no_ack exclusive no_wait", **CONSUME),
    method(S, "BasicConsumeOk", (60, 21), consumer_tag=TEXT),
    method(C, "BasicCancel", (60, 30), "basic_cancel_ok", "no_wait", consumer_tag=TEXT),
    method(S, "BasicCancelOk", (60, 31), consumer_tag=TEXT),
    method(C, "BasicPublish", (60, 40), "", "mandatory immediate", ticket=U16, **ROUTE),
    method(S, "BasicReturn", (60, 50), reply_code=U16, reply_text=TEXT, **ROUTE),
    method(S, "BasicDeliver", (60, 60), "", "redelivered", consumer_tag=TEXT, delivery_tag=U64, **HERE, **ROUTE),
    method(C, "BasicGet", (60, 70), "basic_get_ok basic_get_empty", "no_ack", ticket=U16, queue=TEXT),
    method(S, "BasicGetOk", (60, 71), "", "redelivered", delivery_tag=U64, **HERE, **ROUTE, message_count=U32),
    method(S, "BasicGetEmpty", (60, 72), reserved_1=TEXT),
    method(C, "BasicAck", (60, 80), "", "multiple", delivery_tag=U64),
    method(C, "BasicReject", (60, 90), "", "requeue", delivery_tag=U64),
    method(C, "BasicRecoverAsync", (60, 100), "", "requeue"),
    method(C, "BasicRecover", (60, 110), "basic_recover_ok", "requeue"),
    method(S, "BasicRecoverOk", (60, 111)),
    method(B, "BasicNack", (60, 120), "", "multiple requeue", delivery_tag=U64),
    method(C, "ConfirmSelect", (85, 10), "confirm_select_ok", "no_wait"),
    method(S, "ConfirmSelectOk", (85, 11)),
    method(C, "TxSelect", (90, 10), "tx_select_ok"),
    method(S, "TxSelectOk", (90, 11)),
    method(C, "TxCommit", (90, 20), "tx_commit_ok"),
    method(S, "TxCommitOk", (90, 21)),
    method(C, "TxRollback", (90, 30), "tx_rollback_ok"),
    method(S, "TxRollbackOk", (90, 31)),
)
VERSION = s.field(s.fixed(4), "0, then the version", default=b"\0\0\x09\x01")
HEADER = s.message("ProtocolHeader", code=0, frame="header", kind="control", sent_by="client", version=VERSION)
CONTENT: dict[str, Any] = {
    "weight": s.field(s.within(U16, 0, 0, "reserved"), "always 0", default=0),
    "body_size": s.field(U64, "bytes in the frames that follow"),
    "flags": s.field(s.labelled(U16, FLAGS), "which properties are there"),
} | {name: s.optional(PROPERTIES[name], "", when=s.When("flags", bits=bit)) for bit, name in FLAGS.names.items()}
FRAMES = (
    s.message("ContentHeader", OnChannel, code=(2, 60), **CONTENT),
    s.message("ContentBody", OnChannel, code=(3,), content=s.field(s.rest, "a piece of it", role="payload")),
    s.message("Heartbeat", OnChannel, code=(8,), kind="control"),
)
SIZE = s.Size("size", U32, counts="after", plus=1, most=1 << 24)
CODES = (s.Code("class_id", U16), s.Code("method_id", U16))
PROTOCOL = s.declare(
    s.Protocol(
        name="amqp",
        title="AMQP 0-9-1",
        frame=s.Frame((s.Code("type", U8), s.Kept("channel"), SIZE, *CODES, s.Trailer(b"\xce"))),
        frames={"header": s.Frame((s.Magic(b"AMQP"), s.Ends(8)))},
        messages=(HEADER, *METHODS, *FRAMES),
        labels=(FLAGS,),
        topics=s.Topics("words", one="*", rest="#", rest_anywhere=True),
        ports={"tcp": 5672},
        conduct=Conduct(
            no_reply=(Selection(when=When("no_wait")),),
            heartbeats=(Selection(messages=("heartbeat",)),),
        ),
    )
)
