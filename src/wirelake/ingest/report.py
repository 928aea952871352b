"""What an ingest did, and how far it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


class Progress(Protocol):
    """``stage`` begins something, ``add`` says how much of it is done."""

    def stage(self, name: str, total: int) -> None: ...

    def add(self, done: int) -> None: ...


class NoProgress:
    def stage(self, name: str, total: int) -> None:
        pass

    def add(self, done: int) -> None:
        pass


@dataclass
class Report:
    """What an ingest did."""

    commit: int | None = None
    captures: int = 0
    skipped: int = 0
    messages: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    transactions: dict[str, int] = field(default_factory=dict)
    violations: int = 0
    bytes_in: int = 0
    bytes_decoded: int = 0
    bytes_quarantined: int = 0
    bytes_pending: int = 0
    bytes_missing: int = 0
    bytes_foreign: int = 0
    slowest: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"seconds": round(self.seconds, 3)}


def sum_counts(*counts: Mapping[str, int]) -> dict[str, int]:
    """The counts of several parts, by name."""
    total: Counter[str] = Counter()
    for one in counts:
        total.update(one)
    return dict(total)
