"""Broker and clients tied in memory by pipes that split, merge, delay and break; and what strangers may send."""

from __future__ import annotations

import hashlib
import json
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import wirelake
from tests.live.mb.play import EPOCH, MB_WS, Broker, R, frame, unframe
from wirelake.live.core.session import Answered, Lost
from wirelake.live.mb.client import MbClient
from wirelake.live.mb.events import Message, Ready, Request
from wirelake.live.mb.options import BrokerOptions, ClientOptions
from wirelake.live.mb.server import MbBroker
from wirelake.live.mb.wire import MB_TCP

TOPICS = ["a", "a.b", "A.c", "x.y.z"]
PATTERNS = ["a", "a.#", "+.b", "#", "x.+.z"]


class Wire:
    """A connection between a client and the broker: bytes under way in both directions."""

    def __init__(self, world: World, number: int, client: MbClient) -> None:
        self.ours = client.new_link(MB_TCP, "client")
        self.theirs = world.broker.new_link(MB_TCP, "server")
        self.up = bytearray()
        self.down = bytearray()


class World:
    """One broker, some clients, and a clock; everything that happens is drawn from one seed."""

    def __init__(self, seed: int, clients: int = 3) -> None:
        self.draw = random.Random(seed)
        self.broker = MbBroker(epoch=EPOCH, chance=random.Random(seed + 1), options=BrokerOptions(max_outstanding=20))
        self.clients = [
            MbClient(epoch=EPOCH, chance=random.Random(seed + 2 + i), options=ClientOptions(name=f"c{i}"))
            for i in range(clients)
        ]
        self.wires: list[Wire | None] = [None] * clients
        self.now = 0.0
        self.numbers = 0
        self.bytes = hashlib.sha256()
        self.moved = 0
        self.asked: list[list[Request]] = [[] for _ in range(clients)]
        self.open: list[set[str]] = [set() for _ in range(clients)]
        self.seen: Counter[str] = Counter()
        self.delivered: list[list[bytes]] = [[] for _ in range(clients)]

    # --- what may happen

    def connect(self, i: int) -> None:
        if self.wires[i] is None:
            self.numbers += 1
            wire = self.wires[i] = Wire(self, self.numbers, self.clients[i])
            self.broker.connected(wire.theirs, self.now)
            self.clients[i].connected(wire.ours, self.now)

    def cut(self, i: int) -> None:
        wire, self.wires[i] = self.wires[i], None
        if wire is not None:
            self.broker.disconnected(wire.theirs, self.now)
            self.clients[i].disconnected(wire.ours, self.now)

    def talk(self, i: int) -> None:
        client, draw = self.clients[i], self.draw
        if client.link is None or client.link.closing is not None:
            return
        what = draw.randrange(6)
        topic = draw.choice(TOPICS)
        payload = draw.randbytes(draw.choice([0, 10, 200]))
        if what == 0:
            client.publish(topic, payload, self.now)
        elif what == 1:
            token = client.publish(topic, payload, self.now, confirm=True)
            self.open[i].add(str(token))
        elif what == 2:
            self.open[i].add(client.request(topic, payload, self.now, timeout_ms=draw.choice([None, 100, 9000])))
        elif what == 3:
            token = client.subscribe(draw.choice(PATTERNS), self.now)
            self.open[i] |= {token} if token else set()
        elif what == 4:
            token = client.subscribe(draw.choice(PATTERNS), self.now, "request", draw.randrange(3))
            self.open[i] |= {token} if token else set()
        elif self.asked[i]:
            client.answer(self.asked[i].pop(), payload, self.now)

    def move(self, i: int, size: int) -> None:
        """Some bytes arrive, in either direction."""
        wire = self.wires[i]
        if wire is None:
            return
        if self.draw.random() < 0.5:
            part, wire.up[:size] = bytes(wire.up[:size]), b""
            if part:
                self.broker.receive(wire.theirs, part, self.now)
        else:
            part, wire.down[:size] = bytes(wire.down[:size]), b""
            wire.theirs.unsent = max(0, wire.theirs.unsent - len(part))
            if part:
                self.clients[i].receive(wire.ours, part, self.now)

    def settle(self) -> None:
        """Takes what the sessions left."""
        for i, wire in enumerate(self.wires):
            if wire is None:
                continue
            for link, pipe in ((wire.ours, wire.up), (wire.theirs, wire.down)):
                if link.out:
                    data = link.take()
                    self.bytes.update(data)
                    self.moved += len(data)
                    pipe += data
            if wire.ours.closing is not None or wire.theirs.closing is not None:
                self.cut(i)
        self.broker.changed.clear()
        for i, client in enumerate(self.clients):
            client.changed.clear()
            for event in client.events:
                self.take(i, event)
            client.events.clear()

    def take(self, i: int, event: Any) -> None:
        self.seen[type(event).__name__] += 1
        self.bytes.update(repr(event).encode())
        if isinstance(event, Request):
            self.asked[i].append(event)
        elif isinstance(event, Answered):
            assert event.token in self.open[i], "answered twice, or never asked"
            self.open[i].remove(event.token)
        elif isinstance(event, Message):
            self.delivered[i].append(event.payload)
        elif isinstance(event, Lost):
            assert not self.open[i], "something is open after a loss"
            self.asked[i].clear()
        else:
            assert self.clients[i].is_ready or not isinstance(event, Ready)

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for session in (self.broker, *self.clients):
            while session.deadline is not None and session.deadline <= self.now:
                session.tick(self.now)

    def step(self, faults: bool) -> None:
        draw, i = self.draw, self.draw.randrange(len(self.clients))
        what = draw.random()
        if what < 0.05:
            self.connect(i)
        elif what < 0.06 and faults:
            self.cut(i)
        elif what < 0.35:
            self.talk(i)
        elif what < 0.40:
            self.pass_time(draw.choice([0.001, 0.1, 2.0] + [7.0, 21.0] * faults))
        else:
            self.move(i, draw.choice([1, 2, 3, 7, 50, 1000, 100_000]))
        self.settle()

    def drain(self) -> None:
        """Everything that is under way arrives."""
        while any(wire is not None and (wire.up or wire.down) for wire in self.wires):
            for i in range(len(self.clients)):
                self.move(i, 1 << 20)
            self.settle()


