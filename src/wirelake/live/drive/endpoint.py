"""Puts a session on an event loop: connections become links, time becomes ticks, and what the session leaves is done.

Everything that one read brings is handled in one call of the session, and goes out in one write per connection.
Reading from who sends too much is paused while those who should get it do not read, if that is the policy.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any

from ..core.address import Address, show_address
from ..core.effects import Effect, Result
from ..core.link import INSIDE, Framing
from ..core.log import log
from ..core.session import SERVER, Session
from ..core.settings import setting
from .effects import Effects
from .pipe import CLOSING, LEAST_SLICE, LINGER_SECONDS, LINK, REST, Pipe

if TYPE_CHECKING:
    from ..tap.recorder import Recorder

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}
TO_SERVER, TO_CLIENT = 0, 1
READ_BYTES = 1 << 18
TURN_SECONDS = 0.005
"""How long one connection is served before others have their turn; what it has sent beyond that waits."""
TURN_BYTES = 1 << 20
"""About how much of what it has caused is written in a turn: a message to many takes the longest to write."""
WATCH_SECONDS = 0.5
NOTES_PER_SECOND = 50
"""What a session tells beyond that is only counted: who floods us must not flood the log."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a server allows. ``connections`` of all its listeners together; 0 is no limit. ``handshake_seconds`` are for
    TLS, and for the upgrade to WebSocket. ``slow_reader``: ``drop`` lets the session's limit of unsent bytes decide;
    ``slow`` also pauses reading from those whose messages go to a slow reader, which is dropped if it takes nothing for
    ``stall_seconds``. ``origins``: web pages whose scripts may connect over WebSocket besides those of this host; ``*``
    is any.
    """

    connections: int = 10_000
    handshake_seconds: float = setting(10.0, least=0.001)
    slow_reader: str = setting("drop", among=("drop", "slow"))
    stall_seconds: float = setting(30.0, least=0.001)
    origins: tuple[str, ...] = ()


@dataclass(eq=False)
class Endpoint:
    """Drive one session. ``on_events`` gets what it tells, ``on_room`` whether a connection takes more."""

    session: Session
    framing: Framing
    _: KW_ONLY
    protocol: str = ""
    limits: Limits = field(default_factory=Limits)
    recorder: Recorder | None = None
    on_events: Callable[[list[Any]], None] | None = None
    on_lost: Callable[[Pipe, Exception | None], None] | None = None
    on_room: Callable[[bool], None] | None = None

    def __post_init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.buffer = memoryview(bytearray(READ_BYTES))
        self.effects = Effects(self)
        self.pipes: dict[int, Pipe] = {}
        self.accepted = self.received = self.sent = 0
        """Connections that came, and bytes both ways, of all connections ever."""
        self.errors = 0
        """Mistakes of ours: a session raised what it should not."""
        self.stalled = 0
        """Slow readers that were dropped because others waited for them."""
        self.is_closing = False
        self._congested: set[Pipe] = set()
        self._watch: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
        self._empty: asyncio.Event | None = None
        self._notes_until, self._notes_told, self._notes_kept = 0.0, 0, 0
        self.session.epoch = time.time() - self.loop.time()

    def opened(self, pipe: Pipe) -> None:
        self.accepted += pipe.side == SERVER
        peer = INSIDE if pipe.is_inside else show_address(pipe.transport.get_extra_info("peername"))
        pipe.link = self.session.new_link(pipe.framing, pipe.side, peer)
        self.pipes[pipe.link.number] = pipe
        if self.is_closing:
            pipe.transport.abort()
            return
        if self.recorder is not None and not pipe.link.is_inside:
            ours, theirs = (_address(pipe.transport.get_extra_info(name)) for name in ("sockname", "peername"))
            client, server = (theirs, ours) if pipe.side == SERVER else (ours, theirs)
            pipe.recording = self.recorder.opened(client, server, self.protocol or None)
        log.debug("connection opened", protocol=self.protocol, peer=peer)
        try:
            pipe.begin(self.loop.time())
        except Exception:
            self._failed(pipe)
        self.settle(pipe)

    def take(self, pipe: Pipe, data: bytes) -> None:
        if len(data) < LEAST_SLICE:
            self._serve(pipe, data)
        else:
            self._serve_in_turns(pipe, data)

    def _serve(self, pipe: Pipe, data: bytes) -> None:
        try:
            pipe.take(data, self.loop.time())
            pipe.taken()
        except Exception:
            self._failed(pipe)
        self.settle(pipe)

    def _serve_in_turns(self, pipe: Pipe, data: bytes) -> None:
        """Handle slice by slice until the turn is over; the rest comes when others had theirs."""
        now = began = self.loop.time()
        at = 0
        try:
            while at < len(data) and now - began < TURN_SECONDS and not pipe.is_ending and pipe.link.is_readable:
                if len(self.session.changed) * at > TURN_BYTES:
                    break
                then, size = now, pipe.slice
                pipe.take(data[at : at + size], now)
                at += size
                now = self.loop.time()
                pipe.adapt(now - then, min(size, len(data) - at + size))
            pipe.taken()
        except Exception:
            self._failed(pipe)
            at = len(data)
        if at < len(data) and not pipe.is_ending:
            pipe.rest = data[at:]
            pipe.stop(REST)
            if len(pipe.stopped_by) == 1:
                self.loop.call_soon(self.go_on, pipe)
        self.settle(pipe)

    def go_on(self, pipe: Pipe) -> None:
        """The turn of what waits, unless there is another reason to wait."""
        if pipe.stopped_by == {REST} and not pipe.transport.is_closing():
            rest, pipe.rest = pipe.rest, b""
            if not pipe.is_ending:
                self._serve_in_turns(pipe, rest)
            if not pipe.rest:
                pipe.go(REST)

    def lost(self, pipe: Pipe, error: Exception | None) -> None:
        self.pipes.pop(pipe.link.number, None)
        self._congested.discard(pipe)
        closing, peer = pipe.link.closing, pipe.link.peer
        reason = closing.reason if closing is not None else str(error or "cut off")
        fields: dict[str, Any] = {"peer": peer, "reason": reason, "received": pipe.received, "sent": pipe.sent}
        log.debug("connection closed", protocol=self.protocol, **fields)
        pipe.release()
        for other in self._congested:
            other.holds.discard(pipe)
        if pipe.rest and error is None and not pipe.is_ending:
            self._serve(pipe, pipe.rest)
        if pipe.recording is not None and self.recorder is not None:
            self.recorder.closed(pipe.recording, "closed" if error is None else "reset")
            pipe.recording = None
        if pipe.is_known:
            try:
                self.session.disconnected(pipe.link, self.loop.time())
            except Exception:
                self._failed(pipe)
            pipe.link.end()
            self.settle()
        if self._empty is not None and not self.pipes:
            self._empty.set()
        if self.on_lost is not None:
            self.on_lost(pipe, error)

    def _failed(self, pipe: Pipe | None) -> None:
        """A mistake of ours costs one connection, and never the others."""
        self.errors += 1
        peer = pipe.link.peer if pipe is not None else ""
        log.exception("a mistake in the session; the connection is closed", protocol=self.protocol, peer=peer)
        if pipe is not None:
            pipe.transport.abort()

    def record(self, pipe: Pipe, data: bytes, *, is_in: bool) -> None:
        assert self.recorder is not None and pipe.recording is not None
        self.recorder.data(pipe.recording, TO_SERVER if is_in == (pipe.side == SERVER) else TO_CLIENT, data)

    def complete(self, effect: Effect, result: Result, now: float) -> None:
        """Tell the session how an effect ended."""
        try:
            self.session.completed(effect, result, now)
        except Exception:
            self._failed(self.pipes.get(effect.link.number) if effect.link is not None else None)

    def run(self, call: Callable[[float], Any], source: Pipe | None = None) -> Any:
        try:
            return call(self.loop.time())
        finally:
            self.settle(source)

    def settle(self, source: Pipe | None = None) -> None:
        session = self.session
        while session.changed:
            links = session.changed[:]
            session.changed.clear()
            for link in links:
                pipe = self.pipes.get(link.number)
                if pipe is not None:
                    self._flush(pipe, source)
        if session.notes:
            self._tell()
        if session.events:
            events = session.events[:]
            session.events.clear()
            if self.on_events is not None:
                self.on_events(events)
        if session.effects:
            self.effects.begin()
        deadline = session.deadline
        if deadline is not None and (self._timer is None or deadline < self._timer_at):
            self._schedule(deadline)

    def _flush(self, pipe: Pipe, source: Pipe | None) -> None:
        link = pipe.link
        if link.out:
            pipe.flush()
            if pipe.is_paused and source is not None and self.limits.slow_reader == "slow":
                pipe.hold(source)
        if link.wants_room and not pipe.is_paused and not pipe.is_ending:
            self.loop.call_soon(self.offer_room, pipe)
        if link.is_paused or link.is_full or pipe.stopped_by:
            (pipe.go if link.is_readable or link.closing is not None else pipe.stop)(LINK)
        if link.closing is not None and not pipe.is_ending:
            pipe.is_ending = True
            pipe.end(link.closing.reason, link.closing.code, link.closing.at_once)

    def offer_room(self, pipe: Pipe) -> None:
        """The session may write what it has held back, if the connection still takes it."""
        link = pipe.link
        if not link.wants_room or pipe.is_paused or link.closing is not None:
            return
        link.wants_room = False
        try:
            self.session.writable(link, self.loop.time())
        except Exception:
            self._failed(pipe)
        self.settle()

    def _tell(self) -> None:
        notes = self.session.notes[:]
        self.session.notes.clear()
        now = self.loop.time()
        if now >= self._notes_until:
            if self._notes_kept:
                log.warning("notes that came too fast were left out", protocol=self.protocol, count=self._notes_kept)
            self._notes_until, self._notes_told, self._notes_kept = now + 1.0, 0, 0
        for note in notes:
            if log.isEnabledFor(LEVELS[note.level]):
                if self._notes_told < NOTES_PER_SECOND:
                    self._notes_told += 1
                    log.log(LEVELS[note.level], note.text, protocol=self.protocol, **note.fields)
                else:
                    self._notes_kept += 1

    def speed_up(self, pipe: Pipe) -> None:
        self._congested.discard(pipe)
        if self.on_room is not None:
            self.on_room(True)

    def slow_down(self, pipe: Pipe) -> None:
        self._congested.add(pipe)
        if self.on_room is not None:
            self.on_room(False)
        if self._watch is None:
            self._watch = self.loop.call_later(WATCH_SECONDS, self._look_at_slow)

    def _look_at_slow(self) -> None:
        """What slow readers have not taken yet; those that stall while others wait for them are dropped."""
        self._watch = None
        now = self.loop.time()
        for pipe in list(self._congested):
            pipe.link.unsent = pipe.unsent
            if pipe.holds and now - pipe.paused_at > self.limits.stall_seconds:
                self.stalled += 1
                peer, unsent = pipe.link.peer, pipe.link.unsent
                log.warning("dropped a reader that stalled", protocol=self.protocol, peer=peer, unsent=unsent)
                pipe.abort()
        if self._congested:
            self._watch = self.loop.call_later(WATCH_SECONDS, self._look_at_slow)

    @property
    def unsent(self) -> int:
        return sum(pipe.unsent for pipe in self.pipes.values())

    @property
    def slow(self) -> int:
        """Connections that do not take what we send as fast as we send it."""
        return len(self._congested)

    def _schedule(self, when: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(when, self._tick)
        self._timer_at = when

    def _tick(self) -> None:
        self._timer = None
        now = self.loop.time()
        try:
            self.session.tick(now)
        except Exception:
            self._failed(None)
            self._schedule(now + 1.0)
        self.settle()

    async def close(self, drain_seconds: float = 5.0) -> None:
        """Complete what is outstanding, write what is left, close; cut off what takes longer."""
        self.is_closing = True
        until = self.loop.time() + drain_seconds
        if self.session.outstanding:
            for pipe in self.pipes.values():
                pipe.stop(CLOSING)
            await self.effects.drain(drain_seconds)
            for pipe in self.pipes.values():
                pipe.go(CLOSING)
        self.session.leaving(self.loop.time())
        for pipe in list(self.pipes.values()):
            pipe.link.close("shutting down", 1001)
        self.settle()
        if not await self._emptied(max(until - self.loop.time(), 0)):
            for pipe in list(self.pipes.values()):
                pipe.abort()
            await self._emptied(LINGER_SECONDS)
        await self.effects.close()
        for timer in (self._timer, self._watch):
            if timer is not None:
                timer.cancel()
        self._timer = self._watch = None

    async def _emptied(self, seconds: float) -> bool:
        """Whether all connections are gone before so much time has passed."""
        if self.pipes:
            self._empty = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._empty.wait(), seconds)
        return not self.pipes


def _address(name: Any) -> Address:
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) and len(name) > 1 else (str(name or ""), 0)
