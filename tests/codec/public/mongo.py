"""MongoDB wire protocol: OP_MSG and OP_COMPRESSED, with BSON documents."""

from __future__ import annotations

from datetime import datetime

from wirelake import spec as s
from wirelake.spec import When

NAME = s.text(b"\0")
STRING = s.text(s.By(s.le.i32, plus=-1), end=b"\0")
NESTED = (0x03, 0x04)


class Element(s.Struct):
    """A named value; one of type 0 ends its document."""

    type: int = s.field(s.u8, "of the value")
    name: str | None = s.optional(NAME, "its name", when=When("type"))
    double: float | None = s.optional(s.le.f64, "a double", when=When("type", one_of=(0x01,)))
    text: str | None = s.optional(STRING, "text, code or a symbol", when=When("type", one_of=(0x02, 0x0D, 0x0E)))
    document: Document | None = s.optional(
        s.nested(lambda: Document), "a document or an array", when=When("type", one_of=NESTED)
    )
    binary: Binary | None = s.optional(s.nested(lambda: Binary), "bytes", when=When("type", one_of=(0x05,)))
    object_id: bytes | None = s.optional(s.fixed(12), "an id", when=When("type", one_of=(0x07,)))
    truth: bool | None = s.optional(s.bool8, "true or false", when=When("type", one_of=(0x08,)))
    time: datetime | None = s.optional(s.timestamp(s.le.i64, "ms"), "a time", when=When("type", one_of=(0x09,)))
    pattern: str | None = s.optional(NAME, "a regular expression", when=When("type", one_of=(0x0B,)))
    options: str | None = s.optional(NAME, "of the expression", when=When("type", one_of=(0x0B,)))
    int32: int | None = s.optional(s.le.i32, "an integer", when=When("type", one_of=(0x10,)))
    stamp: int | None = s.optional(s.le.u64, "a time stamp of the log", when=When("type", one_of=(0x11,)))
    int64: int | None = s.optional(s.le.i64, "an integer", when=When("type", one_of=(0x12,)))
    decimal: bytes | None = s.optional(s.fixed(16), "a decimal of 128 bits", when=When("type", one_of=(0x13,)))


class Document(s.Struct):
    elements: tuple[Element, ...] = s.field(
        s.sized(s.By(s.le.i32, plus=-4), s.many(s.nested(Element), None, until=When("type", one_of=(0,)))), "its values"
    )


class Binary(s.Struct):
    size = s.length(s.le.i32, of="data")
    subtype: int = s.field(s.u8, "what it holds")
    data: bytes = s.field(s.blob("size"), "the bytes")


class Sequence(s.Struct):
    """Documents that belong to a command under a name."""

    size = s.length(s.le.i32, of="documents", since="size")
    name: str = s.field(NAME, "under which they belong")
    documents: tuple[Document, ...] = s.field(s.sized("size", s.many(s.nested(Document), None)), "the documents")


class Section(s.Struct):
    kind: int = s.field(s.within(s.u8, 0, 1, "section"), "0 a body, 1 a sequence")
    body: Document | None = s.optional(s.nested(Document), "the command", when=When("kind", one_of=(0,)))
    sequence: Sequence | None = s.optional(s.nested(Sequence), "its documents", when=When("kind", one_of=(1,)))


class Framed(s.Message):
    request_id: int = s.field(s.le.i32, "its number")
    response_to: int = s.field(s.le.i32, "number of the request", role="correlation")


class Msg(Framed, code=2013):
    """A command, or a reply."""

    flags: int = s.field(s.le.u32, "1 a checksum follows, 2 more come")
    section: Section = s.field(s.nested(Section), "the first one")
    more: tuple[Section, ...] = s.field(s.many(s.nested(Section), None), "the others", default=())


class Compressed(Framed, code=2012):
    original: int = s.field(s.le.i32, "code of what is compressed")
    size: int = s.field(s.le.i32, "its size")
    compressor: int = s.field(s.u8, "1 snappy, 2 zlib, 3 zstd")
    data: bytes = s.field(s.rest, "compressed")


PROTOCOL = s.declare(
    s.Protocol(
        name="mongo",
        title="MongoDB",
        frame=s.Frame(
            (
                s.Size("length", s.le.i32, counts="whole", least=16, most=48_000_000),
                s.Kept("request_id"),
                s.Kept("response_to"),
                s.Code("opcode", s.le.i32),
            )
        ),
        messages=s.messages_in(globals()),
        ports={"tcp": 27017},
    )
)
