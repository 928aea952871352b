"""Both sides of the protocol, as state machines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wirelake.live.core.link import Link
from wirelake.live.core.session import Session


class Lines:
    name = "lines"

    def wrap(self, body: bytes) -> bytes:
        return body + b"\n"


LINES = Lines()


class NotesSession(Session):
    """Takes lines apart; ``_line`` gets their words."""

    def connected(self, link: Link, now: float) -> None:
        link.state = b""

    def receive(self, link: Link, data: bytes, now: float) -> None:
        *lines, link.state = (link.state + data).split(b"\n")
        self.receive_messages(link, lines, now)

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        for body in bodies:
            self.counts["lines"] += 1
            self._line(link, body.decode(), now)

    def _line(self, link: Link, line: str, now: float) -> None:
        raise NotImplementedError

    def disconnected(self, link: Link, now: float) -> None:
        pass


class NotesServer(NotesSession):
    """Gives what is published to all who subscribed the topic, and requests to the first of them."""

    def __init__(self) -> None:
        super().__init__()
        self._subscribers: dict[str, dict[int, Link]] = {}
        self._asked: dict[str, Link] = {}

    def connected(self, link: Link, now: float) -> None:
        super().connected(link, now)
        link.say(b"hello")

    def disconnected(self, link: Link, now: float) -> None:
        for links in self._subscribers.values():
            links.pop(link.number, None)

    def _line(self, link: Link, line: str, now: float) -> None:
        word, topic, *rest = line.split(" ", 2)
        subscribers = self._subscribers.setdefault(topic, {})
        match word:
            case "subscribe":
                subscribers[link.number] = link
                link.say(f"subscribed {topic}".encode())
            case "unsubscribe":
                subscribers.pop(link.number, None)
            case "publish":
                for other in subscribers.values():
                    other.say(line.encode())
            case "request" if subscribers:
                self._asked[rest[0].partition(" ")[0]] = link
                next(iter(subscribers.values())).say(line.encode())
            case "reply":
                self._asked.pop(topic).say(line.encode())


class NotesClient(NotesSession):
    """Tells every line as an event."""

    def __init__(self) -> None:
        super().__init__()
        self.link: Link
        self.number = 0

    def connected(self, link: Link, now: float) -> None:
        super().connected(link, now)
        self.link = link

    def say(self, *words: Any) -> None:
        self.link.say(" ".join(map(str, words)).encode())

    def _line(self, link: Link, line: str, now: float) -> None:
        self.events.append(line.split(" ", 2))
