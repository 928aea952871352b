"""IMAP4rev1 (RFC 3501): commands and replies, each with a tag before it; literals are left in the line before them."""

from __future__ import annotations

from wirelake import spec as s

REST = s.word("[^\r\n]*", "text", all=True, optional=True)


class Imap(s.Message):
    tag: str = s.field(s.text(b" ", most=64, least=1), "ties a reply to its command", role="correlation")
    text: str | None = s.optional(REST, "what it is about")


class Command(Imap, kind="request", answer=("ok", "no", "bad"), sent_by="client"): ...


Login, Select, Fetch, Uid, Append, Logout, Noop, Capability, Search, Store = (
    s.message(name, Command, code=number, word=name.upper())
    for number, name in enumerate(
        ("Login", "Select", "Fetch", "Uid", "Append", "Logout", "Noop", "Capability", "Search", "Store"), 1
    )
)


class Reply(Imap, sent_by="server", frame="reply"): ...


Ok = s.message("Ok", Reply, code=100, word="OK", kind="response")
No = s.message("No", Reply, code=101, word="NO", kind="response", failure=True)
Bad = s.message("Bad", Reply, code=102, word="BAD", kind="response", failure=True)
Bye = s.message("Bye", Reply, code=103, word="BYE", kind="event")


class Data(s.Message, code=s.OTHER, frame="reply", sent_by="server", kind="event"):
    tag: str = s.field(s.text(b" ", most=64, least=1), "an asterisk, or a plus that asks for more")
    word: str = s.field(s.word("[^ \r\n]+", "word"), "what it tells, or how many")
    text: str | None = s.optional(REST, "what it tells")


LINE = s.Line(b" ", b"\r\n", window=8192, fewest=1, most=None, code="word", code_rule="word", fold=True, skip=True)
FRAME = s.Frame((s.Kept("tag"), LINE, s.Ends(16384)))
PROTOCOL = s.declare(
    s.Protocol("imap", "IMAP4rev1", FRAME, s.messages_in(globals()), ports={"tcp": 143}, frames={"reply": FRAME})
)
