"""HTTP/1.1 (RFC 9112): requests and responses, bodies by content-length or in chunks."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When
from wirelake.spec.conduct import Conduct, Matching


class Header(s.Struct):
    name: str = s.field(s.text(b":"), "name")
    value: str = s.field(s.text(b"\r\n"), "value")


class Chunk(s.Struct):
    data: bytes = s.field(s.blob(s.digits(b"\r\n", 0, 1 << 24, base=16, lenient=True), end=b"\r\n"), "")


class Request(s.Message, code=1, kind="request", answer=2, sent_by="client"):
    method: str = s.field(s.text(b" "), "")
    target: str = s.field(s.text(b" "), "", role="address")
    version: str = s.field(s.text(b"\r\n"), "")
    headers: tuple[Header, ...] = s.field(s.many(s.nested(Header), b"\r\n"), "header lines")
    content_length: int | None = s.derived(s.Lookup("headers", "Content-Length", number=True, fold=True), "")
    encoding: str | None = s.derived(s.Lookup("headers", "Transfer-Encoding", fold=True), "")
    chunks: tuple[Chunk, ...] | None = s.optional(
        s.many(s.nested(Chunk), None, until=When("data", empty=True)), "", when=When("encoding", one_of=("chunked",))
    )
    body: bytes | None = s.optional(s.blob("content_length"), "", when=When("content_length"))


class Response(s.Message, code=2, kind="response", sent_by="server", frame="response"):
    version: str = s.field(s.text(b" "), "")
    status: int = s.field(s.digits(b" "), "", role="status")
    reason: str = s.field(s.text(b"\r\n"), "")
    headers: tuple[Header, ...] = s.field(s.many(s.nested(Header), b"\r\n"), "header lines")
    content_length: int | None = s.derived(s.Lookup("headers", "Content-Length", number=True, fold=True), "")
    encoding: str | None = s.derived(s.Lookup("headers", "Transfer-Encoding", fold=True), "")
    chunks: tuple[Chunk, ...] | None = s.optional(
        s.many(s.nested(Chunk), None, until=When("data", empty=True)), "", when=When("encoding", one_of=("chunked",))
    )
    body: bytes | None = s.optional(s.blob("content_length"), "", when=When("content_length"))


PROTOCOL = s.declare(
    s.Protocol(
        "http1",
        "HTTP/1.1",
        s.Frame((s.Ends(1 << 20),)),
        (Request, Response),
        ports={"tcp": 8080},
        frames={"response": s.Frame((s.Ends(1 << 20),))},
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
