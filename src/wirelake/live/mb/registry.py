"""The services around a broker: how they come, subscribe, fall silent and go; what is sent to them, and to those who
watch it.
"""

from __future__ import annotations

import random
from typing import Any

from ...protocols.mb.conduct import AUDIT, HEARTBEAT, INITIALIZE
from ..core.link import Link
from ..core.session import Session
from ..core.timers import Timers
from .log_filter import Filter
from .metrics import Metrics, Probe
from .services import LOG, BrokerOptions, Open, Service
from .streams import AUDIT_HEADER, LOG_HEADER, received_copy, sent_copy
from .system_topics import SystemTopics
from .topics import Subscriptions
from .wire import LF, PUBLISH, VERSION, Fault, Head, Heads, Ids, timestamp, write_json

SAY_INITIALIZE = f"publish:{INITIALIZE}:{VERSION}".encode()
ASK_HEARTBEAT = f"request:{HEARTBEAT}:{VERSION}".encode()
EMPTY = b"{}"


class Registry(Session):
    """Knows every service. ``_begin`` is called first whenever something happens."""

    def __init__(
        self,
        *,
        options: BrokerOptions | None = None,
        probe: Probe | None = None,
        epoch: float = 0.0,
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(epoch=epoch, chance=chance)
        self.options = options or BrokerOptions()
        self.services: dict[str, Service] = {}
        self.published = Subscriptions()
        self.requested = Subscriptions()
        self._heads = Heads()
        self._system = SystemTopics(self)
        self._open: dict[bytes, Open] = {}
        self._ids = Ids(self.chance)
        self._timers: Timers[Service | Open] = Timers()
        self._metrics = Metrics(self.counts)
        self._probe = probe
        self._auditors: tuple[Service, ...] = ()
        self._readers: dict[Service, None] = {}
        self._is_limited = bool(self.options.messages_per_second or self.options.messages_per_topic)
        self._topic_spent: dict[str, int] = {}
        self._max_unsent = self.options.max_unsent
        self._now = 0.0
        self._second = -1

    @property
    def deadline(self) -> float | None:
        return self._timers.deadline

    def connected(self, link: Link, now: float) -> None:
        self._begin(now)
        limit = self.options.max_connections
        if limit and len(self.services) >= limit:
            self.counts["connection.rejected.total"] += 1
            self.note("warn", "one connection too many", peer=link.peer)
            link.close("too many connections", 1013)
            return
        service = Service(self._ids.take().decode(), link, now)
        link.state = service
        self.services[service.id] = service
        self._timers.set(service, now + self.options.heartbeat_seconds)
        self.counts["connection.connected.total"] += 1
        self.counts["registry.registration"] += 1
        self.note("info", "connected", peer=link.peer, service=service.id)
        self._log("info", "ServiceRegistry", f"Service {service.id} registered.", service)
        self._send(service, SAY_INITIALIZE, EMPTY)

    def disconnected(self, link: Link, now: float) -> None:
        self._begin(now)
        service: Service | None = link.state
        if service is not None:
            self.note("info", "disconnected", peer=link.peer, service=service.id)
            self._remove(service)

    def _begin(self, now: float) -> None:
        self._now = now
        if int(now) != self._second:
            self._second = int(now)
            self._metrics.roll(now, self.services.values())
            self._topic_spent.clear()
            if self._is_limited:
                for service in self.services.values():
                    service.spent = 0

    def _look_after(self, service: Service) -> None:
        """Silent services are asked once for a sign of life, and dropped if there is none."""
        options = self.options
        is_asked = service.asked_at > service.heard
        if self._now >= service.heard + options.deregister_seconds:
            self._drop(service, "no sign of life")
            return
        if not is_asked and self._now >= service.heard + options.heartbeat_seconds:
            service.asked_at = self._now
            is_asked = True
            self._send(service, ASK_HEARTBEAT, EMPTY)
        if service.is_here:
            next_look = options.deregister_seconds if is_asked else options.heartbeat_seconds
            self._timers.set(service, service.heard + min(next_look, options.deregister_seconds))

    def registered(self, service: Service) -> None:
        self.counts["registry.registration"] += 1
        text = f"Service {service.id} updated."
        self._log("info", "ServiceRegistry", text, service, name=service.name, description=service.description)

    def subscribe(self, service: Service, action: str, topic: str, priority: float = 0) -> None:
        owned: Any = service.published if action == PUBLISH else service.requested
        limit = self.options.max_subscriptions
        if topic not in owned and limit and len(service.published) + len(service.requested) >= limit:
            raise Fault("SERVICE_UNAVAILABLE", f"more than {limit} subscriptions of one service")
        if action == PUBLISH:
            service.published.add(topic)
            self.published.add(service, topic)
            self._auditors = self.published.exactly(AUDIT)
        else:
            service.requested[topic] = priority
            self.requested.add(service, topic, priority)
        self._log("info", "SubscriptionManager", f"Service subscribed to topic:{topic} for {action}", service)

    def unsubscribe(self, service: Service, action: str, topic: str) -> bool:
        """False if it was not subscribed."""
        self._log("info", "SubscriptionManager", f"Service unsubscribes from topic:{topic} for {action}", service)
        if action == PUBLISH:
            service.published.discard(topic)
            return self.published.remove(service, topic)
        service.requested.pop(topic, None)
        return self.requested.remove(service, topic)

    def start_log(self, service: Service, levels: frozenset[str], pattern: Filter | None) -> None:
        self.subscribe(service, PUBLISH, LOG)
        service.levels, service.pattern = levels, pattern
        self._readers[service] = None

    def stop_log(self, service: Service) -> None:
        self.unsubscribe(service, PUBLISH, LOG)
        self._readers.pop(service, None)

    def measured(self, args: dict[str, Any]) -> dict[str, Any]:
        try:
            probed = dict(self._probe()) if self._probe is not None else {}
        except Exception as error:  # it is not ours, and may fail in any way
            self.note("error", f"the probe failed: {error!r}")
            raise Fault("INTERNAL_ERROR", "the metrics cannot be read") from None
        return self._metrics.shown(self._now, self.epoch, list(self.services.values()), probed, args)

    def _overflow(self, service: Service) -> None:
        self._drop(service, "too much is unsent", at_once=True)

    def _drop(self, service: Service, reason: str, code: int = 1000, *, at_once: bool = False) -> None:
        """Closes a connection; what it was is gone at once."""
        if service.is_here:
            self.note(
                "warn", f"closed: {reason or 'a message is too large'}", peer=service.link.peer, service=service.id
            )
            service.link.close(reason, code, at_once=at_once)
            self._remove(service)

    def _remove(self, service: Service) -> None:
        service.link.state = None
        service.incoming = type(service.incoming)()
        del self.services[service.id]
        self._timers.drop(service)
        self._readers.pop(service, None)
        for topic in service.published:
            self.published.remove(service, topic)
        for topic in service.requested:
            self.requested.remove(service, topic)
        self._auditors = self.published.exactly(AUDIT)
        self.counts["connection.disconnected.total"] += 1
        self.counts["registry.unregistration"] += 1
        self._log("info", "ServiceRegistry", f"Service {service.id} unregistered.", service)

    def _send(self, service: Service, header: bytes, payload: bytes) -> None:
        link = service.link
        if link.closing is not None:
            return
        link.say(header + LF + payload)
        if link.unsent > self._max_unsent:
            self._overflow(service)
        if self._auditors:
            self._copy_sent(service, header, payload, None)

    def _copy_received(
        self, service: Service, head: Head, rid: bytes | None, parent: bytes | None, timeout: int | None, payload: bytes
    ) -> None:
        when, default = timestamp(self.epoch + self._now), self.options.timeout_ms
        self._audit(received_copy(when, service.id, head, rid, parent, timeout, default, payload))

    def _copy_sent(self, service: Service, header: bytes, payload: bytes, masked: bytes | None) -> None:
        self._audit(sent_copy(timestamp(self.epoch + self._now), service.id, header, payload, masked))

    def _audit(self, copy: bytes) -> None:
        body = AUDIT_HEADER + LF + copy
        for auditor in self._auditors:
            auditor.link.say(body)
            if auditor.link.unsent > self._max_unsent:
                self._overflow(auditor)

    def _log(self, level: str, module: str, text: str, service: Service, **fields: Any) -> None:
        """A record of the log, for the services that read it."""
        if not self._readers:
            return
        record = {"level": level, "message": text, "timestamp": timestamp(self.epoch + self._now), "module": module}
        payload = write_json({**record, "serviceId": service.id, **fields})
        for reader in list(self._readers):
            if level in reader.levels and (reader.pattern is None or reader.pattern.search(text)):
                self._send(reader, LOG_HEADER, payload)
