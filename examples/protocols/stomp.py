"""STOMP 1.2, after its specification of 22 October 2012. Heart-beats are frames of one line end.

Lines end with a line feed, or with a carriage return before it; each side keeps to one of them.
"""

from __future__ import annotations

from typing import Any

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Selection, When

END: Any = s.choose("lines", lf=b"\n", crlf=b"\r\n")
ESCAPES = {rb"\\": b"\\", rb"\n": b"\n", rb"\r": b"\r", rb"\c": b":"}
CLIENT: dict[str, Any] = {"kind": "request", "sent_by": "client", "answer": ("receipt", "error")}
SERVER: dict[str, Any] = {"sent_by": "server"}
RECEIPT = s.derived(s.Lookup("headers", "receipt"), "asks for a receipt", role="correlation")
RECEIPT_ID = s.derived(s.Lookup("headers", "receipt-id"), "which receipt", role="correlation")
DESTINATION = s.derived(s.Lookup("headers", "destination"), "where it goes", role="address")
TRANSACTION = s.derived(s.Lookup("headers", "transaction"), "which transaction")


class Header(s.Struct):
    name: str = s.field(s.text(b":", least=1, escapes=ESCAPES), "what it is about")
    value: str = s.field(s.text(END, escapes=ESCAPES), "what it says")


class Plain(s.Struct):
    """Where a connection begins there are no escapes, as in STOMP 1.0."""

    name: str = s.field(s.text(b":", least=1), "what it is about")
    value: str = s.field(s.text(END), "what it says")


class Handshake(s.Message):
    headers: tuple[Plain, ...] = s.field(s.many(s.nested(Plain), END), "header lines", default=())
    content_length = s.derived(s.Lookup("headers", "content-length", number=True), "bytes of the body, if it says so")
    body: bytes = s.field(s.blob("content_length", end=b"\0"), "what it carries", role="payload", default=b"")


class Command(s.Message):
    """Of headers with the same name, the first one counts."""

    headers: tuple[Header, ...] = s.field(s.many(s.nested(Header), END), "header lines", default=())
    content_length = s.derived(s.Lookup("headers", "content-length", number=True), "bytes of the body, if it says so")
    body: bytes = s.field(s.blob("content_length", end=b"\0"), "what it carries", role="payload", default=b"")


class HeartBeat(s.Message, code=0, frame="heart_beat", kind="control"):
    """The peer is alive."""


def command(word: str, line: dict[str, Any], base: Any = Command, **fields: Any) -> Any:
    return s.message(word.capitalize(), base, code=word, **line, **fields)


PROTOCOL = s.declare(
    s.Protocol(
        name="stomp",
        title="STOMP 1.2",
        frame=s.Frame((s.Code("command", s.text(END)), s.Ends(1 << 24))),
        frames={"heart_beat": s.Frame((s.Magic(END), s.Ends(2)))},
        messages=(
            HeartBeat,
            command("CONNECT", {"kind": "control", "sent_by": "client"}, Handshake),
            command("STOMP", {"kind": "control", "sent_by": "client"}, Handshake),
            command("SEND", CLIENT, destination=DESTINATION, transaction=TRANSACTION, receipt=RECEIPT),
            command("SUBSCRIBE", CLIENT, destination=DESTINATION, receipt=RECEIPT),
            command("UNSUBSCRIBE", CLIENT, receipt=RECEIPT),
            command("BEGIN", CLIENT, transaction=TRANSACTION, receipt=RECEIPT),
            command("COMMIT", CLIENT, transaction=TRANSACTION, receipt=RECEIPT),
            command("ABORT", CLIENT, transaction=TRANSACTION, receipt=RECEIPT),
            command("ACK", CLIENT, transaction=TRANSACTION, receipt=RECEIPT),
            command("NACK", CLIENT, transaction=TRANSACTION, receipt=RECEIPT),
            command("DISCONNECT", CLIENT, receipt=RECEIPT),
            command("CONNECTED", {"kind": "control", "sent_by": "server"}, Handshake),
            command("MESSAGE", SERVER, destination=DESTINATION),
            command("RECEIPT", SERVER | {"kind": "response"}, receipt=RECEIPT_ID),
            command("ERROR", SERVER | {"kind": "response", "failure": True}, receipt=RECEIPT_ID),
        ),
        options={"lines": s.Option(("auto", "lf", "crlf"), "auto", "how lines end", auto="lf")},
        ports={"tcp": 61613},
        conduct=Conduct(
            no_reply=(Selection(when=When("receipt", empty=True)),),
            heartbeats=(Selection(messages=("heart_beat",)),),
        ),
    )
)
