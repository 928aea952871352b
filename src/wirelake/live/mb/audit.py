"""The audit stream: a copy of every message that a broker receives or sends, for those who subscribe it.

Each message costs two copies or more, so they are put together from bytes that are JSON already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ...codec.content import json_line
from ...protocols.mb.conduct import AUDIT
from .connection import Service
from .wire import MAX_HEADS, MB_TCP, VERSION, Clock, Head, pack_size

_FRONT = f"publish:{AUDIT}:{VERSION}\n".encode()


@dataclass(slots=True, eq=False)
class Audit:
    """``listeners`` get the copies; ``overflow`` is called with one that leaves more than ``max_unsent`` unread."""

    clock: Clock
    timeout_ms: int
    max_unsent: int
    overflow: Callable[[Service], None]
    listeners: tuple[Service, ...] = ()
    _fronts: dict[bytes, bytes] = field(default_factory=dict)
    _last: tuple[bytes, bytes] = (b"", b'""')
    """The last payload, and as JSON: what comes in mostly goes out next."""

    def received(
        self,
        service: Service,
        head: Head,
        rid: bytes | None,
        parent: bytes | None,
        timeout: int | None,
        payload: bytes,
    ) -> None:
        """Copy a message that came."""
        ids = b'","requestId":"%b' % rid if rid is not None else b""
        if parent is not None:
            ids += b'","parentRequestId":"' + parent
        ids += b'"' if timeout is None else b'","timeout":%d' % timeout
        limit = b"%d" % (self.timeout_ms if timeout is None else timeout)
        front = self._fronts.get(head.forward) or self._front(head.forward)
        message = (b'","message":{"header":{', front, ids, b'},"payload":', self._shown(payload), b"}}")
        stamp, sender = self.clock.stamp, service.id.encode()
        self._send(b"".join((_FRONT, b'{"timestamp":"', stamp, b'","timeout":', limit, b',"from":"', sender, *message)))

    def sent(self, service: Service, header: bytes, payload: bytes, masked: bytes | None = None) -> None:
        """Copy a message that went out; ``masked`` is the id that its sender had used."""
        if header[-37:-36] == b":":
            key, ids = header[:-36], b'","requestId":"%b"' % header[-36:]
        else:
            key, ids = header + b":", b'"'
        front = self._fronts.get(key) or self._front(key)
        end = b"}}" if masked is None else b'},"maskedId":"%b"}' % masked
        message = (b'","message":{"header":{', front, ids, b'},"payload":', self._shown(payload), end)
        self._send(b"".join((_FRONT, b'{"timestamp":"', self.clock.stamp, b'","to":"', service.id.encode(), *message)))

    def _front(self, key: bytes) -> bytes:
        """Action, topic and version as JSON, without the last quote; ``key`` is the header up to where the id is.

        None of the three can have a character that JSON would escape.
        """
        if len(self._fronts) >= MAX_HEADS:
            self._fronts.clear()
        action, topic, version, _ = key.split(b":")
        front = b'"action":"%b","topic":"%b","version":"%b' % (action, topic, version)
        self._fronts[key] = front
        return front

    def _shown(self, payload: bytes) -> bytes:
        last, shown = self._last
        if payload != last:
            shown = json_line(payload)
            self._last = (payload, shown)
        return shown

    def _send(self, body: bytes) -> None:
        framed = pack_size(len(body)) + body
        for service in self.listeners:
            link = service.link
            if link.framing is MB_TCP:
                link.send(framed)
            else:
                link.say(body)
            if link.unsent > self.max_unsent:
                self.overflow(service)
