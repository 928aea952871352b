"""Whole lives of a hub and its clients in the simulator: clients come, talk, are cut off and come back; hubs crash.

``Life.play`` fails an assertion if something was promised and not kept: what a subscriber must get and how often, that
each request ends once, that everybody is back in the end, what the life cycle allows. Lives of a protocol add its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import wirelake
from tests.live.simulator import Language, Node, Spoken, Wire, World
from wirelake.codec.stream import Decoded
from wirelake.protocols import load

ACTING_SECONDS = 10.0
RECOVERY_SECONDS = 40.0
"""Until requests have timed out and everybody is back."""
FORGETTING_SECONDS = 160.0
"""Until connections on which nothing passes are noticed as well."""
LEAST_MESSAGES, LEAST_PLAYERS, MOST_PLAYERS = 50, 3, 5
MOST_ACTIONS = 24


class Bodies:
    """Messages that their transport keeps apart."""

    name = "bodies"

    def wrap(self, body: bytes) -> bytes:
        return body


BODIES = Bodies()


def language_of(name: str, frame: Callable[[bytes], bytes], is_refusal: Callable[[Any], bool], **more: Any) -> Language:
    """A protocol as the codec reads it: whatever we send has to be right to the last byte. ``frame`` makes a frame of
    a body.
    """
    protocol = load(name)
    assert protocol.life_cycle is not None

    def reader(has_messages: bool) -> Callable[[list[bytes]], Iterable[Spoken]]:
        decoder, extra = wirelake.StreamDecoder(name, **more), 0

        def read(chunks: list[bytes]) -> Iterable[Spoken]:
            nonlocal extra
            for chunk in chunks:
                wire = frame(chunk) if has_messages else chunk
                extra += len(wire) - len(chunk)
                for event in decoder.feed(wire):
                    assert isinstance(event, Decoded), f"undecodable: {event}"
                    message = event.message
                    name: str = type(message).__message__["name"]
                    yield event.offset + event.length - extra, name, is_refusal(message)
            assert not decoder.pending, "a frame is not whole"

        return read

    return Language(protocol.life_cycle, reader, protocol.conduct.after_refusal)


@dataclass(frozen=True, slots=True)
class Promise:
    """Something published that a subscriber has to get, unless one of them is cut off; the publisher does not matter
    once the hub has confirmed it.
    """

    ident: str
    subscriber: Player
    subscriber_epoch: int
    patterns: tuple[str, ...]
    publisher: Player
    publisher_epoch: int


class Player(ABC):
    """An application and its client. ``in_force`` are its acknowledged subscriptions."""

    node: Node

    def __init__(self, life: Life, number: int) -> None:
        self.life, self.world, self.number = life, life.world, number
        self.name = f"p{number}"
        self.epoch = 0
        """Counts losses."""
        self.open: set[Any] = set()
        """Requests without an outcome."""
        self.wanted: set[str] = set()
        self.in_force: set[str] = set()
        self.got: set[str] = set()
        self._left: set[tuple[str, int]] = set()
        self._last: dict[str, int] = {}
        self._published = 0
        self._actions = life.world.chance.randint(MOST_ACTIONS // 2, MOST_ACTIONS)

    @property
    @abstractmethod
    def is_ready(self) -> bool: ...

    @abstractmethod
    def act(self) -> None:
        """Do something. Called when ready."""

    @abstractmethod
    def publish(self, topic: str) -> None: ...

    @property
    def now(self) -> float:
        return self.world.now

    def connect(self) -> None:
        hub = self.life.hub
        if hub.session is not None:
            self.wire: Wire = self.world.connect(self.node, hub)
        else:
            self.world.later(0.5, self.connect)

    def next_act(self) -> None:
        if self._actions:
            if self.is_ready:
                self._actions -= 1
                self.act()
                self.node.settle()
            self.world.later(self.world.chance.uniform(0.0, 2 * ACTING_SECONDS / MOST_ACTIONS), self.next_act)

    def lost(self) -> None:
        """The connection is gone: nothing may be open."""
        assert not self.open, "a request without an outcome"
        self.epoch += 1
        self.in_force.clear()
        self.world.later(self.world.chance.uniform(0.2, 2.0), self.connect)

    def left(self, pattern: str) -> None:
        """It took a subscription back."""
        self.wanted.discard(pattern)
        self.in_force.discard(pattern)
        self._left.add((pattern, self.epoch))

    def next_ident(self, topic: str) -> str:
        """The name of what is published now; promises it to those who have to get it."""
        self._published += 1
        ident = f"{self.name}.{self._published}"
        for other in self.life.players:
            patterns = tuple(pattern for pattern in sorted(other.in_force) if self.life.matches(pattern, topic))
            if patterns:
                self.life.promises.append(Promise(ident, other, other.epoch, patterns, self, self.epoch))
        return ident

    def deliver(self, ident: str) -> None:
        publisher, _, number = ident.partition(".")
        assert int(number) > self._last.get(publisher, 0), f"{ident} came twice or too late"
        self._last[publisher] = int(number)
        self.got.add(ident)

    def settled(self, token: Any) -> None:
        """A request has its outcome."""
        assert token in self.open, "a second outcome, or one of nothing"
        self.open.remove(token)

    def has_left(self, promise: Promise) -> bool:
        return all((pattern, promise.subscriber_epoch) in self._left for pattern in promise.patterns)


class Life(ABC):
    """One hub and its clients, from a seed."""

    topics: tuple[str, ...]
    confirms_all = False
    """Whether only what is confirmed was published."""

    def __init__(self, seed: int, language: Language) -> None:
        self.world = World(seed, language)
        self.chance = self.world.chance
        self.promises: list[Promise] = []
        self.confirmed: set[str] = set()
        self.hub = self.make_hub()
        count = self.chance.randint(LEAST_PLAYERS, MOST_PLAYERS)
        self.players: list[Player] = []
        for number in range(count):
            self.players.append(self.make_player(number))
        self._is_silenced = False

    @abstractmethod
    def make_hub(self) -> Node: ...

    @abstractmethod
    def make_player(self, number: int) -> Player: ...

    @abstractmethod
    def matches(self, pattern: str, topic: str) -> bool: ...

    @abstractmethod
    def check(self) -> None:
        """What a protocol promises besides."""

    def play(self) -> str:
        """Play it, and return its fingerprint."""
        for player in self.players:
            player.connect()
            self.world.later(self.chance.uniform(0.0, 1.0), player.next_act)
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            self.world.later(self.chance.uniform(0.5, ACTING_SECONDS), self.strike)
        self.world.run(2 * ACTING_SECONDS)
        self._recover()
        for player in self.players:
            for topic in self.topics:
                player.publish(topic)
            player.node.settle()
        self._recover()
        self._check()
        return self.world.fingerprint

    def strike(self) -> None:
        """Something goes wrong: a connection is cut, or swallows everything, or the hub crashes."""
        what = self.chance.random()
        wire = self.chance.choice(self.players).wire
        if what < 0.25:
            self.hub.crash(self.chance.uniform(0.0, 2.0))
        elif what < 0.35:
            self._is_silenced = True
            wire.silence()
        else:
            wire.cut()

    def _recover(self) -> None:
        self.world.run(FORGETTING_SECONDS if self._is_silenced else RECOVERY_SECONDS)
        self._is_silenced = False
        for player in self.players:
            assert player.is_ready, f"{player.name} is not back"
            assert not player.open, f"{player.name} waits for {player.open}"
            assert player.in_force == player.wanted, f"{player.name} wants {player.wanted}, has {player.in_force}"

    def _check(self) -> None:
        for promise in self.promises:
            subscriber, publisher = promise.subscriber, promise.publisher
            is_through = publisher.epoch == promise.publisher_epoch and not self.confirms_all
            is_sent = is_through or promise.ident in self.confirmed
            if is_sent and subscriber.epoch == promise.subscriber_epoch and not subscriber.has_left(promise):
                assert promise.ident in subscriber.got, f"{subscriber.name} never got {promise.ident}"
        assert self.world.messages >= LEAST_MESSAGES and self.world.faults, "a life too quiet"
        self.check()
