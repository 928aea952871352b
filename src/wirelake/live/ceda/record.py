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
            VerbOption("session_id", "log in with this session id instead of a user.", metavar="TEXT"),
            VerbOption(
                "heartbeat", "ask for a sign of life after so much silence.  [default: 15]", float, metavar="SECONDS"
            ),
        ),
        "subscribe": (
            VerbOption("image", "ask for the current values first.", bool),
            VerbOption("image_from", "ask this service for the current values first.", metavar="TEXT"),
        ),
        "request": (VerbOption("server_id", "the service to ask.  [default: MQ]", metavar="TEXT"),),
    },
    named_by="user",
    has_login=True,
    hub_ports={"ws": 8089},
    message_counts=(
        "published", "requests", "requests_unrouted", "replies", "replies_dropped", "p2p", "p2p_unrouted", "pieces",
        "heartbeats", "logins", "logins_refused", "ignored_before_login", "control_ignored", "message_errors",
        "undecodable_dropped", "unheard",
    ),
)  # fmt: skip
