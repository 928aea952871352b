"""Lives of an MB hub."""

from __future__ import annotations

import random
from typing import Any

from tests.live.lives import BODIES, Life, Player, language_of
from tests.live.simulator import Node
from wirelake.codec.topics import match_topic
from wirelake.live.core.errors import RequestTimeout
from wirelake.live.core.session import Answered, Lost
from wirelake.live.mb.client import MbClient
from wirelake.live.mb.events import Message, Ready, Refused, Request
from wirelake.live.mb.options import BrokerOptions, ClientOptions
from wirelake.live.mb.server import MbBroker
from wirelake.live.mb.wire import MB_TCP
from wirelake.protocols import load

EPOCH = 1_740_823_200.0
PROTOCOL = load("mb")
LANGUAGE = language_of("mb", MB_TCP.wrap, lambda message: False)
PATTERNS = ("a", "a.#", "+.b", "#", "x.+.z")
SERVED = ("math.add", "math.#", "x.y.z")


class MbPlayer(Player):
    def __init__(self, life: MbLife, number: int) -> None:
        super().__init__(life, number)
        has_messages = life.chance.random() < 0.2
        framing = BODIES if has_messages else MB_TCP
        self.node = Node(self.world, self.name, self._make, framing, has_messages=has_messages, on_event=self._hear)
        self._subscribing: dict[str, str] = {}
        self._confirming: dict[str, str] = {}
        self._is_served: set[str] = set()

    def _make(self, chance: random.Random) -> MbClient:
        return MbClient(epoch=EPOCH, chance=chance, options=ClientOptions(name=self.name))

    @property
    def client(self) -> MbClient:
        assert isinstance(self.node.session, MbClient)
        return self.node.session

    @property
    def is_ready(self) -> bool:
        return self.client.is_ready

    def act(self) -> None:
        chance, what = self.life.chance, self.life.chance.random()
        if what < 0.45:
            for _ in range(chance.choice((1, 1, 3))):
                self.publish(chance.choice(self.life.topics))
        elif what < 0.65:
            timeout = chance.choice((None, 100, 4_000))
            topic = chance.choice(("math.add", "x.y.z", "nobody"))
            self.open.add(self.client.request(topic, b"{}", self.now, timeout_ms=timeout))
        elif what < 0.85:
            self._subscribe(chance.choice(PATTERNS))
        elif what < 0.93:
            token = self.client.subscribe(chance.choice(SERVED), self.now, "request", chance.randrange(2))
            self.open |= {token} if token is not None else set()
        elif self.in_force:
            pattern = chance.choice(sorted(self.in_force))
            self.left(pattern)
            token = self.client.unsubscribe(pattern, self.now)
            self.open |= {token} if token is not None else set()

    def _subscribe(self, pattern: str) -> None:
        self.wanted.add(pattern)
        token = self.client.subscribe(pattern, self.now)
        if token is not None:
            self.open.add(token)
            self._subscribing[token] = pattern

    def publish(self, topic: str) -> None:
        ident = self.next_ident(topic)
        payload = b'"' + ident.encode() + b" " * self.life.chance.choice((0, 10, 2_000)) + b'"'
        token = self.client.publish(topic, payload, self.now, confirm=self.life.chance.random() < 0.4)
        if token is not None:
            self.open.add(token)
            self._confirming[token] = ident

    def _hear(self, event: Any) -> None:
        match event:
            case Ready():
                self.in_force = set(self.wanted)
            case Refused(what="subscription", topic=pattern, error=error):
                assert isinstance(error, RequestTimeout) and self.wire.is_silent, f"{pattern} was refused: {error}"
            case Request():
                self._asked(event)
            case Message(payload=payload):
                self.deliver(payload.decode().strip('" '))
            case Answered(token=token, error=error):
                self.settled(token)
                pattern = self._subscribing.pop(token, "")
                if pattern in self.wanted and error is None:
                    self.in_force.add(pattern)
                ident = self._confirming.pop(token, "")
                if ident and error is None:
                    self.life.confirmed.add(ident)
            case Lost():
                self._subscribing.clear()
                self.lost()

    def _asked(self, asked: Request) -> None:
        """Replies at once, later, with an error, or never."""
        what = self.life.chance.random()
        if what < 0.4:
            self.client.answer(asked, asked.payload, self.now)
        elif what < 0.6:
            self.world.later(what, self._reply_late, asked)
        elif what < 0.8:
            self.client.answer_error(asked, "NO", "not today", self.now)

    def _reply_late(self, asked: Request) -> None:
        self.client.answer(asked, b"{}", self.now)
        self.node.settle()


class MbLife(Life):
    topics = ("a", "a.b", "x.y.z")

    def __init__(self, seed: int) -> None:
        super().__init__(seed, LANGUAGE)

    def make_hub(self) -> Node:
        options = BrokerOptions(max_outstanding=self.chance.choice((3, 10_000)))
        return Node(self.world, "hub", lambda chance: MbBroker(epoch=EPOCH, chance=chance, options=options), MB_TCP)

    def make_player(self, number: int) -> Player:
        return MbPlayer(self, number)

    def matches(self, pattern: str, topic: str) -> bool:
        return match_topic(PROTOCOL, pattern, topic)

    def check(self) -> None:
        hub = self.hub.session
        assert isinstance(hub, MbBroker)
        assert len(hub.services) == len(self.players), "connections that are gone are not forgotten"
