"""The broker of MB: services connect, subscribe, publish and ask; it routes, and answers the system topics itself.

Ids are never passed on: what is forwarded gets a new one, and the answer finds its way back by it. Most of what a
broker does is forwarding publishes, so that way is short; everything else takes the long one.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocols.mb import MAX_FRAME, MAX_PAYLOAD
from ...protocols.mb.conduct import HEARTBEAT
from ..core.link import Framing, Link
from . import wire
from .registry import Registry
from .services import Open, Service
from .system_topics import SUCCESS
from .wire import Fault, Head

NAMELESS = f"response:error:{wire.VERSION}".encode()


class MbBroker(Registry):
    """``probe`` tells the numbers of process and machine that ``system.metrics`` shows, under their names there."""

    def receive(self, link: Link, data: bytes, now: float) -> None:
        service: Service | None = link.state
        if service is None or link.closing is not None:
            return
        self._begin(now)
        data = service.incoming.add(data)
        at, end = 0, len(data)
        while end - at >= 4:
            (size,) = wire.size_of(data, at)
            if size > MAX_FRAME:
                self._drop(service, "a frame is too large")
                return
            start = at + 4
            if start + size > end:
                break
            at = start + size
            self._handle(service, data, start, at)
            if link.state is None:
                return
        service.incoming.keep(data, at)

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        self._begin(now)
        for body in bodies:
            service: Service | None = link.state
            if service is None or link.closing is not None:
                return
            if len(body) > MAX_FRAME:
                self._drop(service, "", 1009)
            else:
                self._handle(service, body, 0, len(body))

    def tick(self, now: float) -> None:
        self._begin(now)
        for key in self._timers.due(now):
            if isinstance(key, Service):
                self._look_after(key)
            else:
                self._expire(key)

    def _handle(self, service: Service, data: bytes, start: int, stop: int) -> None:
        try:
            head, rid, parent, timeout, end = self._heads.parse(data, start, stop)
        except Fault as fault:
            self._malformed(service, fault)
            return
        service.heard = self._now
        counts, metrics, size = self.counts, self._metrics, stop - start
        counts["router.message.count"] += 1
        counts[head.counted] += 1
        metrics.size_sum += size
        if size > metrics.size_max:
            metrics.size_max = size
        if self._auditors:
            self._copy_received(service, head, rid, parent, timeout, data[end + 1 : stop])
        try:
            if stop - end - 1 > MAX_PAYLOAD:
                raise Fault("MALFORMED_MESSAGE", "the payload is too large", {"payloadLength": stop - end - 1})
            if self._is_limited:
                self._spend(service, head)
            if head.is_publish:
                self._publish(service, head, rid, data[end:stop])
            elif head.is_system:
                self._answer_system(service, head, rid, data[end + 1 : stop])
            elif head.action == wire.REQUEST:
                self._request(service, head, rid, timeout, data[end:stop])
            else:
                self._respond(service, rid, data[end:stop])
        except Fault as fault:
            self._refuse(service, head, rid, fault)

    def _publish(self, service: Service, head: Head, rid: bytes | None, tail: bytes) -> None:
        """``tail`` is the payload with the line end before it."""
        receivers = self.published.routes.get(head.name)
        if receivers is None:
            receivers = self.published.receivers(head.name)
        if not receivers:
            self._no_receiver(service, head, rid)
            return
        if self._readers:
            self._log("info", "MessageRouter", f"Publishing message to topic: {head.topic}", service)
        header = head.forward + self._ids.take()
        if not self._forward(receivers, header, tail, rid):
            raise Fault("INTERNAL_ERROR", "the connections of all receivers are closing")
        if rid is not None:
            self._send(service, head.answer + rid, SUCCESS)

    def _forward(self, receivers: tuple[Service, ...], header: bytes, tail: bytes, masked: bytes | None) -> bool:
        """To all whose connections are not closing; False if there is none."""
        framed = b"".join((wire.pack_size(len(header) + len(tail)), header, tail))
        others: dict[Framing, bytes] = {}
        is_sent = False
        for service in receivers:
            link = service.link
            if link.closing is not None:
                continue
            is_sent = True
            framing = link.framing
            if framing is wire.MB_TCP:
                link.send(framed)
            else:
                if framing not in others:
                    others[framing] = framing.wrap(framed[4:])
                link.send(others[framing])
            if link.unsent > self._max_unsent:
                self._overflow(service)
            if self._auditors:
                self._copy_sent(service, header, tail[1:], masked)
        return is_sent

    def _no_receiver(self, service: Service, head: Head, rid: bytes | None) -> None:
        self.counts["router.publish.count.dropped"] += 1
        self._log("debug", "MessageRouter", f"No subscribers for topic: {head.topic}", service)
        fault = Fault("NO_ROUTE_FOUND", f"nobody subscribes {head.topic}")
        self._send(service, head.answer + (rid or self._ids.take()), fault.payload(self.epoch + self._now))

    def _request(self, service: Service, head: Head, rid: bytes | None, timeout: int | None, tail: bytes) -> None:
        best = self.requested.best(head.name)
        if not best:
            raise Fault("NO_ROUTE_FOUND", f"nobody serves {head.topic}")
        alive = [one for one in best if one.link.closing is None]
        if not alive:
            raise Fault("INTERNAL_ERROR", "the connection of the service is closing")
        target = alive[int(self.chance.random() * len(alive))] if len(alive) > 1 else alive[0]
        if len(self._open) >= self.options.max_outstanding:
            self._evict()
        opened = Open(self._ids.take(), head, rid, service, target)
        self._open[opened.id] = opened
        waits = timeout if timeout is not None and rid is not None else self.options.timeout_ms
        self._timers.set(opened, self._now + waits / 1000)
        if self._readers:
            self._log("info", "MessageRouter", f"Forwarding request for topic: {head.topic} to: {target.id}", service)
        self._forward((target,), head.forward + opened.id, tail, rid)

    def _respond(self, service: Service, rid: bytes | None, tail: bytes) -> None:
        if rid is None:
            raise Fault("INVALID_REQUEST_ID", "a response needs the id of its request")
        opened = self._open.get(rid)
        if opened is None or opened.target is not service:
            raise Fault("INVALID_REQUEST_ID", f"no request {rid.decode()} waits for a response of this service")
        self._close(opened)
        is_error = tail.startswith(wire.ERROR_PREFIX, 1)
        if is_error:
            self.counts["router.response.count.error"] += 1
            self._log("warn", "MessageRouter", f"Error received from service: {service.id}", service)
        if opened.origin.is_here and (opened.rid is not None or is_error):
            self._forward((opened.origin,), opened.head.answer + (opened.rid or self._ids.take()), tail, None)

    def _close(self, opened: Open) -> None:
        del self._open[opened.id]
        self._timers.drop(opened)

    def _answer_system(self, service: Service, head: Head, rid: bytes | None, payload: bytes) -> None:
        if self._readers:
            self._log("debug", "ServiceRegistry", f"Received system message {head.action}:{head.topic}", service)
        try:
            answer = self._system.answer(service, head, payload)
        except Fault:
            service.errors += 1
            raise
        if answer is not None:
            self._send(service, head.answer + (rid or self._ids.take()), answer)

    def _malformed(self, service: Service, fault: Fault) -> None:
        """The header is bad: it does not count as a sign of life, and there is no topic to answer to."""
        self.counts["malformed"] += 1
        self._log_fault(service, fault)
        header = NAMELESS if fault.id is None else NAMELESS + b":" + fault.id
        self._send(service, header, fault.payload(self.epoch + self._now))

    def _refuse(self, service: Service, head: Head, rid: bytes | None, fault: Fault) -> None:
        self.counts["router.message.count.error"] += 1
        self.counts[f"router.{head.action}.count.error"] += 1
        self._log_fault(service, fault)
        self._send(service, head.answer + (rid or self._ids.take()), fault.payload(self.epoch + self._now))

    def _log_fault(self, service: Service, fault: Fault) -> None:
        self.note("debug", f"{fault.code}: {fault.text}", service=service.id)
        if self._readers:
            error = fault.object(self.epoch + self._now)
            self._log("error", "ConnectionManager", f"[{fault.code}] {fault.text}", service, error=error)

    def _spend(self, service: Service, head: Head) -> None:
        """Counts against the limits of this second."""
        if head.action not in (wire.PUBLISH, wire.REQUEST) or head.name == HEARTBEAT:
            return
        limits = self.options
        service.spent += 1
        if limits.messages_per_second and service.spent > limits.messages_per_second:
            raise Fault("SERVICE_UNAVAILABLE", "too many messages of this service in a second")
        if limits.messages_per_topic:
            spent = self._topic_spent[head.name] = self._topic_spent.get(head.name, 0) + 1
            if spent > limits.messages_per_topic:
                raise Fault("SERVICE_UNAVAILABLE", "too many messages of this topic in a second")

    def _expire(self, opened: Open) -> None:
        del self._open[opened.id]
        if opened.rid is None:
            return
        self.counts["router.request.count.timeout"] += 1
        self._log(
            "warn", "MessageRouter", f"Request {opened.rid.decode()} to {opened.target.id} timed out", opened.origin
        )
        self._fail(opened, Fault("TIMEOUT", "no response in time", {"targetServiceId": opened.target.id}))

    def _evict(self) -> None:
        """Makes room for one more request: the oldest fails."""
        oldest = next(iter(self._open.values()))
        self._close(oldest)
        self.counts["router.request.count.dropped"] += 1
        self._log("warn", "MessageRouter", "Removed the oldest request, too many are outstanding", oldest.origin)
        self._fail(oldest, Fault("SERVICE_UNAVAILABLE", "too many requests are outstanding"))

    def _fail(self, opened: Open, fault: Fault) -> None:
        if opened.origin.is_here:
            header = opened.head.answer + (opened.rid or self._ids.take())
            self._send(opened.origin, header, fault.payload(self.epoch + self._now))
