"""The protocol ceda: its declaration, made of messages, conduct and traffic."""

from __future__ import annotations

from ...spec import (
    Captured,
    Code,
    Escaped,
    Frame,
    LifeCycle,
    Magic,
    Option,
    Protocol,
    Size,
    Topics,
    be,
    choose,
    declare,
    deferred,
    le,
    u8,
)
from . import messages as m
from .conduct import CONDUCT
from .messages import *  # noqa: F403  (its records and constants are what users import from here)

_DATA = {"publish": "ready", "request": "ready", "reply": "ready", "p2p": "ready", "group_pub": "ready"}


PROTOCOL = declare(
    Protocol(
        name="ceda",
        title="CEDA4 communication protocol",
        doc="Trading bus: login, topics, publish, request and reply in small frames.",
        frame=Frame(
            (
                Magic(b"\x82"),
                Size(
                    "payload_length",
                    Escaped(
                        escape=m.EXTENDED,
                        wide=choose("dialect", ceda4=le.u16, ceda4_ws=be.u16),
                        reserved=(127,),
                        mask_bit=choose("dialect", ceda4=0, ceda4_ws=0x80),
                    ),
                    counts="after",
                    least=1,
                    most=m.MAX_PAYLOAD,
                ),
                Code("type", u8),
            )
        ),
        messages=m.MESSAGES,
        options={
            "dialect": Option(
                ("auto", "ceda4", "ceda4-ws"),
                "auto",
                "the document's dialect, the deployed one, or found out per connection",
                auto="ceda4",
            ),
            "charset": Option((), "utf-8", "character set of texts in records; old traffic may need gbk"),
            "errors": Option(("strict", "replace"), "strict", "refuse texts that are not in that set, or replace"),
        },
        labels=(m.CONTROL_CODES,),
        topics=Topics("segments", one="*", rest="**"),
        ports={"tcp": 8088},
        captured=Captured(
            websocket="frames", websocket_options={"dialect": "ceda4-ws"}, websocket_paths=("/mqtunnel",)
        ),
        conduct=CONDUCT,
        traffic=deferred(f"{__name__}.traffic", "begin"),
        life_cycle=LifeCycle(
            initial="open",
            client={
                "open": {"login": "login_sent", "heartbeat": "open", "logout": "closed"},
                "login_sent": {"heartbeat": "login_sent", "logout": "closed"},
                "ready": {
                    "login": "login_sent",
                    "heartbeat": "ready",
                    "subscribe": "ready",
                    "unsubscribe": "ready",
                    "logout": "closed",
                }
                | _DATA,
                "closed": {},
            },
            server={
                "open": {"heartbeat": "open", "logout": "closed"},
                "login_sent": {"login": "ready", "heartbeat": "login_sent", "logout": "closed"},
                "ready": {"heartbeat": "ready", "subscribe": "ready", "unsubscribe": "ready", "logout": "closed"}
                | _DATA,
                "closed": {},
            },
            doc="Login first; a failed login leads back to open; heartbeats at any time.",
        ),
    )
)
