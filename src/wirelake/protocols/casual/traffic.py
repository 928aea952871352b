"""casual: domains that discover, call, queue, converse and commit.

Front domains call two back-end domains; most fronts speak to both, so that their transactions can have two branches.
One back end calls the other while it serves a call. Some domains are Java ones: other version offers, other transaction
ids, padded calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ...codec.content import FIELD_BASE, FieldValue, write_cfield
from ...generate.simulation import Link, Process, Stage
from ...generate.truth import Exchange, Outcome
from . import messages as p
from . import traffic_faults
from .conduct import CONNECT_LIMIT_US, LIMIT_US, TPNOREPLY, TPNOTRAN
from .traffic_conversations import converse
from .traffic_transactions import Kept, transact

PORT = 7771
"""Of the first back end: the protocol has no port of its own."""
TPENOENT, TPESVCERR, TPESVCFAIL = map(p.XATMI_ERROR.code, ("TPENOENT", "TPESVCERR", "TPESVCFAIL"))
LIMITS_US = (0, 2_000_000, 5_000_000, 30_000_000)
MAX_BUSY = 40
MAX_QUEUED = 100

Replied = Generator[int, None, bool]


class Offered(NamedTuple):
    name: str
    category: str
    mode: int
    median_us: int


@dataclass
class Domain:
    """A domain: what it is called, what it offers, what its queues hold."""

    id: bytes
    name: str
    java: bool
    host: int
    services: tuple[Offered, ...] = ()
    queues: dict[str, deque[p.Dequeued]] = field(default_factory=dict)


@dataclass
class Peer:
    """A connection between two domains, seen from the calling one."""

    client: Domain
    server: Domain
    resource: int
    link: Link | None = None
    ready: bool = False


ORDERS = (
    Offered("order.create", "orders", 0, 4_000),
    Offered("order.status", "orders", 1, 900),
    Offered("order.cancel", "orders", 0, 3_000),
    Offered("customer.get", "customers", 3, 1_500),
    Offered("customer.update", "customers", 2, 6_000),
)
PAYMENTS = (
    Offered("payment.authorize", "payments", 0, 12_000),
    Offered("payment.settle", "payments", 0, 25_000),
    Offered("ledger.post", "ledger", 1, 2_500),
    Offered("fraud.check", "risk", 3, 40_000),
)
QUEUES = ("orders.in", "mail.out", "ledger.audit")


def begin(stage: Stage) -> None:
    play = Play(stage)
    for number, peer in enumerate(play.peers):
        stage.start(play.session(number, peer), stage.pause(20_000))


class Play:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rng = stage.rng
        self.late = stage.layout.options["profile"] == "late"
        self.unit = 1000 if self.late else 1
        """Times on the wire per microsecond."""
        self.peers = self._topology(stage.connections)
        self.stock = [self._stock_buffer() for _ in range(64)]

    def _back_end(self, name: str, host: int, services: tuple[Offered, ...]) -> Domain:
        queues: dict[str, deque[p.Dequeued]] = {queue: deque() for queue in QUEUES}
        return Domain(self.uuid(), name, False, host, services, queues)

    def _topology(self, connections: int) -> list[Peer]:
        """Two connections per front, one to each back end; the fourth one leads from back end to back end."""
        backs = [self._back_end("orders", 0, ORDERS), self._back_end("payments", 1, PAYMENTS)]
        fronts = [self._front(number) for number in range((connections + 1) // 2)]
        return [
            Peer(backs[0] if number == 3 else fronts[number // 2], backs[number % 2], -1 - number % 2)
            for number in range(connections)
        ]

    def _front(self, number: int) -> Domain:
        java = number % 2 == 1
        return Domain(self.uuid(), f"{'shop' if java else 'front'}-{number + 1:02d}", java, 2 + number)

    # --- connections

    def session(self, number: int, peer: Peer) -> Process:
        stage = self.stage
        link = peer.link = stage.connect(peer.client.host, peer.server.host, port=PORT + peer.server.host)
        yield stage.delay(600)
        if stage.breaks():
            traffic_faults.call_too_early(self, link, peer)
            yield stage.delay(600)
        refused = number > 3 and stage.chance(0.05)
        yield from self._connect(link, peer, refused)
        if refused:
            yield stage.delay(300)
            link.close(by="server")
            return
        yield stage.delay(500)
        yield from self._discover(link, peer)
        peer.ready = True
        while stage.more:
            for _ in range(1 if stage.chance(0.85) else 3):
                if link.busy < MAX_BUSY:
                    link.start(self._activity(link, peer))
            yield stage.pause(30_000)
        peer.ready = False
        if number > 3 and stage.chance(0.3):
            link.close(by=stage.pick(("client", "server")), how="reset")
            return
        while link.busy:
            yield 10_000
        yield stage.delay(5_000)
        link.close()

    def _connect(self, link: Link, peer: Peer, refused: bool) -> Process:
        ids = self.ids()
        versions = (1002, 1001, 1000) if peer.client.java else (1000,)
        offer = p.Offer((2000,) if refused else versions)
        request = p.DomainConnectRequest(**ids, domain=p.Domain(peer.client.id, peer.client.name), protocol=offer)
        exchange = self.ask(link, request, limit_us=CONNECT_LIMIT_US)
        yield self.stage.delay(900)
        chosen = 0 if refused else 1000
        domain = p.Domain(peer.server.id, peer.server.name)
        reply = p.DomainConnectReply(**ids, domain=domain, protocol=p.Chosen(chosen))
        link.reply(exchange, reply, "error" if refused else "ok", chosen)
        link.session.facts.update(
            client_domain=peer.client.name,
            client_id=peer.client.id.hex(),
            server_domain=peer.server.name,
            server_id=peer.server.id.hex(),
            version=chosen,
        )

    def _discover(self, link: Link, peer: Peer) -> Process:
        ids = self.ids()
        offered = [service for service in peer.server.services if self.stage.chance(0.9)]
        names = tuple(service.name for service in offered) + (("legacy.report",) if self.stage.chance(0.3) else ())
        queues = QUEUES if self.stage.chance(0.7) else ()
        domain = p.Domain(peer.client.id, peer.client.name)
        request = p.DomainDiscoverRequest(**ids, domain=domain, services=names, queues=queues)
        exchange = self.ask(link, request, limit_us=CONNECT_LIMIT_US)
        yield self.stage.delay(1_200)
        limit = 30_000_000 * self.unit
        reply = p.DomainDiscoverReply(
            **ids,
            domain=p.Domain(peer.server.id, peer.server.name),
            services=tuple(p.OfferedService(o.name, o.category, o.mode, limit, 0) for o in offered),
            queues=tuple(p.OfferedQueue(name, 3) for name in queues),
        )
        link.reply(exchange, reply)

    def _activity(self, link: Link, peer: Peer) -> Process:
        if self.stage.breaks():
            yield from self.stage.break_rule(traffic_faults.FAULTS, self, link, peer)
            return
        kind = self.rng.random()
        if kind < 0.62:
            yield from self.call(link, peer, self.uuid())
        elif kind < 0.74:
            yield from self._transaction(peer)
        elif kind < 0.83:
            yield from self.enqueue(link, peer, self.uuid())
        elif kind < 0.92:
            yield from self.dequeue(link, peer, self.uuid())
        elif kind < 0.97:
            yield from converse(self, link, peer)
        elif kind < 0.98:
            yield from self._discover(link, peer)
        else:
            self._call_without_reply(link, peer)

    # --- calls

    def call(self, link: Link, peer: Peer, execution: bytes, *, parent: str = "", xid: p.Xid = p.NULL_XID) -> Replied:
        """One call and its reply; tells whether it went well."""
        stage, rng = self.stage, self.rng
        service: Offered = stage.pick(peer.server.services)
        fate = rng.random()
        name = "legacy.report" if fate < 0.01 else service.name
        limit = stage.pick(LIMITS_US)
        ids = self.ids(execution)
        request = p.ServiceCallRequest(
            **ids,
            service=p.Service(name, limit * self.unit),
            parent=p.Parent(parent),
            xid=xid,
            flags=0 if xid.format != -1 else TPNOTRAN,
            buffer=self.buffer(name),
        )
        exchange = self.ask(link, request, name, limit_us=limit, padded=peer.client.java)
        if 0.01 <= fate < 0.018:
            # No reply comes. Without a limit, the caller waits until the connection ends.
            if limit:
                yield limit
            return False
        latency = stage.delay(service.median_us, 0.6)
        if 0.018 <= fate < 0.022 and limit:
            latency += limit
        elif not parent:
            yield from self._serve_by_calling(peer, execution, name)
        yield latency
        status, outcome = self._status(fate)
        ok = status == 0
        reply = p.ServiceCallReply(
            **ids,
            call=p.Call(status, int(rng.random() * 4) if ok else 4001 if status == TPESVCFAIL else 0),
            xid=xid,
            transaction=p.TransactionState(0 if ok or xid.format == -1 else 2),
            buffer=self.buffer(name) if status in (0, TPESVCFAIL) else p.Buffer("", b""),
        )
        link.reply(exchange, reply, outcome, status)
        return ok

    def _status(self, fate: float) -> tuple[int, Outcome]:
        if fate < 0.01:
            return TPENOENT, "error"
        if fate > 0.97:
            return TPESVCFAIL, "error"
        if fate > 0.962:
            return TPESVCERR, "error"
        return 0, "ok"

    def _serve_by_calling(self, peer: Peer, execution: bytes, name: str) -> Process:
        """The called domain calls another one first, in the same execution."""
        onward = [other for other in self.peers if other.client is peer.server and other.ready]
        if onward and self.stage.chance(0.15):
            link = onward[0].link
            assert link is not None
            with link.in_use():
                yield self.stage.delay(300)
                yield from self.call(link, onward[0], execution, parent=name)

    def _call_without_reply(self, link: Link, peer: Peer) -> None:
        service: Offered = self.stage.pick(peer.server.services)
        request = p.ServiceCallRequest(
            **self.ids(),
            service=p.Service(service.name, 0),
            parent=p.Parent(""),
            xid=p.NULL_XID,
            flags=TPNOREPLY | TPNOTRAN,
            buffer=p.Buffer("NULL", b""),
        )
        exchange = self.ask(link, request, service.name, padded=peer.client.java)
        exchange.outcome = "no_reply_wanted"

    def _transaction(self, first: Peer) -> Process:
        """A transaction with this peer, and often with another one of the same caller."""
        others = [peer for peer in self.peers if peer.client is first.client and peer is not first and peer.ready]
        yield from transact(self, [first, *(others[:1] if self.stage.chance(0.6) else [])])

    # --- queues

    def enqueue(
        self, link: Link, peer: Peer, execution: bytes, *, xid: p.Xid = p.NULL_XID, added: Kept | None = None
    ) -> Replied:
        stage = self.stage
        missing = stage.chance(0.02)
        queue = "no.such.queue" if missing else stage.pick(QUEUES)
        ids = self.ids(execution)
        buffer = self.buffer(queue)
        properties, reply = stage.pick(("", "region=eu", "region=us")), stage.pick(("", "mail.out"))
        asked = p.Enqueued(p.NIL, properties, reply, 0, buffer.type, buffer.payload)
        request = p.QueueEnqueueRequest(**ids, name=queue, xid=xid, message=asked)
        exchange = self.ask(link, request, queue, limit_us=LIMIT_US)
        yield stage.delay(1_800)
        made = p.NIL if missing else self.uuid()
        link.reply(exchange, p.QueueEnqueueReply(**ids, id=made), "error" if missing else "ok")
        if missing:
            return False
        stored = p.Dequeued(made, properties, reply, 0, buffer.type, buffer.payload, 0, stage.now * self.unit)
        if added is not None:
            added.append((peer.server.queues[queue], stored))
        else:
            self.store(peer.server.queues[queue], stored)
        return True

    def dequeue(
        self, link: Link, peer: Peer, execution: bytes, *, xid: p.Xid = p.NULL_XID, taken: Kept | None = None
    ) -> Replied:
        stage = self.stage
        name = stage.pick(QUEUES)
        queue = peer.server.queues[name]
        ids = self.ids(execution)
        block = taken is None and stage.chance(0.1)
        selector = p.Selector("", p.NIL)
        request = p.QueueDequeueRequest(**ids, name=name, xid=xid, selector=selector, block=block)
        exchange = self.ask(link, request, name, limit_us=0 if block else LIMIT_US)
        yield stage.delay(1_500)
        while block and not queue and peer.ready:
            yield 5_000
        messages = (queue.popleft(),) if queue else ()
        link.reply(exchange, p.QueueDequeueReply(**ids, message=messages))
        if taken is not None:
            taken.extend((queue, message) for message in messages)
        return True

    def store(self, queue: deque[p.Dequeued], message: p.Dequeued) -> None:
        """Queues are bounded so that memory is; what falls out was dequeued by someone who is not shown."""
        if len(queue) >= MAX_QUEUED:
            queue.popleft()
        queue.append(message)

    def ask(self, link: Link, request: Any, address: str = "", **how: Any) -> Exchange:
        return link.ask("to_server", request, address, request.correlation.hex(), **how)

    # --- values

    def ids(self, execution: bytes | None = None) -> dict[str, Any]:
        """What a request and its reply have in common: a new correlation, and an execution, new if none is given."""
        return {"correlation": self.uuid(), "execution": self.uuid() if execution is None else execution}

    def uuid(self) -> bytes:
        """A random UUID, version 4."""
        bits = self.rng.getrandbits(128) & ~(0xF000 << 64 | 0xC000 << 48) | 0x4000 << 64 | 0x8000 << 48
        return bits.to_bytes(16, "big")

    def buffer(self, name: str) -> p.Buffer:
        """Mostly JSON; sometimes one of a stock of others."""
        if self.rng.random() < 0.75:
            return p.Buffer(".json/", self._json(name))
        buffer: p.Buffer = self.stage.pick(self.stock)
        return buffer

    def _json(self, name: str) -> bytes:
        number = self.rng.getrandbits(40)
        lines = ",".join(
            f'{{"article":"A-{number >> i & 0xFFFF:05d}","quantity":{1 + (number >> i & 7)},'
            f'"price":{(number >> i & 0xFFFFF) / 100}}}'
            for i in range(0, 8 * (number & 3), 4)
        )
        customer = f"Müller & Søn {number % 977}"
        return f'{{"id":{number},"service":"{name}","customer":"{customer}","lines":[{lines}]}}'.encode()

    def _stock_buffer(self) -> p.Buffer:
        rng = self.rng
        match int(rng.random() * 4):
            case 0:
                return p.Buffer("X_OCTET/", rng.randbytes(int(rng.expovariate(1 / 250))))
            case 1:
                return p.Buffer("CSTRING/", f"ORDER {rng.getrandbits(30)} är klar".encode() + b"\0")
            case 2:
                return p.Buffer(".binary/", rng.randbytes(16 + int(rng.random() * 200)))
            case _:
                fields = (
                    FieldValue(2 * FIELD_BASE + 1, "long", rng.getrandbits(40)),
                    FieldValue(6 * FIELD_BASE + 2, "string", f"customer {rng.getrandbits(20)}"),
                    FieldValue(5 * FIELD_BASE + 3, "double", rng.getrandbits(20) / 64),
                    FieldValue(1 * FIELD_BASE + 4, "short", int(rng.random() * 100)),
                )
                return p.Buffer("CFIELD/", write_cfield(fields))
