"""AMQP 0-9-1, after the specification of 13 November 2008 and its XML, with RabbitMQ's extensions."""

from itertools import groupby
from typing import Any

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Matching, Selection, When

U8, U16, U32, U64, TEXT, LONG = s.u8, s.be.u16, s.be.u32, s.be.u64, s.text(s.u8), s.blob(s.be.u32)
TYPES = {b"t": s.bool8, b"b": s.be.i8, b"B": U8, b"s": s.be.i16, b"u": U16, b"I": s.be.i32, b"i": U32, b"l": s.be.i64}
TYPES |= {b"f": s.be.f32, b"d": s.be.f64, b"S": LONG, b"x": LONG, b"T": U64, b"V": None}
TYPES |= {b"D": s.nested(s.struct("Decimal", scale=s.field(U8, "digits behind the point"), value=s.field(s.be.i32)))}
VALUE = s.choice(s.fixed(1), lambda: {**TYPES, b"A": s.sized(U32, s.many(VALUE, None)), b"F": TABLE}, depth=8)
TABLE = s.sized(U32, s.many(s.nested(s.struct("Entry", name=s.field(TEXT, "its name"), value=s.field(VALUE))), None))
OF_TYPE: dict[Any, str] = {  # fields have the same type wherever they occur; all others are bits
    U8: "delivery_mode priority major minor",
    U16: "ticket reply_code class_id method_id channel_max heartbeat prefetch_count",
    U32: "frame_max message_count consumer_count prefetch_size",
    U64: "timestamp delivery_tag",
    LONG: "mechanisms locales response challenge new_secret reserved_long",
    TABLE: "headers server_properties client_properties arguments",
    TEXT: "content_type content_encoding correlation_id reply_to expiration message_id type user_id app_id cluster_id "
    "queue exchange routing_key destination source consumer_tag mechanism locale virtual_host reason reply_text "
    "reserved_1",
}
WIRES = {name: wire for wire, names in OF_TYPE.items() for name in names.split()}
OnChannel = s.message("OnChannel", channel=s.field(U16, "which channel; 0 is the connection", role="correlation"))


def method(by: str, name: str, ids: tuple[int, int], names: str = "", ok: Any = None, answer: Any = None) -> Any:
    """Return a method and its reply, whose fields are ``ok``. Of bits that share a byte, the first is the lowest."""
    reply = () if ok is None else method({C: S, S: C, B: B}[by], f"{name}Ok", OKS.get(ids, (ids[0], ids[1] + 1)), ok)
    answer = answer or tuple(each.__message__["name"] for each in reply) or None
    kind = "request" if answer else "response" if name.endswith(("Ok", "Empty")) else "event"
    roles: dict[str, Any] = {"queue" if "queue" in names.split() else "routing_key": "address"}
    fields: dict[str, Any] = {}
    for is_wire, group in groupby(names.split(), WIRES.__contains__):
        keys = list(group)
        if is_wire:
            fields |= {key: s.field(WIRES[key], key.replace("_", " "), role=roles.get(key)) for key in keys}
        else:
            unused = s.bits(s.within(U8, 0, 0, "reserved"), len(keys), 8 - len(keys))
            fields["unused"] = s.field(unused, "always 0", default=0)
            fields |= {key: s.field(s.bits(U8, i, 1), key) for i, key in reversed(list(enumerate(keys)))}
    return s.message(name, OnChannel, code=(1, *ids), kind=kind, sent_by=by, answer=answer, **fields), *reply


