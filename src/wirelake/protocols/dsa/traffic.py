"""dsa: links around a broker. Responders offer the points of devices, panels subscribe them, reporters drop in.

The broker forwards with request ids and ack ids of its own, merges subscriptions of the same point, and replies for its
own tree.
"""

from __future__ import annotations

import hashlib
from base64 import urlsafe_b64encode
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

import msgpack

from ...generate.simulation import Link, Process, Stage
from ...generate.truth import Direction, Exchange, Outcome, Rule, opposite
from ...spec import UNSET
from . import messages as p
from . import traffic_faults
from .conduct import CLOSED, INITIALIZING

OK, NOT_AVAILABLE = map(p.STATUS.code, ("ok", "not_available"))
DENIED, NOT_SUPPORTED, BAD_PARAMETER, BAD_AUTH = map(
    p.STATUS.code, ("permission_denied", "not_supported", "invalid_parameter", "connection_error")
)
PING_AFTER_US = 30_000_000
MAX_SUBSCRIPTIONS = 12
DEVICES = ("boiler 1", "boiler 2", "pump", "meter", "gate")
POINTS = (("temp", "number"), ("pressure", "number"), ("on", "bool"), ("state", "string"), ("flow", "number"))


@dataclass
class Subscription:
    """What the broker subscribed at a responder, and for whom."""

    path: str
    kind: str
    level: float
    subscribers: list[Leg] = field(default_factory=list)


class Leg(NamedTuple):
    """A request on one connection: of the requester to the broker, or of the broker to the responder."""

    wire: Wire
    exchange: Exchange

    @property
    def rid(self) -> int:
        return int(self.exchange.correlation)


Legs = Generator[int, None, list[Leg]]


class Page(NamedTuple):
    headers: dict[str, Any]
    body: bytes


class Wire:
    """One link's connection, with the numbers that both sides count."""

    def __init__(self, stage: Stage, link: Link, name: str) -> None:
        self.stage = stage
        self.link = link
        self.name = name
        self.subscribing = 0
        self.acks: dict[Direction, int] = {"to_server": 0, "to_client": 0}
        self.rids: dict[Direction, int] = {"to_server": 0, "to_client": 0}
        self.acking: dict[Direction, bool] = {"to_server": False, "to_client": False}
        self.subscriptions: dict[str, Subscription] = {}
        self.left: set[int] = set()
        """Streams that the link has closed; what is still under way to it is no reply any more."""

    def next_rid(self, direction: Direction) -> int:
        self.rids[direction] += 1
        return self.rids[direction]

    def make(self, direction: Direction, cls: Any, rid: int, headers: p.Headers, **content: Any) -> Any:
        """A message with the sender's next ack id; the receiver will acknowledge it in a while."""
        self.acks[direction] += 1
        if not self.acking[direction]:
            self.acking[direction] = True
            self.stage.start(self._ack(direction), self.stage.delay(400_000))
        return cls(request_id=rid, ack_id=self.acks[direction], headers=headers, **content)

    def send(self, direction: Direction, cls: Any, rid: int, headers: p.Headers, **content: Any) -> int:
        return self.link.send(direction, self.make(direction, cls, rid, headers, **content))

    def _ack(self, direction: Direction) -> Process:
        self.acking[direction] = False
        if self.link.is_open:
            self.link.send(opposite(direction), p.Ack(acked_id=self.acks[direction]))
        yield from ()

    def ping(self, direction: Direction) -> None:
        self.link.send(direction, p.Ping())


def begin(stage: Stage) -> None:
    play = Play(stage)
    for number in range(stage.connections):
        stage.start(play.session(number), stage.pause(300_000))


