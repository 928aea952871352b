"""SOCKS5 (RFC 1928, 1929): greeting, method, perhaps a password, request, reply; then whatever the two sides say."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When
from wirelake.spec.conduct import Conduct, Matching

VERSION = s.Frame((s.Code("version", s.u8), s.Ends(600)))
KIND = s.Labels("address_kind", {1: "ipv4", 3: "domain", 4: "ipv6"})


class Place(s.Struct):
    reserved = s.constant(b"\0")
    kind: int = s.field(s.labelled(s.u8, KIND), "what the address is")
    ipv4: bytes | None = s.optional(s.fixed(4), when=When("kind", one_of=(1,)))
    domain: str | None = s.optional(s.text(s.u8), when=When("kind", one_of=(3,)))
    ipv6: bytes | None = s.optional(s.fixed(16), when=When("kind", one_of=(4,)))
    port: int = s.field(s.be.u16, "port")


class Greeting(s.Message, code=5, kind="request", answer="method", sent_by="client", then="second"):
    methods: tuple[int, ...] = s.field(s.many(s.u8, s.u8), "what the client can do")


class Method(s.Message, code=5, kind="response", sent_by="server", then="second"):
    method: int = s.field(s.u8, "what the server chose")


class Login(s.Message, code=1, kind="request", answer="login_reply", sent_by="client", frame="second"):
    user: str = s.field(s.text(s.u8), "who")
    password: str = s.field(s.text(s.u8), "secret")


class LoginReply(s.Message, code=1, kind="response", good=(0,), sent_by="server", frame="second"):
    status: int = s.field(s.u8, "0 is good", role="status")


class Request(s.Message, code=5, kind="request", answer="reply", sent_by="client", frame="second", then="raw"):
    command: int = s.field(s.u8, "1 connect, 2 bind, 3 udp")
    place: Place = s.field(s.nested(Place), "where to")


class Reply(s.Message, code=5, kind="response", good=(0,), sent_by="server", frame="second", then="raw"):
    status: int = s.field(s.u8, "0 is good", role="status")
    place: Place = s.field(s.nested(Place), "where from")


class Raw(s.Message, code=0, kind="event", frame="raw"):
    data: bytes = s.field(s.rest, "what is tunnelled", role="payload")


PROTOCOL = s.declare(
    s.Protocol(
        "socks5",
        "SOCKS 5",
        VERSION,
        s.messages_in(globals()),
        labels=(KIND,),
        ports={"tcp": 1080},
        frames={"second": VERSION, "raw": s.Frame((s.Opaque(4096),))},
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
