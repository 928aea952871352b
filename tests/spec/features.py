"""One small protocol for each thing that a declaration can say: a request, its reply, and the thing itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

from tests.codec.declarations import made
from wirelake import spec as s
from wirelake.spec import Lookup, When
from wirelake.spec import nodes as n
from wirelake.spec.conduct import Conduct, Matching, Selection, Streams

SIZED = (s.Size("size", s.be.u16, counts="after", most=4096), s.Code("kind", s.u8))
ENDING = (s.Code("kind", s.u8), s.Ends(4096))
Fields = dict[str, Any]
NUMBER = {"number": s.field(s.be.u16, "ties a reply to its request", role="correlation")}
FEATURES: dict[str, Callable[[], s.Protocol]] = {}


def talk(name: str, *frame: Any, fields: Fields | None = None, **said: Any) -> None:
    """A protocol in which a client asks and a server replies, both with these fields behind a number."""

    def make() -> s.Protocol:
        known = {**NUMBER, **(fields or {})}
        asked = {"code": 1, "kind": "request", "answer": 2, "sent_by": "client"} | said.pop("asked", {})
        told = {"code": 2, "kind": "response", "sent_by": "server"} | said.pop("told", {})
        messages = (made(s.Message, "Ask", known, **asked), made(s.Message, "Tell", known, **told))
        short = "".join(letter if letter.isalnum() else "_" for letter in name.lower())
        return s.declare(s.Protocol(short, name, s.Frame(frame or SIZED), (*messages, *said.pop("more", ())), **said))

    FEATURES[name] = make


def each(**wires: Any) -> Fields:
    return {
        name: wire if isinstance(wire, n.Field | n.DerivedField) else s.field(wire, name)
        for name, wire in wires.items()
    }


# --- framing
for plus in (-3, 4):
    talk(
        f"length plus {plus}",
        s.Size("size", s.be.u16, counts="after", plus=plus),
        s.Code("kind", s.u8),
        fields=each(x=s.fixed(9)),
    )
talk("length as varint", s.Code("kind", s.u8), s.Size("size", s.varint(4), counts="after"), fields=each(x=s.rest))
talk("length as varint, high first", s.Size("size", s.varint(3, high_first=True), counts="after"), s.Code("k", s.u8))
talk("length as varint, longer than needed", s.Size("n", s.varint(5, lenient=True), counts="whole"), s.Code("k", s.u8))
talk("length as ber", s.Size("size", s.ber(), counts="after"), s.Code("kind", s.u8), fields=each(x=s.rest))
talk("length as decimal text", s.Size("size", s.digits(b" "), counts="after", most=999), s.Code("kind", s.u8))
talk("length as hex text", s.Size("size", s.digits(b"\r\n", base=16), counts="after", most=999), s.Code("kind", s.u8))
talk("length of four digits", s.Size("size", s.digits(4, base=16), counts="whole", most=999), s.Code("kind", s.u8))
talk(
    "length escaped",
    s.Size("size", s.Escaped(255, s.be.u16), counts="after"),
    s.Code("kind", s.u8),
    fields=each(x=s.rest),
)
talk(
    "length escaped behind the code",
    s.Code("kind", s.u8),
    s.Size("size", s.Escaped(200, s.le.u32), counts="after"),
    fields=each(x=s.rest),
)
talk("trailer", *SIZED, s.Trailer(b"\xce"), fields=each(x=s.rest))
talk("frames that end with a line end", s.Code("kind", s.u8), s.Until(b"\r\n", 999), fields=each(x=s.text(s.u8)))
talk(
    "frames that end with a zero",
    s.Code("kind", s.u8),
    s.Until(b"\0", 999),
    fields={"number": s.field(s.digits(b" "), "which", role="correlation")} | each(x=s.rest_text),
)
HEADERS = s.many(
    s.nested(s.struct("Header", name=s.field(s.text(b":"), "name"), value=s.field(s.text(b"\n"), "value"))), b"\n"
)
talk(
    "a length in a header line, else a terminator",
    *ENDING,
    fields=each(
        headers=HEADERS, size=s.derived(Lookup("headers", "length", number=True)), body=s.blob("size", end=b"\0")
    ),
)
talk(
    "a frame that ends with its last field",
    *ENDING,
    fields=each(x=s.text(s.digits(b"\r\n", -1, 99), null=-1, end=b"\r\n")),
)
talk(
    "magic behind the length",
    s.Size("n", s.le.u32, counts="whole", least=7, most=999),
    s.Magic(b"PK"),
    s.Code("k", s.u8),
    s.Magic(b"\0", "pad"),
)
for title, wire in {
    "u24": s.le.u24,
    "i64": s.be.i64,
    "labelled": s.labelled(s.u8, s.Labels("l", {1: "one"})),
    "within": s.within(s.u8, 1, 3, "r"),
    "bytes": s.fixed(4),
    "u64": s.le.u64,
}.items():
    talk(f"a field of the header, {title}", s.Kept("x"), *SIZED, fields=each(x=wire))
talk(
    "code of 64 bits",
    s.Code("kind", s.be.u64),
    s.Size("n", s.u8, counts="after"),
    asked={"code": 0x1_0000_0001, "answer": 0x1_0000_0002},
    told={"code": 0x1_0000_0002},
)
talk(
    "code as text",
    s.Code("kind", s.text(b"\n")),
    s.Size("n", s.u8, counts="after"),
    asked={"code": "ASK", "answer": "tell"},
    told={"code": "TELL"},
)
talk(
    "code of two parts",
    s.Size("n", s.u8, counts="after"),
    s.Code("a", s.u8),
    s.Code("b", s.be.u16),
    asked={"code": (1, 300), "answer": "tell"},
    told={"code": (1, 301)},
)
talk(
    "code as bits",
    s.Code("kind", s.bits(s.u8, 4, 4)),
    s.Kept("flags"),
    s.Size("n", s.u8, counts="after"),
    fields=each(flags=s.bits(s.u8, 0, 4)),
)

for title, wire in {"varint": s.varint(2), "digits": s.digits(b" ")}.items():
    talk(f"code as {title}", s.Size("n", s.varint(3), counts="after"), s.Code("kind", wire), fields=each(x=s.rest))
    talk(
        f"code as {title} before the length",
        s.Code("kind", wire),
        s.Size("n", s.varint(3), counts="after"),
        fields=each(x=s.rest),
    )
talk(
    "code as varint, or any other",
    s.Size("n", s.u8, counts="after"),
    s.Code("kind", s.varint(3)),
    more=(made(s.Message, "Other", {"kind": s.field(s.varint(3), "code"), "x": s.field(s.rest)}, code=s.OTHER),),
)
talk(
    "length escaped, more in the header, and a trailer",
    s.Size("n", s.Escaped(200, s.be.u16), counts="after"),
    s.Kept("y"),
    s.Code("kind", s.u8),
    s.Trailer(b"\xce"),
    fields=each(y=s.be.u24, x=s.rest),
)

# --- fields
talk("bits", fields=each(a=s.bits(s.be.u16, 15, 1), b=s.bits(s.be.u16, 3, 12), c=s.bits(s.be.u16, 0, 3)))
talk(
    "condition on bits",
    fields=each(a=s.bits(s.u8, 4, 4), b=s.bits(s.u8, 0, 4), x=s.optional(s.be.u16, when=When("a", bits=3))),
)
talk(
    "condition on a value",
    fields=each(
        a=s.u8,
        x=s.optional(s.text(s.u8), when=When("a", one_of=tuple(range(99)))),
        y=s.optional(s.u8, when=When("a", none_of=(1, 2))),
    ),
)
talk("condition on a range", fields=each(a=s.be.i16, x=s.optional(s.u8, when=When("a", least=-9, most=20_000))))
talk(
    "condition on a text",
    fields=each(
        a=s.text(s.u8), x=s.optional(s.u8, when=When("a", empty=True)), y=s.optional(s.u8, when=When("a", prefix="a"))
    ),
)
talk("condition on bytes", fields=each(a=s.blob(s.u8), x=s.optional(s.u8, when=When("a"))))
talk("condition on a list", fields=each(a=s.many(s.u8, s.u8), x=s.optional(s.u8, when=When("a"))))
talk(
    "condition on a truth value",
    fields=each(a=s.bool8, x=s.optional(s.u8, when=When("a")), y=s.optional(s.u8, when=When("a", empty=True))),
)
talk(
    "condition on an optional field",
    fields=each(a=s.u8, b=s.optional(s.u8, when=When("a", most=128)), c=s.optional(s.u8, when=When("b"))),
)
talk(
    "condition with another field",
    fields=each(a=s.u8, b=s.optional(s.u8, when=When("a", most=128)), c=s.optional(s.u8, when=s.With("b"))),
)
talk(
    "several conditions",
    fields=each(a=s.u8, b=s.u8, x=s.optional(s.u8, when=(When("a", most=128), When("b", least=9)))),
)
talk("condition on a varint", fields=each(a=s.varint(2), x=s.optional(s.u8, when=When("a", most=999))))
talk("condition on digits", fields=each(a=s.digits(b" ", -50, 50), x=s.optional(s.u8, when=When("a", least=0))))
talk("condition on a number with a fraction", fields=each(a=s.be.f32, x=s.optional(s.u8, when=When("a"))))
PAIR = s.struct("Pair", left=s.field(s.u8, "left"), right=s.field(s.u8, "right"))
talk(
    "condition on a field of a structure",
    fields=each(a=s.nested(PAIR), x=s.optional(s.u8, when=When("a.right", most=128))),
)
talk("fields if bytes are left", fields=each(x=s.optional(s.be.u16, when=s.IfLeft())))
talk(
    "fields if bytes are left before a sum",
    fields={
        **each(x=s.optional(s.be.u16, when=s.IfLeft()), y=s.optional(s.u8, when=s.IfLeft())),
        "end": s.constant(b"!"),
        "sum": s.checksum(s.be.u16, "sum16"),
    },
)
talk("terminated text", fields=each(x=s.text(b"\0"), y=s.text(b"\r\n", most=50), z=s.blob(b"--")))
talk(
    "texts with escapes",
    fields=each(x=s.text(b"\n", escapes={rb"\\": b"\\", rb"\n": b"\n"}), y=s.blob(s.u8, escapes={b"==": b"="})),
)
talk(
    "text in another character set",
    fields=each(x=s.text(s.u8, charset="latin-1")),
)
talk("text in ASCII", fields=each(x=s.Run(s.u8, "strict_text", charset="us-ascii")))
talk("text in a charset of two bytes", fields=each(x=s.Run(s.u8, "strict_text", charset="utf-16-le")))
talk("json", fields=each(x=s.Run(s.u8, "json")))
talk("MessagePack", fields=each(x=s.msgpack(s.be.u16), y=s.msgpack(s.be.u16, is_map=True)))
talk("header lines", fields=each(x=HEADERS, y=s.derived(Lookup("x", "host"), role="address")))
talk("constants", fields={"a": s.constant(b"MQTT"), **each(x=s.u8), "b": s.constant(b"\0")})
talk(
    "numbers as text",
    fields=each(
        a=s.digits(b" "),
        b=s.digits(b";", -(2**63)),
        c=s.digits(b"\r\n", base=16),
        d=s.digits(3),
        e=s.digits(b",", lenient=True),
    ),
)
talk("varints", fields=each(a=s.varint(9), b=s.varint(4, high_first=True), c=s.varint(5, lenient=True), d=s.ber()))
talk(
    "varints of 64 bits",
    fields=each(
        a=s.varint(10),
        b=s.varint(10, high_first=True),
        c=s.varint(10, lenient=True),
        d=s.blob(s.varint(10)),
        e=s.optional(s.u8, when=When("a", least=2**40)),
    ),
)
talk(
    "length as varint of 64 bits",
    s.Code("kind", s.u8),
    s.Size("size", s.varint(10, lenient=True), counts="after", most=4096),
    fields=each(x=s.rest),
)
talk(
    "all integers",
    fields=each(
        **{
            f"{o}_{k}": getattr(getattr(s, o), k)
            for o in ("be", "le")
            for k in ("u8", "u16", "u24", "u32", "u64", "i8", "i16", "i32", "i64")
        }
    ),
)
talk(
    "nested structures",
    fields=each(x=s.nested(PAIR), y=s.nested(s.struct("Outer", inner=s.field(s.nested(PAIR)), z=s.field(s.u8)))),
)
VALUE = s.choice(s.u8, lambda: {0: None, 1: s.be.u16, 2: s.text(s.u8), 3: s.many(VALUE, s.u8)}, depth=4)
talk("values inside each other", fields=each(x=VALUE))
talk("lists to the end", fields=each(x=s.many(s.be.u16, None)))
talk("lists of structures to the end", fields=each(x=s.many(s.nested(PAIR), None)))
talk("lists up to a terminator", fields=each(x=s.many(s.text(b"\n"), b".")))
talk("lists by bytes", fields=each(x=s.sized(s.u8, s.many(s.text(s.u8), None))))
talk(
    "lists up to an element, or to the end",
    fields=each(
        x=s.many(s.nested(PAIR), None, until=When("left", one_of=(255, 254)), or_end=True),
        y=s.field(s.rest, default=b""),
    ),
)
talk("lists up to an element", fields=each(x=s.many(s.nested(PAIR), None, until=When("left", most=99))))
talk(
    "lists by count", fields=each(x=s.many(s.be.f32, s.varint(2)), y=s.many(s.u8, 3), z=s.many(s.u8, s.be.i16, null=-1))
)
talk("lists of lists", fields=each(x=s.many(s.many(s.u8, s.u8), s.u8)))
talk("lists by an earlier field", fields=each(n=s.u8, x=s.many(s.u8, s.By("n", per=4))))
talk(
    "texts by an earlier field",
    fields={"n": s.length(s.u8, of="x"), **each(y=s.u8, x=s.text("n"), m=s.digits(2), z=s.text("m"))},
)
talk("lengths that count more", fields={"n": s.length(s.u8, of="x", since="n"), **each(x=s.blob("n"))})
talk(
    "tagged union by an earlier value",
    fields=each(
        t=s.u8, a=s.optional(s.be.f64, when=When("t", most=99)), b=s.optional(s.nested(PAIR), when=When("t", least=100))
    ),
)
talk("floats", fields=each(a=s.be.f32, b=s.be.f64, c=s.le.f32, d=s.le.f64))
talk(
    "fixed point",
    fields=each(
        a=s.fixed_point(s.be.i32, 16),
        b=s.fixed_point(s.le.u16, decimals=2),
        c=s.fixed_point(s.digits(b" ", -(10**9), 10**9), decimals=3),
    ),
)
talk(
    "timestamps",
    fields=each(
        a=s.timestamp(s.be.u32, "s"),
        b=s.timestamp(s.be.i64, "ms"),
        c=s.timestamp(s.le.u64, "us", epoch=date(1900, 1, 1)),
    ),
)
talk("zeros up to a multiple", fields={"x": s.field(s.text(s.u8)), "pad": s.align(4)})
talk("uuid and flags", fields=each(a=s.uuid, b=s.flag8, c=s.bool8, d=s.fixed(3)))
talk(
    "labels",
    fields=each(
        a=s.labelled(s.u8, s.Labels("state", {0: "off", 1: "on"})),
        b=s.labelled(s.u8, s.Labels("flags", {1: "x", 2: "y"}, bits=True)),
    ),
)
for kind, width in {
    "crc32": s.be.u32,
    "crc16_modbus": s.le.u16,
    "crc16_ccitt": s.be.u16,
    "adler32": s.be.u32,
    "sum8": s.u8,
    "sum16": s.be.u16,
    "xor8": s.u8,
}.items():
    talk(f"checksum {kind}", fields={**each(x=s.rest), "sum": s.checksum(width, kind)})  # type: ignore[arg-type]
talk("checksum as digits", fields={**each(x=s.text(s.u8)), "sum": s.checksum(s.digits(3), "sum8", since="x")})

# --- conversation
talk("another layout per direction", told={"code": 1}, asked={"answer": "tell"}, fields=each(x=s.u8))
talk(
    "several replies",
    asked={"answer": (2, 0x82)},
    more=(made(s.Message, "Refuse", NUMBER, code=0x82, kind="response", sent_by="server", failure=True),),
)
talk(
    "replies in order",
    fields={"number": s.field(s.be.u16, "no correlation")},
    conduct=Conduct(matching=Matching(in_order=True)),
)
talk("good values", told={"good": (0, 1)}, fields=each(status=s.field(s.u8, "how it went", role="status")))
talk(
    "a message for other codes",
    more=(made(s.Message, "Other", {"kind": s.field(s.u8, "code"), "x": s.field(s.rest)}, code=s.OTHER),),
)
OTHER = {"kind": s.field(s.u8, "code"), "x": s.field(s.rest)}
talk(
    "any code, before the length",
    s.Code("kind", s.u8),
    s.Size("n", s.u8, counts="after"),
    more=(made(s.Message, "Other", OTHER, code=s.OTHER),),
)
HELLO = s.Frame((s.Size("n", s.be.u32, counts="whole", most=99), s.Code("v", s.be.u32)))
talk(
    "a first message without the code of the others",
    s.Code("kind", s.u8),
    s.Size("n", s.be.u32, counts="after", plus=-4),
    frames={"hello": HELLO},
    more=(
        made(
            s.Message,
            "Hello",
            {"x": s.field(s.text(b"\0"))},
            code=196608,
            frame="hello",
            kind="control",
            sent_by="client",
        ),
    ),
)
talk(
    "a first message in a frame of its own",
    frames={"hello": s.Frame((s.Size("n", s.be.u32, counts="whole", most=99), s.Code("v", s.be.u32)))},
    more=(
        made(
            s.Message,
            "Hello",
            {"x": s.field(s.text(b"\0"))},
            code=196608,
            frame="hello",
            kind="control",
            sent_by="client",
        ),
    ),
)
talk(
    "topics",
    fields=each(topic=s.field(s.text(s.u8), "where", role="address")),
    topics=s.Topics("words", one="+", rest="#", separator="/"),
)

talk(
    "a correlation among tagged values",
    fields={
        "fields": s.field(s.many(s.nested(PAIR), s.u8)),
        "number": s.derived(Lookup("fields", 11), role="correlation"),
    },
)
talk(
    "several replies, of which one is the last",
    fields=each(last=s.bool8),
    conduct=Conduct(streams=Streams(continues=(Selection(messages=("tell",), when=When("last", empty=True)),))),
)
talk(
    "fields of a version",
    s.Size("n", s.u8, counts="after"),
    s.Kept("version"),
    s.Code("kind", s.u8),
    fields=each(version=s.u8, x=s.optional(s.be.u16, when=When("version", least=128))),
)
talk(
    "a reading option",
    fields=each(x=s.text(s.choose("lines", lf=b"\n", zero=b"\0"))),
    options={"lines": s.Option(("lf", "zero"), "lf", "how lines end")},
)
talk(
    "commands of words",
    s.Line(b" ", b"\r\n", 80, 1, None, "verb", "verb", skip=True),
    s.Ends(999),
    fields={
        "number": s.field(s.number("([0-9]{1,5})", "number", 0, 65535), "which", role="correlation"),
        "name": s.optional(s.word("[a-z]{1,9}", "name", optional=True), "a name"),
        "size": s.field(s.number("([0-9]{1,2})", "size", 0, 50), "bytes"),
        "data": s.field(s.blob("size", end=b"\r\n"), "data"),
    },
    asked={"word": "ASK"},
    told={"word": "TELL"},
)


WORD = s.word("[A-Z]{1,8}", "verb")
talk(
    "any first word",
    s.Line(b" ", b"\r\n", 80, 1, None, "verb", "verb", fold=True, skip=True),
    s.Ends(999),
    fields={"number": s.field(s.number("([0-9]{1,5})", "number", 0, 65535), "which", role="correlation")},
    asked={"word": "ASK"},
    told={"word": "TELL"},
    more=(
        made(
            s.Message,
            "Other",
            {"verb": s.field(WORD), "rest": s.optional(s.word(".+", "rest", all=True, optional=True))},
            code=s.OTHER,
        ),
    ),
)
talk(
    "a header whatever its capitals, a body if it says a length",
    *ENDING,
    fields=each(
        headers=HEADERS,
        size=s.derived(Lookup("headers", "Length", number=True, fold=True)),
        host=s.derived(Lookup("headers", "Host", fold=True)),
        body=s.optional(s.blob("size"), when=When("size")),
    ),
)
talk(
    "a header of two names",
    *ENDING,
    fields=each(
        headers=HEADERS,
        size=s.derived(Lookup("headers", ("Length", "l"), number=True, fold=True)),
        body=s.optional(s.blob("size"), when=When("size")),
    ),
)
talk(
    "rests that exclude each other",
    fields=each(
        k=s.u8,
        x=s.optional(s.rest, when=When("k", one_of=(1, 2))),
        y=s.optional(s.rest_text, when=When("k", least=100)),
        z=s.optional(s.be.u32, when=When("k", one_of=(3, 4, 5))),
    ),
)
COMPACT = s.compact({0xFC: s.le.u16, 0xFD: s.be.u24, 0xFF: s.le.u64})
talk(
    "numbers whose first byte says how many follow",
    s.Code("kind", s.u8),
    s.Size("size", COMPACT, counts="after"),
    fields=each(
        a=COMPACT,
        b=s.compact({255: s.be.u32}, lenient=True),
        c=s.blob(COMPACT),
        d=s.many(s.u8, COMPACT),
        e=s.sized(COMPACT, s.many(s.be.u16, None)),
    ),
)
for order, number in (("be", s.be.u64), ("le", s.le.u64)):
    talk(
        f"a bitmap of what follows, {order}",
        fields=each(
            bitmap=number,
            **{f"x{i}": s.optional(s.u8, when=When("bitmap", bits=1 << i)) for i in (0, 1, 31, 32, 62, 63)},
        ),
    )
talk(
    "conditions on 64 bits",
    fields=each(
        k=s.be.u64,
        x=s.optional(s.u8, when=When("k", least=3)),
        y=s.optional(s.u8, when=When("k", most=200)),
    ),
)
PREFIX = s.struct("Prefix", mark=s.constant(b":"), who=s.field(s.text(b" ", most=60), "who"))
talk(
    "a text before the command, if there is one",
    s.Kept("prefix"),
    s.Line(b" ", b"\r\n", 80, 1, None, "verb", "verb", skip=True),
    s.Ends(999),
    fields={
        "prefix": s.optional(s.nested(PREFIX), "who sends", when=s.begins(b":")),
        "number": s.field(s.number("([0-9]{1,5})", "number", 0, 65535), "which", role="correlation"),
        "text": s.optional(s.word(".{1,20}", "text", all=True, optional=True), "what"),
    },
    asked={"word": "ASK"},
    told={"word": "TELL"},
)
talk(
    "a text before the code",
    s.Kept("tag"),
    s.Kept("flags"),
    s.Kept("more"),
    s.Code("kind", s.u8),
    s.Size("n", s.be.u16, counts="after"),
    fields=each(
        tag=s.text(b" ", most=40),
        flags=s.u8,
        more=s.optional(s.many(s.be.u16, s.u8), when=When("flags", bits=1)),
        x=s.rest,
    ),
)
talk(
    "fields that their first bytes announce",
    fields=each(
        x=s.optional(
            s.nested(s.struct("Mark", mark=s.constant(b"\xff\0"), v=s.field(s.be.u16))), when=s.begins(b"\xff\0")
        ),
        y=s.optional(s.digits(b" ", 10, 39), when=s.begins(b"1", b"2", b"3")),
        z=s.rest,
    ),
)
talk(
    "fields that their first bytes announce, in frames that end with a field",
    *ENDING,
    fields=each(
        x=s.optional(s.digits(b" ", 10, 39), when=s.begins(b"1", b"2", b"3")),
        y=s.optional(s.nested(s.struct("Mark2", mark=s.constant(b"::"), v=s.field(s.u8))), when=s.begins(b"::")),
        z=s.text(b"\n"),
    ),
)
talk(
    "a length in bits, or behind them in more bytes",
    s.Kept("short"),
    s.Kept("size"),
    s.Kept("long8"),
    s.Kept("long16"),
    s.Code("kind", s.u8),
    s.Kept("token"),
    s.Size("length", s.By("long16", plus=269, otherwise=s.By("long8", plus=13, otherwise="short")), counts="after"),
    fields=each(
        short=s.bits(s.within(s.u8, 0, 14, "length"), 4, 4),
        size=s.bits(s.within(s.u8, 0, 8, "token"), 0, 4),
        long8=s.optional(s.u8, when=When("short", one_of=(13,))),
        long16=s.optional(s.be.u16, when=When("short", one_of=(14,))),
        token=s.blob("size"),
        x=s.rest,
    ),
)
talk(
    "a length in one byte or in eight, as a flag says",
    s.Kept("flags"),
    s.Kept("short"),
    s.Kept("long"),
    s.Size("length", s.By("long", otherwise="short"), counts="after", most=4096),
    s.Code("kind", s.u8),
    fields=each(
        flags=s.u8,
        short=s.optional(s.u8, when=When("flags", none_of=(2, 3, 6, 7))),
        long=s.optional(s.be.u64, when=When("flags", one_of=(2, 3, 6, 7))),
        x=s.rest,
    ),
)
talk(
    "padding behind the rest",
    s.Kept("size"),
    s.Kept("pad"),
    s.Code("kind", s.u8),
    s.Size("behind", s.By("size", plus=-2), counts="after", most=999),
    fields={
        "size": s.field(s.be.u16, "bytes that follow"),
        "pad": s.field(s.u8, "bytes of padding"),
        "x": s.field(s.blob(s.By("size", plus=-4, less="pad"))),
        "padding": s.field(s.blob("pad")),
    },
    asked={"answer": "tell"},
    conduct=Conduct(matching=Matching(in_order=True)),
)
talk(
    "a length that counts an earlier part too",
    fields=each(
        head=s.u8,
        total=s.within(s.u8, 0, 255, "r"),
        x=s.blob("head"),
        y=s.blob(s.By("total", less="head"), end=b"\r\n"),
    ),
)
HUGE = 2**64 - 1
talk(
    "conditions on numbers above 53 bits",
    fields=each(
        k=s.le.u64,
        a=s.optional(s.u8, when=When("k", least=2**63 + 5)),
        b=s.optional(s.u8, when=When("k", one_of=(HUGE, 1))),
        c=s.optional(s.u8, when=When("k", none_of=(HUGE - 1,), most=HUGE - 1)),
        n=s.be.i64,
        d=s.optional(s.u8, when=When("n", most=-(2**63) + 1)),
        e=s.optional(s.u8, when=When("n", one_of=(2**63 - 1,))),
        v=s.varint(10),
        f=s.optional(s.u8, when=When("v", one_of=(HUGE, HUGE - 1))),
        w=s.nested(s.struct("Wide", z=s.field(s.varint(10, signed="zigzag"), "z"))),
        g=s.optional(s.u8, when=When("w.z", least=2**63 - 1)),
    ),
)
talk(
    "conditions on a number above 53 bits in the header",
    s.Kept("k"),
    *SIZED,
    fields=each(k=s.be.u64, a=s.optional(s.u8, when=When("k", one_of=(HUGE, 2**63)))),
)
talk(
    "code of wide parts",
    *(s.Code(name, s.be.u32) for name in "abc"),
    SIZED[0],
    asked={"code": (1 << 30, 0, 0), "answer": "tell"},
    told={"code": (1 << 29, 0, 0)},
)


talk(
    "numbers with a sign in bytes of 7 bits",
    fields=each(
        a=s.varint(3, signed="zigzag"),
        b=s.varint(10, signed="zigzag"),
        c=s.varint(10, signed="twos"),
        h=s.varint(5, signed="twos"),
        d=s.text(s.varint(5, signed="zigzag"), null=-1),
        e=s.many(s.u8, s.varint(2, signed="zigzag")),
        f=s.varint(9, signed="zigzag", high_first=True, lenient=True),
        g=s.optional(s.u8, when=When("b", most=-(2**60))),
    ),
)
talk(
    "lengths of one more",
    fields=each(
        x=s.text(s.By(s.varint(5), plus=-1), null=-1),
        y=s.many(s.u8, s.By(s.varint(3), plus=-1), null=-1),
        z=s.sized(s.By(s.be.u16, plus=-2), s.many(s.be.u16, None)),
        w=s.blob(s.By(s.u8, plus=3)),
        v=s.blob(s.By(s.u8, times=2)),
        u=s.many(s.u8, s.By(s.u8, times=3, plus=1)),
    ),
)
NULLED = s.compact({0xFB: None, 0xFC: s.le.u16, 0xFD: s.le.u24, 0xFE: s.le.u64})
talk(
    "a byte that stands for no length",
    fields=each(
        x=s.text(NULLED, null=-1),
        y=s.many(s.text(NULLED, null=-1), s.u8),
        z=NULLED,
        w=s.compact({0xFE: s.le.u16, 0xFF: None}),
    ),
)
talk(
    "values of a fixed size, filled up",
    fields=each(
        a=s.text(8, pad=b" "),
        b=s.text(6, pad_before=b"0", strict=True),
        c=s.blob(5, pad=b"\0"),
        d=s.many(s.text(2, pad=b"\0"), s.u8),
        e=s.optional(s.u8, when=When("a", one_of=("",))),
    ),
)
talk(
    "numbers of a fixed size, filled up",
    fields=each(
        a=s.digits(20, pad_before=b" "),
        b=s.digits(7, base=8),
        c=s.digits(6, -99999, 99999),
        d=s.digits(5, -999, 999, pad=b" "),
        e=s.fixed_point(s.digits(10, pad_before=b" "), decimals=4),
        f=s.digits(b" ", base=8),
        g=s.digits(12, base=8, pad=b"\0"),
        h=s.digits(12, -(2**33) + 1, 2**33, base=8),
    ),
)
talk(
    "times as text",
    fields=each(
        a=s.timestamp(s.text(b"\1"), "%Y%m%d-%H:%M:%S.%3f"),
        b=s.timestamp(s.text(s.u8, strict=True), "%a, %d %b %Y %H:%M:%S GMT"),
        c=s.timestamp(s.text(s.u8), "%Y-%m-%dT%H:%M:%S.%fZ"),
        d=s.timestamp(s.text(10, pad=b" "), "%Y/%j"),
    ),
)


class Node(s.Struct):
    """A structure that holds itself, in a list and in an optional field."""

    name: str = s.field(s.text(s.u8), "its name")
    value: int = s.field(s.bits(s.u8, 1, 7), "a number")
    has_next: int = s.field(s.bits(s.u8, 0, 1), "whether another one follows")
    next: Node | None = s.optional(s.nested(lambda: Node, depth=5), "the one behind it", when=When("has_next"))
    inside: tuple[Node, ...] = s.field(s.many(s.nested(lambda: Node, depth=5), s.u8), "those in it", default=())


talk("structures that hold themselves", fields=each(x=s.nested(Node), y=s.u8, z=s.nested(lambda: Node, depth=6)))
talk(
    "bits of 64",
    fields=each(a=s.bits(s.be.u64, 60, 4), b=s.bits(s.be.u64, 20, 40), c=s.bits(s.be.u64, 0, 20), d=s.u8),
)
VERSIONED = s.struct(
    "Versioned",
    name=s.field(s.text(s.u8), "its name"),
    more=s.optional(s.be.u16, "of a version", when=When("version", least=9)),
    data=s.optional(s.blob(s.By("width")), "as wide as all", when=When("a", bits=1)),
)
talk(
    "conditions on fields around a structure",
    *SIZED,
    s.Kept("version"),
    fields=each(
        version=s.u8,
        width=s.within(s.u8, 0, 9, "width"),
        a=s.bits(s.u8, 4, 4),
        b=s.bits(s.u8, 0, 4),
        x=s.many(s.nested(VERSIONED), s.u8),
        y=s.nested(s.struct("Around", inner=s.field(s.nested(VERSIONED), "one more"), z=s.field(s.u8, "z"))),
        z=s.many(
            s.nested(
                s.struct("Inner", q=s.field(s.u8, "q"), r=s.optional(s.u8, "r", when=(When("b", most=9), When("q"))))
            ),
            s.u8,
        ),
    ),
)
talk(
    "elements that a condition makes empty",
    fields=each(
        k=s.within(s.u8, 0, 3, "k"),
        x=s.many(s.nested(s.struct("Maybe", m=s.optional(s.u8, "m", when=When("k", least=1)))), s.u8),
    ),
)
talk(
    "a short length, or a long one behind it",
    fields=each(
        flag=s.bits(s.u8, 7, 1),
        short=s.bits(s.u8, 0, 7),
        middle=s.optional(s.be.u16, "if short is 126", when=When("short", one_of=(126,))),
        long=s.optional(s.be.u64, "if short is 127", when=When("short", one_of=(127,))),
        x=s.blob(s.By("long", otherwise=s.By("middle", otherwise="short"))),
    ),
)
talk("lists in larger units", fields=each(n=s.within(s.u8, 0, 9, "n"), x=s.blob(s.By("n", times=4, plus=1))))


def alone() -> s.Protocol:
    record = made(s.Message, "Alone", each(x=s.text(b" "), y=s.rest), code=0)
    return s.declare(s.Protocol("alone", "One message", s.Frame((s.Size("n", s.u8, counts="after"),)), (record,)))


def greeted() -> s.Protocol:
    """A greeting, and then requests with replies; what is a greeting at first is a request later."""
    greeting = made(s.Message, "Greet", each(x=s.u8), code=1, kind="control", then="talk", frame="")
    ask = made(s.Message, "Ask", NUMBER, code=1, frame="talk", sent_by="client", kind="request", answer="tell")
    tell = made(s.Message, "Tell", NUMBER, code=2, frame="talk", sent_by="server", kind="response")
    again = made(s.Message, "Again", {}, code=3, frame="talk", kind="control", then="usual")
    plain = s.Frame((s.Code("kind", s.u8), s.Ends(9)))
    frames = {"talk": s.Frame((s.Size("size", s.be.u16, counts="after", most=200), SIZED[1]))}
    return s.declare(s.Protocol("greeted", "A greeting first", plain, (greeting, ask, tell, again), frames=frames))


def tunnelled() -> s.Protocol:
    """Requests that may be granted: then any bytes follow."""
    ask = made(
        s.Message,
        "Ask",
        {"up": s.field(s.bool8)},
        code=1,
        sent_by="client",
        kind="request",
        answer="tell",
        then={"raw": When("up")},
    )
    tell = made(
        s.Message,
        "Tell",
        {"status": s.field(s.u8, role="status")},
        code=2,
        sent_by="server",
        kind="response",
        then={"raw": When("status", one_of=(101,))},
    )
    raw = made(s.Message, "Raw", {"data": s.field(s.rest)}, code=3, frame="raw")
    frames, conduct = {"raw": s.Frame((s.Opaque(64),))}, Conduct(matching=Matching(in_order=True))
    usual = s.Frame(SIZED)
    return s.declare(s.Protocol("tunnelled", "A tunnel", usual, (ask, tell, raw), frames=frames, conduct=conduct))


def sided() -> s.Protocol:
    """A frame for each side, as in HTTP or memcached."""
    ask = made(s.Message, "Ask", each(x=s.text(b" ")), code=1, sent_by="client", kind="request", answer=2)
    tell = made(s.Message, "Tell", each(y=s.rest), code=2, sent_by="server", kind="response", frame="replies")
    conduct = Conduct(matching=Matching(in_order=True))
    frames = {"replies": s.Frame((s.Size("n", s.u8, counts="after"),))}
    asks = s.Frame((s.Code("kind", s.u8), s.Until(b"\r\n", 99)))
    return s.declare(s.Protocol("sided", "A frame for each side", asks, (ask, tell), frames=frames, conduct=conduct))


FEATURES |= {"a greeting, then commands": greeted, "opaque bytes, as a value decides": tunnelled}
FEATURES |= {"one message, without a code": alone, "a frame for each side": sided}

RECIPES = {
    "a length that counts less, or more, than what follows": ("length plus -3", "length plus 4"),
    "a length, count or field in bytes of 7 bits": ("length as varint", "length as varint, high first", "varints"),
    "a length, count or field as text": ("length as decimal text", "length as hex text", "numbers as text"),
    "bytes that end every frame": ("trailer",),
    "frames that end with certain bytes, without a length": ("frames that end with a line end",),
    "frames that end with their last field, whatever that takes": ("a frame that ends with its last field",),
    "a tag and the value it announces, also inside itself": ("values inside each other",),
    "a length or count that stands for no value; bytes behind a counted value": (
        "a frame that ends with its last field",
        "lists by count",
    ),
    "several replies to a request; replies in order; failures": ("several replies", "replies in order", "good values"),
    "the length or count of a later field, on the wire only": ("texts by an earlier field",),
    "a length that counts from an earlier field on, or itself too": ("lengths that count more",),
    "a length or count that is a field, or a word, of its own; in other units": (
        "lists by an earlier field",
        "commands of words",
    ),
    "a list that ends with a certain element, or with what is left": (
        "lists up to an element",
        "lists up to an element, or to the end",
    ),
    "a number with a sign in bytes of 7 bits, as in protobuf, Avro, Thrift and Kafka": (
        "numbers with a sign in bytes of 7 bits",
    ),
    "a length or count that is written as one more, so that 0 is no value, as in Kafka": ("lengths of one more",),
    "a byte that stands for no value instead of a length, as in MySQL": ("a byte that stands for no length",),
    "text, bytes or a number of a fixed size, filled up with blanks or zeros": (
        "values of a fixed size, filled up",
        "numbers of a fixed size, filled up",
    ),
    "a time as text": ("times as text",),
    "a structure that holds itself, in a list or under a condition": ("structures that hold themselves",),
    "a condition in a structure on a field of what is around it, such as the version of the message": (
        "conditions on fields around a structure",
    ),
    "a short length, in whose place a longer one may stand, as in WebSocket and CBOR": (
        "a short length, or a long one behind it",
    ),
    "a length in units of several bytes, in a field before it, or in the number before it": (
        "lists in larger units",
        "lengths of one more",
    ),
    "text in another character set": ("text in another character set",),
    "zeros up to a multiple of four bytes": ("zeros up to a multiple",),
    "header lines": ("header lines",),
    "what one of them says; a body with that length, else up to a zero byte": (
        "a length in a header line, else a terminator",
    ),
    "commands with words, of which some may be missing, and data behind the line": ("commands of words",),
    "a code that is text; of variable size; of several parts; above 31 bits": (
        "code as varint",
        "code as text",
        "code of two parts",
        "code of 64 bits",
    ),
    "the same code for another message of the other side": ("another layout per direction",),
    "messages with a code that is not declared, or with another first word": (
        "a message for other codes",
        "any code, before the length",
        "any first word",
    ),
    "a header whatever its capitals and the blanks around it, as in HTTP; a body only if it says a length": (
        "a header whatever its capitals, a body if it says a length",
    ),
    "an integer in one byte, or in more behind a byte that says so, as in Bitcoin and MySQL": (
        "numbers whose first byte says how many follow",
    ),
    "a bitmap of the fields that follow": ("a bitmap of what follows, be", "a bitmap of what follows, le"),
    "a code of so many bytes, with zeros behind it": ("code of wide parts",),
    "text of any size before the code or the command; a prefix that may be missing": (
        "a text before the command, if there is one",
        "a text before the code",
    ),
    "a name that has another spelling": ("a header of two names",),
    "a stream that changes behind a message: a greeting, then commands; a tunnel": ("a greeting, then commands",),
    "a change that a value decides": ("opaque bytes, as a value decides",),
    "bytes of which nothing is known, up to the end of the connection": ("opaque bytes, as a value decides",),
    "a body that ends with the connection": ("opaque bytes, as a value decides",),
    "a field that its first bytes announce": ("fields that their first bytes announce",),
    "a length in some bits, or in more bytes behind them; in one byte or eight, as a flag says": (
        "a length in bits, or behind them in more bytes",
        "a length in one byte or in eight, as a flag says",
    ),
    "padding behind what takes the rest": ("padding behind the rest",),
    "a length that counts an earlier part too": ("a length that counts an earlier part too",),
    "a first message, or any other, in a frame of its own": ("a first message in a frame of its own",),
    "frames that only one side sends": ("a frame for each side",),
    "one message, so no code": ("one message, without a code",),
    "lengths as ASN.1 writes them; digits of a fixed number": ("length as ber", "length of four digits"),
    "a reply by its name; several, also where codes have several parts": ("code of two parts",),
    "fields that a version of the message has": ("fields of a version",),
    "a correlation or an address that is one of many tagged values": ("a correlation among tagged values",),
    "a request with several replies, the last of which ends it": ("several replies, of which one is the last",),
    "a last field that may be absent": ("fields if bytes are left",),
    "topics of another syntax": ("topics",),
    "bits of an integer as fields": ("bits",),
    "the code as some bits, other bits as fields of the message": ("code as bits",),
    "an integer of the header as a field of the message": ("a field of the header, u24",),
    "a field that depends on an earlier one": ("condition on bits", "condition on a value", "several conditions"),
    "a choice by an earlier value": ("tagged union by an earlier value", "rests that exclude each other"),
    "bytes that begin a frame, or stand anywhere in its header": ("magic behind the length",),
    "floating-point numbers, of either byte order": ("floats",),
    "bytes that are always the same": ("constants",),
    "texts in which some bytes are written as others": ("texts with escapes",),
    "line ends, or anything else, that peers write in one of two ways": ("a reading option",),
    "a number with a fraction, written as an integer": ("fixed point",),
    "a time": ("timestamps",),
    "text or bytes up to a terminator": ("terminated text",),
    "elements up to a terminator": ("lists up to a terminator",),
    "elements by their length in bytes; any value with a length before it": ("lists by bytes",),
    "a sum over what comes before it": ("checksum crc32", "checksum as digits"),
}
"""What the page on own protocols tells how to say, and the features that say it."""
