"""The broker of MB: services connect, subscribe, publish and ask; it routes, and answers the system topics itself.

Ids are never passed on: what is forwarded gets a new one, and the answer finds its way back by it. Most of what a
broker does is forwarding publishes, so that way is short; everything else takes the long one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from typing import Any, Unpack

from ...codec.quick_frames import QuickFrames
from ...errors import LimitExceeded
from ...protocols.mb import MAX_PAYLOAD
from ...protocols.mb.conduct import AUDIT, HEARTBEAT, INITIALIZE
from ..core.link import Link
from ..core.session import Session, World
from ..core.timers import Timers
from .connection import Service
from .log import Log
from .metrics import Metrics, Probe
from .options import BrokerOptions
from .outbox import Outbox
from .requests import Requests
from .system_topics import SUCCESS, SystemTopics
from .topics import Topics
from .wire import PUBLISH, REQUEST, TO_BROKER, VERSION, Clock, Fault, Head, Heads, Ids

SAY_INITIALIZE = f"publish:{INITIALIZE}:{VERSION}".encode()
ASK_HEARTBEAT = f"request:{HEARTBEAT}:{VERSION}".encode()
NAMELESS = f"response:error:{VERSION}".encode()
EMPTY = b"{}"


class MbBroker(Session):
    """``probe`` tells the numbers of process and machine that ``system.metrics`` shows, under their names there."""

    def __init__(
        self, *, options: BrokerOptions | None = None, probe: Probe | None = None, **world: Unpack[World]
    ) -> None:
        super().__init__(**world)
        self.options = options = options or BrokerOptions()
        self.clock = clock = Clock()
        self.services: dict[str, Service] = {}
        self.topics = Topics(options)
        self._ids = ids = Ids(self.chance)
        self._heads = Heads()
        self._timers: Timers[Any] = Timers()
        """Of services, and of open requests."""
        overflow = partial(self._drop, reason="too much is unsent", at_once=True)
        self.outbox = Outbox(clock, ids, options.max_unsent, options.timeout_ms, overflow)
        self.log = Log(clock, self.counts, self.outbox)
        self.requests = Requests(
            options, self.topics.requested, self.outbox, self.log, clock, self._timers, ids, self.chance, self.counts
        )
        self._system = SystemTopics(self)
        self._metrics = Metrics(self.counts)
        self._probe = probe
        self._is_limited = bool(options.messages_per_second or options.messages_per_topic)
        self.spent: Counter[Any] = Counter()
        """What is limited for each second: messages by service and by topic, bytes of listings by service and all."""

    @property
    def deadline(self) -> float | None:
        return self._timers.deadline

    # --- connections

    def connected(self, link: Link, now: float) -> None:
        self._begin(now)
        service = Service(self._ids.take().decode(), link, now, now)
        link.state = service
        self.services[service.id] = service
        self._timers.set(service, now + self.options.heartbeat_seconds)
        self.counts["connection.connected.total"] += 1
        self.counts["registry.registration"] += 1
        self.note("info", "connected", peer=link.peer, service=service.id)
        self.log.write("info", "ServiceRegistry", f"Service {service.id} registered.", service)
        self.outbox.send(service, SAY_INITIALIZE, EMPTY)

    def receive(self, link: Link, data: bytes, now: float) -> None:
        service: Service | None = link.state
        if service is None or link.closing is not None:
            return
        self._begin(now)
        try:
            service.frames.read(data, self._handle, service)
        except LimitExceeded:
            self._drop(service, "a frame is too large")

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        self._begin(now)
        for body in bodies:
            service: Service | None = link.state
            if service is None or link.closing is not None:
                return
            self._handle(service, body, 0, len(body))

    def disconnected(self, link: Link, now: float) -> None:
        self._begin(now)
        service: Service | None = link.state
        if service is not None:
            self.note("info", "disconnected", peer=link.peer, service=service.id)
            self._remove(service)

    def tick(self, now: float) -> None:
        self._begin(now)
        for key in self._timers.due(now):
            if isinstance(key, Service):
                self._look_after(key)
            else:
                self.requests.expire(key)

    def _begin(self, now: float) -> None:
        """Whatever happens begins with this."""
        clock = self.clock
        clock.now, clock.epoch = now, self.epoch
        if int(now) != clock.second:
            clock.second = int(now)
            self._metrics.roll(now, self.services.values())
            self.spent.clear()

    def _look_after(self, service: Service) -> None:
        """Silent services are asked once for a sign of life, and dropped if there is none."""
        options, now = self.options, self.clock.now
        is_asked = service.asked_at > service.heard
        if now >= service.heard + options.deregister_seconds:
            self._drop(service, "no sign of life")
            return
        if not is_asked and now >= service.heard + options.heartbeat_seconds:
            service.asked_at = now
            is_asked = True
            self.outbox.send(service, ASK_HEARTBEAT, EMPTY)
        if service.is_here:
            next_look = options.deregister_seconds if is_asked else options.heartbeat_seconds
            self._timers.set(service, service.heard + min(next_look, options.deregister_seconds))

    def _drop(self, service: Service, reason: str, *, at_once: bool = False) -> None:
        """Closes a connection; what it was is gone at once."""
        if service.is_here:
            self.note("warn", f"closed: {reason}", peer=service.link.peer, service=service.id)
            service.link.close(reason, at_once=at_once)
            self._remove(service)

    def _remove(self, service: Service) -> None:
        service.link.state = None
        service.frames = QuickFrames(TO_BROKER)
        del self.services[service.id]
        self._timers.drop(service)
        self.log.stop(service)
        self.topics.forget(service)
        self.outbox.auditors = self.topics.subscribers(AUDIT)
        self.counts["connection.disconnected.total"] += 1
        self.counts["registry.unregistration"] += 1
        self.log.write("info", "ServiceRegistry", f"Service {service.id} unregistered.", service)

    # --- messages

    def _handle(self, service: Service, data: bytes, start: int, stop: int) -> bool:
        """Returns whether the service is gone now."""
        try:
            parsed = self._heads.parse(data, start, stop)
        except Fault as fault:
            self._malformed(service, fault)
            return service.link.state is None
        head, rid, _, timeout, end = parsed
        service.heard = self.clock.now
        counts, metrics, size = self.counts, self._metrics, stop - start
        counts["router.message.count"] += 1
        counts[head.counted] += 1
        metrics.size_sum += size
        if size > metrics.size_max:
            metrics.size_max = size
        if self.outbox.auditors:
            self.outbox.received(service, parsed, data[end + 1 : stop])
        try:
            if stop - end - 1 > MAX_PAYLOAD:
                raise Fault("MALFORMED_MESSAGE", "the payload is too large", {"payloadLength": stop - end - 1})
            if self._is_limited:
                self._spend(service, head)
            if head.is_publish:
                self._publish(service, head, rid, data[end:stop])
            elif head.is_system:
                self._answer_system(service, head, rid, data[end + 1 : stop])
            elif head.action == REQUEST:
                self.requests.request(service, head, rid, timeout, data[end:stop])
            else:
                self.requests.respond(service, rid, data[end:stop])
        except Fault as fault:
            self._refuse(service, head, rid, fault)
        return service.link.state is None

    def _publish(self, service: Service, head: Head, rid: bytes | None, tail: bytes) -> None:
        """``tail`` is the payload with the line end before it."""
        published = self.topics.published
        receivers = published.routes.get(head.name)
        if receivers is None:
            receivers = published.route(head.name)
        if not receivers:
            self.counts["router.publish.count.dropped"] += 1
            self.log.write("debug", "MessageRouter", f"No subscribers for topic: {head.topic}", service)
            self.outbox.refuse(service, head, rid, Fault("NO_ROUTE_FOUND", f"nobody subscribes {head.topic}"))
            return
        if self.log.readers:
            self.log.write("info", "MessageRouter", f"Publishing message to topic: {head.topic}", service)
        ids = self._ids
        new = ids.ready.pop() if ids.ready else ids.take()
        if not self.outbox.forward(receivers, head.forward + new, tail, rid):
            raise Fault("INTERNAL_ERROR", "the connections of all receivers are closing")
        if rid is not None:
            self.outbox.reply(service, head, rid, SUCCESS)

    def _answer_system(self, service: Service, head: Head, rid: bytes | None, payload: bytes) -> None:
        if self.log.readers:
            text = f"Received system message {head.action}:{head.topic}"
            self.log.write("debug", "ServiceRegistry", text, service)
        try:
            answer = self._system.answer(service, head, payload)
        except Fault:
            service.errors += 1
            raise
        if answer is not None:
            self.outbox.reply(service, head, rid, answer)

    def _malformed(self, service: Service, fault: Fault) -> None:
        """The header is bad: it does not count as a sign of life, and there is no topic to answer to."""
        self.counts["malformed"] += 1
        self._log_fault(service, fault)
        header = NAMELESS if fault.id is None else NAMELESS + b":" + fault.id
        self.outbox.send(service, header, fault.payload(self.clock))

    def _refuse(self, service: Service, head: Head, rid: bytes | None, fault: Fault) -> None:
        self.counts["router.message.count.error"] += 1
        self.counts[f"router.{head.action}.count.error"] += 1
        self._log_fault(service, fault)
        self.outbox.refuse(service, head, rid, fault)

    def _log_fault(self, service: Service, fault: Fault) -> None:
        self.note("debug", f"{fault.code}: {fault.text}", service=service.id)
        if self.log.readers:
            error = fault.object(self.clock)
            self.log.write("error", "ConnectionManager", f"[{fault.code}] {fault.text}", service, error=error)

    def _spend(self, service: Service, head: Head) -> None:
        if head.action not in (PUBLISH, REQUEST) or head.name == HEARTBEAT:
            return
        limits, spent = self.options, self.spent
        spent[service] += 1
        if 0 < limits.messages_per_second < spent[service]:
            raise Fault("SERVICE_UNAVAILABLE", "too many messages of this service in a second")
        spent[head.name] += 1
        if 0 < limits.messages_per_topic < spent[head.name]:
            raise Fault("SERVICE_UNAVAILABLE", "too many messages of this topic in a second")

    # --- what system topics do

    def subscribe(self, service: Service, action: str, topic: str, priority: float = 0) -> None:
        self.topics.subscribe(service, action, topic, priority)
        if topic == AUDIT:
            self.outbox.auditors = self.topics.subscribers(AUDIT)
        self.log.write("info", "SubscriptionManager", f"Service subscribed to topic:{topic} for {action}", service)

    def unsubscribe(self, service: Service, action: str, topic: str) -> bool:
        """False if it was not subscribed."""
        text = f"Service unsubscribes from topic:{topic} for {action}"
        self.log.write("info", "SubscriptionManager", text, service)
        return self.topics.unsubscribe(service, action, topic)

    def measured(self, args: dict[str, Any]) -> dict[str, Any]:
        try:
            probed = dict(self._probe()) if self._probe is not None else {}
        except Exception as error:  # it is not ours, and may fail in any way
            self.note("error", f"the probe failed: {error!r}")
            raise Fault("INTERNAL_ERROR", "the metrics cannot be read") from None
        return self._metrics.shown(self.clock, list(self.services.values()), probed, args)
