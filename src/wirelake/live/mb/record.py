"""MB as hub, URLs, metrics and command line know it."""

from __future__ import annotations

from ..core.record import Live, VerbOption

RECORD = Live(
    "mb",
    __package__,
    options={
        "connect": (
            # Registering is also how we see that a broker is there, so there is always a name.
            VerbOption("name", "the name to register under.  [default: wirelake]", metavar="TEXT", default="wirelake"),
        ),
        "publish": (VerbOption("confirm", "wait until the broker has delivered each message.", bool),),
        "respond": (VerbOption("priority", "the highest gets the requests.  [default: 0]", float, "X"),),
    },
    named_by="name",
    message_counts=("router.message.count", "malformed"),
)
