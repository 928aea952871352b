"""Thrift compact protocol in the framed transport: messages, and structures that say themselves what they hold."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When

ZIGZAG, BINARY = s.varint(10, signed="zigzag"), s.blob(s.varint(5))
NAMES = "stop true false i8 i16 i32 i64 double binary list set map struct"
KIND = s.Labels("kind", dict(enumerate(NAMES.split())))
KINDS = s.labelled(s.within(s.u8, 1, 12, "kind"), KIND)
FIELDS = s.many(s.nested(lambda: Field), None, until=When("kind", one_of=(0,)))


class Value(s.Struct):
    """A value; what is around it says of which kind."""

    truth: int | None = s.optional(s.u8, "1 or 2", when=When("kind", one_of=(1, 2)))
    byte: int | None = s.optional(s.be.i8, "a byte", when=When("kind", one_of=(3,)))
    number: int | None = s.optional(ZIGZAG, "an integer", when=When("kind", one_of=(4, 5, 6)))
    double: float | None = s.optional(s.le.f64, "a double", when=When("kind", one_of=(7,)))
    binary: bytes | None = s.optional(BINARY, "text or bytes", when=When("kind", one_of=(8,)))
    items: List | None = s.optional(s.nested(lambda: List), "a list or a set", when=When("kind", one_of=(9, 10)))
    map: Map | None = s.optional(s.nested(lambda: Map), "a map", when=When("kind", one_of=(11,)))
    fields: tuple[Field, ...] | None = s.optional(FIELDS, "a structure", when=When("kind", one_of=(12,)))


class List(s.Struct):
    count: int = s.field(s.bits(s.u8, 4, 4), "elements, or 15")
    kind: int = s.field(s.bits(KINDS, 0, 4), "of the elements")
    long_count: int | None = s.optional(s.varint(5), "elements, if they are more", when=When("count", one_of=(15,)))
    elements: tuple[Value, ...] = s.field(
        s.many(s.nested(Value), s.By("long_count", otherwise="count")), "the elements"
    )


class Key(s.Struct):
    """A key of a map: a number or a text."""

    byte: int | None = s.optional(s.u8, "a byte, or 1 or 2", when=When("key_kind", one_of=(1, 2, 3)))
    number: int | None = s.optional(ZIGZAG, "an integer", when=When("key_kind", one_of=(4, 5, 6)))
    binary: bytes | None = s.optional(BINARY, "text", when=When("key_kind", least=7))


class Entry(s.Struct):
    key: Key = s.field(s.nested(Key), "the key")
    value: Value = s.field(s.nested(Value), "the value")


class Entries(s.Struct):
    key_kind: int = s.field(s.bits(s.within(s.u8, 1, 8, "key"), 4, 4), "kind of the keys")
    kind: int = s.field(s.bits(KINDS, 0, 4), "kind of the values")
    entries: tuple[Entry, ...] = s.field(s.many(s.nested(Entry), "count"), "the entries")


class Map(s.Struct):
    count: int = s.field(s.varint(5), "entries")
    inside: Entries | None = s.optional(s.nested(Entries), "the entries", when=When("count"))


class Field(s.Struct):
    delta: int = s.field(s.bits(s.u8, 4, 4), "how far its number is behind the last one")
    kind: int = s.field(s.bits(s.labelled(s.within(s.u8, 0, 12, "kind"), KIND), 0, 4), "kind of its value")
    number: int | None = s.optional(ZIGZAG, "its number", when=(When("delta", one_of=(0,)), When("kind", none_of=(0,))))
    value: Value | None = s.optional(s.nested(Value), "its value", when=When("kind", least=3))


class Called(s.Message):
    version: int = s.field(s.bits(s.u8, 0, 5), "1", default=1)
    sequence: int = s.field(s.varint(5), "ties the reply to the call", role="correlation")
    name: str = s.field(s.text(s.varint(5)), "of the function", role="address")
    fields: tuple[Field, ...] = s.field(FIELDS, "arguments, or the result")


class Call(Called, code=1, kind="request", answer=("reply", "failed"), sent_by="client"):
    """A function is called."""


class Reply(Called, code=2, kind="response", sent_by="server"):
    """What it returned."""


class Failed(Called, code=3, kind="response", sent_by="server", failure=True):
    """It could not be called."""


class OneWay(Called, code=4, kind="event", sent_by="client"):
    """A function is called that never replies."""


PROTOCOL = s.declare(
    s.Protocol(
        name="thrift",
        title="Thrift compact",
        frame=s.Frame(
            (
                s.Size("size", s.be.u32, counts="after", most=1 << 24),
                s.Magic(b"\x82"),
                s.Code("type", s.bits(s.u8, 5, 3)),
                s.Kept("version"),
            )
        ),
        messages=s.messages_in(globals()),
        labels=(KIND,),
        ports={"tcp": 9090},
    )
)