def live(seed: int, steps: int = 1500, faults: bool = True) -> World:
    world = World(seed)
    for _ in range(steps):
        world.step(faults)
    world.drain()
    return world


@pytest.mark.parametrize("seed", range(6))
def test_a_whole_life_with_faults_is_the_same_twice(seed: int) -> None:
    first, second = live(seed), live(seed)
    assert first.bytes.hexdigest() == second.bytes.hexdigest()
    assert first.moved > 10_000
    assert first.seen["Lost"] and first.seen["Message"] and first.seen["Answered"] and first.seen["Ready"]


@pytest.mark.parametrize("seed", range(6, 10))
def test_everything_that_was_asked_ends_exactly_once(seed: int) -> None:
    world = live(seed)
    world.pass_time(3601)
    world.settle()
    world.drain()
    for i in range(3):
        world.cut(i)
    world.settle()
    assert world.open == [set(), set(), set()]
    assert world.broker.services == {}
    assert world.broker.topics.published.holders == {}
    assert world.broker.topics.requested.holders == {}
    world.pass_time(3601)
    assert world.broker.requests.open == {}
    assert world.broker.deadline is None


@pytest.mark.parametrize("seed", range(3))
def test_publishes_arrive_whole_and_in_order_however_the_bytes_travel(seed: int) -> None:
    world = World(seed, clients=2)
    for i in range(2):
        world.connect(i)
    world.clients[1].subscribe("#", 0.0)
    world.settle()
    world.drain()
    sent = [b"%d" % i + world.draw.randbytes(world.draw.choice([0, 100, 16_000])) for i in range(200)]
    for payload in sent:
        world.clients[0].publish("a.b", payload, world.now)
        for _ in range(3):
            world.move(world.draw.randrange(2), world.draw.choice([1, 5, 60, 4000]))
            world.settle()
    world.drain()
    assert world.delivered[1] == sent


def test_request_and_response_between_our_two_ends() -> None:
    world = World(1, clients=2)
    for i in range(2):
        world.connect(i)
    world.clients[1].subscribe("math.add", 0.0, "request", 1)
    world.settle()
    world.drain()
    assert world.seen == {"Ready": 2}
    token = world.clients[0].request("math.add", b'{"x":1,"y":2}', world.now)
    world.open[0].add(token)
    world.settle()
    world.drain()
    (asked,) = world.asked[1]
    assert asked.id != token
    assert asked.payload == b'{"x":1,"y":2}'
    world.clients[1].answer(asked, b'{"sum":3}', world.now)
    world.settle()
    world.drain()
    assert world.open[0] == set()


def test_idle_ends_stay_connected_for_an_hour() -> None:
    world = World(1, clients=2)
    for i in range(2):
        world.connect(i)
    for _ in range(3600):
        world.pass_time(1)
        world.settle()
        world.drain()
    assert world.seen["Lost"] == 0
    assert len(world.broker.services) == 2


# --- strangers

