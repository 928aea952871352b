"""IRC (RFC 1459, 2812): lines with a command, before which the prefix says who sends."""

from __future__ import annotations

from wirelake import spec as s

P = s.word("[^ \r\n]+", "parameter")
TEXT = s.word("[^\r\n]*", "text", all=True)
REST = s.word("[^\r\n]*", "text", all=True, optional=True)


class Prefix(s.Struct):
    mark = s.constant(b":")
    sender: str = s.field(s.text(b" ", most=300), "server, or nick!user@host")


class Irc(s.Message):
    prefix: Prefix | None = s.optional(s.nested(Prefix), "who sends", when=s.begins(b":"))


class Ping(Irc, code=1, word="PING", kind="request", answer="pong"):
    server: str = s.field(TEXT, role="correlation")


class Pong(Irc, code=2, word="PONG", kind="response"):
    server: str = s.field(TEXT, role="correlation")


class Nick(Irc, code=3, word="NICK", kind="event"):
    nick: str = s.field(P)


class User(Irc, code=4, word="USER", kind="event"):
    user: str = s.field(P)
    mode: str = s.field(P)
    unused: str = s.field(P)
    real: str = s.field(TEXT)


class Privmsg(Irc, code=5, word="PRIVMSG", kind="event"):
    target: str = s.field(P, role="address")
    text: str = s.field(TEXT, role="payload")


class Join(Irc, code=6, word="JOIN", kind="event"):
    channel: str = s.field(P, role="address")
    keys: str | None = s.optional(REST)


class Quit(Irc, code=7, word="QUIT", kind="event"):
    reason: str | None = s.optional(REST)


class Other(Irc, code=s.OTHER, kind="event"):
    command: str = s.field(s.word("[A-Za-z]+|[0-9]{3}", "command"))
    parameters: str | None = s.optional(REST)


LINE = s.Line(b" ", b"\r\n", window=512, fewest=1, most=None, code="command", code_rule="command", fold=True, skip=True)
PROTOCOL = s.declare(
    s.Protocol(
        "irc",
        "IRC",
        s.Frame((s.Kept("prefix"), LINE, s.Ends(1024))),
        s.messages_in(globals()),
        ports={"tcp": 6667},
    )
)
