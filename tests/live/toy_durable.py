"""A small protocol whose promises survive a crash, and which needs every effect: a shelf of items on each node.

A line is a word, the number of the request, and arguments. Clients log in (Authenticate), put items on the shelf and
take them from it (Store), subscribe to what is put (Store), have something worked out (Call), which they may cancel
(Cancel), and send items to the shelf of another node (Dial). ``ok`` is only said when the disk has it.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.live.toy import LINES
from wirelake.live.core.address import Address
from wirelake.live.core.effects import Authenticate, Call, Cancel, Cancelled, Dial, Done, Effect, Failed, Result, Store
from wirelake.live.core.link import Link
from wirelake.live.core.session import CLIENT, SERVER, Session, States
from wirelake.live.core.timers import Timers
from wirelake.spec import LifeCycle

__all__ = ["CYCLE", "LINES", "FileStorage", "Shelf", "ShelfClient", "ShelfServer"]

REQUESTS = ("put", "take", "subscribe", "work", "cancel", "send")
REPLIES = ("ok", "item", "failed")
NODE = "node"
"""Whom a node logs in as at another one."""
MOST_OPEN = 20
DIAL_SECONDS = 5.0

CYCLE = LifeCycle(
    initial="open",
    client={
        "open": {"login": "login_sent"},
        "login_sent": {},
        "ready": {**dict.fromkeys(REQUESTS, "ready"), "bye": "closed"},
        "closed": {},
    },
    server={
        "open": {},
        "login_sent": {"welcome": "ready", "refused": "open"},
        "ready": {**dict.fromkeys((*REPLIES, "news"), "ready"), "bye": "closed"},
        "closed": {},
    },
)


class Shelf:
    """What a node remembers: items by name, and who wants to hear of them. A request is a tuple of texts."""

    def __init__(self) -> None:
        self.items: dict[str, None] = {}
        self.subscribers: dict[str, None] = {}

    def apply(self, request: tuple[str, ...]) -> Any:
        match request:
            case ("load",):
                return list(self.subscribers)
            case ("put", item):
                self.items[item] = None
            case ("take",):
                item = next(iter(self.items), "")
                self.items.pop(item, None)
                return item
            case ("subscribe", user):
                self.subscribers[user] = None
            case _:
                raise ValueError(f"no such request: {request}")
        return None


class FileStorage:
    """A shelf in a file: a line for each request, one sync for each batch."""

    def __init__(self, path: Path) -> None:
        self.shelf = Shelf()
        self.batches: list[int] = []
        for line in path.read_text().splitlines() if path.exists() else []:
            self.shelf.apply(tuple(json.loads(line)))
        self._file = path.open("a")

    def run_at_once(self, requests: Sequence[Any]) -> None:
        """Whoever uses it waits in a thread."""

    def run(self, requests: Sequence[Any]) -> list[Done | Failed]:
        results = [self._apply(request) for request in requests]
        self._file.flush()
        os.fsync(self._file.fileno())
        self.batches.append(len(requests))
        return results

    def _apply(self, request: tuple[str, ...]) -> Done | Failed:
        try:
            result = Done(self.shelf.apply(request))
        except ValueError as error:
            return Failed(error)
        self._file.write(json.dumps(request) + "\n")
        return result

    def close(self) -> None:
        self._file.close()


class Guest:
    """What a server knows of a link that somebody made to it."""

    def __init__(self) -> None:
        self.states = States(CYCLE)
        self.user = ""
        self.rest = b""
        self.running: dict[str, Effect] = {}
        """Calls by the number of their request."""


class Errand:
    """An item that this node brings to another one, on a link of its own; ``number`` is that of its request."""

    def __init__(self, origin: Link, number: str, item: str) -> None:
        self.origin, self.number, self.item = origin, number, item
        self.states = States(CYCLE)
        self.rest = b""


class ShelfServer(Session):
    """Serves a shelf, and brings items to other nodes. ``work`` is what it calls for its clients, ``find`` tells where
    a node is.
    """

    most_effects = MOST_OPEN

    def __init__(
        self,
        work: Callable[[str], Any],
        chance: random.Random | None = None,
        find: Callable[[str], Address] = lambda node: (node, 0),
    ) -> None:
        super().__init__(chance=chance)
        self.work, self.find = work, find
        self.subscribers: set[str] = set()
        self.guests: dict[Link, Guest] = {}
        self._is_loaded = False
        self._after: dict[Effect, Callable[[Result, float], None]] = {}
        self._dialling: Timers[Effect] = Timers()
        self._want(Store(("load",)), self._loaded)

    @property
    def deadline(self) -> float | None:
        return self._dialling.deadline

    def connected(self, link: Link, now: float) -> None:
        if link.side == SERVER:
            self.guests[link] = link.state = Guest()
            if not self._is_loaded:
                link.pause()

    def disconnected(self, link: Link, now: float) -> None:
        guest = self.guests.pop(link, None)
        if guest is not None:
            for effect in guest.running.values():
                self.want(Cancel(effect))
        elif isinstance(link.state, Errand):
            self._reply(link.state.origin, "failed", link.state.number)
            link.state = None

    def receive(self, link: Link, data: bytes, now: float) -> None:
        state: Guest | Errand = link.state
        *lines, state.rest = (state.rest + data).split(b"\n")
        for line in lines:
            words = line.decode().split(" ")
            if isinstance(state, Guest):
                self._serve(link, state, words, now)
            elif link.state is not None:
                self._go_on(link, state, words)

    def tick(self, now: float) -> None:
        for effect in self._dialling.due(now):
            self.want(Cancel(effect))

    def completed(self, effect: Effect, result: Result, now: float) -> None:
        super().completed(effect, result, now)
        self._dialling.drop(effect)
        self._after.pop(effect)(result, now)

    def _want(self, effect: Effect, after: Callable[[Result, float], None]) -> None:
        self._after[effect] = after
        self.want(effect)

    def _loaded(self, result: Result, now: float) -> None:
        if not isinstance(result, Done):  # the disk may be better the next time
            self._want(Store(("load",)), self._loaded)
            return
        self._is_loaded = True
        self.subscribers |= set(result.value)
        for link in self.guests:
            link.resume()

    def _serve(self, link: Link, guest: Guest, words: list[str], now: float) -> None:
        word, *rest = words
        guest.states.sends(CLIENT, word, is_us=False)
        match word, rest:
            case "login", [_, user, password]:
                guest.user = user
                attempt = Authenticate((user, password), link=link)
                self._want(attempt, lambda result, now: self._entered(link, result))
            case "put", [number, item]:
                self._want(Store(("put", item), link=link), lambda result, now: self._put(link, number, item, result))
            case "take", [number]:
                self._want(Store(("take",), link=link), lambda result, now: self._took(link, number, result))
            case "subscribe", [number]:
                store = Store(("subscribe", guest.user), link=link)
                self._want(store, lambda result, now: self._subscribed(link, number, guest.user, result))
            case "work", [number, text]:
                call = guest.running[number] = Call(self.work, text, link=link)
                self._want(call, lambda result, now: self._worked(link, guest, number, result))
            case "cancel", [_, number]:
                if number in guest.running:
                    self.want(Cancel(guest.running[number]))
            case "send", [number, node, item]:
                dial = Dial(self.find(node), link=link)
                self._dialling.set(dial, now + DIAL_SECONDS)
                self._want(dial, lambda result, now: self._dialled(Errand(link, number, item), result))
            case "bye", _:
                guest.states.move(SERVER, "bye")
                link.close("bye")

    def _entered(self, link: Link, result: Result) -> None:
        is_welcome = result == Done(True)
        if link in self.guests:
            self.guests[link].states.sends(SERVER, "welcome" if is_welcome else "refused", is_us=True)
        link.say(b"welcome 0" if is_welcome else b"refused 0")

    def _put(self, link: Link, number: str, item: str, result: Result) -> None:
        if isinstance(result, Done):
            for other, guest in self.guests.items():
                if guest.user in self.subscribers and guest.states.state == "ready":
                    other.say(f"news 0 {item}".encode())
        self._end(link, number, result)

    def _took(self, link: Link, number: str, result: Result) -> None:
        if isinstance(result, Done):
            self._reply(link, "item", number, result.value)
        else:
            self._end(link, number, result)

    def _subscribed(self, link: Link, number: str, user: str, result: Result) -> None:
        if isinstance(result, Done):
            self.subscribers.add(user)
        self._end(link, number, result)

    def _worked(self, link: Link, guest: Guest, number: str, result: Result) -> None:
        del guest.running[number]
        if isinstance(result, Done):
            self._reply(link, "ok", number, result.value)
        else:
            self._end(link, number, result)

    def _dialled(self, errand: Errand, result: Result) -> None:
        if not isinstance(result, Done):
            self._end(errand.origin, errand.number, result)
            return
        link: Link = result.value
        link.state = errand
        self._tell(link, errand, "login", "0", NODE, "")

    def _go_on(self, link: Link, errand: Errand, words: list[str]) -> None:
        """The other node said something: let in, we put the item there; then we leave."""
        errand.states.sends(SERVER, words[0], is_us=False)
        if words[0] == "welcome":
            self._tell(link, errand, "put", "1", errand.item)
            return
        if words[0] in ("ok", "failed"):
            self._reply(errand.origin, words[0], errand.number)
            self._tell(link, errand, "bye", "2")
            link.state = None
            link.close("done")

    def _tell(self, link: Link, errand: Errand, *words: str) -> None:
        errand.states.sends(CLIENT, words[0], is_us=True)
        link.say(" ".join(words).encode())

    def _end(self, link: Link, number: str, result: Result) -> None:
        match result:
            case Done():
                self._reply(link, "ok", number)
            case Cancelled():
                self._reply(link, "failed", number, "cancelled")
            case Failed(error=error):
                self._reply(link, "failed", number, type(error).__name__)

    def _reply(self, link: Link, *words: str) -> None:
        link.say(" ".join(words).encode())


class ShelfClient(Session):
    """A client: ``ask`` sends a request. Events are tuples: ("ready",), ("reply", number, words), ("news", item),
    ("lost",). Every request has exactly one reply; a lost connection replies ``lost`` to those that are open.
    """

    def __init__(self, user: str, password: str, chance: random.Random | None = None) -> None:
        super().__init__(chance=chance)
        self.user, self.password = user, password
        self.link: Link | None = None
        self.states = States(CYCLE)
        self.open: set[str] = set()
        self._rest = b""
        self._count = 0

    @property
    def is_ready(self) -> bool:
        return self.link is not None and self.states.state == "ready"

    def connected(self, link: Link, now: float) -> None:
        self.link, self.states, self._rest = link, States(CYCLE), b""
        self._say("login", "0", self.user, self.password)

    def ask(self, now: float, word: str, *arguments: str) -> str:
        self._count += 1
        number = str(self._count)
        self._say(word, number, *arguments)
        if word != "cancel":
            self.open.add(number)
        return number

    def leave(self, now: float) -> None:
        assert self.link is not None
        self._say("bye", "0")
        self.link.close("bye")

    def receive(self, link: Link, data: bytes, now: float) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._hear(line.decode().split(" "))

    def _hear(self, words: list[str]) -> None:
        self.states.sends(SERVER, words[0], is_us=False)
        match words:
            case ["welcome", _]:
                self.events.append(("ready",))
            case ["refused", _]:
                self.events.append(("refused",))
            case ["news", _, item]:
                self.events.append(("news", item))
            case [word, number, *rest]:
                self.open.remove(number)
                self.events.append(("reply", number, (word, *rest)))

    def disconnected(self, link: Link, now: float) -> None:
        self.link = None
        for number in sorted(self.open):
            self.events.append(("reply", number, ("lost",)))
        self.open.clear()
        self.events.append(("lost",))

    def _say(self, *words: str) -> None:
        assert self.link is not None
        self.states.sends(CLIENT, words[0], is_us=True)
        self.link.say(" ".join(words).encode())
