"""HTTP/2 frames (RFC 9113)"""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When


class F(s.Message):
    flags: int = s.field(s.u8)
    reserved: int = s.field(s.bits(s.be.u32, 31, 1))
    stream: int = s.field(s.bits(s.be.u32, 0, 31))


class Data(F, code=0, kind="event"):
    pad: int | None = s.optional(s.u8, when=When("flags", bits=8))
    data: bytes = s.field(s.rest, role="payload")


class Priority(s.Struct):
    exclusive: int = s.field(s.bits(s.be.u32, 31, 1))
    depends: int = s.field(s.bits(s.be.u32, 0, 31))
    weight: int = s.field(s.u8)


class Headers(F, code=1, kind="event"):
    pad: int | None = s.optional(s.u8, when=When("flags", bits=8))
    priority: Priority | None = s.optional(s.nested(Priority), when=When("flags", bits=0x20))
    block: bytes = s.field(s.rest)


class RstStream(F, code=3, kind="event"):
    error: int = s.field(s.be.u32)


class Setting(s.Struct):
    id: int = s.field(s.be.u16)
    value: int = s.field(s.be.u32)


class Settings(F, code=4, kind="control"):
    settings: tuple[Setting, ...] = s.field(s.many(s.nested(Setting), None))


class Ping(F, code=6, kind="control"):
    data: bytes = s.field(s.fixed(8))


class Goaway(F, code=7, kind="control"):
    last: int = s.field(s.be.u32)
    error: int = s.field(s.be.u32)
    debug: bytes = s.field(s.rest)


class WindowUpdate(F, code=8, kind="control"):
    increment: int = s.field(s.be.u32)


class Continuation(F, code=9, kind="event"):
    block: bytes = s.field(s.rest)


class Other(F, code=s.OTHER):
    type: int = s.field(s.u8)
    data: bytes = s.field(s.rest)


class Preface(s.Message, code=1000, frame="preface", kind="control", sent_by="client"): ...


PROTOCOL = s.declare(
    s.Protocol(
        "http2",
        "HTTP/2",
        s.Frame(
            (
                s.Size("length", s.be.u24, counts="after", plus=6),
                s.Code("type", s.u8),
                s.Kept("flags"),
                s.Kept("reserved"),
                s.Kept("stream"),
            )
        ),
        s.messages_in(globals()),
        ports={"tcp": 8080},
        frames={"preface": s.Frame((s.Magic(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), s.Ends(24)))},
    )
)
