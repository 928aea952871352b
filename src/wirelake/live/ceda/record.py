"""CEDA as hub, URLs, metrics and command line know it."""

from __future__ import annotations

from ..core.record import Live, VerbOption

RECORD = Live(
    "ceda",
    __package__,
    options={
        "connect": (
            VerbOption("user", "the user; the URL may name it instead.", metavar="TEXT"),
            VerbOption(
                "password",
                "the password; better in the environment, as WIRELAKE_PASSWORD.",
                metavar="TEXT",
                variable="WIRELAKE_PASSWORD",
            ),
        ),
        "subscribe": (VerbOption("image", "ask for the current values first.", bool),),
        "request": (VerbOption("server_id", "the service to ask.  [default: MQ]", metavar="TEXT"),),
    },
    named_by="user",
    has_login=True,
    hub_ports={"ws": 8089},
    message_counts=(
        "published", "requests", "requests_unrouted", "replies", "replies_dropped", "p2p", "p2p_unrouted", "pieces",
        "heartbeats", "logins", "logins_refused", "ignored_before_login", "control_ignored", "message_errors",
    ),
)  # fmt: skip
