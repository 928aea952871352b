"""NATS: lines with words, payloads by size, and headers before the payload."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import By
from wirelake.spec.conduct import Conduct, Matching

SUBJECT = s.word(r"[A-Za-z0-9_.*>$-]+", "subject", most=200)
REPLY = s.word(r"[A-Za-z0-9_.$]+", "reply", optional=True)
SID = s.word(r"[A-Za-z0-9]+", "sid")
SIZE = s.number("([0-9]{1,8})", "size", 0, 1 << 20)
JSON = s.word(r"\{.{0,2000}\}", "json", all=True)


class Info(s.Message, code=1, word="INFO", sent_by="server"):
    settings: str = s.field(JSON, "what the server can do")


class Connect(s.Message, code=2, word="CONNECT", sent_by="client"):
    settings: str = s.field(JSON, "who the client is")


class Pub(s.Message, code=3, word="PUB", sent_by="client"):
    subject: str = s.field(SUBJECT, "where", role="address")
    reply_to: str | None = s.optional(REPLY, "inbox")
    size: int = s.field(SIZE, "bytes")
    payload: bytes = s.field(s.blob("size", end=b"\r\n"), "what", role="payload")


class Hpub(s.Message, code=4, word="HPUB", sent_by="client"):
    subject: str = s.field(SUBJECT, "where", role="address")
    reply_to: str | None = s.optional(REPLY, "inbox")
    head: int = s.field(SIZE, "bytes of the headers")
    size: int = s.field(SIZE, "bytes of headers and payload")
    headers: bytes = s.field(s.blob("head"), "NATS/1.0 and header lines")
    payload: bytes = s.field(s.blob(By("size", less="head"), end=b"\r\n"), "what", role="payload")


class Msg(s.Message, code=5, word="MSG", sent_by="server"):
    subject: str = s.field(SUBJECT, "where", role="address")
    sid: str = s.field(SID, "subscription")
    reply_to: str | None = s.optional(REPLY, "inbox")
    size: int = s.field(SIZE, "bytes")
    payload: bytes = s.field(s.blob("size", end=b"\r\n"), "what", role="payload")


class Sub(s.Message, code=6, word="SUB", sent_by="client"):
    subject: str = s.field(SUBJECT, "where", role="address")
    queue: str | None = s.optional(REPLY, "queue group")
    sid: str = s.field(SID, "subscription")


class Unsub(s.Message, code=7, word="UNSUB", sent_by="client"):
    sid: str = s.field(SID, "subscription")
    most: int | None = s.optional(s.number("([0-9]{1,9})", "most", 0, 1 << 29, optional=True), "messages")


Ping = s.message("Ping", code=8, word="PING", answer=9, kind="control")
Pong = s.message("Pong", code=9, word="PONG", kind="response")
Ok = s.message("Ok", code=10, word="+OK", sent_by="server")


class Err(s.Message, code=11, word="-ERR", sent_by="server"):
    reason: str = s.field(s.word(r"'[^']{1,80}'", "reason", all=True), "in words")


LINE = s.Line(b" ", b"\r\n", window=4096, fewest=1, most=None, code="verb", code_rule="verb", fold=True, skip=True)
PROTOCOL = s.declare(
    s.Protocol(
        "nats_headers",
        "NATS",
        s.Frame((LINE, s.Ends(1 << 21))),
        s.messages_in(globals()),
        ports={"tcp": 4222},
        topics=s.Topics("segments", one="*", rest=">"),
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
