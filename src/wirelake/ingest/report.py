"""What an ingest did, in numbers."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ..capture.chunks import Counts

CAPTURED = (
    "packets",
    "time_records",
    "cut_packets",
    "fragments",
    "joined_fragments",
    "strange_times",
    "repeated_bytes",
    "outside_bytes",
    "early_bytes",
)
"""What is counted of captures; see ``Counts``."""
FACTS = ("captures", "messages", "violations", "bytes_decoded", "bytes_quarantined")
"""Numbers that a lake adds up over its commits."""


@dataclass
class Report:
    """What an ingest did.

    ``bytes_in`` = ``bytes_decoded`` + ``bytes_quarantined`` + ``bytes_pending``: all stream bytes at hand, also those
    that were pending before.
    """

    commit: int | None = None
    captures: int = 0
    skipped: int = 0
    sensors: int = 0
    rebuilt: list[str] = field(default_factory=list)
    """Sensors of which earlier rows were replaced, because a capture came late."""
    set_aside: dict[str, str] = field(default_factory=dict)
    """Captures that could not be decoded, each with the reason; they are not marked as read."""
    messages: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    violations: int = 0
    bytes_in: int = 0
    bytes_decoded: int = 0
    bytes_quarantined: int = 0
    bytes_pending: int = 0
    bytes_held: int = 0
    """Pending bytes that wait for missing ones before them; ``holes``: in how many places."""
    holes: int = 0
    bytes_left: int = 0
    """Of captures, that wait for the next step because this one has read as much as it may."""
    bytes_missing: int = 0
    bytes_foreign: int = 0
    captured: Counter[str] = field(default_factory=Counter)
    """What captures hold beside stream bytes that count once: packets, fragments, repeated bytes and so on."""
    not_read: Counter[str] = field(default_factory=Counter)
    """Packets that carry nothing for the tables, by what they are: ``udp``, ``ethertype`` and so on."""
    slowest: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    stages: dict[str, dict[str, float]] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, other: Report) -> None:
        """Add the numbers of a sensor."""
        for name, value in vars(other).items():
            mine = getattr(self, name)
            match mine:
                case Counter() | dict():
                    mine.update(value)
                case list():
                    mine.extend(value)
                case int() if name != "commit":
                    setattr(self, name, mine + value)

    def count(self, name: str, counts: Counts) -> None:
        """Add what a capture, or a part of it, holds beside stream bytes."""
        self.captured.update({each: count for each in CAPTURED if (count := getattr(counts, each))})
        self.not_read.update(counts.foreign)
        notes = [counts.broken, *counts.notes] if counts.broken else counts.notes
        self.notes += [note for text in notes if (note := f"{name}: {text}") not in self.notes]

    def totals(self) -> dict[str, int]:
        """Return the numbers that a lake adds up."""
        return {name: sum(self.messages.values()) if name == "messages" else getattr(self, name) for name in FACTS}

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"seconds": round(self.seconds, 3)}
