"""Connections within this process: two transports that pass bytes to each other, without a socket."""

from __future__ import annotations

import asyncio
from typing import Any

from ..core.link import INSIDE
from .endpoint import READ_BYTES
from .pipe import HIGH_WATER, Pipe


class InsideTransport(asyncio.Transport):
    """One end. What it writes waits here until the other end reads, one piece a turn of the event loop."""

    _peer: InsideTransport

    def __init__(self, pipe: Pipe) -> None:
        super().__init__({"peername": INSIDE})
        self._pipe = pipe
        self._loop = asyncio.get_running_loop()
        self._unread = bytearray()
        self._high = HIGH_WATER
        self._is_reading = True
        self._is_closing = self._is_full = self._is_lost = self._will_pass = False

    def write(self, data: Any) -> None:
        if self._is_closing:
            return
        self._unread += data
        self._wake()
        if not self._is_full and len(self._unread) > self._high:
            self._is_full = True
            self._pipe.pause_writing()

    def _wake(self) -> None:
        if not self._will_pass:
            self._will_pass = True
            self._loop.call_soon(self._pass)

    def _pass(self) -> None:
        self._will_pass = False
        if self._unread and self._peer._is_reading and not self._is_lost:
            data = bytes(self._unread[:READ_BYTES])
            del self._unread[:READ_BYTES]
            if not self._peer._is_closing:
                self._peer._pipe.data_received(data)
            if self._is_full and len(self._unread) <= self._high // 4:
                self._is_full = False
                self._pipe.resume_writing()
            if self._unread:
                self._wake()
        if self._is_closing and not self._unread:
            self.abort()

    def close(self) -> None:
        """Close it once the other end has read what was written."""
        self._is_closing = True
        self._wake()

    def abort(self) -> None:
        for end in (self, self._peer):
            if not end._is_lost:
                end._is_lost = end._is_closing = True
                end._unread.clear()
                self._loop.call_soon(end._pipe.connection_lost, None)

    def is_closing(self) -> bool:
        return self._is_closing

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True
        self._peer._wake()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_WATER if high is None else high

    def get_write_buffer_size(self) -> int:
        return len(self._unread)


def tie(server: Pipe, client: Pipe) -> None:
    """Connect two pipes of this process with each other."""
    ends = InsideTransport(server), InsideTransport(client)
    ends[0]._peer, ends[1]._peer = ends[1], ends[0]
    for end in ends:
        end._pipe.connection_made(end)
