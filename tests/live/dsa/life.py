"""Lives of a DSA broker: links with values and actions come and go, connections are cut, the broker crashes at any
write to its store. Who subscribes to all values gets all of them while both ends are there; who subscribes durably gets
all of them, whatever happens.
"""

from __future__ import annotations

import random
from typing import Any

from tests.live.lives import BODIES, Life, Player, language_of
from tests.live.simulator import Disk, Node
from wirelake.live.core.session import Lost
from wirelake.live.dsa.client import DsaLink
from wirelake.live.dsa.events import ABSENT, Ended, Invoked, Ready, Valued
from wirelake.live.dsa.handshake import Identity
from wirelake.live.dsa.nodes import Nodes
from wirelake.live.dsa.permissions import CONFIG, Role
from wirelake.live.dsa.requester import Stream
from wirelake.live.dsa.server import DsaBroker
from wirelake.live.dsa.store import SCHEMA, BrokerRules
from wirelake.live.dsa.wire import DSA_TCP
from wirelake.live.storage.sqlite import SqliteMemory

EPOCH = 1_740_823_200.0
LANGUAGE = language_of("dsa", DSA_TCP.wrap, lambda message: False)
IDENTITIES = [Identity.make(random.Random(number), f"p{number}-") for number in range(8)]
BROKER = Identity.make(random.Random("broker"), "broker-")


class DsaPlayer(Player):
    """Its patterns are a quality of service and a path."""

    life: DsaLife

    def __init__(self, life: DsaLife, number: int) -> None:
        super().__init__(life, number)
        self.path = f"downstream/{_name(number)}"
        has_messages = life.chance.random() < 0.2
        framing = BODIES if has_messages else DSA_TCP
        self.nodes = Nodes()
        for topic in life.topics:
            self.nodes.add(topic, value=f"{self.name}.0")
        self.nodes.add("run", invokable="read")
        self.node = Node(self.world, self.name, self._make, framing, has_messages=has_messages, on_event=self._hear)
        self._streams: dict[str, Stream] = {}
        self._seen: dict[str, int] = {}
        """The last value by pattern. Once somebody was cut off, values of durable subscriptions may come again."""
        self.world.later(3.0, self._look)

    def _make(self, chance: random.Random) -> DsaLink:
        return DsaLink(IDENTITIES[self.number], self.nodes, epoch=EPOCH, chance=chance)

    @property
    def link(self) -> DsaLink:
        assert isinstance(self.node.session, DsaLink)
        return self.node.session

    @property
    def is_ready(self) -> bool:
        return self.link.is_ready

    def connect(self) -> None:
        """Connect, unless there is a connection already."""
        if not self.is_ready and not (hasattr(self, "wire") and self.wire.is_up):
            super().connect()

    def _look(self) -> None:
        """A link tells nothing of a handshake that was cut short."""
        self.connect()
        self.world.later(3.0, self._look)

    def act(self) -> None:
        chance, what = self.life.chance, self.life.chance.random()
        other = chance.choice(self.life.players)
        assert isinstance(other, DsaPlayer)
        if what < 0.5:
            for _ in range(chance.choice((1, 1, 3))):
                self.publish(chance.choice(self.life.topics))
        elif other.link.welcome is None:
            """Nobody has heard of it yet."""
        elif what < 0.75:
            self._subscribe(f"{chance.randrange(4)} {other.path}/{chance.choice(self.life.topics)}")
        elif what < 0.9:
            self.open.add(self.link.invoke(f"{other.path}/run", {"x": 1}, self.now))
        elif self.in_force:
            pattern = chance.choice(sorted(self.in_force))
            self.left(pattern)
            self.link.close(self._streams.pop(pattern), self.now)

    def _subscribe(self, pattern: str) -> None:
        if pattern not in self._streams:
            qos, _, path = pattern.partition(" ")
            self.wanted.add(pattern)
            self._streams[pattern] = self.link.subscribe(path, self.now, qos=int(qos))

    def publish(self, topic: str) -> None:
        """Set a node of its own; the path is the topic that others see."""
        ident = self.next_ident(f"{self.path}/{topic}")
        subscribers = self.nodes[topic].subscribers
        if subscribers:
            self.life.asked.add(ident)
        if any(subscription.queue.is_durable for subscription in subscribers):
            self.life.kept.add(ident)
        self.nodes[topic].set(ident + " " * self.life.chance.choice((0, 10, 500)))
        self.link.flush(self.now)

    def _hear(self, event: Any) -> None:
        match event:
            case Ready():
                assert event.welcome.path == self.path, "a link has another name than before"
            case Valued(stream=stream, value=value, status=status):
                self._valued(stream, value, status)
            case Ended(stream=stream) if stream in self.open:
                self.settled(stream)
            case Ended(stream=stream, status=status):
                raise AssertionError(f"{stream.path} ended with {status:#x}")
            case Invoked(invocation=invocation):
                self.world.later(self.life.chance.choice((0.0, 0.3)), self._reply, invocation)
            case Lost():
                self.lost()

    def _valued(self, stream: Stream, value: Any, status: int) -> None:
        pattern = next((pattern for pattern, known in self._streams.items() if known is stream), None)
        assert status in (0x00, 0x0E), f"status {status:#x}"
        if pattern is None or value is ABSENT:
            return
        self.in_force.add(pattern)
        ident = value.strip()
        publisher, _, number = ident.partition(".")
        is_calm = not self.epoch and not self.life.players[int(publisher[1:])].epoch
        assert int(number) >= self._seen.get(pattern, 0) or not is_calm, f"{ident} came too late"
        self._seen[pattern] = int(number)
        self.got.add(f"{pattern.partition(' ')[0]} {ident}")

    def _reply(self, invocation: Any) -> None:
        if self.node.session is not None:
            invocation.end("done")
            self.link.flush(self.now)
            self.node.settle()


