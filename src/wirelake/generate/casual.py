"""casual: domains that discover, call, queue, converse and commit.

Front domains call two back-end domains; every front speaks to both, so that its transactions have two branches. One back end calls
the other while it serves a call. Some domains are Java ones: other version offers, other transaction ids, padded calls.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from random import Random
from typing import Any, NamedTuple

from ..codec.content import FIELD_BASE, FieldValue, write_cfield
from ..protocols import casual as p
from .simulation import Gone, Link, Process, Stage
from .truth import XA_OK, XA_RDONLY, Branch, Exchange, Outcome, Transaction

PORT = 7771
TPNOREPLY, TPNOTRAN, TPSENDONLY, TPRECVONLY = 0x0004, 0x0008, 0x0800, 0x1000
TPEV_DISCONIMM, TPEV_SVCFAIL, TPEV_SVCSUCC, TPEV_SENDONLY = 0x01, 0x04, 0x08, 0x20
TPENOENT, TPESVCERR, TPESVCFAIL, TPETIME, TPETRAN = 6, 10, 11, 13, 14
TMONEPHASE = 0x40000000
XA_RBROLLBACK, XA_RBDEADLOCK, XA_RBTIMEOUT = 100, 102, 106
CASUAL_XID, NARAYANA_XID = 42, 131077
SEND, RECEIVE, TERMINATED = 0, 1, 2
LIMITS_US = (0, 2_000_000, 5_000_000, 30_000_000)
RESOURCE_LIMIT_US = 30_000_000
MAX_BUSY = 40
MAX_QUEUED = 100

Answered = Generator[int, None, bool]


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


class Buffer(NamedTuple):
    type: str
    payload: bytes


def uuid4(rng: Random) -> bytes:
    bits = rng.getrandbits(128) & ~(0xF000 << 64 | 0xC000 << 48) | 0x4000 << 64 | 0x8000 << 48
    return bits.to_bytes(16, "big")


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
    play = _Play(stage)
    for number, peer in enumerate(play.peers):
        stage.start(play.session(number, peer), stage.pause(20_000))


class _Play:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rng = stage.rng
        self.late = stage.layout.options["profile"] == "late"
        self.unit = 1000 if self.late else 1
        """Times on the wire per microsecond."""
        backs = [self._back_end("orders", 0, ORDERS), self._back_end("payments", 1, PAYMENTS)]
        self.peers = [self._peer(number, backs) for number in range(stage.connections)]
        self.stock = [self._stock_buffer() for _ in range(64)]

    def _back_end(self, name: str, host: int, services: tuple[Offered, ...]) -> Domain:
        queues: dict[str, deque[p.Dequeued]] = {queue: deque() for queue in QUEUES}
        return Domain(uuid4(self.rng), name, False, host, services, queues)

    def _peer(self, number: int, backs: list[Domain]) -> Peer:
        if number == 3:
            return Peer(backs[0], backs[1], -1)
        if number % 2 == 0 or number < 3:
            java = number % 4 == 2
            client = Domain(uuid4(self.rng), f"{'shop' if java else 'front'}-{number // 2 + 1:02d}", java, 2 + number // 2)
            if number == 1:
                client = self._first
            elif number == 0:
                self._first = client
            self._last = client
        return Peer(self._last, backs[number % 2], -1 - number % 2)

    # --- connections

    def session(self, number: int, peer: Peer) -> Process:
        stage = self.stage
        link = peer.link = stage.connect(peer.client.host, peer.server.host, port=PORT + peer.server.host)
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
            yield stage.pause(4_000)
        peer.ready = False
        if number > 3 and stage.chance(0.3):
            link.close(by=stage.pick(("client", "server")), how="reset")
            return
        while link.busy:
            yield 10_000
        yield stage.delay(5_000)
        link.close()

    def _connect(self, link: Link, peer: Peer, refused: bool) -> Process:
        correlation, execution = uuid4(self.rng), uuid4(self.rng)
        versions = (1002, 1001, 1000) if peer.client.java else (1000,)
        offer = p.DomainConnectRequest(
            correlation=correlation,
            execution=execution,
            domain=p.Domain(peer.client.id, peer.client.name),
            protocol=p.Offer((2000,) if refused else versions),
        )
        exchange = link.ask("to_server", offer, "", correlation.hex(), limit_us=10_000_000)
        yield self.stage.delay(900)
        chosen = 0 if refused else 1000
        reply = p.DomainConnectReply(
            correlation=correlation,
            execution=execution,
            domain=p.Domain(peer.server.id, peer.server.name),
            protocol=p.Chosen(chosen),
        )
        link.answer(exchange, reply, "error" if refused else "ok", chosen)
        link.session.facts.update(
            client_domain=peer.client.name,
            client_id=peer.client.id.hex(),
            server_domain=peer.server.name,
            server_id=peer.server.id.hex(),
            version=chosen,
        )

    def _discover(self, link: Link, peer: Peer) -> Process:
        correlation, execution = uuid4(self.rng), uuid4(self.rng)
        offered = [service for service in peer.server.services if self.stage.chance(0.9)]
        names = tuple(service.name for service in offered) + (("legacy.report",) if self.stage.chance(0.3) else ())
        queues = QUEUES if self.stage.chance(0.7) else ()
        request = p.DomainDiscoverRequest(
            correlation=correlation,
            execution=execution,
            domain=p.Domain(peer.client.id, peer.client.name),
            services=names,
            queues=queues,
        )
        exchange = link.ask("to_server", request, "", correlation.hex(), limit_us=10_000_000)
        yield self.stage.delay(1_200)
        reply = p.DomainDiscoverReply(
            correlation=correlation,
            execution=execution,
            domain=p.Domain(peer.server.id, peer.server.name),
            services=tuple(
                p.OfferedService(one.name, one.category, one.mode, 30_000_000 * self.unit, 0) for one in offered
            ),
            queues=tuple(p.OfferedQueue(name, 3) for name in queues),
        )
        link.answer(exchange, reply)

    def _activity(self, link: Link, peer: Peer) -> Process:
        kind = self.rng.random()
        if kind < 0.62:
            yield from self.call(link, peer, uuid4(self.rng))
        elif kind < 0.74:
            yield from self.transaction(peer)
        elif kind < 0.83:
            yield from self.enqueue(link, peer, uuid4(self.rng))
        elif kind < 0.92:
            yield from self.dequeue(link, peer, uuid4(self.rng))
        elif kind < 0.97:
            yield from self.converse_late(link, peer) if self.late else self.converse(link, peer)
        elif kind < 0.98:
            yield from self._discover(link, peer)
        else:
            self._call_without_reply(link, peer)

    # --- calls

    def call(
        self, link: Link, peer: Peer, execution: bytes, *, parent: str = "", xid: p.Xid = p.NULL_XID
    ) -> Answered:
        """One call and its reply; tells whether it went well."""
        stage, rng = self.stage, self.rng
        service: Offered = stage.pick(peer.server.services)
        fate = rng.random()
        name = "legacy.report" if fate < 0.01 else service.name
        limit = stage.pick(LIMITS_US)
        correlation = uuid4(rng)
        request = p.ServiceCallRequest(
            correlation=correlation,
            execution=execution,
            service=p.Service(name, limit * self.unit),
            parent=p.Parent(parent),
            xid=xid,
            flags=0 if xid.format != -1 else TPNOTRAN,
            buffer=p.Buffer(*self._buffer(name)),
        )
        exchange = link.ask("to_server", request, name, correlation.hex(), limit_us=limit, padded=peer.client.java)
        if 0.01 <= fate < 0.018:
            yield from self._no_answer(link, exchange)
            return False
        latency = stage.delay(service.median_us, 0.6)
        if 0.018 <= fate < 0.022 and limit:
            latency += limit
        elif not parent:
            yield from self._serve_by_calling(peer, execution, name)
        yield latency
        status, outcome = self._status(fate)
        if limit and self.stage.now - exchange.request_us >= limit:
            exchange.outcome = "timeout"
        ok = status == 0
        reply = p.ServiceCallReply(
            correlation=correlation,
            execution=execution,
            call=p.Call(status, int(rng.random() * 4) if ok else 4001 if status == TPESVCFAIL else 0),
            xid=xid,
            transaction=p.TransactionState(0 if ok or xid.format == -1 else 2),
            buffer=p.Buffer(*self._buffer(name)) if status in (0, TPESVCFAIL) else p.Buffer("", b""),
        )
        link.answer(exchange, reply, outcome, status)
        return ok

    def _status(self, fate: float) -> tuple[int, Outcome]:
        if fate < 0.01:
            return TPENOENT, "error"
        if fate > 0.97:
            return TPESVCFAIL, "error"
        if fate > 0.962:
            return TPESVCERR, "error"
        return 0, "ok"

    def _no_answer(self, link: Link, exchange: Exchange) -> Process:
        """The limit passes and nothing comes. Without a limit, the caller waits until the connection ends."""
        if exchange.limit_us:
            yield exchange.limit_us
            if link.is_open:
                exchange.outcome = "timeout"

    def _serve_by_calling(self, peer: Peer, execution: bytes, name: str) -> Process:
        """The called domain calls another one first, in the same execution."""
        onward = [other for other in self.peers if other.client is peer.server and other.ready]
        if onward and self.stage.chance(0.15):
            link = onward[0].link
            assert link is not None
            link.busy += 1
            try:
                yield self.stage.delay(300)
                yield from self.call(link, onward[0], execution, parent=name)
            finally:
                link.busy -= 1

    def _call_without_reply(self, link: Link, peer: Peer) -> None:
        service: Offered = self.stage.pick(peer.server.services)
        correlation = uuid4(self.rng)
        request = p.ServiceCallRequest(
            correlation=correlation,
            execution=uuid4(self.rng),
            service=p.Service(service.name, 0),
            parent=p.Parent(""),
            xid=p.NULL_XID,
            flags=TPNOREPLY | TPNOTRAN,
            buffer=p.Buffer("NULL", b""),
        )
        exchange = link.ask("to_server", request, service.name, correlation.hex(), padded=peer.client.java)
        exchange.status = "no reply wanted"

    # --- transactions

    def transaction(self, first: Peer) -> Process:
        """Work in one or two branches, then the end that the votes, or the application, decide."""
        stage = self.stage
        others = [peer for peer in self.peers if peer.client is first.client and peer is not first and peer.ready]
        peers = [first, *(others[:1] if stage.chance(0.6) else [])]
        form, gtrid = self._gtrid(first.client)
        found = Transaction(form, gtrid, stage.now)
        if stage.simulation.truth is not None:
            stage.simulation.truth.transactions.append(found)
        yield from _Coordinator(self, peers, found).run()
        found.ended_us = stage.now if found.outcome not in ("in_doubt", "open") else None

    def _gtrid(self, domain: Domain) -> tuple[int, bytes]:
        return (NARAYANA_XID, self.rng.randbytes(28)) if domain.java else (CASUAL_XID, uuid4(self.rng))

    # --- queues

    def enqueue(
        self, link: Link, peer: Peer, execution: bytes, *, xid: p.Xid = p.NULL_XID, added: list[Any] | None = None
    ) -> Answered:
        stage, rng = self.stage, self.rng
        missing = stage.chance(0.02)
        queue = "no.such.queue" if missing else stage.pick(QUEUES)
        correlation = uuid4(rng)
        buffer = self._buffer(queue)
        properties, reply = stage.pick(("", "region=eu", "region=us")), stage.pick(("", "mail.out"))
        asked = p.Enqueued(p.NIL, properties, reply, 0, buffer.type, buffer.payload)
        request = p.QueueEnqueueRequest(
            correlation=correlation, execution=execution, name=queue, xid=xid, message=asked
        )
        exchange = link.ask("to_server", request, queue, correlation.hex(), limit_us=RESOURCE_LIMIT_US)
        yield stage.delay(1_800)
        made = p.NIL if missing else uuid4(rng)
        answer = p.QueueEnqueueReply(correlation=correlation, execution=execution, id=made)
        link.answer(exchange, answer, "error" if missing else "ok", made.hex())
        if missing:
            return False
        stored = p.Dequeued(
            made, properties, reply, 0, buffer.type, buffer.payload, 0, stage.now * self.unit
        )
        if added is not None:
            added.append((peer.server.queues[queue], stored))
        else:
            _store(peer.server.queues[queue], stored)
        return True

    def dequeue(
        self, link: Link, peer: Peer, execution: bytes, *, xid: p.Xid = p.NULL_XID, taken: list[Any] | None = None
    ) -> Answered:
        stage = self.stage
        name = stage.pick(QUEUES)
        queue = peer.server.queues[name]
        correlation = uuid4(self.rng)
        block = taken is None and stage.chance(0.1)
        request = p.QueueDequeueRequest(
            correlation=correlation,
            execution=execution,
            name=name,
            xid=xid,
            selector=p.Selector("", p.NIL),
            block=block,
        )
        exchange = link.ask("to_server", request, name, correlation.hex(), limit_us=0 if block else RESOURCE_LIMIT_US)
        yield stage.delay(1_500)
        while block and not queue and peer.ready:
            yield 5_000
        found = (queue.popleft(),) if queue else ()
        link.answer(
            exchange, p.QueueDequeueReply(correlation=correlation, execution=execution, message=found), "ok", len(found)
        )
        if taken is not None:
            taken.extend((queue, message) for message in found)
        return True

    # --- conversations

    def converse(self, link: Link, peer: Peer) -> Process:
        stage, rng = self.stage, self.rng
        service: Offered = stage.pick(peer.server.services)
        correlation, execution = uuid4(rng), uuid4(rng)
        ours, theirs = rng.getrandbits(63), rng.getrandbits(63)
        sends = stage.chance(0.5)
        request = p.ConversationConnectRequest(
            correlation=correlation,
            execution=execution,
            service=p.Service(service.name, 30_000_000),
            parent=p.Parent(""),
            xid=p.NULL_XID,
            flags=TPNOTRAN | (TPSENDONLY if sends else TPRECVONLY),
            recording=p.Nodes((ours,)),
            buffer=p.Buffer(*self._buffer(service.name)),
        )
        exchange = link.ask("to_server", request, service.name, correlation.hex(), limit_us=30_000_000)
        yield stage.delay(service.median_us)
        refused = stage.chance(0.05)
        reply = p.ConversationConnectReply(
            correlation=correlation,
            execution=execution,
            route=p.Nodes((ours,)),
            recording=p.Nodes(() if refused else (theirs,)),
            status=TPENOENT if refused else 0,
        )
        link.answer(exchange, reply, "error" if refused else "ok", reply.status)
        if refused:
            return

        def send(to_server: bool, events: int = 0, status: int = 0) -> None:
            message = p.ConversationSend(
                correlation=correlation,
                execution=execution,
                route=p.Nodes((theirs if to_server else ours,)),
                events=events,
                status=status,
                buffer=p.Buffer(*self._buffer(service.name)),
            )
            link.send("to_server" if to_server else "to_client", message)

        for turn in range(1 + int(rng.random() * 4)):
            for _ in range(int(rng.random() * 3)):
                yield stage.delay(2_000)
                send(sends)
            if turn and stage.chance(0.1):
                yield stage.delay(3_000)
                link.send(
                    "to_server",
                    p.ConversationDisconnect(
                        correlation=correlation,
                        execution=execution,
                        route=p.Nodes((theirs,)),
                        events=TPEV_DISCONIMM,
                    ),
                )
                return
            yield stage.delay(2_000)
            if sends or turn < 2:
                send(sends, TPEV_SENDONLY)
                sends = not sends
        if sends:
            yield stage.delay(2_000)
            send(True, TPEV_SENDONLY)
        yield stage.delay(4_000)
        failed = stage.chance(0.1)
        send(False, TPEV_SVCFAIL if failed else TPEV_SVCSUCC, TPESVCFAIL if failed else 0)

    def converse_late(self, link: Link, peer: Peer) -> Process:
        stage, rng = self.stage, self.rng
        service: Offered = stage.pick(peer.server.services)
        correlation, execution = uuid4(rng), uuid4(rng)
        sends = stage.chance(0.5)
        request = p.ConversationConnectRequestLate(
            correlation=correlation,
            execution=execution,
            service=p.LateService(service.name, 30_000_000 * self.unit),
            parent=p.Parent(""),
            xid=p.NULL_XID,
            duplex=RECEIVE if sends else SEND,
            buffer=p.Buffer(*self._buffer(service.name)),
        )
        exchange = link.ask(
            "to_server",
            request,
            service.name,
            correlation.hex(),
            limit_us=30_000_000,
            padded=peer.client.java,
        )
        yield stage.delay(service.median_us)
        refused = stage.chance(0.05)
        reply = p.ConversationConnectReplyLate(
            correlation=correlation, execution=execution, code=p.Outcome(TPENOENT if refused else 0)
        )
        link.answer(exchange, reply, "error" if refused else "ok", reply.code.result)
        if refused:
            return

        def send(to_server: bool, duplex: int, result: int = -1, user: int = 0) -> None:
            message = p.ConversationSendLate(
                correlation=correlation,
                execution=execution,
                duplex=duplex,
                code=p.OutcomeAndCode(result, user),
                buffer=p.Buffer(*self._buffer(service.name)),
            )
            link.send("to_server" if to_server else "to_client", message)

        for turn in range(1 + int(rng.random() * 4)):
            for _ in range(int(rng.random() * 3)):
                yield stage.delay(2_000)
                send(sends, RECEIVE)
            if turn and stage.chance(0.1):
                yield stage.delay(3_000)
                gone = p.ConversationDisconnectLate(correlation=correlation, execution=execution)
                link.send("to_server", gone, padded=peer.client.java)
                return
            yield stage.delay(2_000)
            send(sends, SEND)
            sends = not sends
        if sends:
            yield stage.delay(2_000)
            send(True, SEND)
        yield stage.delay(4_000)
        failed = stage.chance(0.1)
        send(False, TERMINATED, TPESVCFAIL if failed else 0, 7 if failed else 0)

    # --- buffers

    def _buffer(self, name: str) -> Buffer:
        if self.rng.random() < 0.75:
            return Buffer(".json/", self._json(name))
        made: Buffer = self.stage.pick(self.stock)
        return made

    def _json(self, name: str) -> bytes:
        number = self.rng.getrandbits(40)
        lines = ",".join(
            f'{{"article":"A-{number >> i & 0xFFFF:05d}","quantity":{1 + (number >> i & 7)},"price":{(number >> i & 0xFFFFF) / 100}}}'
            for i in range(0, 8 * (number & 3), 4)
        )
        return f'{{"id":{number},"service":"{name}","customer":"Müller & Søn {number % 977}","lines":[{lines}]}}'.encode()

    def _stock_buffer(self) -> Buffer:
        rng = self.rng
        match int(rng.random() * 4):
            case 0:
                return Buffer("X_OCTET/", rng.randbytes(int(rng.expovariate(1 / 250))))
            case 1:
                return Buffer("CSTRING/", f"ORDER {rng.getrandbits(30)} är klar".encode() + b"\0")
            case 2:
                return Buffer(".binary/", rng.randbytes(16 + int(rng.random() * 200)))
            case _:
                fields = (
                    FieldValue(2 * FIELD_BASE + 1, "long", rng.getrandbits(40)),
                    FieldValue(6 * FIELD_BASE + 2, "string", f"customer {rng.getrandbits(20)}"),
                    FieldValue(5 * FIELD_BASE + 3, "double", rng.getrandbits(20) / 64),
                    FieldValue(1 * FIELD_BASE + 4, "short", int(rng.random() * 100)),
                )
                return Buffer("CFIELD/", write_cfield(fields))


def _store(queue: deque[p.Dequeued], message: p.Dequeued) -> None:
    """Queues are bounded so that memory is; what falls out was dequeued by someone whom the capture does not show."""
    if len(queue) >= MAX_QUEUED:
        queue.popleft()
    queue.append(message)


class _Coordinator:
    """One transaction: the calling domain's side of two-phase commit."""

    def __init__(self, play: _Play, peers: list[Peer], found: Transaction) -> None:
        self.play = play
        self.stage = play.stage
        self.found = found
        self.execution = uuid4(play.rng)
        self.added: list[tuple[deque[p.Dequeued], p.Dequeued]] = []
        self.taken: list[tuple[deque[p.Dequeued], p.Dequeued]] = []
        self.parts: list[tuple[Peer, Link, Branch, p.Xid]] = []
        for peer in peers:
            link = peer.link
            assert link is not None
            bqual = play.rng.randbytes(12) if peer.client.java else uuid4(play.rng)
            branch = Branch(link.connection.number, bqual)
            found.branches.append(branch)
            self.parts.append((peer, link, branch, p.Xid(found.format, found.gtrid, bqual)))

    def run(self) -> Process:
        for _, link, _, _ in self.parts:
            link.busy += 1
        try:
            ok = yield from self._work()
            yield self.stage.delay(1_000)
            if not ok or self.stage.chance(0.05):
                yield from self._finish("rollback", self.parts)
            elif len(self.parts) == 1 and self.stage.chance(0.6):
                yield from self._one_phase()
            else:
                yield from self._two_phases()
        except Gone:
            self._undo()
        finally:
            for _, link, _, _ in self.parts:
                link.busy -= 1

    def _work(self) -> Answered:
        play = self.play
        for peer, link, branch, xid in self.parts:
            for _ in range(1 + int(play.rng.random() * 2)):
                branch.calls += 1
                kind = play.rng.random()
                if kind < 0.6:
                    ok = yield from play.call(link, peer, self.execution, xid=xid)
                elif kind < 0.85:
                    ok = yield from play.enqueue(link, peer, self.execution, xid=xid, added=self.added)
                else:
                    ok = yield from play.dequeue(link, peer, self.execution, xid=xid, taken=self.taken)
                if not ok:
                    return False
        return True

    def _one_phase(self) -> Process:
        branch = self.parts[0][2]
        branch.one_phase, branch.decision = True, "commit"
        fate = self.play.rng.random()
        code = XA_RDONLY if fate < 0.1 else XA_RBROLLBACK if fate > 0.97 else XA_OK
        results = yield from self._ask_all(p.ResourceCommitRequest, p.ResourceCommitReply, self.parts, [code], TMONEPHASE)
        branch.result = results[0]
        self._settle(committed=code in (XA_OK, XA_RDONLY))

    def _two_phases(self) -> Process:
        codes = [self._vote() for _ in self.parts]
        for _, _, branch, _ in self.parts:
            branch.prepare_sent = True
        votes = yield from self._ask_all(p.ResourcePrepareRequest, p.ResourcePrepareReply, self.parts, codes)
        for (_, _, branch, _), vote in zip(self.parts, votes, strict=True):
            branch.vote = vote
        if all(vote in (XA_OK, XA_RDONLY) for vote in votes):
            prepared = [part for part in self.parts if part[2].vote == XA_OK]
            if prepared and self.stage.chance(0.02):
                return  # the coordinator is gone: what is prepared stays in doubt
            yield self.stage.delay(400)
            yield from self._finish("commit", prepared)
        else:
            yield from self._finish("rollback", [part for part in self.parts if part[2].vote in (XA_OK, None)])

    def _vote(self) -> int | None:
        fate = self.play.rng.random()
        if fate < 0.82:
            return XA_OK
        if fate < 0.95:
            return XA_RDONLY
        return None if fate > 0.99 else self.stage.pick((XA_RBROLLBACK, XA_RBDEADLOCK, XA_RBTIMEOUT))

    def _finish(self, decision: str, parts: list[tuple[Peer, Link, Branch, p.Xid]]) -> Process:
        commit = decision == "commit"
        for _, _, branch, _ in parts:
            branch.decision = "commit" if commit else "rollback"
        codes = [None if self.stage.chance(0.005) else XA_OK for _ in parts]
        request = p.ResourceCommitRequest if commit else p.ResourceRollbackRequest
        reply = p.ResourceCommitReply if commit else p.ResourceRollbackReply
        results = yield from self._ask_all(request, reply, parts, codes)
        for (_, _, branch, _), result in zip(parts, results, strict=True):
            branch.result = result
        self._settle(committed=commit)

    def _ask_all(
        self, request: Any, reply: Any, parts: list[tuple[Peer, Link, Branch, p.Xid]], codes: Any, flags: int = 0
    ) -> Generator[int, None, list[int | None]]:
        """The same request on every branch at once; answers as they come. A code of None is never answered."""
        asked = []
        for (peer, link, _, xid), code in zip(parts, codes, strict=True):
            correlation = uuid4(self.play.rng)
            message = request(
                correlation=correlation,
                execution=self.execution,
                xid=xid,
                resource=p.Resource(peer.resource),
                flags=flags,
            )
            exchange = link.ask("to_server", message, "", correlation.hex(), limit_us=RESOURCE_LIMIT_US)
            wait = RESOURCE_LIMIT_US if code is None else self.stage.delay(2_200)
            asked.append((wait, len(asked), peer, link, xid, exchange, correlation, code))
        passed = 0
        for wait, _, peer, link, xid, exchange, correlation, code in sorted(asked, key=lambda one: one[:2]):
            yield wait - passed
            passed = wait
            if code is None:
                exchange.outcome = "timeout" if link.is_open else "unanswered"
                continue
            message = reply(
                correlation=correlation,
                execution=self.execution,
                xid=xid,
                resource=p.ResourceResult(peer.resource, code),
            )
            link.answer(exchange, message, "ok" if code in (XA_OK, XA_RDONLY) else "error", code)
        return list(codes)

    def _settle(self, committed: bool) -> None:
        if not committed:
            self._undo()
            return
        for queue, message in self.added:
            _store(queue, message)

    def _undo(self) -> None:
        """What was taken from queues goes back to their front, with one more redelivery."""
        for queue, message in self.taken:
            queue.appendleft(
                p.Dequeued(
                    message.id,
                    message.properties,
                    message.reply,
                    0,
                    message.type,
                    message.payload,
                    message.redelivered + 1,
                    message.timestamp,
                )
            )
