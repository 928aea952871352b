"""What the messages look like: for the live side, only topics and ports count."""

from wirelake.spec import Body, Code, Frame, Message, Protocol, Size, Topics, be, declare, field, u8


class Note(Message, code=1):
    """A note."""

    text: bytes = field(Body(), "what it says", default=b"")


FRAME = Frame((Size("length", be.u16, counts="after"), Code("kind", u8)))
PROTOCOL = declare(Protocol("notes", "Notes", FRAME, (Note,), topics=Topics("levels", "+", "#"), ports={"tcp": 7907}))
