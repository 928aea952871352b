"""POP3 (RFC 1939): commands, replies of one line, and lists or mails up to a line with a dot."""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec.conduct import Conduct, Matching

REST = s.word("[^\r\n]*", "text", all=True, optional=True)


class Command(s.Message, kind="request", answer=("ok", "err"), sent_by="client"):
    argument: str | None = s.optional(REST, "which mail ...")


User, Password, Stat, List, Retr, Dele, Noop, Quit, Top, Uidl, Capa = (
    s.message(name, Command, code=number, word=word)
    for number, (name, word) in enumerate(
        {
            "User": "USER", "Password": "PASS", "Stat": "STAT", "List": "LIST", "Retr": "RETR", "Dele": "DELE",
            "Noop": "NOOP", "Quit": "QUIT", "Top": "TOP", "Uidl": "UIDL", "Capa": "CAPA",
        }.items(),
        1,
    )
)  # fmt: skip


class Ok(s.Message, code=100, word="+OK", kind="response", sent_by="server", frame="reply"):
    text: str | None = s.optional(REST, "in words")


class Err(s.Message, code=101, word="-ERR", kind="response", failure=True, sent_by="server", frame="reply"):
    text: str | None = s.optional(REST, "in words")


class Text(s.Message, code=102, kind="event", sent_by="server", frame="line"):
    """A line of a list or of a mail; the last one is a dot."""

    line: str = s.field(s.rest_text, "as it is sent, dots doubled", role="payload")


def line(name: str) -> s.Line:
    return s.Line(b" ", b"\r\n", window=512, fewest=1, most=None, code=name, code_rule=name, fold=True, skip=True)


PROTOCOL = s.declare(
    s.Protocol(
        "pop3",
        "POP3",
        s.Frame((line("command"), s.Ends(512))),
        s.messages_in(globals()),
        ports={"tcp": 110},
        frames={
            "reply": s.Frame((line("status"), s.Ends(512))),
            "line": s.Frame((s.Until(b"\r\n", 998),)),
        },
        conduct=Conduct(matching=Matching(in_order=True)),
    )
)
