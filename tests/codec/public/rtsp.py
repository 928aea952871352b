"""RTSP 1.0 (RFC 2326): requests and replies with header lines, and packets between them."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import Lookup, When


class Header(s.Struct):
    name: str = s.field(s.text(b":", least=1), "name")
    value: str = s.field(s.text(b"\r\n"), "value")


HEADERS = s.many(s.nested(Header), b"\r\n")
SEQUENCE = Lookup("headers", "CSeq", number=True, fold=True)
SIZE = Lookup("headers", "Content-Length", number=True, fold=True)


class Request(s.Message, kind="request", answer="reply"):
    url: str = s.field(s.text(b" "), "which stream", role="address")
    version = s.constant(b"RTSP/1.0\r\n")
    headers: tuple[Header, ...] = s.field(HEADERS, "header lines")
    sequence: int | None = s.derived(SEQUENCE, "ties a reply to its request", role="correlation")
    session: str | None = s.derived(Lookup("headers", "Session", fold=True), "which session")
    size: int | None = s.derived(SIZE, "bytes of the body")
    body: bytes | None = s.optional(s.blob("size"), "parameters", when=When("size"))


Options, Describe, Setup, Play, Pause, Teardown, Announce, Record = (
    s.message(name, Request, code=name.upper())
    for name in ("Options", "Describe", "Setup", "Play", "Pause", "Teardown", "Announce", "Record")
)


class Other(Request, code=s.OTHER):
    method: str = s.field(s.text(b" ", most=32), "any other method")


class Reply(s.Message, code=1, kind="response", frame="reply"):
    status: int = s.field(s.digits(b" ", 100, 599), "how it went", role="status")
    reason: str = s.field(s.text(b"\r\n"), "in words")
    headers: tuple[Header, ...] = s.field(HEADERS, "header lines")
    sequence: int | None = s.derived(SEQUENCE, "ties a reply to its request", role="correlation")
    session: str | None = s.derived(Lookup("headers", "Session", fold=True), "which session")
    size: int | None = s.derived(SIZE, "bytes of the body")
    body: bytes | None = s.optional(s.blob("size"), "description", when=When("size"))


class Interleaved(s.Message, code=2, kind="event", frame="packet"):
    channel: int = s.field(s.u8, "which stream")
    packet: bytes = s.field(s.rest, "RTP or RTCP", role="payload")


PROTOCOL = s.declare(
    s.Protocol(
        "rtsp",
        "RTSP 1.0",
        s.Frame((s.Code("method", s.text(b" ", most=32)), s.Ends(65536))),
        s.messages_in(globals()),
        ports={"tcp": 554},
        frames={
            "packet": s.Frame((s.Magic(b"$"), s.Kept("channel"), s.Size("size", s.be.u16, counts="after"))),
            "reply": s.Frame((s.Magic(b"RTSP/1.0 "), s.Ends(65536))),
        },
    )
)
