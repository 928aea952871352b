"""Public protocols in short, of which each needs something that others do not."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import By, Lookup, When
from wirelake.spec.conduct import Conduct, Matching


class Label(s.Struct):
    tag: int = s.field(s.within(s.u8, 0, 192, "label"), "length, or where the rest is")
    text: str | None = s.optional(s.text("tag"), "label", when=When("tag", least=1, most=63))
    low: int | None = s.optional(s.u8, "place", when=When("tag", least=192))


NAME = s.many(s.nested(Label), None, until=When("tag", one_of=(0, *range(192, 256))))


class Question(s.Struct):
    name: tuple[Label, ...] = s.field(NAME, "name")
    type: int = s.field(s.be.u16, "type")
    klass: int = s.field(s.be.u16, "class")


class Record(s.Struct):
    name: tuple[Label, ...] = s.field(NAME, "name")
    type: int = s.field(s.be.u16, "type")
    klass: int = s.field(s.be.u16, "class")
    ttl: int = s.field(s.be.u32, "type")
    size = s.length(s.be.u16, of="data")
    data: bytes = s.field(s.blob("size"), "data")


class Query(s.Message, code=0):
    identity: int = s.field(s.be.u16, "id", role="correlation")
    response: int = s.field(s.bits(s.be.u16, 15, 1), "r")
    flags: int = s.field(s.bits(s.be.u16, 0, 15), "r")
    qd = s.length(s.be.u16, of="questions")
    an = s.length(s.be.u16, of="answers")
    ns = s.length(s.be.u16, of="authorities")
    ar = s.length(s.be.u16, of="additional")
    questions: tuple[Question, ...] = s.field(s.many(s.nested(Question), "qd"), "q")
    answers: tuple[Record, ...] = s.field(s.many(s.nested(Record), "an"), "q")
    authorities: tuple[Record, ...] = s.field(s.many(s.nested(Record), "ns"), "q")
    additional: tuple[Record, ...] = s.field(s.many(s.nested(Record), "ar"), "q")


DNS = s.declare(s.Protocol("dns", "DNS over TCP", s.Frame((s.Size("length", s.be.u16, counts="after"),)), (Query,)))
Z = s.text(b"\0")


class Setting(s.Struct):
    name: str = s.field(s.text(b"\0", least=1), "n")
    value: str = s.field(Z, "n")


class Startup(s.Message, code=196608, frame="opening", kind="control", sent_by="client"):
    settings: tuple[Setting, ...] = s.field(s.many(s.nested(Setting), b"\0"), "settings")


class SslRequest(s.Message, code=80877103, frame="opening", kind="control", sent_by="client"): ...


class SimpleQuery(s.Message, code=ord("Q"), kind="request", sent_by="client", answer="ready_for_query"):
    text: str = s.field(Z, "sql")


class Describe(s.Message, code=ord("D"), kind="event", sent_by="client"):
    what: int = s.field(s.u8, "S or P")
    name: str = s.field(Z, "name")


class DataRow(s.Message, code=ord("D"), kind="event", sent_by="server"):
    columns: tuple[bytes | None, ...] = s.field(s.many(s.blob(s.be.i32, null=-1), s.be.u16), "cells")


class Ready(s.Message, code=ord("Z"), kind="response", sent_by="server", as_name="ready_for_query"):
    status: int = s.field(s.u8, "I T E")


class Unknown(s.Message, code=s.OTHER):
    type: int = s.field(s.u8, "type")
    data: bytes = s.field(s.rest, "payload")


PG = s.declare(
    s.Protocol(
        "pg",
        "PG",
        s.Frame((s.Code("type", s.u8), s.Size("length", s.be.u32, counts="after", plus=-4, least=4, most=1 << 20))),
        (Startup, SslRequest, SimpleQuery, Describe, DataRow, Ready, Unknown),
        frames={
            "opening": s.Frame(
                (s.Size("length", s.be.u32, counts="whole", least=8, most=10000), s.Code("version", s.be.u32))
            )
        },
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)

SUBJECT = s.word(r"[A-Za-z0-9_.*>-]+", "subject", most=200)
SIZE = s.number("([0-9]{1,8})", "size", 0, 1 << 20)
JSON = s.word(r"\{.{0,200}\}", "json", all=True)


class Info(s.Message, code=1, word="INFO", sent_by="server"):
    settings: str = s.field(JSON, "json")


class Connect(s.Message, code=2, word="CONNECT", sent_by="client"):
    settings: str = s.field(JSON, "json")


class Pub(s.Message, code=3, word="PUB", sent_by="client"):
    subject: str = s.field(SUBJECT, "where", role="address")
    reply_to: str | None = s.optional(s.word(r"[A-Za-z0-9_.]+", "reply", optional=True), "inbox")
    size: int = s.field(SIZE, "bytes")
    payload: bytes = s.field(s.blob("size", end=b"\r\n"), "what", role="payload")


class Msg(s.Message, code=4, word="MSG", sent_by="server"):
    subject: str = s.field(SUBJECT, "where", role="address")
    sid: str = s.field(s.word(r"[A-Za-z0-9]+", "sid"), "x")
    reply_to: str | None = s.optional(s.word(r"[A-Za-z0-9_.]+", "reply", optional=True), "inbox")
    size: int = s.field(SIZE, "bytes")
    payload: bytes = s.field(s.blob("size", end=b"\r\n"), "what", role="payload")


class Sub(s.Message, code=5, word="SUB", sent_by="client"):
    subject: str = s.field(SUBJECT, "where", role="address")
    queue: str | None = s.optional(s.word(r"[A-Za-z0-9_.]+", "queue", optional=True), "queue group")
    sid: str = s.field(s.word(r"[A-Za-z0-9]+", "sid"), "x")


class Ping(s.Message, code=6, word="PING", answer=7, kind="control"): ...


class Pong(s.Message, code=7, word="PONG", kind="response"): ...


class Ok(s.Message, code=8, word="+OK", sent_by="server"): ...


class Err(s.Message, code=9, word="-ERR", sent_by="server"):
    reason: str = s.field(s.word(r"'[^']{1,80}'", "reason", all=True), "x")


NATS = s.declare(
    s.Protocol(
        "nats",
        "NATS",
        s.Frame(
            (
                s.Line(
                    b" ", b"\r\n", window=4096, fewest=1, most=None, code="verb", code_rule="verb", fold=True, skip=True
                ),
                s.Ends(1 << 21),
            )
        ),
        (Info, Connect, Pub, Msg, Sub, Ping, Pong, Ok, Err),
        topics=s.Topics("segments", one="*", rest=">"),
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)


# --- FIX
class Pair(s.Struct):
    tag: int = s.field(s.digits(b"=", 1, 99999), "tag")
    value: str = s.field(s.text(b"\x01"), "value")


class Fix(s.Message):
    fields: tuple[Pair, ...] = s.field(s.many(s.nested(Pair), None), "fields", default=())
    mark = s.constant(b"10=")
    total = s.checksum(s.digits(3, 0, 255), "sum8")
    end = s.constant(b"\x01")


class FHeartbeat(Fix, code="0"): ...


class Logon(Fix, code="A"): ...


class Order(Fix, code="D", kind="request", answer="execution_report"):
    client_order = s.derived(Lookup("fields", 11), "id", role="correlation")


class ExecutionReport(Fix, code="8", kind="response"):
    client_order = s.derived(Lookup("fields", 11), "id", role="correlation")


FIX = s.declare(
    s.Protocol(
        "fix",
        "FIX 4.4",
        s.Frame(
            (
                s.Magic(b"8=FIX.4.4\x019="),
                s.Size("body_length", s.digits(b"\x01", 1, 1 << 16), counts="after", plus=7),
                s.Magic(b"35="),
                s.Code("type", s.text(b"\x01")),
            )
        ),
        (FHeartbeat, Logon, Order, ExecutionReport),
    )
)


# --- SMPP
class Tlv(s.Struct):
    tag: int = s.field(s.be.u16, "tag")
    value: bytes = s.field(s.blob(s.be.u16), "value")


class Pdu(s.Message):
    status: int = s.field(s.be.u32, "status", role="status")
    sequence: int = s.field(s.be.u32, "sequence", role="correlation")


C = s.text(b"\0", most=64)


class BindTransceiver(Pdu, code=9, kind="request", answer=(0x80000009, 0x80000000), sent_by="client"):
    system_id: str = s.field(C, "who")
    password: str = s.field(C, "secret")
    system_type: str = s.field(C, "type")
    version: int = s.field(s.u8, "version")
    ton: int = s.field(s.u8, "ton")
    npi: int = s.field(s.u8, "npi")
    address_range: str = s.field(C, "range")


class BindTransceiverResp(Pdu, code=0x80000009, kind="response", good=(0,), sent_by="server"):
    system_id: str | None = s.optional(C, "who", when=s.IfLeft())
    tlvs: tuple[Tlv, ...] = s.field(s.many(s.nested(Tlv), None), "more", default=())


class SubmitSm(Pdu, code=4, kind="request", answer=0x80000004):
    service: str = s.field(C, "service")
    destination: str = s.field(C, "to", role="address")
    text: bytes = s.field(s.blob(s.u8), "message")
    tlvs: tuple[Tlv, ...] = s.field(s.many(s.nested(Tlv), None), "more", default=())


class SubmitSmResp(Pdu, code=0x80000004, kind="response", good=(0,)):
    message_id: str | None = s.optional(C, "id", when=s.IfLeft())


class GenericNack(Pdu, code=0x80000000, kind="response", failure=True): ...


class EnquireLink(Pdu, code=0x15, kind="request", answer=0x80000015): ...


class EnquireLinkResp(Pdu, code=0x80000015, kind="response"): ...


SMPP = s.declare(
    s.Protocol(
        "smpp",
        "SMPP 3.4",
        s.Frame(
            (
                s.Size("length", s.be.u32, counts="whole", least=16, most=65536),
                s.Code("command", s.be.u32),
                s.Kept("status"),
                s.Kept("sequence"),
            )
        ),
        (BindTransceiver, BindTransceiverResp, SubmitSm, SubmitSmResp, GenericNack, EnquireLink, EnquireLinkResp),
    )
)


# --- BGP
class Prefix(s.Struct):
    bits: int = s.field(s.within(s.u8, 0, 32, "prefix"), "length")
    address: bytes = s.field(s.blob(By("bits", per=8)), "address")


class Attr(s.Struct):
    optional: int = s.field(s.bits(s.u8, 7, 1), "o")
    transitive: int = s.field(s.bits(s.u8, 6, 1), "o")
    partial: int = s.field(s.bits(s.u8, 5, 1), "o")
    extended: int = s.field(s.bits(s.u8, 4, 1), "o")
    unused: int = s.field(s.bits(s.u8, 0, 4), "o")
    type: int = s.field(s.u8, "type")
    value: bytes | None = s.optional(s.blob(s.u8), "v", when=When("extended", empty=True))
    long_value: bytes | None = s.optional(s.blob(s.be.u16), "v", when=When("extended"))


class Open(s.Message, code=1):
    version: int = s.field(s.u8, "v")
    asn: int = s.field(s.be.u16, "v")
    hold: int = s.field(s.be.u16, "v", unit="s")
    identity: bytes = s.field(s.fixed(4), "v")
    parameters: bytes = s.field(s.blob(s.u8), "v")


class Update(s.Message, code=2):
    withdrawn: tuple[Prefix, ...] = s.field(s.sized(s.be.u16, s.many(s.nested(Prefix), None)), "w")
    attributes: tuple[Attr, ...] = s.field(s.sized(s.be.u16, s.many(s.nested(Attr), None)), "w")
    routes: tuple[Prefix, ...] = s.field(s.many(s.nested(Prefix), None), "r")


class KeepAlive(s.Message, code=4): ...


BGP = s.declare(
    s.Protocol(
        "bgp",
        "BGP-4",
        s.Frame(
            (
                s.Magic(b"\xff" * 16, "marker"),
                s.Size("length", s.be.u16, counts="whole", least=19, most=4096),
                s.Code("type", s.u8),
            )
        ),
        (Open, Update, KeepAlive),
    )
)


# --- Diameter
class Avp(s.Struct):
    code: int = s.field(s.be.u32, "q")
    vendor_flag: int = s.field(s.bits(s.u8, 7, 1), "q")
    flags: int = s.field(s.bits(s.u8, 0, 7), "q")
    size = s.length(s.be.u24, of="data", since="code")
    vendor: int | None = s.optional(s.be.u32, "v", when=When("vendor_flag"))
    data: bytes = s.field(s.blob("size"), "data")
    pad = s.align(4)


class Dia(s.Message):
    proxiable: int = s.field(s.bits(s.u8, 6, 1), "p")
    flags: int = s.field(s.bits(s.u8, 0, 6), "p")
    application: int = s.field(s.be.u32, "p")
    hop: int = s.field(s.be.u32, "p", role="correlation")
    end: int = s.field(s.be.u32, "p")
    avps: tuple[Avp, ...] = s.field(s.many(s.nested(Avp), None), "q")


class Cer(Dia, code=(1, 257), kind="request", answer="cea"): ...


class Cea(Dia, code=(0, 257), kind="response"):
    result = s.derived(Lookup("avps", 268, "data"), "result", role="status")


class Dwr(Dia, code=(1, 280), kind="request", answer="dwa"): ...


class Dwa(Dia, code=(0, 280), kind="response"): ...


DIAMETER = s.declare(
    s.Protocol(
        "diameter",
        "D",
        s.Frame(
            (
                s.Magic(b"\1"),
                s.Size("length", s.be.u24, counts="whole", least=20),
                s.Code("request", s.bits(s.u8, 7, 1)),
                s.Kept("proxiable"),
                s.Kept("flags"),
                s.Code("command", s.be.u24),
                s.Kept("application"),
                s.Kept("hop"),
                s.Kept("end"),
            )
        ),
        (Cer, Cea, Dwr, Dwa),
    )
)
# --- memcached text
KEY = s.word(r"[!-~]{1,250}", "key")
NUM = s.number("([0-9]{1,10})", "number", 0, 2**32 - 1)
BYTES = s.number("([0-9]{1,7})", "bytes", 0, 1 << 20)
NOREPLY = s.word("noreply", "noreply", optional=True)
STORED = ("stored", "not_stored", "failed")


class Store(s.Message, kind="request", sent_by="client", answer=STORED):
    key: str = s.field(KEY, "key", role="address")
    flags: int = s.field(NUM, "f")
    expires: int = s.field(NUM, "f")
    size: int = s.field(BYTES, "f")
    noreply: str | None = s.optional(NOREPLY, "x")
    value: bytes = s.field(s.blob("size", end=b"\r\n"), "v", role="payload")


class Set(Store, code=1, word="set"): ...


class Add(Store, code=2, word="add"): ...


class Get(s.Message, code=3, word="get", kind="request", sent_by="client", answer="end"):
    keys: str = s.field(s.word(r"[!-~]+( [!-~]+)*", "keys", all=True), "k", role="address")


class Value(s.Message, code=4, word="VALUE", sent_by="server"):
    key: str = s.field(KEY, "key")
    flags: int = s.field(NUM, "f")
    size: int = s.field(BYTES, "f")
    cas: int | None = s.optional(s.number("([0-9]{1,20})", "cas", 0, 2**64 - 1, optional=True), "x")
    value: bytes = s.field(s.blob("size", end=b"\r\n"), "v", role="payload")


class End(s.Message, code=5, word="END", kind="response", sent_by="server"): ...


class Stored(s.Message, code=6, word="STORED", kind="response", sent_by="server"): ...


class NotStored(s.Message, code=7, word="NOT_STORED", kind="response", sent_by="server", failure=True): ...


class Failed(s.Message, code=8, word="ERROR", kind="response", sent_by="server", failure=True): ...


MEMCACHED = s.declare(
    s.Protocol(
        "memcached",
        "M",
        s.Frame(
            (
                s.Line(b" ", b"\r\n", window=2048, fewest=1, most=None, code="command", code_rule="command", skip=True),
                s.Ends(1 << 21),
            )
        ),
        (Set, Add, Get, Value, End, Stored, NotStored, Failed),
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
# --- LDAP
TLV = s.choice(
    s.u8,
    lambda: {
        **{t: s.blob(s.ber()) for t in (1, 2, 4, 10, 0x80, 0x87)},
        **{t: s.sized(s.ber(), s.many(TLV, None)) for t in (0x30, 0x31, 0x60, 0x61, 0x63, 0x64, 0x65, 0xA0, 0xA3)},
    },
    depth=12,
)


class Ldap(s.Message, code=0):
    tag = s.constant(b"\2")
    identity: bytes = s.field(s.blob(s.ber()), "id", role="correlation")
    operation: s.Tagged = s.field(TLV, "operation")
    controls: tuple[s.Tagged, ...] = s.field(s.many(TLV, None), "controls", default=())


LDAP = s.declare(
    s.Protocol(
        "ldap", "L", s.Frame((s.Magic(b"\x30"), s.Size("length", s.ber(), counts="after", most=1 << 20))), (Ldap,)
    )
)

PROTOCOLS = (DNS, PG, NATS, FIX, SMPP, BGP, DIAMETER, MEMCACHED, LDAP)
