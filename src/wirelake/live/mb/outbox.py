"""What a broker sends: replies and forwards, with copies of all that comes and goes for those who subscribe the audit
stream.

Each message costs two copies or more, so they are put together from bytes that are JSON already.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from ...codec.content import json_line
from ...protocols.mb.conduct import AUDIT
from ..core.link import Framing
from .connection import Service
from .wire import LF, MAX_HEADS, MB_TCP, VERSION, Clock, Fault, Head, Ids, Parsed, pack_size

_COPY = f"publish:{AUDIT}:{VERSION}\n".encode()


@dataclass(slots=True, eq=False)
class Outbox:
    """``overflow`` is called with a service that leaves more than ``max_unsent`` bytes unread. ``timeout_ms`` is how
    long a request waits that does not say. ``auditors`` get the copies.
    """

    clock: Clock
    ids: Ids
    max_unsent: int
    timeout_ms: int
    overflow: Callable[[Service], None]
    auditors: tuple[Service, ...] = ()
    _last: tuple[bytes, bytes] = (b"", b'""')
    """The last payload, and as JSON: what comes in mostly goes out next."""

    def send(self, service: Service, header: bytes, payload: bytes) -> None:
        self.forward((service,), header, LF + payload)

    def reply(self, service: Service, head: Head, rid: bytes | None, payload: bytes) -> None:
        """A reply always has an id: an invented one if the message had none."""
        self.send(service, head.answer + (rid or self.ids.take()), payload)

    def refuse(self, service: Service, head: Head, rid: bytes | None, fault: Fault) -> None:
        self.reply(service, head, rid, fault.payload(self.clock))

    def forward(self, receivers: tuple[Service, ...], header: bytes, tail: bytes, masked: bytes | None = None) -> bool:
        """Return whether one was not closing. ``tail`` begins with the line end; ``masked`` is the id of the sender."""
        framed = b"".join((pack_size(len(header) + len(tail)), header, tail))
        others: dict[Framing, bytes] | None = None
        is_sent = False
        for service in receivers:
            link = service.link
            if link.closing is not None:
                continue
            is_sent = True
            framing = link.framing
            if framing is MB_TCP:
                link.send(framed)
            else:
                others = others or {}
                if framing not in others:
                    others[framing] = framing.wrap(framed[4:])
                link.send(others[framing])
            if link.unsent > self.max_unsent:
                self.overflow(service)
            if self.auditors:
                self._sent(service, header, tail[1:], masked)
        return is_sent

    def received(self, service: Service, parsed: Parsed, payload: bytes) -> None:
        """Copy a message that came."""
        head, rid, parent, timeout, _ = parsed
        ids = b'","requestId":"%b' % rid if rid is not None else b""
        if parent is not None:
            ids += b'","parentRequestId":"' + parent
        ids += b'"' if timeout is None else b'","timeout":%d' % timeout
        limit = b"%d" % (self.timeout_ms if timeout is None else timeout)
        message = (b'","message":{"header":{', _front(head.forward), ids, b'},"payload":', self._shown(payload), b"}}")
        stamp, sender = self.clock.stamp, service.id.encode()
        self._copy(b"".join((_COPY, b'{"timestamp":"', stamp, b'","timeout":', limit, b',"from":"', sender, *message)))

    def _sent(self, service: Service, header: bytes, payload: bytes, masked: bytes | None = None) -> None:
        """Copy a message that went out; ``masked`` is the id that its sender had used."""
        if header[-37:-36] == b":":
            key, ids = header[:-36], b'","requestId":"%b"' % header[-36:]
        else:
            key, ids = header + b":", b'"'
        end = b"}}" if masked is None else b'},"maskedId":"%b"}' % masked
        message = (b'","message":{"header":{', _front(key), ids, b'},"payload":', self._shown(payload), end)
        self._copy(b"".join((_COPY, b'{"timestamp":"', self.clock.stamp, b'","to":"', service.id.encode(), *message)))

    def _shown(self, payload: bytes) -> bytes:
        last, shown = self._last
        if payload != last:
            shown = json_line(payload)
            self._last = (payload, shown)
        return shown

    def _copy(self, body: bytes) -> None:
        framed = pack_size(len(body)) + body
        for service in self.auditors:
            link = service.link
            link.send(framed if link.framing is MB_TCP else link.framing.wrap(body))
            if link.unsent > self.max_unsent:
                self.overflow(service)


@lru_cache(maxsize=MAX_HEADS)
def _front(key: bytes) -> bytes:
    """Return what a header has before its id as JSON, without the last quote: there is nothing to escape in it."""
    return b'"action":"%b","topic":"%b","version":"%b' % tuple(key.split(b":")[:3])
