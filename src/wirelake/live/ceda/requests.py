"""Requests of ours that wait for a reply: found by their reply topic, closed once, each within its time."""

from __future__ import annotations

from ..core.timers import Timers


class Requests:
    """Open requests by reply topic, each with its token."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, int] = {}
        self._topics: dict[int, str] = {}
        self._timers: Timers[str] = Timers()
        self._count = 0

    def __len__(self) -> int:
        return len(self._open)

    @property
    def deadline(self) -> float | None:
        return self._timers.deadline

    def open(self, reply_topic: str, until: float | None) -> int:
        """Gives the token of a new request."""
        if len(self._open) >= self._most:
            raise BufferError(f"{self._most} requests wait for a reply already")
        self._count += 1
        self._open[reply_topic] = self._count
        self._topics[self._count] = reply_topic
        if until is not None:
            self._timers.set(reply_topic, until)
        return self._count

    def close(self, reply_topic: str) -> int | None:
        """The token of the request that this reply topic closes."""
        token = self._open.pop(reply_topic, None)
        if token is not None:
            del self._topics[token]
            self._timers.drop(reply_topic)
        return token

    def forget(self, token: int) -> None:
        """Close a request by its token."""
        self.close(self._topics.get(token, ""))

    def due(self, now: float) -> list[int]:
        """The tokens of those that waited too long."""
        return [token for topic in self._timers.due(now) if (token := self.close(topic)) is not None]

    def close_all(self) -> list[int]:
        tokens = list(self._open.values())
        self._open.clear()
        self._topics.clear()
        self._timers = Timers()
        return tokens
