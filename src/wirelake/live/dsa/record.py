"""DSA as hub, URLs, metrics and command line know it."""

from __future__ import annotations

from ..core.record import Live, VerbOption

RECORD = Live(
    "dsa",
    __package__,
    options={
        "connect": (
            VerbOption("name", "the prefix of the dsId, which names the link.  [default: wirelake]", metavar="TEXT"),
            VerbOption(
                "key_file", "the private key of the link; made on first use.  [default: a new key]", metavar="FILE"
            ),
            VerbOption(
                "token",
                "a token of the broker; better in the environment, as WIRELAKE_TOKEN.",
                metavar="TEXT",
                variable="WIRELAKE_TOKEN",
            ),
        ),
    },
    verbs=("list", "get", "set", "invoke", "subscribe"),
    named_by="name",
    hub_ports={"ws": 4121, "wss": 4129},
    message_counts=("messages", "handshake_messages", "acks", "pings", "closes_ignored"),
)
