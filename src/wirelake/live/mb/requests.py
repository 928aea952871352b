"""Requests between services: each goes to one service, gets an id of ours, and waits for the response to it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from ...codec.subscriptions import Subscriptions
from ..core.timers import Timers
from .connection import Service
from .log import Log
from .options import BrokerOptions
from .outbox import Outbox
from .topics import Subscriber
from .wire import ERROR_PREFIX, Clock, Fault, Head, Ids


@dataclass(slots=True, eq=False)
class Open:
    """A request that waits for its response."""

    id: bytes
    head: Head
    rid: bytes | None
    origin: Service
    target: Service


@dataclass(slots=True, eq=False)
class Requests:
    """``open`` has those that wait, the oldest first. ``tail`` is a payload with the line end before it."""

    options: BrokerOptions
    subscriptions: Subscriptions[Subscriber]
    outbox: Outbox
    log: Log
    clock: Clock
    timers: Timers[Any]
    ids: Ids
    chance: random.Random
    counts: Counter[str]
    open: dict[bytes, Open] = field(default_factory=dict)

    def request(self, service: Service, head: Head, rid: bytes | None, timeout: int | None, tail: bytes) -> None:
        target = self._choose(head)
        if len(self.open) >= self.options.max_outstanding:
            oldest = next(iter(self.open.values()))
            self._close(oldest)
            self.counts["router.request.count.dropped"] += 1
            text = "Removed the oldest request, too many are outstanding"
            self.log.write("warn", "MessageRouter", text, oldest.origin)
            self._fail(oldest, Fault("SERVICE_UNAVAILABLE", "too many requests are outstanding"))
        opened = Open(self.ids.take(), head, rid, service, target)
        self.open[opened.id] = opened
        waits = timeout if timeout is not None and rid is not None else self.options.timeout_ms
        self.timers.set(opened, self.clock.now + waits / 1000)
        if self.log.readers:
            text = f"Forwarding request for topic: {head.topic} to: {target.id}"
            self.log.write("info", "MessageRouter", text, service)
        self.outbox.forward((target,), head.forward + opened.id, tail, rid)

    def _choose(self, head: Head) -> Service:
        """One of the best, by chance."""
        best: tuple[Service, ...] = self.subscriptions.route(head.name)
        if not best:
            raise Fault("NO_ROUTE_FOUND", f"nobody serves {head.topic}")
        alive = [one for one in best if one.link.closing is None]
        if not alive:
            raise Fault("INTERNAL_ERROR", "the connection of the service is closing")
        return alive[int(self.chance.random() * len(alive))] if len(alive) > 1 else alive[0]

    def respond(self, service: Service, rid: bytes | None, tail: bytes) -> None:
        if rid is None:
            raise Fault("INVALID_REQUEST_ID", "a response needs the id of its request")
        opened = self.open.get(rid)
        if opened is None or opened.target is not service:
            raise Fault("INVALID_REQUEST_ID", f"no request {rid.decode()} waits for a response of this service")
        self._close(opened)
        is_error = tail.startswith(ERROR_PREFIX, 1)
        if is_error:
            self.counts["router.response.count.error"] += 1
            self.log.write("warn", "MessageRouter", f"Error received from service: {service.id}", service)
        if opened.origin.is_here and (opened.rid is not None or is_error):
            self.outbox.forward((opened.origin,), opened.head.answer + (opened.rid or self.ids.take()), tail)

    def expire(self, opened: Open) -> None:
        """No response came in time. Who gave no id is not told."""
        self._close(opened)
        if opened.rid is not None:
            self.counts["router.request.count.timeout"] += 1
            text = f"Request {opened.rid.decode()} to {opened.target.id} timed out"
            self.log.write("warn", "MessageRouter", text, opened.origin)
            self._fail(opened, Fault("TIMEOUT", "no response in time", {"targetServiceId": opened.target.id}))

    def _fail(self, opened: Open, fault: Fault) -> None:
        if opened.origin.is_here:
            self.outbox.refuse(opened.origin, opened.head, opened.rid, fault)

    def _close(self, opened: Open) -> None:
        del self.open[opened.id]
        self.timers.drop(opened)
