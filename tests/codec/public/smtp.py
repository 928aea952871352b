"""SMTP (RFC 5321): commands, the mail after DATA, replies of several lines"""

from __future__ import annotations

from wirelake import spec as s
from wirelake.spec import When
from wirelake.spec.conduct import Conduct, Matching, Result, Selection, Streams


class Command(s.Message, kind="request", answer="reply", sent_by="client"): ...


ARG = s.word("[^\r\n]+", "argument", all=True)


class Helo(Command, code=1, word="HELO"):
    domain: str = s.field(ARG)


class Ehlo(Command, code=2, word="EHLO"):
    domain: str = s.field(ARG)


class Mail(Command, code=3, word="MAIL"):
    path: str = s.field(ARG, role="address")


class Rcpt(Command, code=4, word="RCPT"):
    path: str = s.field(ARG, role="address")


class Data(Command, code=5, word="DATA"):
    mail: bytes = s.field(s.blob(b"\r\n.\r\n", most=1 << 24), role="payload")


class Quit(Command, code=6, word="QUIT"): ...


class Rset(Command, code=7, word="RSET"): ...


class OtherCommand(Command, code=s.OTHER):
    command: str = s.field(s.word("[A-Za-z]+", "command"))
    argument: str | None = s.optional(s.word("[^\r\n]+", "argument", all=True, optional=True))


class ReplyLine(s.Struct):
    number: int = s.field(s.digits(3))
    mark: bytes = s.field(s.fixed(1))
    line: str = s.field(s.text(b"\r\n", most=510))


class Reply(s.Message, code=1000, kind="response", sent_by="server", frame="reply"):
    status: int = s.field(s.digits(3), role="status")
    mark: bytes = s.field(s.fixed(1))
    line: str = s.field(s.text(b"\r\n", most=510))
    more: tuple[ReplyLine, ...] | None = s.optional(
        s.many(s.nested(ReplyLine), None, until=When("mark", none_of=(b"-",))), when=When("mark", one_of=(b"-",))
    )


PROTOCOL = s.declare(
    s.Protocol(
        "smtp",
        "SMTP",
        s.Frame(
            (
                s.Line(
                    b" ",
                    b"\r\n",
                    window=512,
                    fewest=1,
                    most=None,
                    code="command",
                    code_rule="command",
                    fold=True,
                    skip=True,
                ),
                s.Ends(1 << 24),
            )
        ),
        s.messages_in(globals()),
        ports={"tcp": 25},
        frames={"reply": s.Frame((s.Ends(65536),))},
        conduct=Conduct(
            matching=Matching(in_order=True),
            results=(Result("error", messages=("reply",), when=When("status", least=400)),),
            streams=Streams(continues=(Selection(messages=("reply",), when=When("status", one_of=(354,))),)),
        ),
    )
)
