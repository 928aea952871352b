"""A connection as a session sees it: what is to be written, and whether it is to be closed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

Side = Literal["client", "server"]
ROOM_BYTES = 1 << 18
"""Unsent bytes above which a connection takes no more for the moment."""
INSIDE = "in-process"
"""The peer of a connection within this process, which no address looks like."""


class Framing(Protocol):
    """How messages are put on a wire. Connections of one kind share an object, so a message to many is framed once."""

    name: str

    def wrap(self, body: bytes) -> bytes:
        """A message as it is written."""
        ...


@dataclass(frozen=True, slots=True)
class Closing:
    """Why a connection is to be closed. ``code`` is that of WebSocket; ``at_once`` does not wait for what is unsent."""

    reason: str
    code: int = 1000
    at_once: bool = False


@dataclass(slots=True, eq=False, repr=False)
class Link:
    """One connection, made by ``Session.new_link``. Whoever owns the socket takes ``out`` and writes it, and keeps
    ``unsent`` true.

    ``side`` is ours: a server was called, a client has called. ``state`` is the session's own. ``changed`` is the
    session's list of links that somebody has to look at, ``counts`` its counters.
    """

    number: int
    framing: Framing
    changed: list[Link]
    side: Side = "server"
    peer: str = ""
    out: list[bytes] = field(default_factory=list)
    unsent: int = 0
    closing: Closing | None = None
    is_paused: bool = False
    """Whether the session wants nothing to be read from it for the moment."""
    wants_room: bool = False
    """Whether the session holds something back until there is room: then ``Session.writable`` is called."""
    is_full: bool = False
    """Whether too many effects are outstanding to read more from it."""
    outstanding: int = 0
    state: Any = None
    counts: Counter[str] = field(default_factory=Counter)

    @property
    def is_inside(self) -> bool:
        """Whether its peer is part of this process, and so is trusted."""
        return self.peer == INSIDE

    def __repr__(self) -> str:
        return f"<link {self.number} {self.framing.name} {self.peer}>"

    def send(self, wire: bytes) -> None:
        """Bytes to be written, framed already."""
        if self.closing is None:
            if not self.out:
                self.changed.append(self)
            self.out.append(wire)
            self.unsent += len(wire)
        else:
            self.counts["sends_dropped"] += 1

    def say(self, body: bytes) -> None:
        """A message to be written."""
        self.send(self.framing.wrap(body))

    def close(self, reason: str, code: int = 1000, *, at_once: bool = False) -> None:
        """To be closed when everything before it is written. The first reason counts."""
        if self.closing is None:
            self.changed.append(self)
            self.closing = Closing(reason, code, at_once)

    @property
    def has_room(self) -> bool:
        """Whether more may be sent at once. A session that holds something back while there is none asks for room."""
        return self.unsent <= ROOM_BYTES

    def ask_room(self) -> None:
        """Have ``Session.writable`` called once when the connection takes more."""
        if not self.wants_room:
            self.wants_room = True
            self.changed.append(self)

    @property
    def is_readable(self) -> bool:
        """Whether its owner may read from it and hand over what came."""
        return not (self.is_paused or self.is_full)

    def pause(self) -> None:
        """Read nothing from it until ``resume``."""
        self.is_paused = True
        self.changed.append(self)

    def resume(self) -> None:
        self.is_paused = False
        self.changed.append(self)

    def end(self) -> None:
        """The connection is gone, and the session knows. What it still sends is dropped and counted."""
        self.counts["sends_dropped"] += len(self.out)
        self.out.clear()
        self.closing = self.closing or Closing("the connection is gone")

    def take(self) -> bytes:
        wire = self.out[0] if len(self.out) == 1 else b"".join(self.out)
        self.out.clear()
        return wire
