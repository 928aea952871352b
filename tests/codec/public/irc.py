"""IRC (RFC 1459, 2812)"""

from __future__ import annotations

from wirelake import spec as s

P = s.word("[^ \r\n]+", "parameter")
TEXT = s.word("[^\r\n]*", "text", all=True)


class Ping(s.Message, code=1, word="PING", kind="request", answer="pong"):
    server: str = s.field(TEXT, role="correlation")


class Pong(s.Message, code=2, word="PONG", kind="response"):
    server: str = s.field(TEXT, role="correlation")


class Nick(s.Message, code=3, word="NICK", kind="event"):
    nick: str = s.field(P)


class User(s.Message, code=4, word="USER", kind="event"):
    user: str = s.field(P)
    mode: str = s.field(P)
    unused: str = s.field(P)
    real: str = s.field(TEXT)


class Privmsg(s.Message, code=5, word="PRIVMSG", kind="event"):
    target: str = s.field(P, role="address")
    text: str = s.field(TEXT, role="payload")


class Join(s.Message, code=6, word="JOIN", kind="event"):
    channel: str = s.field(P, role="address")


class Quit(s.Message, code=7, word="QUIT", kind="event"):
    reason: str | None = s.optional(s.word("[^\r\n]*", "text", all=True, optional=True))


class Other(s.Message, code=s.OTHER, kind="event"):
    command: str = s.field(s.word("[A-Za-z0-9]+", "command"))
    parameters: str | None = s.optional(s.word("[^\r\n]*", "text", all=True, optional=True))


class Prefixed(s.Message, code=1000, frame="prefixed", kind="event"):
    sender: str = s.field(s.text(b" "), "who", role="address")
    verb: str = s.field(s.text(b" "))
    parameters: str = s.field(s.rest_text)


PROTOCOL = s.declare(
    s.Protocol(
        "irc",
        "IRC",
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
                s.Ends(512),
            )
        ),
        s.messages_in(globals()),
        ports={"tcp": 6667},
        frames={"prefixed": s.Frame((s.Magic(b":"), s.Until(b"\r\n", 510)))},
    )
)
