"""casual as hub, URLs, metrics and command line know it."""

from __future__ import annotations

from ..core.record import Live, VerbOption

RECORD = Live(
    "casual",
    __package__,
    options={
        "connect": (
            VerbOption("name", "the name of our domain.  [default: wirelake]", metavar="TEXT"),
            VerbOption(
                "profile", "document, or late for C++ since 2018 and Java.  [default: document]", metavar="PROFILE"
            ),
        ),
    },
    verbs=("call", "enqueue", "dequeue", "discover"),
    transports=("tcp",),
    has_queues=True,
)
