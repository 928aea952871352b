"""Clients of notes."""

from __future__ import annotations

from typing import Any, NamedTuple

from wirelake.live.drive.client import Client, Opening, dial
from wirelake.live.drive.connection import Dial, Reconnect
from wirelake.live.drive.urls import Target

from .sessions import LINES, NotesClient


class Note(NamedTuple):
    topic: str
    text: str
    number: str = ""


class Notes(Client[Note, Note]):
    protocol = "notes"
    framing = LINES
    is_text = True
    max_message = 1 << 16

    def __init__(self, dial: Dial) -> None:
        self._session = NotesClient()
        super().__init__(dial, self._session)

    async def publish(self, topic: str, payload: str, *, loud: bool = False) -> None:
        await self._connection.send(
            lambda now: self._session.say("publish", topic, payload.upper() if loud else payload)
        )

    async def request(self, topic: str, payload: str = "", *, timeout: float | None = None) -> Note:
        await self._connection.usable()
        self._session.number += 1
        token = f"{id(self)}-{self._session.number}"
        self._connection.do(lambda now: self._session.say("request", topic, token, payload))
        return Note(topic, await self._answer_to(token, lambda _: None))

    def _handle(self, events: list[Any]) -> None:
        for word, *rest in events:
            match word:
                case "hello":
                    self._connection.ready()
                case "subscribed":
                    self._settle(f"subscribe {rest[0]}")
                case "publish":
                    self._deliver(rest[0], Note(*rest), len(rest[1]))
                case "reply":
                    self._settle(*rest)
                case "request":
                    number, _, text = rest[1].partition(" ")
                    self._hand_to_responder(Note(rest[0], text, number), rest[0], len(text))

    async def _subscribe(self, patterns: tuple[str, ...]) -> None:
        for pattern in patterns:
            await self._serve(pattern, 0)

    def _unsubscribe(self, patterns: tuple[str, ...]) -> None:
        for pattern in patterns:
            self._unserve(pattern)

    async def _serve(self, pattern: str, priority: float) -> None:
        self._connection.do(lambda now: self._session.say("subscribe", pattern))
        await self._answer_to(f"subscribe {pattern}", lambda _: None)

    def _unserve(self, pattern: str) -> None:
        self._connection.do(lambda now: self._session.say("unsubscribe", pattern))

    def _answer(self, asked: Note, result: Any, error: Exception | None) -> None:
        self._connection.do(lambda now: self._session.say("reply", asked.number, result if error is None else error))


def connect(
    url: str | Target, *, timeout: float = 10.0, reconnect: bool = True, verify: bool = True, **files: Any
) -> Opening[Notes]:
    where = dial("notes", url, timeout=timeout, reconnect=reconnect, usual=Reconnect(), verify=verify, **files)
    return Opening(lambda: Notes(where))
