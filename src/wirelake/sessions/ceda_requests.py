"""Requests of ours that wait for a reply: found by their reply topic, closed once, each within its time."""

from __future__ import annotations

from typing import Any

from .timers import Timers


class Requests:
    """Open requests by reply topic. ``about`` is what the owner wants to know of one when it is closed."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, tuple[int, Any]] = {}
        self._timers: Timers[str] = Timers()
        self._count = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def deadline(self) -> float | None:
        return self._timers.deadline

    def open(self, reply_topic: str, until: float | None, about: Any = None) -> int:
        """Gives the token of a new request."""
        if len(self._open) >= self._most:
            raise BufferError(f"{self._most} requests wait for a reply already")
        self._count += 1
        self._open[reply_topic] = (self._count, about)
        if until is not None:
            self._timers.set(reply_topic, until)
        return self._count

    def close(self, reply_topic: str) -> tuple[int, Any] | None:
        """The token of the request that this reply topic closes, and what it is about."""
        found = self._open.pop(reply_topic, None)
        if found is not None:
            self._timers.drop(reply_topic)
        return found

    def due(self, now: float) -> list[tuple[int, Any]]:
        """Those that waited too long."""
        return [found for topic in self._timers.due(now) if (found := self._open.pop(topic, None)) is not None]

    def close_all(self) -> list[tuple[int, Any]]:
        found = list(self._open.values())
        self._open.clear()
        self._timers = Timers()
        return found