C, S, B, OKS = "client", "server", "both", {(40, 40): (40, 51)}
CLOSE, TUNE = "reply_code reply_text class_id method_id", "channel_max frame_max heartbeat"
START_OK = "client_properties mechanism response locale"
TX = ("Select", "Commit", "Rollback")
EXCHANGE = "ticket exchange type passive durable auto_delete internal no_wait arguments"
BETWEEN = "ticket destination source routing_key no_wait arguments"
QUEUE = "ticket queue passive durable exclusive auto_delete no_wait arguments"
CONSUME = "ticket queue consumer_tag no_local no_ack exclusive no_wait arguments"
BASIC = "content_type content_encoding headers delivery_mode priority correlation_id reply_to expiration message_id"
BASIC += " timestamp type user_id app_id cluster_id"
FLAGS = s.Labels("flags", {1 << 15 - i: name for i, name in enumerate(BASIC.split())}, bits=True)
CONTENT: dict[str, Any] = {"weight": s.field(s.within(U16, 0, 0, "reserved"), "always 0", default=0)}
CONTENT |= {"body_size": s.field(U64, "bytes in the bodies"), "flags": s.field(s.labelled(U16, FLAGS), "properties")}
CONTENT |= {name: s.optional(WIRES[name], when=s.When("flags", bits=bit)) for bit, name in FLAGS.names.items()}
VERSION = s.field(s.fixed(4), "0, then the version", default=b"\0\0\x09\x01")
MESSAGES = (
    s.message("ProtocolHeader", code=0, frame="header", kind="control", sent_by=C, version=VERSION),
    *method(S, "ConnectionStart", (10, 10), "major minor server_properties mechanisms locales", START_OK),
    *method(S, "ConnectionSecure", (10, 20), "challenge", "response"),
    *method(S, "ConnectionTune", (10, 30), TUNE, TUNE),
    *method(C, "ConnectionOpen", (10, 40), "virtual_host reserved_1 reserved_2", "reserved_1"),
    *method(B, "ConnectionClose", (10, 50), CLOSE, ""),
    *method(S, "ConnectionBlocked", (10, 60), "reason"),
    *method(S, "ConnectionUnblocked", (10, 61)),
    *method(C, "ConnectionUpdateSecret", (10, 70), "new_secret reason", ""),
    *method(C, "ChannelOpen", (20, 10), "reserved_1", "reserved_long"),
    *method(B, "ChannelFlow", (20, 20), "active", "active"),
    *method(B, "ChannelClose", (20, 40), CLOSE, ""),
    *method(C, "ExchangeDeclare", (40, 10), EXCHANGE, ""),
    *method(C, "ExchangeDelete", (40, 20), "ticket exchange if_unused no_wait", ""),
    *method(C, "ExchangeBind", (40, 30), BETWEEN, ""),
    *method(C, "ExchangeUnbind", (40, 40), BETWEEN, ""),
    *method(C, "QueueDeclare", (50, 10), QUEUE, "queue message_count consumer_count"),
    *method(C, "QueueBind", (50, 20), "ticket queue exchange routing_key no_wait arguments", ""),
    *method(C, "QueuePurge", (50, 30), "ticket queue no_wait", "message_count"),
    *method(C, "QueueDelete", (50, 40), "ticket queue if_unused if_empty no_wait", "message_count"),
    *method(C, "QueueUnbind", (50, 50), "ticket queue exchange routing_key arguments", ""),
    *method(C, "BasicQos", (60, 10), "prefetch_size prefetch_count is_global", ""),
    *method(C, "BasicConsume", (60, 20), CONSUME, "consumer_tag"),
    *method(C, "BasicCancel", (60, 30), "consumer_tag no_wait", "consumer_tag"),
    *method(C, "BasicPublish", (60, 40), "ticket exchange routing_key mandatory immediate"),
    *method(S, "BasicReturn", (60, 50), "reply_code reply_text exchange routing_key"),
    *method(S, "BasicDeliver", (60, 60), "consumer_tag delivery_tag redelivered exchange routing_key"),
    *method(C, "BasicGet", (60, 70), "ticket queue no_ack", answer=("basic_get_ok", "basic_get_empty")),
    *method(S, "BasicGetOk", (60, 71), "delivery_tag redelivered exchange routing_key message_count"),
    *method(S, "BasicGetEmpty", (60, 72), "reserved_1"),
    *method(C, "BasicAck", (60, 80), "delivery_tag multiple"),
    *method(C, "BasicReject", (60, 90), "delivery_tag requeue"),
    *method(C, "BasicRecoverAsync", (60, 100), "requeue"),
    *method(C, "BasicRecover", (60, 110), "requeue", ""),
    *method(B, "BasicNack", (60, 120), "delivery_tag multiple requeue"),
    *method(C, "ConfirmSelect", (85, 10), "no_wait", ""),
    *(made for i, name in enumerate(TX, 1) for made in method(C, f"Tx{name}", (90, 10 * i), "", "")),
    s.message("ContentHeader", OnChannel, code=(2, 60), **CONTENT),
    s.message("ContentBody", OnChannel, code=(3,), content=s.field(s.rest, "a piece of it", role="payload")),
    s.message("Heartbeat", OnChannel, code=(8,), kind="control"),
)
SIZE = s.Size("size", U32, counts="after", plus=1, most=1 << 24)
HEADER = (s.Code("type", U8), s.Kept("channel"), SIZE, s.Code("class_id", U16), s.Code("method_id", U16))
ORDER, NO_WAIT, ALIVE = Matching(in_order=True), Selection(when=When("no_wait")), Selection(messages=("heartbeat",))
PROTOCOL = s.declare(
    s.Protocol(
        name="amqp",
        title="AMQP 0-9-1",
        frame=s.Frame((*HEADER, s.Trailer(b"\xce"))),
        frames={"header": s.Frame((s.Magic(b"AMQP"), s.Ends(8)))},
        messages=MESSAGES,
        labels=(FLAGS,),
        topics=s.Topics("words", one="*", rest="#", rest_anywhere=True),
        ports={"tcp": 5672},
        conduct=Conduct(matching=ORDER, no_reply=(NO_WAIT,), heartbeats=(ALIVE,)),
    )
)
