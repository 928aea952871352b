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
            VerbOption("responder", "appear in the tree of the broker while connected.", bool, default=False),
        ),
        "subscribe": (
            VerbOption(
                "qos",
                "0: the newest value, 1: all values, 2: also those while we are not connected, 3: also over a restart "
                "of the broker.  [default: 0]",
                int,
                metavar="0..3",
            ),
            VerbOption("queue_size", "bytes that may wait for us at the broker.  [default: 65536]", int, metavar="N"),
            VerbOption("queue_seconds", "how long a value may wait there.  [default: 120]", int, metavar="S"),
        ),
        "invoke": (
            VerbOption(
                "permission", "the most that the action may do for us: list, read, write, config.", metavar="TEXT"
            ),
        ),
    },
    verbs=("list", "get", "set", "invoke", "subscribe"),
    named_by="name",
    hub_ports={"ws": 4121, "wss": 4129},
    message_counts=("messages", "handshake_messages", "acks", "pings", "closes_ignored"),
)
