"""A text protocol that is not built in: commands in one line, similar to STOMP, behind a length.

Try it: wirelake describe examples/bulletin.py:PROTOCOL
"""

from __future__ import annotations

from wirelake.spec import Body, Frame, Line, Message, Protocol, Size, Topics, be, declare, field, number, optional, word

NAME = "[a-z][a-z0-9]*"
BOARD = word(rf"{NAME}(?:\.{NAME}){{0,4}}", "board", most=64)
PRIORITY = number("([0-9]{1,2})", "priority", 1, 10, optional=True)


class Post(Message, code=1, word="post", kind="event", sent_by="client"):
    """Puts a notice on a board."""

    board: str = field(BOARD, "where it goes", role="address")
    priority: int | None = optional(PRIORITY, "10 goes first", default=None)
    text: bytes = field(Body(text=True, most=1024), "the notice", default=b"", role="payload")


class Clear(Message, code=2, word="clear", kind="event", sent_by="client"):
    """Takes notices off a board."""

    board: str = field(BOARD, "which", role="address")
    below: int | None = optional(PRIORITY, "only those of a lower priority", default=None)


PROTOCOL = declare(
    Protocol(
        name="bulletin",
        title="Bulletin board protocol",
        doc="Notices on boards.",
        frame=Frame(
            (
                Size("length", be.u16, counts="after", most=1200),
                Line(b" ", b"\n", window=80, fewest=2, most=3, code="command", code_rule="command"),
            )
        ),
        messages=(Post, Clear),
        topics=Topics("levels", one="+", rest="#"),
    )
)
