"""The protocol casual: its declaration, made of messages, conduct and traffic."""

from __future__ import annotations

from typing import Any

from ...spec import Code, Frame, Kept, LifeCycle, Option, Protocol, Size, be, declare
from . import messages as m
from .conduct import CONDUCT
from .messages import *  # noqa: F403  (its records and constants are what users import from here)

_CONNECTED = "connected"


def _traffic(stage: Any) -> None:
    from .traffic import begin

    begin(stage)


PROTOCOL = declare(
    Protocol(
        name="casual",
        title="casual domain protocol, version 1000",
        doc="Transaction middleware: service calls, two-phase commit, queues and conversations between two domains.",
        frame=Frame(
            (Code("type", be.u64), Kept("correlation"), Size("size", be.u64, counts="after", most=m.MAX_PAYLOAD))
        ),
        messages=m.MESSAGES,
        options={
            "profile": Option(
                ("document", "late"),
                "document",
                "time units and conversation messages a peer uses; every message decodes with either",
            )
        },
        labels=(
            m.XATMI_FLAGS,
            m.XATMI_ERROR,
            m.XATMI_EVENTS,
            m.TRANSACTION_STATE,
            m.SERVICE_TRANSACTION_MODE,
            m.XA_FLAGS,
            m.XA_RETURN,
            m.DUPLEX,
        ),
        conduct=CONDUCT,
        traffic=_traffic,
        life_cycle=LifeCycle(
            initial="new",
            client={
                "new": {"domain_connect_request": "connecting"},
                "connecting": {},
                _CONNECTED: {
                    cls.__message__["name"]: _CONNECTED
                    for cls in m.MESSAGES
                    if cls.__message__["sent_by"] in ("client", "both") and cls is not m.DomainConnectRequest
                },
            },
            server={
                "new": {},
                "connecting": {"domain_connect_reply": _CONNECTED},
                _CONNECTED: {
                    cls.__message__["name"]: _CONNECTED
                    for cls in m.MESSAGES
                    if cls.__message__["sent_by"] in ("server", "both") and cls is not m.DomainConnectReply
                },
            },
            doc="The outbound domain (client) connects, the inbound one (server) replies; then requests and replies.",
        ),
    )
)