class Play:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rng = stage.rng
        self.compat = stage.layout.options["mode"] == "compat"
        self.broker_key = b"\x04" + self.rng.randbytes(64)
        self.responders: list[Wire] = []
        self.requesting = 0
        self.large = [self._large_body(size) for size in (60_000, 110_000)]

    def _large_body(self, size: int) -> bytes:
        rows = [[i, round(self.rng.gauss(20, 3), 3), "ok"] for i in range(size // 14)]
        packed: bytes = msgpack.packb({"columns": [{"name": "n"}, {"name": "value"}, {"name": "state"}], "rows": rows})
        return packed

    # --- connections

    def session(self, number: int) -> Process:
        stage = self.stage
        responder = number % 2 == 1
        name = f"{'plant' if responder else 'panel' if number % 4 == 0 else 'report'}{number + 1}"
        wire = Wire(stage, stage.connect(number), name)
        refused = number > 3 and stage.chance(0.05)
        yield stage.delay(800)
        if stage.breaks():
            traffic_faults.request_too_early(wire)
            yield stage.delay(800)
        yield from self._handshake(wire, responder, refused)
        if refused:
            yield stage.delay(300)
            wire.link.close(by="server")
            return
        sides: tuple[Direction, ...] = ("to_server", "to_client")
        for side in sides:
            stage.start(wire.link.when_quiet(side, PING_AFTER_US, partial(wire.ping, side)), PING_AFTER_US)
        if responder:
            yield from self._respond(wire)
        else:
            yield from self._request(wire, poller=number % 4 == 2)
        yield stage.delay(100_000)
        wire.link.close()

    def _handshake(self, wire: Wire, responder: bool, refused: bool) -> Process:
        stage, rng, link = self.stage, self.rng, wire.link
        key = b"\x04" + rng.randbytes(64)
        client, broker = _dsid(wire.name, key), _dsid("broker", self.broker_key)
        link.send("to_server", p.ClientHello(handshake=p.HandshakeF0((2, 0), client, key, rng.randbytes(32))))
        yield stage.delay(1_500)
        link.send("to_client", p.ServerHello(handshake=p.HandshakeF1(broker, self.broker_key, rng.randbytes(32))))
        yield stage.delay(2_500)
        token = "" if stage.chance(0.7) else f"{rng.getrandbits(60):016x}" + _hash(rng.randbytes(16))
        link.send("to_server", p.ClientProof(handshake=p.HandshakeF2(token, responder, "", rng.randbytes(32))))
        yield stage.delay(2_000)
        path = f"downstream/{wire.name}" if responder else ""
        if refused:
            link.send("to_client", p.ServerProof(request_id=0, ack_id=0, headers=p.Headers(status=BAD_AUTH), body=b""))
        else:
            link.send("to_client", p.ServerProof(handshake=p.HandshakeF3(True, path, rng.randbytes(32))))
        link.session.facts.update(
            client_dsid=client, server_dsid=broker, is_responder=responder, path=path, refused=refused
        )

    def _respond(self, wire: Wire) -> Process:
        """A responder stays as long as there are requesters."""
        self.responders.append(wire)
        while self.stage.more or self.requesting:
            yield 100_000
        self.responders.remove(wire)
        while wire.link.busy:
            yield 50_000

    def _request(self, wire: Wire, poller: bool) -> Process:
        stage = self.stage
        self.requesting += 1
        yield stage.delay(200_000)
        wire.link.start(self._list(wire, None, ""))
        while stage.more:
            yield stage.pause(15_000_000 if poller else 400_000)
            if stage.breaks():
                wire.link.start(stage.break_rule(traffic_faults.FAULTS, self, wire))
                continue
            far: Wire | None = stage.pick(self.responders) if self.responders and stage.chance(0.9) else None
            kind = self.rng.random()
            if kind < 0.5 and not poller:
                if wire.subscribing < MAX_SUBSCRIPTIONS:
                    wire.subscribing += 1
                    wire.link.start(self._subscribe(wire, far))
            elif kind < 0.65:
                wire.link.start(self._list(wire, far, f"main/{stage.pick(DEVICES)}"))
            elif kind < 0.85:
                wire.link.start(self._invoke(wire, far))
            elif kind < 0.98 or self.compat:
                wire.link.start(self._set(wire, far))
            else:
                wire.link.start(self._preflight(wire, far))
        while wire.link.busy:
            yield 50_000
        self.requesting -= 1

    # --- requests, and their way through the broker

    def ask(self, near: Wire, far: Wire | None, cls: Any, path: str, headers: dict[str, Any], **content: Any) -> Leg:
        """The requester's leg. Its path leads through the broker's tree."""
        full = f"downstream/{far.name}/{path}".rstrip("/") if far is not None else path
        rid = near.next_rid("to_server")
        target: dict[str, Any] = {} if self.compat and not full else {"target_path": full}
        message = near.make("to_server", cls, rid, p.Headers(**target, **headers), **content)
        return Leg(near, near.link.ask("to_server", message, full, str(rid)))

    def _forward(
        self,
        asked: Leg,
        far: Wire | None,
        wait_us: int,
        spread: float,
        cls: Any,
        path: str,
        headers: Any,
        **content: Any,
    ) -> Legs:
        """The broker's leg to the responder, if there is one, with a request id of its own; returns all legs."""
        if far is None:
            return [asked]
        rid = far.next_rid("to_client")
        message = far.make("to_client", cls, rid, p.Headers(target_path=path, **headers), **content)
        forwarded = Leg(far, far.link.ask("to_client", message, path, str(rid)))
        asked.exchange.other_leg, forwarded.exchange.other_leg = forwarded.exchange.request, asked.exchange.request
        yield self.stage.delay(wait_us, spread)
        return [forwarded, asked]

    def _pass_on(
        self, legs: list[Leg], cls: Any, headers: dict[str, Any], hop_us: int = 250, **content: Any
    ) -> Process:
        """A reply on each leg, one after the other."""
        for leg in legs:
            if leg is not legs[0]:
                yield self.stage.delay(hop_us, 0.3)
            self.reply(leg, cls, headers, **content)

    def reply(self, leg: Leg, cls: Any, headers: dict[str, Any], breaks: Rule | None = None, **content: Any) -> None:
        wire, asked = leg
        status = headers.get("status", OK)
        outcome: Outcome = "error" if status > CLOSED else "ok"
        back = opposite(asked.direction)
        message = wire.make(back, cls, leg.rid, p.Headers(**headers), **content)
        gone = back == "to_client" and leg.rid in wire.left
        unfinished = status == OK and "page_id" in headers
        if gone or unfinished:
            wire.link.send(back, message, breaks=breaks)
        else:
            wire.link.reply(asked, message, outcome, status, breaks=breaks)

    # --- subscribe

    def _subscribe(self, near: Wire, far: Wire | None) -> Process:
        stage = self.stage
        device = stage.pick(DEVICES)
        point, kind = stage.pick(POINTS)
        path = f"main/{device}/{point}" if far is not None else "sys/clients/count"
        headers: dict[str, Any] = {}
        if stage.chance(0.3):
            headers = {"qos": stage.pick((1, 2, 3)), "queue_size": 4096, "queue_duration": 600}
        if stage.chance(0.05):
            headers["priority"] = True
        asked = self.ask(near, far, p.SubscribeRequest, path, headers)
        yield stage.delay(700)
        if stage.chance(0.02):
            self.reply(asked, p.SubscribeResponse, {"status": NOT_SUPPORTED}, body=b"")
        else:
            yield from self._follow(asked, far, path, kind, headers)
        near.subscribing -= 1

    def _follow(self, asked: Leg, far: Wire | None, path: str, kind: str, headers: dict[str, Any]) -> Process:
        """From the first value until the requester has seen enough."""
        stage, near = self.stage, asked.wire
        owner = far or near
        source = owner.subscriptions.get(path)
        if source is None:
            source = owner.subscriptions[path] = Subscription(path, kind, self.rng.gauss(20, 5))
            source.subscribers.append(asked)
            legs = yield from self._forward(asked, far, 4_000, 0.5, p.SubscribeRequest, path, headers)
            stage.start(self._updates(owner, None if far is None else legs[0], source))
        else:
            self._value(asked, source)
            source.subscribers.append(asked)
        until = stage.now + stage.pause(20_000_000)
        while stage.more and stage.now < until:
            yield 2_000_000
        near.left.add(asked.rid)
        near.send("to_server", p.Close, asked.rid, p.Headers())
        yield stage.delay(400)
        source.subscribers = [leg for leg in source.subscribers if leg.exchange is not asked.exchange]

    def _updates(self, owner: Wire, forwarded: Leg | None, source: Subscription) -> Process:
        """Values of one point, sent on to all who subscribed it, until nobody does."""
        stage = self.stage
        with owner.link.in_use():
            while source.subscribers:
                source.level += self.rng.gauss(0, 0.3)
                yield from self._update(forwarded, source, offline=stage.chance(0.02))
                yield stage.pause(1_500_000)
                while source.subscribers and not stage.more:
                    yield 100_000
            del owner.subscriptions[source.path]
            if forwarded is not None:
                owner.send("to_client", p.Close, forwarded.rid, p.Headers())

    def _update(self, forwarded: Leg | None, source: Subscription, offline: bool) -> Process:
        if forwarded is not None:
            self._value(forwarded, source, offline)
            yield self.stage.delay(250, 0.3)
        for leg in list(source.subscribers):
            if leg.wire.link.is_open:
                self._value(leg, source, offline)

    def _value(self, leg: Leg, source: Subscription, offline: bool = False) -> None:
        if offline:
            self.reply(leg, p.SubscribeResponse, {"status": NOT_AVAILABLE}, body=b"")
            return
        level = source.level
        match source.kind:
            case "number":
                value: Any = round(level, 2)
            case "bool":
                value = level > 20
            case _:
                value = "heiß" if level > 24 else "normal" if level > 15 else "kalt"
        headers = {} if self.compat else {"status": OK}
        self.reply(leg, p.SubscribeResponse, headers, value_meta={"ts": _iso(self.stage.now)}, value=value)

    # --- list

    def _list(self, near: Wire, far: Wire | None, path: str) -> Process:
        stage = self.stage
        once = stage.chance(0.4)
        headers = {"no_stream": True} if once else {}
        asked = self.ask(near, far, p.ListRequest, path, headers)
        yield stage.delay(900)
        if stage.chance(0.01):
            return  # some brokers never reply to a list of what they do not know
        legs = yield from self._forward(asked, far, 3_000, 0.5, p.ListRequest, path, headers)
        parts = list(self._entries(asked.exchange.address))
        for i, entries in enumerate(parts):
            last = i == len(parts) - 1
            head: dict[str, Any] = {"status": INITIALIZING if not last else CLOSED if once else OK}
            if i == 0:
                head["refreshed"] = True
            yield from self._pass_on(legs, p.ListResponse, head, 200, entries=entries)
        if once:
            return
        for _ in range(int(self.rng.random() * 3)):
            yield stage.pause(3_000_000)
            yield from self._pass_on(legs, p.ListResponse, {"status": OK}, 200, entries=self._change())
        yield stage.pause(2_000_000)
        near.send("to_server", p.Close, asked.rid, p.Headers())
        if far is not None:
            yield stage.delay(300)
            far.send("to_client", p.Close, legs[0].rid, p.Headers())

    def _entries(self, path: str) -> Iterator[tuple[p.Entry, ...]]:
        if not path:
            yield tuple(p.Entry(name, {}) for name in ("downstream", "upstream", "home", "sys", "pub"))
            return
        yield (p.Entry("$is", "device"), p.Entry("@vendor", "Åkerström"), p.Entry("@installed", 2019))
        yield tuple(p.Entry(name, {"$type": kind, "$writable": "write"}) for name, kind in POINTS)

    def _change(self) -> tuple[p.Entry, ...]:
        if self.stage.chance(0.3):
            return (p.Entry("spare", UNSET),)
        return (p.Entry("@serviced", _iso(self.stage.now)), p.Entry("alarm", {"$type": "bool"}))

    # --- invoke

    def _invoke(self, near: Wire, far: Wire | None) -> Process:
        stage = self.stage
        large = far is not None and stage.chance(0.03)
        path = "main/export" if large else "main/reset" if far is not None else "sys/tokens/add"
        parameters = {"from": _iso(stage.now), "limit": int(self.rng.random() * 500)}
        headers = {"max_permission": 0x30} if stage.chance(0.2) else {}
        asked = self.ask(near, far, p.InvokeRequest, path, headers, value=parameters)
        yield stage.delay(800)
        legs = yield from self._forward(asked, far, 15_000, 0.8, p.InvokeRequest, path, {}, value=parameters)
        if stage.chance(0.05):
            yield from self._result(legs, {"status": BAD_PARAMETER} | self._detail("limit is too high"), body=b"")
        elif large:
            for page in self.pages(stage.pick(self.large)):
                yield from self._result(legs, page.headers, body=page.body)
                yield stage.delay(1_000)
        else:
            for _ in range(int(self.rng.random() * 3)):
                yield from self._result(legs, {"status": OK}, value={"progress": int(self.rng.random() * 100)})
                yield stage.delay(30_000)
            yield from self._result(legs, {"status": CLOSED}, value={"rows": [[1, "done"]]})

    def _detail(self, text: str) -> dict[str, Any]:
        return {} if self.compat else {"error_detail": text}

    def _result(self, legs: list[Leg], headers: dict[str, Any], **content: Any) -> Process:
        return self._pass_on(legs, p.InvokeResponse, headers, **content)

    def pages(self, body: bytes) -> list[Page]:
        """A body that is too large for one message, cut in pages."""
        parts = [body[at : at + p.MAX_BODY] for at in range(0, len(body), p.MAX_BODY)]
        last = len(parts) - 1
        return [
            Page({"status": CLOSED if i == last else OK, "sequence_id": 1, "page_id": i or -len(parts)}, part)
            for i, part in enumerate(parts)
        ]

    # --- set and preflight

    def _set(self, near: Wire, far: Wire | None) -> Process:
        stage = self.stage
        path = f"main/{stage.pick(DEVICES)}/on" if far is not None else "sys/quarantine/enabled"
        headers: dict[str, Any] = {"attribute_field": "@unit"} if stage.chance(0.2) else {}
        value: Any = "K" if headers else stage.chance(0.5)
        meta = {"ts": _iso(stage.now)}
        asked = self.ask(near, far, p.SetRequest, path, headers, value_meta=meta, value=value)
        yield stage.delay(700)
        fate = self.rng.random()
        if fate < 0.05:
            self.reply(asked, p.SetResponse, {"status": DENIED})
            return
        meta = {"ts": _iso(stage.now)}
        legs = yield from self._forward(
            asked, far, 6_000, 0.5, p.SetRequest, path, headers, value_meta=meta, value=value
        )
        head = {"status": BAD_PARAMETER} | self._detail("unit not known") if fate < 0.1 else {"status": CLOSED}
        yield from self._pass_on(legs, p.SetResponse, head)

    def _preflight(self, near: Wire, far: Wire | None) -> Process:
        headers = {"permission_token": _hash(self.rng.randbytes(8))}
        asked = self.ask(near, far, p.PreflightRequest, f"main/{self.stage.pick(DEVICES)}", headers)
        yield self.stage.delay(900)
        self.reply(asked, p.PreflightResponse, {"status": CLOSED if self.stage.chance(0.8) else DENIED})


def _hash(data: bytes) -> str:
    return urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")


def _dsid(name: str, key: bytes) -> str:
    return f"{name}-{_hash(key)}"


def _iso(now_us: int) -> str:
    return datetime.fromtimestamp(now_us / 1e6, UTC).isoformat(timespec="milliseconds")
