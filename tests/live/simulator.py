"""Runs any set of sessions in one thread, with a clock, a network and disks that a seed decides.

A world has nodes, each a process with one session, which it drives through the contract of sessions and nothing else.
Bytes between nodes are delayed, split, joined, cut off or swallowed; connections do not wait for each other. A node may
crash at any moment: only what its disk has synced is there when it starts again. The same seed gives the same bytes:
``World.fingerprint`` is a hash of everything that was sent or stored, and of when.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from wirelake.live.core.effects import Authenticate, Call, Cancel, Cancelled, Dial, Done, Effect, Failed, Result, Store
from wirelake.live.core.errors import ConnectionFailed
from wirelake.live.core.link import Framing, Link, Side
from wirelake.live.core.session import CLIENT, SERVER, Session, States
from wirelake.spec import LifeCycle

FORGOTTEN_SECONDS = 150.0
"""When the systems of both ends give up a connection on which nothing passes."""
SLICES_SECONDS = 1.0
"""How long a session may take until it has handled what it was given."""
MOST_STORES = 8
"""Stores of one transaction."""
DELAYS = ((0.0001, 0.002), (0.001, 0.05), (0.01, 0.6))
"""Seconds under way: in one house, in one country, over a bad line."""
PIECES = (1, 2, 3, 7, 40, 300, 5_000)

Spoken = tuple[int, str, bool]
"""A message: bytes since the beginning at its end, its name, and whether it is a refusal."""


@dataclass(frozen=True)
class Language:
    """How a protocol reads: ``reader`` makes a function that is given all frames of a direction, in order; it is told
    whether the transport keeps messages apart.
    """

    cycle: LifeCycle
    reader: Callable[[bool], Callable[[list[bytes]], Iterable[Spoken]]]
    after_refusal: str = ""


class World:
    """The clock, the network and everything that will happen. ``language`` is that of every connection."""

    def __init__(self, seed: int, language: Language) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.language = language
        self.now = 0.0
        self.wires: list[Wire] = []
        self.nodes: dict[str, Node] = {}
        self.messages = 0
        """Messages that were sent."""
        self.faults = 0
        """Cuts and crashes."""
        self.delay = self.chance.choice(DELAYS)
        self._future: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._count = 0
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def fingerprint(self) -> str:
        return self._hash.hexdigest()

    def record(self, what: str, data: bytes) -> None:
        self._hash.update(b"%s %r %d " % (what.encode(), self.now, len(data)))
        self._hash.update(data)

    def later(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        self._count += 1
        heapq.heappush(self._future, (self.now + seconds, self._count, action, arguments))

    def soon(self, action: Callable[..., None], *arguments: Any) -> None:
        """After the time that something takes on the network."""
        self.later(self.chance.uniform(*self.delay), action, *arguments)

    def run(self, seconds: float) -> None:
        """Let time pass, and everything happen that is due."""
        end = self.now + seconds
        while self._future and self._future[0][0] <= end:
            self.now, _, action, arguments = heapq.heappop(self._future)
            action(*arguments)
        self.now = end

    def connect(self, client: Node, server: Node) -> Wire:
        """Connect two nodes that are up; the client hears of it a little later."""
        wire = Wire(self, client, server)
        wire.server.begin()
        self.soon(wire.client.begin)
        return wire


class Watch:
    """The life cycle of a connection as one of its ends sees it: an assertion fails when that end says what it must
    not. What came just now may be heard before, between and after what is said: sessions cut long work into slices.
    """

    def __init__(self, language: Language, side: Side) -> None:
        self._states = States(language.cycle)
        self._after_refusal = language.after_refusal
        self._side: Side = side
        self._other: Side = SERVER if side == CLIENT else CLIENT
        self._heard: deque[tuple[float, Spoken]] = deque()

    def hears(self, spoken: Spoken, now: float) -> None:
        self._heard.append((now, spoken))

    def says(self, spoken: Spoken, now: float) -> None:
        while self._heard and self._heard[0][0] < now - SLICES_SECONDS:
            self._move(self._other, self._heard.popleft()[1])
        while not self._states.may(self._side, spoken[1]) and self._heard:
            self._move(self._other, self._heard.popleft()[1])
        state = self._states.state
        assert self._move(self._side, spoken), f"the {self._side} says {spoken[1]} when {state}"

    def _move(self, side: Side, spoken: Spoken) -> bool:
        is_allowed = self._states.move(side, spoken[1])
        if is_allowed and spoken[2]:
            self._states.state = self._after_refusal
        return is_allowed


class End:
    """One end of a connection, and what is under way to the other end."""

    def __init__(self, world: World, wire: Wire, node: Node, side: Side, peer: str) -> None:
        assert node.session is not None
        self.world, self.wire, self.node = world, wire, node
        self.other: End
        self.session = node.session
        self.link = node.session.new_link(wire.framing, side, peer)
        self.is_known = False
        self.is_gone = False
        self.is_ended = False
        """Whether nothing more will be sent."""
        self._read = world.language.reader(wire.has_messages)
        self._watch = Watch(world.language, side)
        self._spoken: deque[Spoken] = deque()
        self._chunks: deque[bytes] = deque()
        self._arrived = 0
        self._is_moving = False

    def begin(self) -> None:
        """Its session hears of the connection."""
        if not self.is_gone and not self.is_known and self.node.session is self.session:
            self.is_known = True
            self.node.ends[self.link] = self
            self.node.call(self.session.connected, self.link)
            self.other.move()

    def flush(self) -> None:
        """Send what the session left."""
        link = self.link
        if link.out:
            chunks = link.out[:]
            link.out.clear()
            self.world.record(f"{self.wire.number} {link.side}", b"".join(chunks))
            for spoken in self._read(chunks):
                self.world.messages += 1
                self._watch.says(spoken, self.world.now)
                self._spoken.append(spoken)
            self._chunks += chunks
            self.move()
        if link.closing is not None and not self.is_ended:
            self.is_ended = True
            if link.closing.at_once:
                self._chunks.clear()
            self.move()
            self.world.soon(self.lose)
        if link.is_readable:
            self.other.move()

    def move(self) -> None:
        """See to it that what is under way goes on."""
        if not self._is_moving and (self._chunks or self.is_ended):
            self._is_moving = True
            self.world.soon(self._arrive)

    def _arrive(self) -> None:
        """Some bytes come out at the other end, or the end of them."""
        self._is_moving = False
        other = self.other
        if other.is_gone or self.wire.is_silent or not other.is_known:
            return
        if other.link.closing is None and not other.link.is_readable:
            return
        if self._chunks:
            self._hand_over(other)
            self.move()
        elif self.is_ended:
            other.lose()

    def _hand_over(self, other: End) -> None:
        pieces = self._take_messages() if self.wire.has_messages else [self._take_bytes()]
        self._arrived += sum(map(len, pieces))
        self.link.unsent = sum(map(len, self._chunks))
        while self._spoken and self._spoken[0][0] <= self._arrived:
            other._watch.hears(self._spoken.popleft(), self.world.now)
        if other.link.closing is None:
            if self.wire.has_messages:
                other.node.call(other.session.receive_messages, other.link, pieces)
            else:
                other.node.call(other.session.receive, other.link, pieces[0])
        if self.link.wants_room and self.link.has_room and not self.is_gone and self.node.session is self.session:
            self.link.wants_room = False
            self.node.call(self.session.writable, self.link)

    def _take_messages(self) -> list[bytes]:
        return [self._chunks.popleft() for _ in range(self.world.chance.randint(1, len(self._chunks)))]

    def _take_bytes(self) -> bytes:
        """All that is there, or a piece of it."""
        chance = self.world.chance
        if len(self._chunks) == 1:
            whole = self._chunks.popleft()
        else:
            whole = b"".join(self._chunks)
            self._chunks.clear()
        if chance.random() < 0.6:
            return whole
        size = chance.choice(PIECES)
        if size < len(whole):
            self._chunks.append(whole[size:])
        return whole[:size]

    def lose(self) -> None:
        """The connection is gone for this end; it was there, if only for a moment."""
        if self.is_gone:
            return
        self.begin()
        self.is_gone = True
        self.node.ends.pop(self.link, None)
        if self.node.session is self.session:
            self.node.call(self.session.disconnected, self.link)
            self.link.end()
        self.is_ended = True
        self.move()


class Wire:
    """A connection between two nodes."""

    def __init__(self, world: World, client: Node, server: Node) -> None:
        self.world = world
        self.framing, self.has_messages = client.framing, client.has_messages
        self.number = len(world.wires)
        self.client = End(world, self, client, CLIENT, server.name)
        self.server = End(world, self, server, SERVER, client.name)
        self.client.other, self.server.other = self.server, self.client
        self.is_silent = False
        world.wires.append(self)

    @property
    def is_up(self) -> bool:
        return not (self.client.is_gone or self.server.is_gone or self.is_silent)

    def cut(self) -> None:
        """Nothing passes any more, and both ends hear of it, one after the other."""
        self.world.faults += 1
        self.is_silent = True
        for end in (self.client, self.server):
            self.world.soon(end.lose)

    def silence(self) -> None:
        """Nothing passes any more, and no end hears of it until its system gives up."""
        self.world.faults += 1
        self.is_silent = True
        for end in (self.client, self.server):
            self.world.later(FORGOTTEN_SECONDS, end.lose)


class Disk:
    """What survives: the requests that were synced. ``make`` gives an empty state, with ``apply(request)``."""

    def __init__(self, make: Callable[[], Any], *, failures: float = 0.0) -> None:
        self.make = make
        self.failures = failures
        """How often a transaction fails."""
        self.synced: list[Any] = []
        self.written: list[Any] = []

    def load(self) -> Any:
        state = self.make()
        for request in self.synced:
            state.apply(request)
        return state

    def sync(self) -> None:
        self.synced += self.written
        self.written.clear()

    def crash(self, chance: random.Random) -> None:
        """Of what was written and not synced, something may be there nevertheless: always a beginning."""
        self.synced += self.written[: chance.randint(0, len(self.written))]
        self.written.clear()


class Node:
    """A process with a session that ``make`` makes. ``framing`` is that of the connections that it makes, and
    ``has_messages`` whether they keep messages apart. ``on_event`` is the application. ``crash_at`` is the number of
    the write to its disk with which it crashes.
    """

    def __init__(
        self,
        world: World,
        name: str,
        make: Callable[[random.Random], Session],
        framing: Framing,
        *,
        has_messages: bool = False,
        on_event: Callable[[Any], None] | None = None,
        disk: Disk | None = None,
        authenticate: Callable[[Any], Any] | None = None,
    ) -> None:
        self.world, self.name, self.framing = world, name, framing
        self.has_messages = has_messages
        self.on_event = on_event
        self.disk = disk
        self.authenticate = authenticate
        self.session: Session | None = None
        self.ends: dict[Link, End] = {}
        self.writes = 0
        self.crash_at: int | None = None
        self.on_start: Callable[[], None] | None = None
        self._make = make
        self._state: Any = None
        self._stores: deque[Store] = deque()
        self._open: dict[Effect, bool] = {}
        """Effects that have not completed, and whether they are taken back."""
        self._is_writing = False
        self._tick_at: float | None = None
        world.nodes[name] = self
        self.start()

    def start(self) -> None:
        self.session = self._make(random.Random(self.world.chance.getrandbits(32)))
        self._state = None if self.disk is None else self.disk.load()
        if self.on_start is not None:
            self.on_start()
        self.settle()

    def crash(self, down_seconds: float = 0.0) -> None:
        """Everything is gone but what the disk has synced; it starts again after a while."""
        if self.session is None:
            return
        self.world.faults += 1
        self.session = None
        self._stores.clear()
        self._open.clear()
        self._is_writing = False
        self._tick_at = None
        if self.disk is not None:
            self.disk.crash(self.world.chance)
        for end in list(self.ends.values()):
            end._chunks.clear()
            end.lose()
        self.world.later(down_seconds, self.start)

    def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call the session, and do what it leaves."""
        result = function(*arguments, self.world.now)
        self.settle()
        return result

    def settle(self) -> None:
        session = self.session
        assert session is not None
        while session.changed or session.effects or session.events:
            for link in _taken(session.changed):
                if link in self.ends:
                    self.ends[link].flush()
            for effect in _taken(session.effects):
                self._begin(effect)
            for event in _taken(session.events):
                if self.on_event is not None:
                    self.on_event(event)
        session.notes.clear()
        assert session.outstanding == len(self._open)
        deadline = session.deadline
        if deadline is not None and (self._tick_at is None or deadline < self._tick_at):
            self._tick_at = deadline
            self.world.later(max(deadline - self.world.now, 0.0), self._tick, session, deadline)

    def _tick(self, session: Session, deadline: float) -> None:
        if session is self.session and deadline == self._tick_at:
            self._tick_at = None
            self.call(session.tick)

    def _begin(self, effect: Effect) -> None:
        if isinstance(effect, Cancel):
            if effect.effect in self._open:
                self._cancel(effect.effect)
            return
        assert effect not in self._open, "wanted twice"
        self._open[effect] = False
        match effect:
            case Store():
                self._stores.append(effect)
                self.world.later(0.0, self._write)
            case Call(handler=handler, request=request):
                self.world.soon(self._call, self.session, effect, handler, request)
            case Authenticate(attempt=attempt):
                self.world.soon(self._call, self.session, effect, self.authenticate, attempt)
            case Dial():
                self.world.soon(self._dial, self.session, effect)

    def _cancel(self, effect: Effect) -> None:
        """A store that waits completes as Cancelled when its turn comes; others at once, if it is not too late."""
        if not isinstance(effect, Store):
            if self.world.chance.random() < 0.7:
                self.world.later(0.0, self._complete, self.session, effect, Cancelled())
        elif effect in self._stores:
            self._open[effect] = True

    def _complete(self, session: Session | None, effect: Effect, result: Result) -> None:
        if session is self.session and session is not None and effect in self._open:
            del self._open[effect]
            self.call(session.completed, effect, result)

    def _call(self, session: Session, effect: Effect, function: Callable[[Any], Any], argument: Any) -> None:
        if session is self.session and effect in self._open:
            try:
                result: Result = Done(function(argument))
            except Exception as error:
                result = Failed(error)
            self._complete(session, effect, result)

    def _dial(self, session: Session, effect: Dial) -> None:
        if session is not self.session or effect not in self._open:
            return
        target = self.world.nodes.get(effect.address[0])
        if target is None or target.session is None:
            self._complete(session, effect, Failed(ConnectionFailed(f"{effect.address[0]} is down")))
            return
        wire = Wire(self.world, self, target)
        wire.server.begin()
        wire.client.begin()
        self._complete(session, effect, Done(wire.client.link))

    def _write(self) -> None:
        """The writer takes all that is ready, and syncs a little later."""
        if self._is_writing or not self._stores or self.disk is None:
            return
        self._is_writing = True
        batch = [self._stores.popleft() for _ in range(min(len(self._stores), MOST_STORES))]
        chance = self.world.chance
        good = chance.randrange(len(batch)) if chance.random() < self.disk.failures else len(batch)
        ended: list[tuple[Store, Result]] = []
        for place, store in enumerate(batch):
            ended.append((store, self._stored(store, is_good=place < good)))
            if self.writes == self.crash_at:
                self.crash_at = None
                self.crash(chance.uniform(0.0, 3.0))
                return
        self.world.later(chance.uniform(0.0002, 0.02), self._sync, self.session, ended)

    def _stored(self, store: Store, *, is_good: bool) -> Result:
        if self._open[store]:
            return Cancelled()
        if not is_good:
            return Failed(OSError(28, "no space left on device"))
        assert self.disk is not None
        self.writes += 1
        self.disk.written.append(store.request)
        self.world.record(self.name, repr(store.request).encode())
        return Done(self._state.apply(store.request))

    def _sync(self, session: Session, ended: list[tuple[Store, Result]]) -> None:
        if session is not self.session:
            return
        assert self.disk is not None
        if self.world.chance.random() < self.disk.failures / 4:
            self.crash(self.world.chance.uniform(0.0, 3.0))  # a failed sync ends the process
            return
        self.disk.sync()
        self._is_writing = False
        for store, result in ended:
            self._complete(session, store, result)
        self._write()


def _taken(things: list[Any]) -> Iterator[Any]:
    taken = things[:]
    things.clear()
    return iter(taken)
