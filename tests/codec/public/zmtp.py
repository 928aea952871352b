"""ZMTP 3.1 (RFC 37/ZMTP): a greeting of 64 bytes, then commands and messages, short or long."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import By, When


class Greeting(s.Message, code=0xFF, kind="control", frame="greeting", then="usual"):
    padding: bytes = s.field(s.fixed(8), "of old versions")
    mark = s.constant(b"\x7f")
    major: int = s.field(s.u8, "version")
    minor: int = s.field(s.u8, "version")
    mechanism: bytes = s.field(s.fixed(20), "NULL, PLAIN or CURVE, with zeros behind it")
    is_server: bool = s.field(s.bool8, "who is the server")
    filler = s.constant(bytes(31))


class Metadata(s.Struct):
    name: str = s.field(s.text(s.u8), "name")
    value: bytes = s.field(s.blob(s.be.u32), "value")


class Traffic(s.Message):
    reserved: int = s.field(s.bits(s.u8, 3, 5), "zeros")
    is_long: int = s.field(s.bits(s.u8, 1, 1), "whether the length has 8 bytes")
    more: int = s.field(s.bits(s.u8, 0, 1), "whether more parts follow")
    short: int | None = s.optional(s.u8, "bytes", when=When("is_long", empty=True))
    long: int | None = s.optional(s.be.u64, "bytes", when=When("is_long"))


class Part(Traffic, code=0, kind="event"):
    data: bytes = s.field(s.rest, "a part of a message", role="payload")


class Command(Traffic, code=1, kind="control"):
    name: str = s.field(s.text(s.u8), "READY, ERROR, SUBSCRIBE, PING ...", role="address")
    data: bytes = s.field(s.rest, "what it says")


PROTOCOL = s.declare(
    s.Protocol(
        "zmtp",
        "ZMTP 3.1",
        s.Frame(
            (
                s.Kept("reserved"),
                s.Code("command", s.bits(s.u8, 2, 1)),
                s.Kept("is_long"),
                s.Kept("more"),
                s.Kept("short"),
                s.Kept("long"),
                s.Size("length", By("long", otherwise="short"), counts="after", most=1 << 24),
            )
        ),
        s.messages_in(globals()),
        ports={"tcp": 5555},
        frames={"greeting": s.Frame((s.Magic(b"\xff"), s.Ends(64)))},
    )
)
