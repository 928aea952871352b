"""The protocol dsa: its declaration, made of messages, conduct and traffic."""

from __future__ import annotations

from ...spec import Captured, Code, Frame, Head, LifeCycle, Option, Protocol, Size, choose, declare, deferred, le, u8
from . import messages as m
from .conduct import CONDUCT
from .messages import *  # noqa: F403  (its records and constants are what users import from here)

_READY = {cls.__message__["name"]: "ready" for cls in m.MESSAGES if not cls.__message__["name"].startswith("handshake")}


PROTOCOL = declare(
    Protocol(
        name="dsa",
        title="DSA 2.0 message header structure",
        doc="IoT bus: subscribe, list, invoke and set streams over a tree of paths.",
        frame=Frame(
            (
                Size("total_length", le.u32, counts="whole", least=7, most=m.MAX_TOTAL),
                Head(
                    "header_length",
                    le.u16,
                    least=m.SHORT_HEAD,
                    most=m.MAX_HEADER,
                    body_most=choose("mode", strict=m.MAX_BODY, compat=None),
                ),
                Code("method", u8, early=True),
            )
        ),
        messages=m.MESSAGES,
        options={
            "mode": Option(("strict", "compat"), "strict", "the document to the letter, or what known peers send too"),
            "frame_only": Option((False, True), False, "do not look into bodies"),
        },
        labels=(m.STATUS, m.PERMISSION, m.QOS),
        ports={"tcp": 4120, "tls": 4128},
        captured=Captured(options={"mode": "compat"}, websocket="stream"),
        conduct=CONDUCT,
        traffic=deferred(f"{__name__}.traffic", "begin"),
        life_cycle=LifeCycle(
            initial="new",
            client={
                "new": {"handshake_f0": "greeted"},
                "greeted": {},
                "answered": {"handshake_f2": "proved"},
                "proved": {},
                "ready": _READY,
            },
            server={
                "new": {},
                "greeted": {"handshake_f1": "answered"},
                "answered": {},
                "proved": {"handshake_f3": "ready"},
                "ready": _READY,
            },
            doc="Four handshake messages in turn, then both sides may send anything.",
        ),
    )
)
