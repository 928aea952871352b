"""RESP2, the protocol of Redis, after its "Redis serialization protocol specification".

Clients send arrays of bulk strings, and the server replies in the order of the requests.
"""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Matching

LINE = s.text(b"\r\n", most=65536)
NUMBER = s.digits(b"\r\n", -(2**63), lenient=True)
BULK = s.text(s.digits(b"\r\n", -1, 512 << 20), null=-1, end=b"\r\n")
VALUE = s.choice(
    s.fixed(1),
    lambda: {b"+": LINE, b"-": LINE, b":": NUMBER, b"$": BULK, b"*": ITEMS},
    depth=32,
)
ITEMS = s.many(VALUE, s.digits(b"\r\n", -1, 1 << 20), null=-1)


class SimpleString(s.Message, code=ord("+"), kind="response", sent_by="server"):
    text: str = s.field(LINE, "a short text, such as OK")


class Error(s.Message, code=ord("-"), kind="response", sent_by="server", failure=True):
    error: str = s.field(LINE, "a word in capitals, and what went wrong", role="status")


class Integer(s.Message, code=ord(":"), kind="response", sent_by="server"):
    number: int = s.field(NUMBER, "a number")


class Bulk(s.Message, code=ord("$"), kind="response", sent_by="server"):
    value: str | None = s.optional(BULK, "a text or bytes; null if there is none")


class Array(s.Message, code=ord("*"), answer=tuple(b"*+-:$")):
    """From the client a command with its arguments, from the server a list."""

    items: tuple[s.Tagged, ...] | None = s.optional(ITEMS, "values, which may be lists again")


PROTOCOL = s.declare(
    s.Protocol(
        name="resp2",
        title="RESP2 (Redis)",
        frame=s.Frame((s.Code("type", s.u8, early=True), s.Ends(512 << 20))),
        messages=s.messages_in(globals()),
        ports={"tcp": 6379},
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
