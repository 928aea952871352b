"""Simulated time, and connections on which messages are sent in it.

A *process* is a generator that yields how many microseconds it waits. A protocol's script is a set of processes that
connect, send and wait; the simulation runs them in the order of their times. Nothing here looks at the clock, and all
chance comes from the seed.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import Any, Literal, NamedTuple

from msgspec.structs import force_setattr

from ..codec import codec_for
from ..codec.encoder import encode_frame
from ..spec.nodes import Protocol
from ..spec.resolve import Layout
from ..spec.resolve import layout as layout_of
from .corruption import Corruption, corrupt
from .truth import Direction, Exchange, Outcome, Rule, Session, Truth, Violation, opposite

PORT = 9000
"""Of servers whose protocol names no port."""

Process = Generator[int, None, None]


@dataclass(frozen=True, slots=True)
class Connection:
    """One TCP connection. Its number is its place in the order of connecting."""

    number: int
    layout: Layout
    client: tuple[str, int]
    server: tuple[str, int]

    @property
    def protocol(self) -> Protocol:
        return self.layout.protocol

    @property
    def name(self) -> str:
        return f"{_text(self.client)}-{_text(self.server)}"


def _text(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class Event(NamedTuple):
    """A message on its way. ``frame`` is what is on the wire: not the message's bytes if there is ``corruption``."""

    ts_us: int
    connection: Connection
    direction: Direction
    message: Any
    frame: bytes
    corruption: Corruption | None = None


class Opened(NamedTuple):
    ts_us: int
    connection: Connection


class Closed(NamedTuple):
    """``by`` is the side that closes first."""

    ts_us: int
    connection: Connection
    by: Literal["client", "server"]
    how: Literal["closed", "reset"]


Item = Event | Opened | Closed


class Gone(Exception):
    """The connection on which a process wanted to send has ended; so does the process."""


@dataclass
class Simulation:
    """Run processes in the order of their times and hands out what they send."""

    now: int
    truth: Truth | None
    corrupt: float
    chance: Random
    events: int = 0
    connections: int = 0
    out: list[Item] = field(default_factory=list)
    _waiting: list[tuple[int, int, Process]] = field(default_factory=list)
    _order: Iterator[int] = field(default_factory=count)

    def start(self, process: Process, after_us: int = 0) -> None:
        heapq.heappush(self._waiting, (self.now + after_us, next(self._order), process))

    def run(self) -> Iterator[Item]:
        waiting = self._waiting
        while waiting:
            self.now, _, process = heapq.heappop(waiting)
            try:
                wait = next(process)
            except (StopIteration, Gone):
                pass
            else:
                heapq.heappush(waiting, (self.now + wait, next(self._order), process))
            if self.out:
                out, self.out = self.out, []
                yield from out


def writing_layout(reading: Layout) -> Layout:
    """Return the layout to encode with: one that decodes bodies, even if the reader skips them."""
    best = reading
    for name, option in reading.protocol.options.items():
        other = layout_of(reading.protocol, **(dict(best.options) | {name: option.default}))
        best = max(best, other, key=_views)
    return best


def _views(layout: Layout) -> int:
    return sum(len(node.views) for node in layout.messages.values())


@dataclass
class Stage:
    """Where one protocol's script plays: its dials, its chance, its connections."""

    simulation: Simulation
    layout: Layout
    rng: Random
    messages: int
    connections: int
    network: int
    ipv6: float = 0.0
    violations: float = 0.0
    pace: float = 1.0
    first_port: int = 0
    """Where the ports of clients begin, so that the connections of two runs are not the same."""
    sent: int = 0

    def __post_init__(self) -> None:
        self.writing = writing_layout(self.layout)

    @property
    def now(self) -> int:
        return self.simulation.now

    @property
    def more(self) -> bool:
        """Return whether new exchanges may begin. Those under way are always finished."""
        return self.sent < self.messages

    def start(self, process: Process, after_us: int = 0) -> None:
        self.simulation.start(process, after_us)

    def delay(self, median_us: float, spread: float = 0.5) -> int:
        """Return a waiting time as services have them: never nothing, mostly near the median, sometimes much longer."""
        return 1 + int(self.rng.lognormvariate(math.log(median_us), spread))

    def pause(self, mean_us: float) -> int:
        """Return the time until the next of many independent events."""
        return 1 + int(self.rng.expovariate(self.pace / mean_us))

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def breaks(self) -> bool:
        """Return whether a peer breaks the rules now. Without violations nothing is drawn, so all else stays equal."""
        return self.violations > 0 and self.rng.random() < self.violations

    def pick(self, items: Any) -> Any:
        return items[int(self.rng.random() * len(items))]

    def break_rule(self, faults: Sequence[Callable[..., Process | None]], *peers: Any) -> Process:
        """Play one of these faults. A fault notes what it breaks; its requests are exchanges like all others."""
        yield from self.pick(faults)(*peers) or ()

    def connect(self, client: int, server: int = 0, *, port: int | None = None) -> Link:
        """Open a connection between two hosts of this protocol's network, by default to its usual port."""
        port = port or self.layout.protocol.ports.get("tcp", PORT)
        number = self.simulation.connections
        self.simulation.connections += 1
        hosts = f"10.{self.network}.{1 + client // 250}.{1 + client % 250}", f"10.{self.network}.0.{10 + server}"
        if int((number + 1) * self.ipv6) > int(number * self.ipv6):
            hosts = f"fd00:{self.network}::1:{1 + client:x}", f"fd00:{self.network}::{16 + server:x}"
        connection = Connection(number, self.layout, (hosts[0], self._client_port(number)), (hosts[1], port))
        return Link(self, connection)

    def _client_port(self, number: int) -> int:
        return 32768 + (self.first_port + number * 7) % 28000


