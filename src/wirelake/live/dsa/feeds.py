"""What comes on the streams of a link, for a program that awaits it: values, lists, results of actions."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

from ...errors import DecodeError, LimitExceeded
from ..core.errors import ConnectionLost, LiveError
from ..drive.connection import Connection
from ..drive.inbox import Inbox
from . import events as event
from .client import DsaLink
from .events import ABSENT
from .handlers import StatusError
from .listing import Listing, Table
from .requester import CLOSED, DISCONNECTED, Stream
from .wire import status_name


@dataclass(frozen=True, slots=True)
class Value:
    """An update of a value. ``has_value`` is false if only its status changed: ``not_available`` while its source is
    offline, ``dropped`` if updates before this one were lost.
    """

    path: str
    value: Any
    meta: dict[str, Any]
    status: str
    has_value: bool = True
    error: DecodeError | None = None
    """What is wrong with the value, if it could not be read."""

    @property
    def time(self) -> str | None:
        """When it was measured, as its source says."""
        found = self.meta.get("ts", self.meta.get("timestamp"))
        return found if isinstance(found, str) else None


@dataclass(frozen=True, slots=True)
class Result:
    """A result of an action. With ``is_refreshed`` it replaces all results before it."""

    path: str
    value: Any
    is_refreshed: bool = False


@dataclass(frozen=True, slots=True)
class Wire:
    """The connection of a link, as its feeds use it; ``feeds`` are those that are open."""

    connection: Connection
    session: DsaLink
    feeds: set[Feed] = field(default_factory=set)

    def close(self, stream: Stream | None) -> None:
        """Want no more of a stream."""
        if stream is not None and stream.is_open and self.connection.error is None:
            self.connection.do(lambda now: self.session.close(stream, now))


class Feed:
    """What comes on one stream, from the beginning of the ``async with`` block to its end."""

    def __init__(self, wire: Wire, begin: Callable[[float], Stream], limit: int) -> None:
        self._wire = wire
        self._begin = begin
        self._inbox: Inbox[Any] = Inbox(wire.connection.flow, limit)
        self._stream: Stream | None = None

    async def __aenter__(self) -> Any:
        await self._wire.connection.usable()
        self._stream = self._wire.connection.do(self._begin)
        self._stream.owner = self
        self._wire.feeds.add(self)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._wire.feeds.discard(self)
        self._inbox.discard()
        self._wire.close(self._stream)

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        return await self._inbox.get()

    def take(self, happened: Any) -> None:
        """Something happened on the stream."""
        if isinstance(happened, event.Ended):
            self.end(to_error(happened.status, happened.detail))

    def end(self, error: Exception | None) -> None:
        self._inbox.end(error)


class Watch(Feed):
    """The list of a node, each time it changed. With ``merge`` the same ``Listing`` comes each time, up to date;
    without, each update as it came, which needs no memory for the whole list.
    """

    def __init__(self, wire: Wire, path: str, limit: int, *, merge: bool, once: bool = False) -> None:
        super().__init__(wire, lambda now: wire.session.list(path, now, once=once), limit)
        self._listing = Listing(path) if merge else None

    def take(self, happened: Any) -> None:
        if not isinstance(happened, event.Listed):
            super().take(happened)
        elif self._listing is None:
            self._inbox.put(happened, happened.size)
        else:
            try:
                self._listing.apply(happened)
            except LimitExceeded as error:
                self.end(error)
                self._wire.close(self._stream)
                return
            if not happened.is_partial:
                self._inbox.put(self._listing, happened.size)


class Results(Feed):
    """What an action sends, until it ends; ``send`` gives it more input."""

    def __init__(self, wire: Wire, path: str, limit: int, begin: Callable[[float], Stream]) -> None:
        super().__init__(wire, begin, limit)
        self._path = path

    async def send(self, value: Any) -> None:
        """Send more input to the action."""
        stream = self._stream
        assert stream is not None
        await self._wire.connection.send(lambda now: self._wire.session.feed(stream, value, now))

    async def table(self) -> Table:
        """Wait for the end, and return all results as one table."""
        table = Table()
        async for result in self:
            table.apply(result.value, is_refreshed=result.is_refreshed)
        return table

    def take(self, happened: Any) -> None:
        if isinstance(happened, event.Resulted):
            if happened.error is not None:
                self.end(happened.error)
            elif happened.value is not ABSENT:
                self._inbox.put(Result(self._path, happened.value, happened.is_refreshed), happened.size)
        else:
            super().take(happened)


class Values:
    """What the streams of one subscription bring to its inbox."""

    def __init__(self, inbox: Inbox[Value]) -> None:
        self._inbox = inbox

    def take(self, happened: Any) -> None:
        if isinstance(happened, event.Valued):
            self._inbox.put(to_value(happened), happened.size)
        elif isinstance(happened, event.Ended):
            detail = f"{happened.stream.path}: {happened.detail}".rstrip(": ")
            self._inbox.end(StatusError(happened.status, detail))


class Answer:
    """One reply that somebody waits for: the last value before the end of the stream."""

    def __init__(self, settle: Callable[[Any, Exception | None], object]) -> None:
        self._settle = settle
        self._value: Any = None

    def take(self, happened: Any) -> None:
        match happened:
            case event.Valued():
                self._value = to_value(happened)
            case event.Resulted(error=DecodeError() as error):
                self._settle(None, error)
            case event.Resulted(value=value) if value is not ABSENT:
                self._value = value
            case event.Ended(status=status, detail=detail):
                self._settle(self._value, to_error(status, detail))
            case _:
                pass


def to_value(happened: event.Valued) -> Value:
    has_value = happened.value is not ABSENT
    value = happened.value if has_value else None
    status = "ok" if has_value and happened.status == CLOSED else status_name(happened.status)
    return Value(happened.stream.path, value, happened.meta, status, has_value, happened.error)


def to_error(status: int, detail: str) -> LiveError | None:
    """Return what is raised for a stream that ended so; None if that was its normal end."""
    if status == CLOSED:
        return None
    return ConnectionLost(detail) if status == DISCONNECTED and detail else StatusError(status, detail)
