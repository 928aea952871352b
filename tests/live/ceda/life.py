"""Lives of a CEDA hub."""

from __future__ import annotations

import random
from typing import Any

from tests.live.ceda.play import values
from tests.live.lives import BODIES, Life, Player, language_of
from tests.live.simulator import Node
from wirelake.codec.topics import match_topic
from wirelake.live.ceda.client import CedaClient
from wirelake.live.ceda.data import Blob
from wirelake.live.ceda.events import Asked, Delivered, Refused, SubscriptionResult
from wirelake.live.ceda.logins import CedaLogin, LoginAttempt
from wirelake.live.ceda.options import CedaClientOptions, CedaServerOptions
from wirelake.live.ceda.server import CedaServer
from wirelake.live.ceda.wire import AUTO, CEDA4_WS, CEDA_TCP
from wirelake.live.core.session import Answered, Lost
from wirelake.protocols import load
from wirelake.protocols.ceda.messages import ControlCode

PROTOCOL = load("ceda")
PATTERNS = ("a", "a.*", "*.b", "**", "x.**.z")
SERVED = ("math.add", "math.*")
IDENT, BLOB = 1, 5
PASSWORD = "s3cret"
QUESTION, REPLY = "?", "!"


def is_refusal(message: Any) -> bool:
    """Whether it is the reply to a login that failed."""
    return getattr(message, "control_code", None) == ControlCode.LOGIN_RESULT and values(message).get(1) != 1


LANGUAGE = language_of("ceda", CEDA_TCP.wrap, is_refusal, dialect=CEDA4_WS)


def authenticate(attempt: LoginAttempt) -> bool | str:
    return attempt.password == PASSWORD or "no"


class CedaPlayer(Player):
    life: CedaLife

    def __init__(self, life: CedaLife, number: int) -> None:
        super().__init__(life, number)
        has_messages = life.chance.random() < 0.2
        framing = BODIES if has_messages else CEDA_TCP
        self.node = Node(self.world, self.name, self._make, framing, has_messages=has_messages, on_event=self._hear)
        self._served: set[str] = set()

    def _make(self, chance: random.Random) -> CedaClient:
        options = CedaClientOptions(reads=self.life.reads)
        return CedaClient(CedaLogin(self.name, PASSWORD), options, chance=chance)

    @property
    def client(self) -> CedaClient:
        assert isinstance(self.node.session, CedaClient)
        return self.node.session

    @property
    def is_ready(self) -> bool:
        return self.client.is_ready

    def act(self) -> None:
        chance, what = self.life.chance, self.life.chance.random()
        if what < 0.5:
            for _ in range(chance.choice((1, 1, 3))):
                self.publish(chance.choice(self.life.topics))
        elif what < 0.7:
            topic = chance.choice(("math.add", "nobody"))
            self.open.add(self.client.request(topic, {IDENT: QUESTION}, self.now, timeout=chance.choice((0.1, 4.0))))
        elif what < 0.85:
            pattern = chance.choice(PATTERNS)
            self.wanted.add(pattern)
            self.client.subscribe([pattern], self.now, image=chance.random() < 0.2 and not self.life.has_cache)
        elif what < 0.92:
            self._served.add(pattern := chance.choice(SERVED))
            self.client.subscribe([pattern], self.now)
        elif what < 0.96:
            self.client.leaving(self.now)
        elif self.in_force:
            self.left(pattern := chance.choice(sorted(self.in_force)))
            self.client.unsubscribe([pattern], self.now)

    def publish(self, topic: str) -> None:
        ident, chance = self.next_ident(topic), self.life.chance
        sizes = (0, 100) if self.life.reads == AUTO else (0, 100, 70_000)  # long ones of chance may deceive AUTO
        blob = Blob(BLOB, chance.randbytes(chance.choice(sizes))) if chance.random() < 0.1 else None
        self.client.publish(topic, {IDENT: ident}, self.now, blob=blob)

    def _hear(self, event: Any) -> None:
        match event:
            case SubscriptionResult(topics=topics, ok=ok, is_unsubscribe=False):
                assert ok, f"{topics} was refused: {event.reason}"
                self.in_force |= set(topics.split("|")) & self.wanted
            case Asked():
                self._asked(event)
            case Delivered() if event.message.record[IDENT] not in (QUESTION, REPLY):  # a second reply is delivered
                self.deliver(event.message.record[IDENT])
            case Answered(token=token):
                self.settled(token)
            case Lost():
                self.lost()
            case Refused(reason=reason):
                raise AssertionError(f"refused: {reason}")

    def _asked(self, asked: Asked) -> None:
        """Replies at once, later, twice, or never."""
        what = self.life.chance.random()
        if what < 0.6:
            for _ in range(2 if what < 0.1 else 1):
                self.client.reply(asked.message, {IDENT: REPLY}, self.now)
        elif what < 0.8:
            self.world.later(what, self._reply_late, asked)

    def _reply_late(self, asked: Asked) -> None:
        if self.is_ready:
            self.client.reply(asked.message, {IDENT: REPLY}, self.now)
            self.node.settle()


class Stranger:
    """Somebody who does not know the password, and tries it nevertheless."""

    def __init__(self, life: CedaLife) -> None:
        self.life = life
        self.ends = self.knocks = 0
        make = lambda chance: CedaClient(CedaLogin("stranger", "guess"), chance=chance)  # noqa: E731
        self.node = Node(life.world, "stranger", make, CEDA_TCP, on_event=self._hear)

    def knock(self) -> None:
        if self.life.hub.session is not None:
            self.knocks += 1
            self.life.world.connect(self.node, self.life.hub)

    def _hear(self, event: Any) -> None:
        assert isinstance(event, Refused | Lost), "a wrong password is good enough"
        self.ends += 1


class CedaLife(Life):
    topics = ("a", "a.b", "x.y.z")

    def __init__(self, seed: int) -> None:
        super().__init__(seed, LANGUAGE)
        self.stranger = Stranger(self)
        self.world.later(self.chance.uniform(0.0, 5.0), self.stranger.knock)

    def make_hub(self) -> Node:
        self.has_cache = self.chance.random() < 0.2
        self.reads = self.chance.choice((AUTO, CEDA4_WS))
        options = CedaServerOptions(sub_results=True, cache=self.has_cache, image_on_subscribe=False, reads=self.reads)
        make = lambda chance: CedaServer(options, chance=chance)  # noqa: E731
        return Node(self.world, "hub", make, CEDA_TCP, authenticate=authenticate)

    def make_player(self, number: int) -> Player:
        return CedaPlayer(self, number)

    def matches(self, pattern: str, topic: str) -> bool:
        return match_topic(PROTOCOL, pattern, topic)

    def check(self) -> None:
        assert self.stranger.ends == self.stranger.knocks, "a login without a reply"
