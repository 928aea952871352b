"""SIP over TCP (RFC 3261): requests and replies both ways, with header lines and a body by content-length."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import Lookup, When


class Header(s.Struct):
    name: str = s.field(s.text(b":", least=1), "name, or its one letter")
    value: str = s.field(s.text(b"\r\n"), "value")


HEADERS = s.many(s.nested(Header), b"\r\n")
CALL = Lookup("headers", ("Call-ID", "i"), fold=True)
SEQUENCE = Lookup("headers", "CSeq", fold=True)
SIZE = Lookup("headers", ("Content-Length", "l"), number=True, fold=True)


class Request(s.Message, kind="request", answer="reply"):
    uri: str = s.field(s.text(b" "), "whom it is for", role="address")
    version = s.constant(b"SIP/2.0\r\n")
    headers: tuple[Header, ...] = s.field(HEADERS, "header lines")
    call: str | None = s.derived(CALL, "which call")
    sequence: str | None = s.derived(SEQUENCE, "number and method", role="correlation")
    size: int | None = s.derived(SIZE, "bytes of the body")
    body: bytes | None = s.optional(s.blob("size"), "session description", when=When("size"), role="payload")


class Ack(Request, code="ACK", kind="event", answer=None): ...


Invite, Bye, Cancel, Register, Options = (
    s.message(name, Request, code=name.upper()) for name in ("Invite", "Bye", "Cancel", "Register", "Options")
)


class Other(Request, code=s.OTHER, as_name="other"):
    method: str = s.field(s.text(b" ", most=32), "any other method")


class Reply(s.Message, code=1, kind="response", frame="reply"):
    status: int = s.field(s.digits(b" ", 100, 699), "how it went", role="status")
    reason: str = s.field(s.text(b"\r\n"), "in words")
    headers: tuple[Header, ...] = s.field(HEADERS, "header lines")
    call: str | None = s.derived(CALL, "which call")
    sequence: str | None = s.derived(SEQUENCE, "number and method", role="correlation")
    size: int | None = s.derived(SIZE, "bytes of the body")
    body: bytes | None = s.optional(s.blob("size"), "session description", when=When("size"), role="payload")


PROTOCOL = s.declare(
    s.Protocol(
        "sip",
        "SIP",
        s.Frame((s.Code("method", s.text(b" ", most=32)), s.Ends(65536))),
        s.messages_in(globals()),
        ports={"tcp": 5060},
        frames={"reply": s.Frame((s.Magic(b"SIP/2.0 "), s.Ends(65536)))},
    )
)
