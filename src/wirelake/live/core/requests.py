"""Requests of ours that wait for a reply: each is closed once, by its reply, by time, or because it is given up."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from .timers import Timers

Key = TypeVar("Key", bound=Hashable)
What = TypeVar("What")


class Requests(Generic[Key, What]):
    """Open requests by what their replies name, the oldest first, each with what its owner knows of it."""

    def __init__(self) -> None:
        self.open: dict[Key, What] = {}
        self._timers: Timers[Key] = Timers()

    def __len__(self) -> int:
        return len(self.open)

    def __contains__(self, key: object) -> bool:
        return key in self.open

    @property
    def deadline(self) -> float | None:
        return self._timers.deadline

    def begin(self, key: Key, what: What, until: float | None) -> None:
        """A request goes out, and waits for its reply until then, or for ever."""
        self.open[key] = what
        if until is not None:
            self._timers.set(key, until)

    def close(self, key: Key) -> What | None:
        """Return what is known of the request that this closes; None if there is none."""
        self._timers.drop(key)
        return self.open.pop(key, None)

    def due(self, now: float) -> list[Key]:
        """Return those that have waited too long; they are still open."""
        return [key for key in self._timers.due(now) if key in self.open]
