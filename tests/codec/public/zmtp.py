"""ZMTP 3.1 with the NULL mechanism: a greeting, commands and messages."""

from __future__ import annotations

from wirelake import spec as s


class Greeting(s.Message, code=100, frame="greeting", kind="control"):
    """Both sides send it first."""

    minor: int = s.field(s.u8, "of the version")
    mechanism: str = s.field(s.text(20, pad=b"\0"), "how peers prove who they are")
    as_server: int = s.field(s.u8, "1 if so")
    filler = s.constant(bytes(31))


class Part(s.Message, code=0, frame="short"):
    """The last part of a message."""

    body: bytes = s.field(s.rest, "bytes", role="payload")


class MorePart(s.Message, code=1, frame="short"):
    """A part behind which another one follows."""

    body: bytes = s.field(s.rest, "bytes", role="payload")


class LongPart(s.Message, code=2):
    body: bytes = s.field(s.rest, "bytes", role="payload")


class LongMorePart(s.Message, code=3):
    body: bytes = s.field(s.rest, "bytes", role="payload")


class Property(s.Struct):
    name: str = s.field(s.text(s.u8), "its name")
    value: bytes = s.field(s.blob(s.be.u32), "its value")


class Command(s.Message, code=4, frame="short", kind="control"):
    name: str = s.field(s.text(s.u8), "READY, ERROR, SUBSCRIBE ...", role="address")
    properties: tuple[Property, ...] | None = s.optional(
        s.many(s.nested(Property), None), "of the connection", when=s.When("name", one_of=("READY",))
    )
    data: bytes | None = s.optional(s.rest, "what other commands say", when=s.When("name", none_of=("READY",)))


class LongCommand(s.Message, code=6, kind="control"):
    name: str = s.field(s.text(s.u8), "READY, ERROR, SUBSCRIBE ...", role="address")
    data: bytes = s.field(s.rest, "what it says")


PROTOCOL = s.declare(
    s.Protocol(
        name="zmtp",
        title="ZMTP 3.1",
        frame=s.Frame((s.Code("flags", s.u8), s.Size("length", s.be.u64, counts="after", most=1 << 24))),
        frames={
            "greeting": s.Frame((s.Magic(b"\xff\0\0\0\0\0\0\0\x01\x7f\x03"), s.Ends(64))),
            "short": s.Frame((s.Code("flags", s.u8), s.Size("length", s.u8, counts="after"))),
        },
        messages=s.messages_in(globals()),
        ports={"tcp": 5555},
    )
)