class Link:
    """A connection as its script uses it."""

    def __init__(self, stage: Stage, connection: Connection) -> None:
        self.stage = stage
        self.simulation = stage.simulation
        self.connection = connection
        self.layout = connection.layout
        self.codec = codec_for(connection.layout)
        self.name = connection.protocol.name
        self.is_open = True
        self.busy = 0
        self.last_us = {"to_server": self.simulation.now, "to_client": self.simulation.now}
        self.session = Session(connection.number, self.name, connection.client, connection.server, self.simulation.now)
        if self.simulation.truth is not None:
            self.simulation.truth.sessions.append(self.session)
        self.simulation.out.append(Opened(self.simulation.now, connection))

    def start(self, process: Process, after_us: int = 0) -> None:
        """Start a process that counts as work under way on this connection."""
        self.simulation.start(self._counted(process), after_us)
        self.busy += 1

    def _counted(self, process: Process) -> Process:
        try:
            yield from process
        finally:
            self.busy -= 1

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Count what happens inside as work under way on this connection."""
        self.busy += 1
        try:
            yield
        finally:
            self.busy -= 1

    def when_quiet(self, direction: Direction, after_us: int, act: Callable[[], Process | None]) -> Process:
        """Call ``act`` whenever one side has sent nothing for ``after_us``, as long as conversations may begin."""
        while self.is_open:
            quiet_us = self.simulation.now - self.last_us[direction]
            if quiet_us >= after_us:
                if not self.stage.more:
                    return
                yield from act() or ()
                quiet_us = 0
            yield after_us - quiet_us + 1

    def send(self, direction: Direction, message: Any, *, padded: bool = False, breaks: Rule | None = None) -> int:
        """Put a message on the wire and note the rule that it breaks; return the number of the event."""
        if not self.is_open:
            raise Gone
        simulation = self.simulation
        if breaks is not None and simulation.truth is not None:
            place = self.name, self.connection.number, direction, simulation.events
            simulation.truth.violations.append(Violation(*place, breaks, simulation.now, message.__message__["name"]))
        message, frame = self._sealed(message, padded)
        corruption: Corruption | None = None
        if simulation.corrupt and simulation.chance.random() < simulation.corrupt:
            frame, corruption = corrupt(self.layout, frame, simulation.chance)
            if simulation.truth is not None:
                simulation.truth.corruptions[simulation.events] = corruption
        session = self.session
        if direction == "to_server":
            session.messages_to_server += 1
            session.bytes_to_server += len(frame)
        else:
            session.messages_to_client += 1
            session.bytes_to_client += len(frame)
        self.last_us[direction] = simulation.now
        simulation.out.append(Event(simulation.now, self.connection, direction, message, frame, corruption))
        simulation.events += 1
        self.stage.sent += 1
        return simulation.events - 1

    def _sealed(self, message: Any, padded: bool) -> tuple[Any, bytes]:
        """Return the message as a reader of the wire will see it, and its bytes."""
        frame = encode_frame(self.stage.writing, message, padded=padded)
        node = self.layout.of(message)
        if padded:
            assert node.padding is not None
            force_setattr(message, "notes", (node.padding.note,))
        if node.body is not None:
            return self.codec.decode(frame), frame
        force_setattr(message, "layout", self.layout)
        force_setattr(message, "wire_length", len(frame))
        return message, frame

    def ask(
        self, direction: Direction, message: Any, address: str, correlation: str, *, limit_us: int = 0, **how: Any
    ) -> Exchange:
        """Send a request and open the record of what becomes of it. ``how`` are options of ``send``."""
        number, now = self.send(direction, message, **how), self.simulation.now
        place = self.name, self.connection.number, direction
        exchange = Exchange(*place, message.__message__["name"], address, correlation, number, now, limit_us)
        if self.simulation.truth is not None:
            self.simulation.truth.exchanges.append(exchange)
            if limit_us:
                self.simulation.start(self._expire(exchange), limit_us)
        return exchange

    def _expire(self, exchange: Exchange) -> Process:
        """The limit of a request passes, and the connection still stands."""
        if exchange.reply is None and self.is_open:
            exchange.outcome = "timeout"
        yield from ()

    def reply(self, exchange: Exchange, message: Any, outcome: Outcome = "ok", status: Any = None, **how: Any) -> None:
        """Send a reply, in the other direction, and note it. ``how`` are options of ``send``."""
        number = self.send(opposite(exchange.direction), message, **how)
        exchange.replies += 1
        if exchange.reply is None:
            exchange.reply, exchange.reply_us = number, self.simulation.now
            exchange.reply_message = message.__message__["name"]
            exchange.status = status
        if exchange.outcome in ("unanswered", "no_reply_wanted"):
            exchange.outcome = outcome

    def violate(self, rule: Rule, direction: Direction, message: Any) -> None:
        """Send a message that breaks a rule."""
        self.send(direction, message, breaks=rule)

    def close(self, by: Literal["client", "server"] = "client", how: Literal["closed", "reset"] = "closed") -> None:
        if not self.is_open:
            return
        self.is_open = False
        self.session.closed_us, self.session.ended = self.simulation.now, how
        self.simulation.out.append(Closed(self.simulation.now, self.connection, by, how))
