"""Money that moves between domains, in the simulator: coins are messages, and a transfer is a transaction.

A transfer takes a coin from the purse of one domain, puts it into that of another, by an enqueue or by a call of its
service, and leaves a receipt in a third place. A coin carries the numbers of all transfers it has seen, so that in the
end every transfer must be in a coin and among the receipts, or in neither.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.live.lives import language_of
from tests.live.simulator import Disk, Node, Wire, World
from wirelake.live.casual import events
from wirelake.live.casual.handlers import Answer, Invocation, ServiceEntry
from wirelake.live.casual.options import DomainOptions, PeerSettings
from wirelake.live.casual.session import CasualSession
from wirelake.live.casual.store import (
    NIL,
    BranchRecord,
    CountBranches,
    Enqueue,
    ListBranches,
    Peek,
    QueueMessage,
    QueueSettings,
)
from wirelake.live.casual.stores import MemoryStore
from wirelake.live.casual.wire import CASUAL_TCP, NO_BUFFER, OK, TPESVCERR, Buffer
from wirelake.live.core.effects import Done, Effect, Result
from wirelake.live.core.session import Session

LANGUAGE = language_of("casual", lambda body: body, lambda message: False)
PURSE, RECEIPTS = "purse", "receipts"
QUEUES = (QueueSettings(PURSE, retries=1_000), QueueSettings(RECEIPTS, retries=1_000))
COINS = 2
TRANSFERS = 1
PAUSE_SECONDS = 0.5
SETTLED_SECONDS = 200.0
"""After the last fault everything is done by then: limits of requests have passed, and peers are back."""
DOWN_SECONDS = (0.0, 8.0)
"""How long a node is down: it is back before others notice, or they give it up first."""
Script = Generator[int, Any, Any]


class Bank(Node):
    """A domain. Its services and its application are scripts: generators that yield the token of a request, and go on
    with the event that ends it.
    """

    def __init__(self, world: World, name: str, peers: tuple[str, ...], coins: tuple[str, ...] = ()) -> None:
        self.peer_names = peers
        self.scripts: dict[int, tuple[Script, Callable[[Any], None]]] = {}
        disk = Disk(lambda: MemoryStore(QUEUES))
        for number, coin in enumerate(coins):
            message = QueueMessage(number.to_bytes(15, "big") + name.encode(), payload=coin.encode())
            disk.synced.append(Enqueue(PURSE, message, None, 1 + number))
        super().__init__(world, name, self._make_session, CASUAL_TCP, on_event=self._hear, disk=disk)

    def _make_session(self, chance: random.Random) -> Session:
        self.scripts = {}
        services = {f"deposit.{self.name}": ServiceEntry(f"deposit.{self.name}", self._deposit, "join")}
        session = CasualSession(
            DomainOptions(name=self.name, most_retry_seconds=5.0),
            services=services,
            queues=QUEUES,
            peers=[PeerSettings((name, 0)) for name in self.peer_names],
            epoch=1_000_000.0,
            chance=chance,
        )
        session.open(self.world.now)
        return session

    @property
    def domain(self) -> CasualSession:
        assert isinstance(self.session, CasualSession)
        return self.session

    def _deposit(self, invocation: Invocation) -> Script:
        message = QueueMessage(NIL, payload=invocation.buffer.payload)
        put = yield self.domain.requests.enqueue(PURSE, message, self.world.now, branch=invocation.branch)
        return Answer(OK, 0, NO_BUFFER) if put.id != NIL else Answer(TPESVCERR)

    def play(self, script: Script, done: Callable[[Any], None]) -> None:
        """Run a script to its first request."""
        self._go_on(script, done, None)
        self.settle()

    def _go_on(self, script: Script, done: Callable[[Any], None], value: Any) -> None:
        try:
            self.scripts[script.send(value)] = script, done
        except StopIteration as end:
            done(end.value)

    def _hear(self, event: Any) -> None:
        waiting = self.scripts.pop(getattr(event, "token", 0), None)
        if waiting is not None:
            self._go_on(*waiting, event)

    def _call(self, session: Session, effect: Effect, function: Callable[[Any], Any], argument: Any) -> None:
        if session is self.session and effect in self._open:

            def done(value: Any) -> None:
                result: Result = Done(value)
                self._complete(session, effect, result)

            self.play(function(argument), done)


@dataclass(frozen=True)
class Thought:
    """The application has thought long enough."""

    token: int


@dataclass(frozen=True)
class Plan:
    """Who moves a coin, and how. ``below`` maps a domain to those it dials; the first one is the coordinator's. ``how``
    is enqueue or call. ``pauses``: the application thinks between two requests, so that nothing is under way.
    """

    below: tuple[tuple[str, tuple[str, ...]], ...]
    source: str
    how: str
    target: str
    receipt: str
    pauses: bool = False


TWO = (("a", ("b",)), ("b", ()))
THREE = (("a", ("b", "c")), ("b", ()), ("c", ()))
CHAIN = (("a", ("m",)), ("m", ("c",)), ("c", ()))
SHAPES = {
    "two": (TWO, (("a", "call", "b", "a"), ("b", "enqueue", "a", "b"), ("b", "call", "b", "b"))),
    "three": (THREE, (("b", "call", "c", "a"), ("c", "enqueue", "b", "c"), ("a", "enqueue", "c", "b"))),
    "chain": (CHAIN, (("a", "call", "c", "m"), ("m", "call", "c", "a"), ("m", "call", "c", "m"))),
}
PLANS = {
    f"{shape} {' '.join(move)}{' slowly' if pauses else ''}": Plan(below, *move, pauses)
    for shape, (below, moves) in SHAPES.items()
    for move in moves
    for pauses in (False, True)
}


@dataclass
class Point:
    """A fault: with message or write number ``at``, this node crashes, or this connection is cut."""

    at: int = -1
    node: str = ""
    wire: int = -1
    is_write: bool = False
    down_seconds: float = 0.3


class Watched(World):
    """Strikes right after a message has been sent, before it arrives."""

    strike: Callable[[], None] | None = None
    strike_at = -1
    _messages = 0

    @property
    def messages(self) -> int:
        return self._messages

    @messages.setter
    def messages(self, count: int) -> None:
        self._messages = count
        if count == self.strike_at and self.strike is not None:
            self.later(0.0, self.strike)


@dataclass
class Transfers:
    """A life: some transfers, a fault, and what must hold in the end."""

    plan: Plan
    seed: int
    point: Point = field(default_factory=Point)

    def __post_init__(self) -> None:
        self.world = Watched(self.seed, LANGUAGE)
        self.world.delay = (0.001, 0.004)
        self.banks: dict[str, Bank] = {}
        for name, below in reversed(self.plan.below):
            coins = tuple(f"{name}{number}:" for number in range(COINS))
            self.banks[name] = Bank(self.world, name, below, coins)
        self.head = self.banks[self.plan.below[0][0]]
        self.outcomes: dict[int, str] = {}
        self._number = self._thoughts = 0
        self._aim()

    def _aim(self) -> None:
        point = self.point
        if point.is_write:
            self.banks[point.node].crash_at = point.at
        elif point.at >= 0:
            self.world.strike, self.world.strike_at = self._strike, point.at

    def _strike(self) -> None:
        point = self.point
        if point.node:
            self.banks[point.node].crash(point.down_seconds)
        elif point.wire < len(self.world.wires):
            wire: Wire = self.world.wires[point.wire]
            if wire.is_up:
                wire.cut()

    # --- the application

    def _next(self) -> None:
        """Begin the next transfer, unless the coordinator is down or still busy."""
        if self._number >= TRANSFERS:
            return
        session = self.head.session
        is_ready = isinstance(session, CasualSession) and session.is_loaded
        if is_ready and len(self.head.domain.peers.ready()) == len(self.head.peer_names):
            self._number += 1
            self.head.play(self._transfer(self._number), lambda done: self._again())
        else:
            self._again()

    def _again(self) -> None:
        self.world.later(PAUSE_SECONDS, self._next)

    def _watch_head(self) -> None:
        """A coordinator that crashed has forgotten its transfer: its application goes on with the next one."""
        self._again()

    def _where(self, name: str) -> str | None:
        return None if name == self.head.name else f"{name}:0"

    def _think(self) -> Script:
        """Let time pass, if the plan says so."""
        if self.plan.pauses:
            head, session = self.head, self.head.session
            self._thoughts -= 1

            def wake(thought: int) -> None:
                if head.session is session:
                    head._hear(Thought(thought))
                    head.settle()

            self.world.later(PAUSE_SECONDS, wake, self._thoughts)
            yield self._thoughts

    def _transfer(self, number: int) -> Script:
        plan, requests, now = self.plan, self.head.domain.requests, lambda: self.world.now
        token, branch = requests.begin(now())
        taken = yield requests.dequeue(PURSE, now(), branch=branch, peer=self._where(plan.source))
        is_good = bool(taken.messages)
        yield from self._think()
        if is_good:
            coin = taken.messages[0].payload + b"%d," % number
            is_good = yield from self._give(coin, plan.how, plan.target, branch)
        yield from self._think()
        if is_good:
            message = QueueMessage(NIL, payload=b"%d" % number)
            put = yield requests.enqueue(RECEIPTS, message, now(), branch=branch, peer=self._where(plan.receipt))
            is_good = put.id != NIL
        yield from self._think()
        requests.end(token, now(), commits=is_good)
        ended: events.TransactionEnded = yield token
        self.outcomes[number] = ended.outcome
        return ended

    def _give(self, coin: bytes, how: str, target: str, branch: Any) -> Script:
        requests, now = self.head.domain.requests, self.world.now
        if how == "enqueue":
            message = QueueMessage(NIL, payload=coin)
            put = yield requests.enqueue(PURSE, message, now, branch=branch, peer=self._where(target))
            return put.id != NIL
        buffer = Buffer("X_OCTET/", coin)
        called = yield requests.call(f"deposit.{target}", buffer, now, timeout=5.0, branch=branch)
        return called.status == OK

    # --- the life

    def play(self) -> Transfers:
        self.head.on_start = self._watch_head
        self.world.later(0.3, self._next)
        self.world.run(SETTLED_SECONDS)
        self.check()
        return self

    def check(self) -> None:
        stores = {name: bank.disk.load() for name, bank in self.banks.items() if bank.disk is not None}
        coins = [m.payload.decode() for store in stores.values() for m in store.apply(Peek(PURSE, 1_000))]
        receipts = [m.payload.decode() for store in stores.values() for m in store.apply(Peek(RECEIPTS, 1_000))]
        names = sorted(coin.partition(":")[0] for coin in coins)
        wanted = sorted(f"{name}{number}" for name in self.banks for number in range(COINS))
        assert names == wanted, f"coins were lost or doubled: {names}"
        moved = sorted(number for coin in coins for number in coin.partition(":")[2].split(",") if number)
        assert moved == sorted(receipts), f"half of a transfer: moved {moved}, receipts {receipts}"
        for number, outcome in self.outcomes.items():
            if outcome != "unknown":
                assert (str(number) in moved) == (outcome == "committed"), f"transfer {number} is not {outcome}"
        for name, store in stores.items():
            left: tuple[BranchRecord, ...] = store.apply(ListBranches())
            assert not left, f"{name} is left with {left}"
            counts = store.apply(CountBranches())
            assert not counts.get("active"), f"{name} has active work: {counts}"
        for bank in self.banks.values():
            assert bank.session is not None and not bank.domain.coordinator.untold
        assert self._number == TRANSFERS, "the application is stuck"


def points(plan: Plan, seed: int) -> Iterator[Point]:
    """Every message and every write of a transfer, as a moment at which somebody dies."""
    quiet = Transfers(plan, seed).play()
    assert quiet.outcomes == {1: "committed"}
    for at in range(1, quiet.world.messages + 1):
        for name in quiet.banks:
            downs = DOWN_SECONDS[at % 2 :][:1] if plan.pauses else DOWN_SECONDS
            yield from (Point(at, name, down_seconds=down) for down in downs)
        yield from (Point(at, wire=wire) for wire in range(len(quiet.world.wires)))
    for bank in quiet.banks.values():
        yield from (Point(at, bank.name, is_write=True) for at in range(1, bank.writes + 1))
