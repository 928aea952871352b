"""One connection of an endpoint: bytes from and to a transport, and an end that lets the peer read what was said.

What a slow reader has not taken yet waits in a queue that shares its messages with those of other slow readers.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from ..core.link import ROOM_BYTES, Framing, Link, Side

if TYPE_CHECKING:
    from .endpoint import Endpoint

FIRST_SLICE, LEAST_SLICE = 1 << 14, 1 << 10
"""Bytes that are handled before the clock is looked at: fewer from a connection whose bytes are expensive."""
LONG_SECONDS = 0.002
"""How long such a slice should take at most."""
HIGH_WATER = ROOM_BYTES
"""Unsent bytes of a transport above which its connection counts as slow, and the rest waits in its queue."""
LINGER_SECONDS = 1.0
"""A connection that is to be closed and takes nothing for so long is cut off."""
CLOSE_SECONDS = 15.0
"""So is one that takes so long altogether."""
NO_LINGER = struct.pack("ii", 1, 0)
"""Closing a socket with this is a reset."""
SLOW, LINK, CLOSING, REST, APPLICATION = "slow reader", "link", "closing", "rest", "application"
"""Why nothing is read from a connection."""


class Pipe(asyncio.BufferedProtocol):
    """One connection of an endpoint: bytes from and to a transport. Subclasses know what the bytes are.

    All connections of an endpoint read into the same buffer, one after the other: a buffer of its own for each read
    would cost more than everything else that is done with a short message.
    """

    most_slice = 1 << 16

    def __init__(
        self,
        endpoint: Endpoint,
        side: Side,
        framing: Framing | None = None,
        on_known: Callable[[Link], None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.side = side
        self.framing = framing or endpoint.framing
        self.transport: Any = None
        self.link: Link
        self.is_inside = False
        self.is_paused = False
        """Whether the transport has more unsent than it likes."""
        self.paused_at = 0.0
        self.holds: set[Pipe] = set()
        """Those that are not read from because of this one."""
        self.stopped_by: set[Any] = set()
        self.received = self.sent = 0
        self.is_known = False
        self.on_known = on_known
        self.is_ending = False
        """Whether it is to be closed; what still comes is not looked at."""
        self._is_eof = self._is_finished = False
        self.slice = FIRST_SLICE
        self.rest = b""
        """What has come and waits for its turn."""
        self._queue: deque[bytes] = deque()
        self._queued = 0
        self.recording: int | None = None
        self._linger: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.set_write_buffer_limits(HIGH_WATER)
        self.endpoint.opened(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.endpoint.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(self.endpoint.buffer[:nbytes]))

    def data_received(self, data: bytes) -> None:
        self.received += len(data)
        self.endpoint.received += len(data)
        if self.recording is not None:
            self.endpoint.record(self, data, is_in=True)
        if not self.is_ending:
            self.endpoint.take(self, data)

    def eof_received(self) -> bool:
        """The peer says no more. It still gets what is said already, which a TLS transport sees to alone."""
        self._is_eof = True
        self.link.close("the peer closed")
        self.endpoint.settle(self)
        if not self.is_paused and not self.transport.is_closing():
            self.transport.close()
        return bool(self.transport.can_write_eof()) and not self.transport.is_closing()

    def connection_lost(self, error: Exception | None) -> None:
        if self._linger is not None:
            self._linger.cancel()
        self.endpoint.lost(self, error)

    def pause_writing(self) -> None:
        self.is_paused = True
        self.paused_at = self.endpoint.loop.time()
        self.endpoint.slow_down(self)

    def resume_writing(self) -> None:
        self.is_paused = False
        while self._queue and not self.is_paused:
            self._put(self._next())
        self.link.unsent = self.unsent
        if not self.is_paused:
            self.endpoint.speed_up(self)
            self.release()
            self.endpoint.offer_room(self)
            if self.is_ending:
                self.finish()

    def begin(self, now: float) -> None:
        """Tell the session of the connection. Subclasses may do so later."""
        self.is_known = True
        self.endpoint.session.connected(self.link, now)
        if self.on_known is not None:
            self.on_known(self.link)

    def take(self, data: bytes, now: float) -> None:
        self.endpoint.session.receive(self.link, data, now)

    def taken(self) -> None:
        """Its turn is over."""

    def flush(self) -> None:
        link = self.link
        if link.out:
            if self.is_paused:
                self._queue.extend(link.out)
                self._queued += sum(map(len, link.out))
                link.out.clear()
            else:
                self._put(link.take())
            link.unsent = self.unsent

    def write(self, data: bytes) -> None:
        if self.is_paused:
            self._queue.append(data)
            self._queued += len(data)
        else:
            self._put(data)

    def end(self, reason: str, code: int, at_once: bool) -> None:
        if at_once:
            self.abort()
        else:
            self.linger()
            if not self.is_paused:
                self.finish()

    def abort(self) -> None:
        """Ends it at once. What the peer does not read must not stay in the system's memory either."""
        if self.is_paused:
            with suppress(OSError, AttributeError):
                self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_LINGER)
        self.transport.abort()

    def finish(self) -> None:
        """Everything is written. Closing while the peer still sends would be a reset, and might cost it what we wrote:
        so we say that we say no more, and wait a little for the peer to do the same.
        """
        transport = self.transport
        if transport.is_closing() or self._is_finished:
            return
        if self._is_eof or not transport.can_write_eof():
            self._is_finished = True
            transport.close()
        elif transport.get_write_buffer_size():
            transport.set_write_buffer_limits(0)  # we are told when all of it is written
        else:
            self._is_finished = True
            try:
                transport.write_eof()
            except OSError:  # the peer is gone already
                transport.abort()

    def linger(self) -> None:
        """Sees to it that closing comes to an end."""
        if self._linger is None:
            until = self.endpoint.loop.time() + CLOSE_SECONDS
            self._linger = self.endpoint.loop.call_later(LINGER_SECONDS, self._cut, self.unsent, until)

    def _cut(self, before: int, until: float) -> None:
        left = self.unsent
        if left in (0, before) or self.endpoint.loop.time() > until:
            self.abort()
        else:
            self._linger = self.endpoint.loop.call_later(LINGER_SECONDS, self._cut, left, until)

    def adapt(self, took: float, count: int) -> None:
        """A slice took so long: the next one is smaller if that was long, and larger if it was not."""
        if took > LONG_SECONDS:
            self.slice = max(self.slice // 2, LEAST_SLICE)
        elif took < LONG_SECONDS / 3 and count >= self.slice:
            self.slice = min(self.slice * 2, self.most_slice)

    @property
    def unsent(self) -> int:
        """Bytes that the operating system has not taken yet."""
        return self._queued + int(self.transport.get_write_buffer_size())

    def _next(self) -> bytes:
        """What comes next in the queue, about as much as a transport likes."""
        parts, size = [], 0
        while self._queue and size < HIGH_WATER:
            part = self._queue.popleft()
            size += len(part)
            parts.append(part)
        self._queued -= size
        return b"".join(parts)

    def _put(self, data: bytes) -> None:
        if self._is_finished or self.transport.is_closing():
            return
        if self.recording is not None:
            self.endpoint.record(self, data, is_in=False)
        self.sent += len(data)
        self.endpoint.sent += len(data)
        self.transport.write(data)

    def stop(self, why: object) -> None:
        """Read nothing until there is no reason left."""
        if not self.stopped_by and not self.transport.is_closing():
            self.transport.pause_reading()
        self.stopped_by.add(why)

    def go(self, why: object) -> None:
        if why in self.stopped_by:
            self.stopped_by.discard(why)
            if self.stopped_by == {REST}:
                self.endpoint.loop.call_soon(self.endpoint.go_on, self)
            elif not self.stopped_by and not self.transport.is_closing():
                self.transport.resume_reading()

    def hold(self, source: Pipe) -> None:
        """The source sends what this one is too slow to take."""
        if source not in self.holds:
            self.holds.add(source)
            source.stop((SLOW, self))

    def release(self) -> None:
        for source in self.holds:
            source.go((SLOW, self))
        self.holds.clear()
