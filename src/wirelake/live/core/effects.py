"""What a session wants of the world and hears of later: effects, and how they ended.

A session puts an effect into ``Session.effects`` with ``Session.want``. Whoever drives it carries the effect out and
calls ``completed`` with the result, exactly once, also after the link that it belongs to is gone. A reply that promises
durability is sent when its ``Store`` is completed, and by nothing else.

Stores are atomic, and complete in the order in which they were wanted; a batch that fails has stored a part from its
beginning. All other effects complete in any order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from .link import Link


class Effect(msgspec.Struct, eq=False, kw_only=True):
    """``link`` is the connection on whose behalf it is; its outstanding effects are counted."""

    link: Link | None = None


class Store(Effect, eq=False):
    """What to write, read or take, in the protocol's own words. ``is_long``: it takes a while on any disk."""

    request: Any
    is_long: bool = False


class Call(Effect, eq=False):
    """A function of the application's, to be called with this request; it may take its time."""

    handler: Any
    request: Any


class Authenticate(Effect, eq=False):
    """Whether somebody may come in. Done has True, or what to tell who may not."""

    attempt: Any


class Dial(Effect, eq=False):
    """A connection to be made. Done has its link, on which ``connected`` was called before."""

    address: tuple[str, int]


class Cancel(Effect, eq=False):
    """An effect to be taken back. That one completes as Cancelled if it is not too late; this one never completes."""

    effect: Effect


class Done(msgspec.Struct, frozen=True):
    value: Any = None


@dataclass(frozen=True, slots=True)
class Failed:
    error: Exception


@dataclass(frozen=True, slots=True)
class Cancelled:
    pass


Result = Done | Failed | Cancelled


class Storage(Protocol):
    """Keeps what the ``Store`` effects of sessions ask for. One thread at a time uses it."""

    def run(self, requests: Sequence[Any]) -> Sequence[Done | Failed]:
        """Carry out requests in their order, with one sync for all of them, and return how each ended.

        Each is atomic: one that Failed has changed nothing. All that is Done is durable when this returns. If the disk
        takes no more on the way, what came before is Done, and of the rest what needs no room. An exception means that
        nobody knows what is on the disk, as after a failed fsync: the process ends, and finds out when it starts again.
        """
        ...

    def run_at_once(self, requests: Sequence[Any]) -> Sequence[Done | Failed] | None:
        """Do the same, but wait only for a disk of this machine. None: that is not possible now, and not done."""
        ...

    def close(self) -> None: ...
