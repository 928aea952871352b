"""Bitcoin P2P, https://developer.bitcoin.org/reference/p2p_networking.html"""

from __future__ import annotations

from datetime import datetime

from wirelake import spec as s

SIZE = s.compact({0xFD: s.le.u16, 0xFE: s.le.u32, 0xFF: s.le.u64})


def command(name: str) -> tuple[int, ...]:
    padded = name.encode().ljust(12, b"\0")
    return tuple(int.from_bytes(padded[i : i + 4], "big") for i in (0, 4, 8))


class Peer(s.Struct):
    services: int = s.field(s.le.u64, "what it offers")
    ip: bytes = s.field(s.fixed(16), "IPv6, or IPv4 in IPv6")
    port: int = s.field(s.be.u16, "where it listens")


class Item(s.Struct):
    type: int = s.field(s.le.u32, "1 is a transaction, 2 a block")
    hash: bytes = s.field(s.fixed(32), "of what")


class Any(s.Message):
    sum: bytes = s.field(s.fixed(4), "the first bytes of SHA-256 twice over the payload")


class Version(Any, code=command("version"), kind="control"):
    """Introduces a node."""

    version: int = s.field(s.le.i32, "of the protocol")
    services: int = s.field(s.le.u64, "what it offers")
    sent: datetime = s.field(s.timestamp(s.le.i64, "s"), "when")
    to: Peer = s.field(s.nested(Peer), "who is meant")
    source: Peer = s.field(s.nested(Peer), "who sends")
    nonce: int = s.field(s.le.u64, "a random number")
    agent: str = s.field(s.text(SIZE, most=256), "which program")
    height: int = s.field(s.le.i32, "of its chain")
    relay: int | None = s.optional(s.u8, "whether it wants transactions", when=s.IfLeft())


class Verack(Any, code=command("verack"), kind="control"):
    """The version is accepted."""


class Ping(Any, code=command("ping"), kind="request", answer="pong"):
    """Are you there."""

    nonce: int = s.field(s.le.u64, "a random number", role="correlation")


class Pong(Any, code=command("pong"), kind="response"):
    """I am."""

    nonce: int = s.field(s.le.u64, "that of the ping", role="correlation")


class Inv(Any, code=command("inv"), kind="event"):
    """What a node has."""

    items: tuple[Item, ...] = s.field(s.many(s.nested(Item), SIZE), "transactions and blocks")


class Getdata(Inv, code=command("getdata"), kind="event"):
    """What a node wants."""

    items: tuple[Item, ...] = s.field(s.many(s.nested(Item), SIZE), "transactions and blocks")


PROTOCOL = s.declare(
    s.Protocol(
        "bitcoin",
        "Bitcoin",
        s.Frame(
            (
                s.Magic(b"\xf9\xbe\xb4\xd9"),
                s.Code("a", s.be.u32),
                s.Code("b", s.be.u32),
                s.Code("c", s.be.u32),
                s.Size("length", s.le.u32, counts="after", most=4_000_000, plus=4),
                s.Kept("sum"),
            )
        ),
        s.messages_in(globals()),
        ports={"tcp": 8333},
    )
)
