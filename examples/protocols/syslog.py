"""Syslog over TCP with octet counting (RFC 6587, section 3.4.1); messages as in RFC 5424, section 6."""

from __future__ import annotations

from wirelake.spec import Frame, Message, Protocol, Size, constant, declare, digits, field, rest_text, text


class Record(Message, code=0):
    """One line of a log. What is ``-`` was not known."""

    opened = constant(b"<")
    priority: int = field(digits(b">", 0, 191), "facility times 8, plus severity")
    version: int = field(digits(b" ", 1, 999), "of the format")
    timestamp: str = field(text(b" ", least=1, most=40), "when, as RFC 3339 writes it")
    host: str = field(text(b" ", least=1, most=255), "who says it", role="address")
    app: str = field(text(b" ", least=1, most=48), "which program")
    process: str = field(text(b" ", least=1, most=128), "which process")
    kind_of_message: str = field(text(b" ", least=1, most=32), "which kind of message", json="msgid", column="msgid")
    content: str = field(rest_text, "structured data, and what is said", role="payload")


FRAME = Frame((Size("length", digits(b" ", 1, 1 << 16), counts="after"),))
PROTOCOL = declare(Protocol("syslog", "Syslog over TCP, octet counting", FRAME, (Record,), ports={"tcp": 601}))
