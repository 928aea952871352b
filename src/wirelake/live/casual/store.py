"""What a domain asks of its store: queues, branches and decisions, as requests and their results.

Each request is atomic. A time is nanoseconds since 1970, and part of the request: the store has no clock, so the same
requests give the same store. A request that the rules refuse is Done, with a result that says so; Failed means that the
disk took no more.

Work of a branch is volatile until ``Prepare`` or ``Commit``: after a crash ``Load`` rolls it back. ``is_durable`` tells
which requests promise something; the others need no sync of their own. What there is one of for each message is a
Struct, which costs a fraction of a frozen dataclass to make.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import msgspec

from ...protocols.casual import Xid
from ..core.settings import setting

NIL = bytes(16)
DAY = 24 * 3_600 * 1_000_000_000
"""How long the outcome of a finished branch is kept by default."""

BranchState = Literal["preparing", "prepared", "committed", "rolled_back"]


def error_queue(name: str) -> str:
    """Return the name of the queue that gets what was rolled back too often."""
    return f"{name}.error"


@dataclass(frozen=True, slots=True)
class QueueSettings:
    """A queue; the store adds its error queue. A message moves there at the rollback after ``retries`` others, and is
    not available for ``retry_seconds`` after each. ``limit`` is how many messages it takes; 0: any number.
    """

    name: str
    retries: int = setting(0)
    retry_seconds: float = setting(0.0)
    limit: int = setting(0)


# --- queues


class QueueMessage(msgspec.Struct, frozen=True):
    """A message as it is enqueued. ``id`` is never nil: the session makes one."""

    id: bytes
    properties: str = ""
    reply: str = ""
    available: int = 0
    type: str = ""
    payload: bytes = b""


class StoredMessage(msgspec.Struct, frozen=True):
    """A message as it is dequeued."""

    id: bytes
    properties: str
    reply: str
    available: int
    type: str
    payload: bytes
    redelivered: int
    timestamp: int


class Ready(msgspec.Struct, frozen=True):
    """A message that anybody may take from now on, or from ``available`` on if that is later."""

    queue: str
    id: bytes
    properties: str
    available: int


class Enqueue(msgspec.Struct, frozen=True):
    """With an xid the message is added under the branch, and visible when that commits. ``is_unique``: its id is random
    and was made for it, so that the store need not look whether it is in use.
    """

    queue: str
    message: QueueMessage
    xid: Xid | None
    now: int
    is_unique: bool = False


class Enqueued(msgspec.Struct, frozen=True):
    """``id`` is nil if the enqueue was refused; ``reason`` then says why."""

    id: bytes
    ready: tuple[Ready, ...] = ()
    reason: str = ""


class Dequeue(msgspec.Struct, frozen=True):
    """``id`` not nil selects that message alone, else ``properties`` not empty those with these properties. With an xid
    the message is taken by the branch, and gone when that commits.
    """

    queue: str
    id: bytes
    properties: str
    xid: Xid | None
    now: int


class Dequeued(msgspec.Struct, frozen=True):
    """Without a message, ``next_available`` is the first time at which one of the queue becomes ready by itself."""

    message: StoredMessage | None
    next_available: int | None = None


# --- branches and decisions


class PeerBranch(msgspec.Struct, frozen=True):
    """A branch that another domain has of our transaction. ``peer`` is its address, ``resource`` our number for it."""

    peer: str
    xid: Xid
    resource: int


class BranchRecord(msgspec.Struct, frozen=True):
    """What is durable about a branch. ``peers`` have to be told the outcome; a record without any, and with an outcome,
    is a tombstone that may go at ``until``. ``since`` is when the state began. ``by_hand``: an administrator decided.
    """

    xid: Xid
    state: BranchState
    peers: tuple[PeerBranch, ...] = ()
    until: int = 0
    since: int = 0
    by_hand: bool = False


@dataclass(frozen=True, slots=True)
class Load:
    """Begin, or look for what hubs that died have left: roll back volatile work that nobody alive has, and drop
    tombstones that are old enough.
    """

    now: int


class Loaded(msgspec.Struct, frozen=True):
    """Branches that are not finished: preparing, prepared, or with peers that have to be told. Tombstones are not in
    it, there may be millions: ``Find`` reads one.
    """

    branches: tuple[BranchRecord, ...]
    ready: tuple[Ready, ...] = ()


class Find(msgspec.Struct, frozen=True):
    """Read the record of a branch, a tombstone too. Its result is a BranchRecord or None."""

    xid: Xid


class Begin(msgspec.Struct, frozen=True):
    """Remember, before the first prepare is sent, whom to roll back after a crash. Its result is None."""

    xid: Xid
    peers: tuple[PeerBranch, ...]
    now: int


class Prepare(msgspec.Struct, frozen=True):
    """Keep the work of a branch, and whom to tell how it ended."""

    xid: Xid
    peers: tuple[PeerBranch, ...]
    now: int


class Commit(msgspec.Struct, frozen=True):
    """Commit the work of a branch, volatile or prepared. With ``until`` 0 and no peers no record stays."""

    xid: Xid
    peers: tuple[PeerBranch, ...]
    until: int
    now: int


class Rollback(msgspec.Struct, frozen=True):
    """Roll back the work of a branch, volatile or prepared. With ``until`` 0 and no peers no record stays.
    ``is_prepared``: the work or a record is durable, so the rollback has to be.
    """

    xid: Xid
    peers: tuple[PeerBranch, ...]
    until: int
    now: int
    is_prepared: bool = True


class Settled(msgspec.Struct, frozen=True):
    """How a branch stands after Prepare, Commit or Rollback. ``record`` is what was there before: if it is an outcome,
    of an earlier request or of an administrator, nothing was changed.
    """

    ready: tuple[Ready, ...] = ()
    record: BranchRecord | None = None


class Told(msgspec.Struct, frozen=True):
    """All peers have replied: the record is a tombstone now, or gone with ``until`` 0. Its result is None."""

    xid: Xid
    until: int
    now: int


# --- administration


@dataclass(frozen=True, slots=True)
class ListQueues:
    """Its result is a tuple of QueueReport, in the order of their names."""

    now: int


@dataclass(frozen=True, slots=True)
class QueueReport:
    """How many messages of a queue are in which state. ``oldest`` is the first timestamp of the ready ones."""

    name: str
    retries: int
    retry_seconds: float
    ready: int
    delayed: int
    added: int
    taken: int
    oldest: int | None


@dataclass(frozen=True, slots=True)
class Peek:
    """Read messages that nobody has, in the order of dequeues. Its result is a tuple of StoredMessage."""

    queue: str
    most: int


@dataclass(frozen=True, slots=True)
class Restore:
    """Move messages of the error queue of ``queue`` back to it: these, or all. Its result is a tuple of Ready."""

    queue: str
    ids: tuple[bytes, ...] | None
    now: int


@dataclass(frozen=True, slots=True)
class Purge:
    """Delete all messages of a queue that no branch has. Its result is their number."""

    queue: str


@dataclass(frozen=True, slots=True)
class ListBranches:
    """Its result is a tuple of BranchRecord: what is not finished, the oldest first."""


@dataclass(frozen=True, slots=True)
class CountBranches:
    """Its result is a dict: how many unfinished branches are in which state; volatile ones are ``active``."""


@dataclass(frozen=True, slots=True)
class Resolve:
    """Decide a prepared branch by hand. Its result is Settled."""

    xid: Xid
    is_commit: bool
    until: int
    now: int


Request = (
    Enqueue | Dequeue | Load | Find | Begin | Prepare | Commit | Rollback | Told
    | ListQueues | Peek | Restore | Purge | ListBranches | CountBranches | Resolve
)  # fmt: skip


def is_durable(request: Request) -> bool:
    """Tell whether the result of a request promises that the disk has it."""
    match request:
        case Enqueue(xid=xid) | Dequeue(xid=xid):
            return xid is None
        case Rollback(is_prepared=is_prepared):
            return is_prepared
        case Find() | ListQueues() | Peek() | ListBranches() | CountBranches() | Told():
            return False
        case _:
            return True
