"""Seeded traffic: realistic conversations of the built-in protocols, and of any other from its declaration alone.

>>> from wirelake.generate import generate
>>> [event.message.to_json()["message"] for event in generate("ceda", messages=2, connections=1)][:2]
['login', 'login']
"""

from __future__ import annotations

from .corruption import Corruption
from .simulation import Closed, Connection, Event, Opened
from .traffic import Traffic, generate
from .truth import Branch, Exchange, Missing, Session, Transaction, Truth, Violation
from .values import random_frame, random_message
from .writers import stream_name, write_jsonl, write_pcap, write_raw, write_tap

__all__ = [
    "Branch",
    "Closed",
    "Connection",
    "Corruption",
    "Event",
    "Exchange",
    "Missing",
    "Opened",
    "Session",
    "Traffic",
    "Transaction",
    "Truth",
    "Violation",
    "generate",
    "random_frame",
    "random_message",
    "stream_name",
    "write_jsonl",
    "write_pcap",
    "write_raw",
    "write_tap",
]
