"""CoAP over TCP (RFC 8323): a length of 4 bits, or more behind it, and options as differences."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import By, When


class Option(s.Struct):
    delta: int = s.field(s.bits(s.u8, 4, 4), "how far its number is from the one before; 15 ends the options")
    size: int = s.field(s.bits(s.u8, 0, 4), "bytes")
    delta8: int | None = s.optional(s.u8, "difference, less 13", when=When("delta", one_of=(13,)))
    delta16: int | None = s.optional(s.be.u16, "difference, less 269", when=When("delta", one_of=(14,)))
    size8: int | None = s.optional(s.u8, "bytes, less 13", when=When("size", one_of=(13,)))
    size16: int | None = s.optional(s.be.u16, "bytes, less 269", when=When("size", one_of=(14,)))
    value: bytes | None = s.optional(
        s.blob(By("size16", plus=269, otherwise=By("size8", plus=13, otherwise="size"))),
        "what it says",
        when=When("delta", most=14),
    )


class Coap(s.Message):
    short: int = s.field(s.bits(s.u8, 4, 4), "bytes of options and payload")
    token_size: int = s.field(s.bits(s.within(s.u8, 0, 8, "token_size"), 0, 4), "bytes of the token")
    size8: int | None = s.optional(s.u8, "bytes, less 13", when=When("short", one_of=(13,)))
    size16: int | None = s.optional(s.be.u16, "bytes, less 269", when=When("short", one_of=(14,)))
    size32: int | None = s.optional(s.be.u32, "bytes, less 65805", when=When("short", one_of=(15,)))
    token: bytes = s.field(s.blob("token_size"), "ties a reply to its request", role="correlation")
    options: tuple[Option, ...] = s.field(
        s.many(s.nested(Option), None, until=When("delta", one_of=(15,)), or_end=True),
        "up to 0xff, or the end",
        default=(),
    )
    payload: bytes = s.field(s.rest, "what the options tell about", role="payload", default=b"")


def method(name: str, code: int) -> type[s.Message]:
    made: type[s.Message] = s.message(name, Coap, code=code, kind="request", answer=REPLIES, sent_by="client")
    return made


REPLIES = ("created", "deleted", "changed", "content", "bad_request", "not_found", "server_error")
Get, Post, Put, Delete = method("Get", 1), method("Post", 2), method("Put", 3), method("Delete", 4)
Created, Deleted, Changed, Content = (
    s.message(name, Coap, code=64 + number, kind="response", sent_by="server")
    for name, number in (("Created", 1), ("Deleted", 2), ("Changed", 4), ("Content", 5))
)
BadRequest, NotFound, ServerError = (
    s.message(name, Coap, code=code, kind="response", failure=True, sent_by="server")
    for name, code in (("BadRequest", 128), ("NotFound", 132), ("ServerError", 160))
)
Csm = s.message("Csm", Coap, code=0xE1, kind="control")
Ping = s.message("Ping", Coap, code=0xE2, kind="control")
Pong = s.message("Pong", Coap, code=0xE3, kind="control")


class Other(Coap, code=s.OTHER, kind="event"):
    code_point: int = s.field(s.u8, "any other code")


PROTOCOL = s.declare(
    s.Protocol(
        "coap_tcp",
        "CoAP over TCP",
        s.Frame(
            (
                s.Kept("short"),
                s.Kept("token_size"),
                s.Kept("size8"),
                s.Kept("size16"),
                s.Kept("size32"),
                s.Code("code_point", s.u8),
                s.Kept("token"),
                s.Size(
                    "length",
                    By(
                        "size32",
                        plus=65805,
                        otherwise=By("size16", plus=269, otherwise=By("size8", plus=13, otherwise="short")),
                    ),
                    counts="after",
                    most=1 << 20,
                ),
            )
        ),
        s.messages_in(globals()),
        ports={"tcp": 5683},
    )
)
