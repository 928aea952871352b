"""mb: services around a broker. Everyone registers, subscribes, publishes and asks; the broker forwards with own ids.

An exchange has two legs, requester to broker and broker to service, whose ids differ; within a leg the id pairs request
and response.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from functools import partial
from typing import Any

from ...generate.simulation import Link, Process, Stage
from ...generate.truth import Exchange, Outcome
from . import messages as p
from . import traffic_faults
from .conduct import DEFAULT_LIMIT_US, HEARTBEAT, INITIALIZE, REGISTER

HEARTBEAT_US = 30_000_000
EVENTS = ("market.tick", "orders.created", "sensor.reading.room1", "audit.log")
QUESTIONS = ("math.add", "orders.create", "users.get")
SYSTEM = ("system.service.list", "system.topic.list", "system.metrics", "system.service.subscriptions")
SUBSCRIBE = "system.topic.subscribe"
BAD_REQUESTS: tuple[tuple[Any, ...], ...] = (
    ("system.nonsense", {}, "TOPIC_NOT_SUPPORTED", "unknown system topic"),
    (SUBSCRIBE, {"action": "both", "topic": "orders.created"}, "INVALID_REQUEST", "no such action", {"action": "both"}),
)
"""Topic, arguments, and how the broker refuses them: code, text, details."""
SUCCESS = b'{"status":"success"}'
_MEDIAN_US = {"math.add": 700, "orders.create": 12_000, "users.get": 3_000}


def begin(stage: Stage) -> None:
    play = Play(stage)
    for number in range(stage.connections):
        stage.start(play.session(number), stage.pause(100_000))


class Play:
    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.rng = stage.rng
        self.upstream = stage.layout.options["profile"] == "upstream"
        self.listeners: dict[str, list[Link]] = {topic: [] for topic in EVENTS}
        self.handlers: dict[str, list[Link]] = {topic: [] for topic in QUESTIONS}
        self.names: dict[int, str] = {}
        self.talking = 0

    # --- connections

    def session(self, number: int) -> Process:
        stage = self.stage
        link = stage.connect(number)
        quiet = number % 4 == 3
        yield stage.delay(700)
        link.send("to_client", p.Publish(topic=INITIALIZE, version="1.0.0", payload=b"{}"))
        yield stage.delay(900)
        yield from self._introduce(link, number)
        stage.start(link.when_quiet("to_server", HEARTBEAT_US, partial(self._heartbeat, link)), HEARTBEAT_US)
        self.talking += 1
        while stage.more:
            yield stage.pause(4_000_000 if quiet else 500_000)
            if not quiet:
                link.start(self._activity(link))
        self.talking -= 1
        while self.talking or link.busy:
            yield 100_000
        yield stage.delay(50_000)
        for links in (*self.listeners.values(), *self.handlers.values()):
            if link in links:
                links.remove(link)
        link.close()

    def _introduce(self, link: Link, number: int) -> Process:
        """Registers and subscribes, all at once; the broker replies one after the other."""
        stage = self.stage
        name = f"service{number + 1}"
        self.names[link.connection.number] = self.uuid()
        asked = [self.ask_system(link, REGISTER, {"name": name, "description": f"Dienst {number + 1} ✓"})]
        events = [EVENTS[number % len(EVENTS)], EVENTS[(number + 1) % len(EVENTS)]]
        questions = [QUESTIONS[number % 3], QUESTIONS[(number + 1) % 3]] if number % 2 == 0 else []
        wanted: list[dict[str, Any]] = [{"action": "publish", "topic": topic} for topic in events]
        wanted += [{"action": "request", "topic": topic, "priority": 1} for topic in questions]
        asked += [self.ask_system(link, SUBSCRIBE, arguments) for arguments in wanted]
        for exchange in asked:
            yield stage.delay(250)
            self.reply(link, exchange)
        for topic in events:
            self.listeners[topic].append(link)
        for topic in questions:
            self.handlers[topic].append(link)
        link.session.facts.update(name=name, publish_topics=tuple(events), request_topics=tuple(questions))

    def _heartbeat(self, link: Link) -> Process:
        """The broker asks a service that has been silent; the service replies."""
        link.send("to_client", p.Request(topic=HEARTBEAT, version="1.0.0", payload=b"{}"))
        yield self.stage.delay(1_000)
        link.send("to_server", p.Response(topic=HEARTBEAT, version="1.0.0", payload=b"{}"))

    def _activity(self, link: Link) -> Process:
        if self.stage.breaks():
            yield from self.stage.break_rule(traffic_faults.FAULTS, self, link)
            return
        kind = self.rng.random()
        if kind < 0.5:
            yield from self._publish(link)
        elif kind < 0.95:
            yield from self._request(link)
        else:
            yield from self._system_request(link)

    # --- publish

    def _publish(self, link: Link) -> Process:
        stage = self.stage
        topic = "nobody.listens" if stage.chance(0.02) else stage.pick(EVENTS)
        version = self._version()
        payload = self._event(topic)
        rid = self.uuid() if stage.chance(0.3) else None
        message = p.Publish(topic=topic, version=version, request_id=rid, payload=payload)
        asked = link.ask("to_server", message, topic, rid) if rid is not None else None
        if asked is None:
            link.send("to_server", message)
        yield stage.delay(300)
        listeners = [other for other in self.listeners.get(topic, ()) if other.is_open]
        if not listeners:
            if asked is not None:
                self._refuse(link, asked, "NO_ROUTE_FOUND", "nobody listens", version=version)
            else:
                link.send("to_client", self.error(topic, version, self.uuid(), "NO_ROUTE_FOUND", "nobody listens"))
            return
        forward = self.uuid()
        for other in listeners:
            other.send("to_client", p.Publish(topic=topic, version=version, request_id=forward, payload=payload))
        if asked is not None:
            self.reply(link, asked, version=version)

    def _event(self, topic: str) -> bytes:
        number = self.rng.getrandbits(32)
        if number % 50 == 0:
            return b""
        return (
            f'{{"source":"{topic}","sequence":{number},"value":{number % 100_000 / 100},'
            f'"note":"größer als {number % 10}"}}'
        ).encode()

    # --- request and response

    def _request(self, near: Link) -> Process:
        stage, rng = self.stage, self.rng
        topic = stage.pick(QUESTIONS)
        version = self._version()
        rid = self.uuid() if stage.chance(0.95) else None
        timeout = int(rng.random() * 5000) + 1000 if stage.chance(0.4) else None
        limit = timeout * 1000 if timeout else DEFAULT_LIMIT_US
        payload = f'{{"x":{rng.getrandbits(16)},"y":{rng.getrandbits(16)},"user":"u{rng.getrandbits(10)}"}}'.encode()
        message = p.Request(
            topic=topic,
            version=version,
            request_id=rid,
            parent_request_id=self.uuid() if stage.chance(0.1) else None,
            timeout=timeout,
            payload=payload,
        )
        asked = near.ask("to_server", message, topic, rid or "", limit_us=limit if rid else 0)
        asked.outcome = "unanswered" if rid else "no_reply_wanted"
        yield stage.delay(350)
        handlers = [link for link in self.handlers[topic] if link.is_open]
        if not handlers:
            self._refuse(near, asked, "NO_ROUTE_FOUND", "nobody answers this", version=version)
            return
        far: Link = stage.pick(handlers)
        with far.in_use():
            yield from self._serve(near, asked, far, version, payload)

    def _serve(self, near: Link, asked: Exchange, far: Link, version: str, payload: bytes) -> Process:
        """The broker's leg to the service that it picked, and the way back."""
        stage, topic, own = self.stage, asked.address, self.uuid()
        message = p.Request(topic=topic, version=version, request_id=own, payload=payload)
        # The broker does not say how long the requester waits.
        forwarded = far.ask("to_client", message, topic, own, limit_us=DEFAULT_LIMIT_US)
        asked.other_leg, forwarded.other_leg = forwarded.request, asked.request
        if asked.correlation and stage.chance(0.02):
            yield from self._time_out(near, asked, far, forwarded, version)
            return
        yield stage.delay(_MEDIAN_US[topic], 0.7)
        result, status = self._result(topic)
        outcome: Outcome = "ok" if status is None else "error"
        self.reply(far, forwarded, result, version, outcome, status)
        yield stage.delay(250)
        if asked.correlation:
            self.reply(near, asked, result, version, outcome, status)

    def _result(self, topic: str) -> tuple[bytes, str | None]:
        """What the service replies, and the code of its error."""
        fate = self.rng.random()
        if fate < 0.02:
            return b"error:" + _dump(self._problem("OUT_OF_STOCK", "not available")), "OUT_OF_STOCK"
        if fate < 0.05:
            return _dump({"error": self._problem("NOT_FOUND", "no such thing")}), "NOT_FOUND"
        return f'{{"result":{self.rng.getrandbits(24)},"from":"{topic}"}}'.encode(), None

    def _time_out(self, near: Link, asked: Exchange, far: Link, forwarded: Exchange, version: str) -> Process:
        """Nothing comes in time: the broker tells the requester. It refuses what the service replies later."""
        yield max(1, asked.limit_us - (self.stage.now - asked.request_us))
        target = {"targetServiceId": self.names[far.connection.number]}
        self._refuse(near, asked, "TIMEOUT", "no response in time", target, version=version, outcome="timeout")
        if self.stage.chance(0.5):
            yield self.stage.delay(800_000)
            self.reply(far, forwarded, b'{"late":true}', version)
            yield self.stage.delay(250)
            problem = "INVALID_REQUEST_ID", "nobody waits for this"
            far.send("to_client", self.error(asked.address, version, forwarded.correlation, *problem))

    # --- system topics

    def ask_system(self, link: Link, topic: str, arguments: dict[str, Any]) -> Exchange:
        rid = self.uuid()
        message = p.Request(topic=topic, version="1.0.0", request_id=rid, payload=_dump(arguments))
        return link.ask("to_server", message, topic, rid, limit_us=DEFAULT_LIMIT_US)

    def _system_request(self, link: Link) -> Process:
        stage = self.stage
        fate = self.rng.random()
        if fate < 0.2:
            topic, arguments, *problem = BAD_REQUESTS[0 if fate < 0.1 else 1]
            exchange = self.ask_system(link, topic, arguments)
            yield stage.delay(300)
            self._refuse(link, exchange, *problem)
        else:
            topic = HEARTBEAT if fate < 0.4 else stage.pick(SYSTEM)
            exchange = self.ask_system(link, topic, {})
            yield stage.delay(200 if topic == HEARTBEAT else 600)
            self.reply(link, exchange, _dump(self._listing(topic)))

    def _listing(self, topic: str) -> dict[str, Any]:
        match topic:
            case "system.service.list":
                state = {"description": "", "connectedAt": self._timestamp(), "lastHeartbeat": self._timestamp()}
                known = list(self.names.items())[:20]
                return {"services": [{"id": one, "name": f"service{number + 1}", **state} for number, one in known]}
            case "system.topic.list":
                return {
                    "topics": [{"action": "publish", "topic": event, "subscribers": []} for event in sorted(EVENTS)]
                }
            case "system.metrics":
                return {"metrics": {"connection.active": len(self.names), "router.message.count": self.stage.sent}}
            case "system.service.subscriptions":
                return {"subscriptions": [{"action": "publish", "topic": EVENTS[0]}]}
            case _:
                return {"status": "success"}

    # --- replies

    def reply(
        self,
        link: Link,
        exchange: Exchange,
        payload: bytes = SUCCESS,
        version: str = "1.0.0",
        outcome: Outcome = "ok",
        status: str | None = None,
    ) -> None:
        link.reply(exchange, self.response(exchange, payload, version), outcome, status)

    def response(self, exchange: Exchange, payload: bytes = SUCCESS, version: str = "1.0.0") -> p.Response:
        return p.Response(topic=exchange.address, version=version, request_id=exchange.correlation, payload=payload)

    def _refuse(
        self, link: Link, exchange: Exchange, code: str, *about: Any, version: str = "1.0.0", outcome: Outcome = "error"
    ) -> None:
        refusal = self.error(exchange.address, version, exchange.correlation or self.uuid(), code, *about)
        link.reply(exchange, refusal, outcome, code)

    def error(self, topic: str, version: str, rid: str, code: str, *about: Any) -> p.Response:
        payload = _dump({"error": self._problem(code, *about)})
        return p.Response(topic=topic, version=version, request_id=rid, payload=payload)

    def _problem(self, code: str, text: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
        problem: dict[str, Any] = {"code": code, "message": text, "timestamp": self._timestamp()}
        return problem if details is None else problem | {"details": details}

    def uuid(self) -> str:
        """A random UUID, version 4."""
        digits = f"{self.rng.getrandbits(128):032x}"
        variant = "89ab"[int(digits[16], 16) & 3]
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

    def _timestamp(self) -> str:
        return datetime.fromtimestamp(self.stage.now / 1e6, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"

    def _version(self) -> str:
        kind = self.rng.random()
        if kind < 0.9:
            return "1.0.0"
        if self.upstream and kind < 0.93:
            return "v1.0.0"
        return "1.2.3" if kind < 0.97 else "2.0.0-beta.1"


def _dump(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
