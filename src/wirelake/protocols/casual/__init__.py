"""The protocol casual: its declaration, made of messages, conduct and traffic."""

from __future__ import annotations

from ...spec import Code, Frame, Kept, LifeCycle, Option, Protocol, Size, be, declare, deferred
from . import messages as m
from .conduct import CONDUCT
from .messages import *  # noqa: F403  (its records and constants are what users import from here)

_CONNECTED = "connected"


def _may_send(side: str, opening: type) -> dict[str, str]:
    """Return the moves of a side once the domains are connected."""
    moves = (cls.__message__ for cls in m.MESSAGES if cls is not opening)
    return {about["name"]: _CONNECTED for about in moves if about["sent_by"] in (side, "both")}


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
        traffic=deferred(f"{__name__}.traffic", "begin"),
        life_cycle=LifeCycle(
            initial="new",
            client={
                "new": {"domain_connect_request": "connecting"},
                "connecting": {},
                _CONNECTED: _may_send("client", m.DomainConnectRequest),
            },
            server={
                "new": {},
                "connecting": {"domain_connect_reply": _CONNECTED},
                _CONNECTED: _may_send("server", m.DomainConnectReply),
            },
            doc="The outbound domain (client) connects, the inbound one (server) replies; then requests and replies.",
        ),
    )
)
