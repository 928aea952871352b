"""What a client has asked for and waits for: each ends exactly once, with a reply, an error or a loss."""

from __future__ import annotations

from dataclasses import dataclass

from ..core.errors import ConnectionLost
from ..core.timers import Timers
from . import wire
from .events import Answered, Error, Event, Refused


@dataclass(slots=True)
class Call:
    """``subject`` is what it is about where we keep it in force ourselves; ``is_told`` if the application has the
    token.
    """

    topic: str
    subject: tuple[str, str] | None = None
    is_told: bool = True


class Calls:
    """Open calls by token, the oldest first. Their ends become events."""

    def __init__(self, ids: wire.Ids, timers: Timers[str], events: list[Event]) -> None:
        self.open: dict[str, Call] = {}
        self._ids = ids
        self._timers = timers
        self._events = events

    def __len__(self) -> int:
        return len(self.open)

    def __contains__(self, token: str) -> bool:
        return token in self.open

    def begin(self, call: Call, until: float) -> str:
        token = self._ids.take().decode()
        self.open[token] = call
        self._timers.set(token, until)
        return token

    def forget(self, token: str) -> None:
        """Nobody waits for this any more."""
        if self.open.pop(token, None) is not None:
            self._timers.drop(token)

    def settle(self, token: str, payload: bytes, error: Error | None) -> None:
        call = self.open.pop(token)
        self._timers.drop(token)
        if call.subject is not None and not isinstance(error, ConnectionLost):
            what, topic = call.subject
            if error is None and b'"failure"' in payload and what == "subscription":
                error = wire.MbError("FAILURE", "the broker did not do it")
            if error is not None:
                self._events.append(Refused(what, topic, error))
        if call.is_told:
            self._events.append(Answered(token, payload, error))

    def oldest(self, topic: str) -> str | None:
        """The token of the oldest about this topic, which is in lower case."""
        return next((token for token, call in self.open.items() if call.topic.lower() == topic), None)

    def lose(self) -> None:
        """The connection is gone, and what was open with it."""
        for token in list(self.open):
            self.settle(token, b"", ConnectionLost())
