"""The protocol mb: its declaration, made of messages, conduct and traffic."""

from __future__ import annotations

from ...spec import Captured, Frame, LifeCycle, Option, Protocol, Topics, choose, declare, deferred
from . import messages as m
from .conduct import CONDUCT
from .messages import *  # noqa: F403  (its records and constants are what users import from here)

PROTOCOL = declare(
    Protocol(
        name="mb",
        title="MB Server Node message structure",
        doc="Microservice broker: publish, request and response with a text header line.",
        frame=choose("framing", message=Frame((m.LINE,)), tcp=Frame((m.LENGTH, m.LINE))),
        messages=m.MESSAGES,
        options={
            "profile": Option(
                ("strict", "upstream"), "strict", "the published rules, or what the known broker accepts"
            ),
            "framing": Option(("message", "tcp"), "message", "one bare message, or a 4-byte length before it"),
            "json_payload": Option((False, True), False, "require the payload to be JSON and show it"),
        },
        topics=Topics("levels", one="+", rest="#"),
        ports={"tcp": 3001, "tls": 8001, "ws": 3000, "wss": 8000},
        captured=Captured(
            fallback={"profile": "upstream"}, websocket="message", websocket_options={"framing": "message"}
        ),
        conduct=CONDUCT,
        traffic=deferred(f"{__name__}.traffic", "begin"),
        life_cycle=LifeCycle(
            initial="open",
            client={"open": {"publish": "open", "request": "open", "response": "open"}},
            server={"open": {"publish": "open", "request": "open", "response": "open"}},
            doc="There is no handshake: a service may send anything from the moment it is connected.",
        ),
    )
)
