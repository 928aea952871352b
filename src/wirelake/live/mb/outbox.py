"""What a broker sends: replies and forwards, with copies of all of it for auditors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..core.link import Framing
from .audit import Audit
from .connection import Service
from .wire import LF, MB_TCP, Clock, Fault, Head, Ids, pack_size


@dataclass(slots=True, eq=False)
class Outbox:
    """``overflow`` is called with a service that leaves more than ``max_unsent`` bytes unread."""

    clock: Clock
    ids: Ids
    audit: Audit
    max_unsent: int
    overflow: Callable[[Service], None]

    def send(self, service: Service, header: bytes, payload: bytes) -> None:
        self.forward((service,), header, LF + payload)

    def reply(self, service: Service, head: Head, rid: bytes | None, payload: bytes) -> None:
        """A reply always has an id: an invented one if the message had none."""
        self.send(service, head.answer + (rid or self.ids.take()), payload)

    def refuse(self, service: Service, head: Head, rid: bytes | None, fault: Fault) -> None:
        self.reply(service, head, rid, fault.payload(self.clock))

    def forward(self, receivers: tuple[Service, ...], header: bytes, tail: bytes, masked: bytes | None = None) -> bool:
        """To all whose connections are not closing; False if there is none.

        ``tail`` is the payload with the line end before it, ``masked`` the id that the sender had used.
        """
        framed = b"".join((pack_size(len(header) + len(tail)), header, tail))
        others: dict[Framing, bytes] | None = None
        audit = self.audit if self.audit.listeners else None
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
                if others is None:
                    others = {}
                if framing not in others:
                    others[framing] = framing.wrap(framed[4:])
                link.send(others[framing])
            if link.unsent > self.max_unsent:
                self.overflow(service)
            if audit is not None:
                audit.sent(service, header, tail[1:], masked)
        return is_sent