MESSAGES = st.sampled_from(
    [
        b"publish:a:1.0.0\nx",
        b"publish:a:1.0.0:" + R.encode() + b"\nx",
        b"request:a:1.0.0:" + R.encode() + b"::1\n",
        b"response:a:1.0.0:" + R.encode() + b"\n",
        b"request:system.heartbeat:1.0.0\n",
        *(
            f"request:{topic}:1.0.0\n{json.dumps(args)}".encode()
            for topic, args in (
                ("system.topic.subscribe", {"action": "publish", "topic": "#"}),
                ("system.topic.subscribe", {"action": "request", "topic": "a", "priority": 1e300}),
                ("system.topic.subscribe", {"action": "publish", "topic": "system.message"}),
                ("system.log.subscribe", {"levels": ["debug", "info", "warn", "error"], "regex": "a|b"}),
                ("system.log.subscribe", {"levels": None}),
                ("system.service.register", {"name": "n", "description": "d"}),
                ("system.metrics", {"showAll": True}),
                ("system.service.list", None),
                ("system.topic.list", None),
            )
        ),
    ]
)
GARBAGE = st.binary(max_size=80) | st.builds(
    lambda a, b: a + b":" + b + b"\n", st.binary(max_size=10), st.binary(max_size=40)
)
STREAM = st.lists((MESSAGES | GARBAGE).map(frame) | st.binary(max_size=12), max_size=12).map(b"".join)


def answers(stream: bytes, cuts: list[int]) -> tuple[list[bytes], bool]:
    """All that a broker writes to a stranger and to a bystander, the stream cut at these places."""
    broker = Broker(seed=3)
    bystander, stranger = broker.join(), broker.join()
    bystander.subscribe("a", "request")
    places = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    for start, stop in pairwise(places):
        stranger.feed(stream[start:stop])
    return [broker.written(peer.link) for peer in (bystander, stranger)], stranger.link.closing is None


@given(STREAM, st.lists(st.integers(0, 10_000), max_size=8))
def test_how_a_stream_is_cut_changes_nothing(stream: bytes, cuts: list[int]) -> None:
    assert answers(stream, cuts) == answers(stream, [])


@given(STREAM)
def test_a_stream_octet_by_octet_is_the_same_stream(stream: bytes) -> None:
    assert answers(stream, list(range(len(stream)))) == answers(stream, [])


@given(st.lists(st.binary(max_size=200) | STREAM, max_size=10))
def test_no_bytes_make_a_broker_fail_and_all_its_answers_are_good_messages(chunks: list[bytes]) -> None:
    broker = Broker()
    other, stranger = broker.join(), broker.join()
    other.subscribe("#")
    for chunk in chunks:
        stranger.feed(chunk)
        state = stranger.link.state
        assert state is None or len(state.frames) <= 16755
        for peer in (stranger, other):
            for body in unframe(broker.written(peer.link)):
                wirelake.decode("mb", body[: body.index(b"\n") + 1], profile="strict")
        broker.pass_time(0.5)
    assert other.one(f"request:system.heartbeat:1.0.0:{R}\n").rid == R


@given(st.lists(st.binary(max_size=200) | STREAM, max_size=10))
def test_no_bytes_make_a_client_fail(chunks: list[bytes]) -> None:
    client = MbClient(options=ClientOptions(name="n"))
    link = client.new_link(MB_TCP, "client")
    client.connected(link, 0.0)
    now = 0.0
    for chunk in chunks:
        client.receive(link, chunk, now)
        client.receive_messages(link, [chunk], now)
        now += 1.0
        client.tick(now)
    client.disconnected(link, now)
    assert isinstance(client.events[-1], Lost)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), MESSAGES | GARBAGE), max_size=40))
def test_messages_over_websocket_are_answered_as_over_tcp(script: list[tuple[int, bytes]]) -> None:
    said = []
    for framing in (MB_TCP, MB_WS):
        broker = Broker(seed=5)
        peers = [broker.join(framing) for _ in range(4)]
        for i, body in script:
            peers[i].say(body)
        said.append([[one.body for one in peer.take()] for peer in peers])
    assert said[0] == said[1]


def test_a_flood_of_garbage_keeps_nothing() -> None:
    broker = Broker()
    stranger = broker.join()
    chance = random.Random(2)
    for _ in range(3000):
        stranger.say(chance.randbytes(chance.randrange(400)))
        stranger.take()
        broker.session.notes.clear()
    session = broker.session
    assert len(session._heads.known) < 10
    assert session.requests.open == {}
    assert len(session.services) == 1


def test_memory_of_a_half_frame_is_bounded_by_the_frame() -> None:
    broker = Broker()
    peers = [broker.join() for _ in range(50)]
    for peer in peers:
        peer.feed((16751).to_bytes(4, "big") + b"x" * 16750)
        assert peer.link.state is not None
        assert len(peer.link.state.frames) == 16754
        peer.leave()
        assert peer.link.state is None