class DsaLife(Life):
    topics = ("a", "b")

    def __init__(self, seed: int) -> None:
        super().__init__(seed, LANGUAGE)
        self.kept: set[str] = set()
        """What was published when the publisher had a durable queue for it: a broker may not have come to ask for one
        before its connection was cut.
        """
        self.asked: set[str] = set()
        """What was published when a broker had asked for it: it has yet to do so on a new connection."""
        if self.chance.random() < 0.3:
            self.hub.crash_at = self.chance.randrange(1, 60)

    def make_hub(self) -> Node:
        roles = {"default": Role("default", CONFIG)}

        def make(chance: random.Random) -> DsaBroker:
            return DsaBroker(BROKER, roles=roles, allow_all=True, has_store=True, epoch=EPOCH, chance=chance)

        disk = Disk(lambda: SqliteMemory(SCHEMA, BrokerRules), failures=self.chance.choice((0.0, 0.0, 0.05)))
        return Node(self.world, "hub", make, DSA_TCP, disk=disk)

    def make_player(self, number: int) -> Player:
        return DsaPlayer(self, number)

    def matches(self, pattern: str, topic: str) -> bool:
        qos, _, path = pattern.partition(" ")
        return qos != "0" and path == topic

    def _check(self) -> None:
        """What was promised of values: to those who stayed all, to those who subscribed durably all in any case."""
        for promise in self.promises:
            for pattern in promise.patterns:
                qos = int(pattern[0])
                subscriber, publisher = promise.subscriber, promise.publisher
                have_stayed = (
                    subscriber.epoch == promise.subscriber_epoch and publisher.epoch == promise.publisher_epoch
                )
                is_durable = qos >= 2 and promise.ident in self.kept and not self._has_given_up(publisher)
                is_bound = (have_stayed and promise.ident in self.asked) or is_durable
                if is_bound and not self._has_left(promise, pattern):
                    assert f"{qos} {promise.ident}" in subscriber.got, f"{subscriber.name} never got {promise.ident}"
        assert self.world.messages >= 50 and self.world.faults, "a life too quiet"
        self.check()

    def _has_given_up(self, publisher: Player) -> bool:
        """Whether a durable subscription was not asked for again within a minute: its connection was silent."""
        assert isinstance(publisher, DsaPlayer)
        return publisher.link.counts["subscriptions_expired"] > 0

    def _has_left(self, promise: Any, pattern: str) -> bool:
        return any(left == pattern for left, _ in promise.subscriber._left)

    def check(self) -> None:
        broker = self.hub.session
        assert isinstance(broker, DsaBroker)
        assert {peer.client.dsid for peer in broker.sessions.peers.values()} == {
            player.link.identity.dsid for player in self.players if isinstance(player, DsaPlayer)
        }
        assert not broker.sessions.quarantined and not broker.counts["values_dropped"]


def _name(number: int) -> str:
    dsid = IDENTITIES[number].dsid
    return dsid[:3] if number < 10 else dsid[: dsid.index("-")]
