"""ISO 8583 (1987) over TCP: a length, four digits of type, a bitmap that says which fields follow."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When


def bit(place: int) -> When:
    return When("bitmap", bits=1 << (64 - place))


class Body(s.Message):
    bitmap: int = s.field(s.be.u64, "field 1 is the bit 63, field 64 the bit 0")
    pan: str | None = s.optional(s.text(s.digits(2)), "2, account", when=bit(2))
    processing: int | None = s.optional(s.digits(6), "3, what is asked", when=bit(3))
    amount: int | None = s.optional(s.digits(12), "4, in the smallest unit", when=bit(4))
    sent: int | None = s.optional(s.digits(10), "7, MMDDhhmmss", when=bit(7))
    trace: int | None = s.optional(s.digits(6), "11, ties a response to its request", when=bit(11), role="correlation")
    answer: int | None = s.optional(s.digits(2), "39, 0 is approved", when=bit(39), role="status")
    terminal: bytes | None = s.optional(s.fixed(8), "41, which terminal", when=bit(41))
    currency: int | None = s.optional(s.digits(3), "49, ISO 4217", when=bit(49))
    security: bytes | None = s.optional(s.fixed(8), "64, message authentication code", when=bit(64))


def mti(text: bytes) -> int:
    return int.from_bytes(text, "big")


class Request(Body, code=mti(b"0200"), kind="request", answer="response"):
    """A payment is asked for."""


class Response(Body, code=mti(b"0210"), kind="response", good=(0,)):
    """It is approved, or not."""


class Network(Body, code=mti(b"0800"), kind="event"):
    """Sign on, sign off, echo."""


PROTOCOL = s.declare(
    s.Protocol(
        "iso8583",
        "ISO 8583",
        s.Frame((s.Size("length", s.be.u16, counts="after"), s.Code("mti", s.be.u32))),
        s.messages_in(globals()),
        ports={"tcp": 5000},
    )
)
