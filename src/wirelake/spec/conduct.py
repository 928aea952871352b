"""Conduct: what a protocol's messages mean to each other, beyond their bytes. Plain data on the ``Protocol``.

Gold, report, capture and live sessions read it; none of them knows a protocol by its name. Fields are named by their
dotted paths in the protocol's table. What data cannot say is a function, ``Conduct.facts``, in the protocol's package.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal
from typing import Protocol as Interface

SECOND_US = 1_000_000

NO_PART, REQUEST, REPLY, CLOSE = 0, 1, 2, 3
"""The part of a message in an exchange. A close ends a stream from either side."""
RESULTS = ("ok", "error", "timeout")
OK, ERROR, TIMEOUT = 0, 1, 2
HANDSHAKE: Final = "handshake"
COMPLETE: Final = "complete"
REFUSED: Final = "refused"
"""The key, and its two values, by which an introduction says how the handshake or login went."""

STATUS = "@status"
"""Stands for the field whose role is ``status``, whatever its path."""
EVERYWHERE = frozenset({"direction"})
"""Fields of all messages that a condition may name."""

Value = int | str | bytes
Side = Literal["client", "server"]
Outcome = Literal["committed", "rolled_back", "read_only", "in_doubt"]


@dataclass(frozen=True)
class When:
    """A condition on one field. All that is given must hold; nothing given: the field is set.

    Null, 0, false and empty are not set. An absent number counts as 0, an absent text as empty.
    ``direction`` is a field of every message: ``to_server`` or ``to_client``.
    """

    field: str
    one_of: tuple[Value, ...] = ()
    none_of: tuple[Value, ...] = ()
    least: int | None = None
    most: int | None = None
    bits: int = 0
    """At least one of these bits is set."""
    prefix: str = ""
    empty: bool = False
    """The field is not set."""

    @cached_property
    def off(self) -> tuple[int, ...]:
        """The numbers of a field of the same structure for which it does not hold, if it says nothing else."""
        is_all = "." not in self.field and self == When(self.field, none_of=self.none_of)
        numbers = tuple(value for value in self.none_of if isinstance(value, int))
        return numbers if is_all and len(numbers) == len(self.none_of) else ()

    @cached_property
    def is_bare(self) -> bool:
        """Whether it asks only if the field is set, or is not."""
        return self == When(self.field, empty=self.empty)


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Some messages: by name (none named: all), by what they hold, and by a reading option, such as a dialect."""

    messages: tuple[str, ...] = ()
    when: tuple[When, ...] | When = ()
    only: tuple[str, Any] | None = None

    @property
    def conditions(self) -> tuple[When, ...]:
        return (self.when,) if isinstance(self.when, When) else self.when


@dataclass(frozen=True)
class Part(Selection):
    """The part of messages in exchanges, where ``answer=`` alone does not say it. Later ones win."""

    part: int
    reply: str = ""
    """Of requests: the message that replies."""
    kind: Literal["", "request", "response", "event", "control"] = ""


@dataclass(frozen=True)
class Limit(Selection):
    """How long a requester waits where the message does not say so; 0: without limit, whatever the message says."""

    limit_us: int


@dataclass(frozen=True)
class TimeUnit(Selection):
    """The unit of a time limit on the wire, where it differs from what the field declares."""

    unit: Literal["ns", "us", "ms", "s"]


@dataclass(frozen=True)
class Result(Selection):
    """What a reply means: ``error`` or ``timeout``. Later ones win; a reply that none selects is ``ok``."""

    result: Literal["ok", "error", "timeout"]


@dataclass(frozen=True)
class Streams:
    """Requests that get several replies until one ends the exchange, or a close does."""

    lanes: tuple[frozenset[str], ...] = ()
    """Messages whose exchanges may have the same correlation as those of all others."""
    continues: tuple[Selection, ...] = ()
    """Replies after which more may come."""
    partial: tuple[Selection, ...] = ()
    """Replies that are a part only of what they begin to say."""
    once: tuple[Selection, ...] = ()
    """Requests to which the first complete reply is the last."""


@dataclass(frozen=True)
class Introduction(Selection):
    """What a message of a handshake or login says about the peers: a name in the session's facts -> a field.

    Never name a password, a token or a key here.
    """

    facts: Mapping[str, str] = field(hash=False)
    handshake: Literal["", "complete", "refused"] = ""
    separator: str = ","
    """Between the values of a list."""


@dataclass(frozen=True)
class Matching:
    """How replies find their requests, where it differs from: one open request per correlation, one reply each."""

    repeatable: frozenset[int] = frozenset()
    """Codes of requests that may be sent again while they are open: they continue what they began."""
    in_order: bool = False
    """Each side replies in the order in which it was asked: the next reply belongs to the oldest open request, where
    messages have a correlation to the oldest one with the same."""
    shared: bool = False
    """Several open requests of one connection may have the same correlation."""
    inventing_side: Side | None = None
    """The side whose error replies may carry an id of its own making, so that they need not match a request."""
    invented: tuple[Selection, ...] = ()
    """Replies of that side that may carry such an id without being errors."""
    instead: frozenset[tuple[int, int]] = frozenset()
    """Pairs (declared reply, reply that known peers send in its place)."""
    closed_by_replier: frozenset[int] = frozenset()
    """Codes of replies in whose place some repliers send a close."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """How messages are split. The facts ``piece``, ``pieces`` and ``piece_key`` say which piece a message is."""

    rule: Literal["page_order", "group_order"]
    word: str
    """What a piece is called in messages to people."""
    per_stream: bool = False
    """Pieces belong to a stream, which sends nothing else meanwhile; otherwise ``key`` alone ties them."""
    index: str = ""
    """The field that numbers pieces, from 0; null in a message that is whole."""
    count: str = ""
    """The field that says, in the first piece, how many there are."""
    signed: bool = False
    """The first of N pieces has the index -N instead of a count; 0 and -1 stand for a message that is whole."""
    key: str = ""
    """The field that the pieces of one message have in common."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """Message -> the field that is the key there, unless it is null."""


@dataclass(frozen=True, eq=False)
class Branches:
    """Which messages move a transaction, and how the replies' status codes end a branch.

    A code that is absent from a table ends nothing: the coordinator has to say more, or the same again.
    """

    work: frozenset[str] = frozenset()
    """Requests that do work in a branch."""
    prepare: str = ""
    prepared: str = ""
    commit: str = ""
    committed: str = ""
    rollback: str = ""
    rolled_back: str = ""
    flags: str = ""
    """The field with the flags of a commit."""
    one_phase_bits: int = 0
    """Flags of a commit that was asked for without a prepare."""
    resource: str = ""
    """The field with the coordinator's number for the peer of a branch."""
    promises: frozenset[int] = frozenset({0})
    """Votes by which a peer promises to commit."""
    votes: Mapping[int, Outcome] = field(default_factory=dict)
    commits: Mapping[int, Outcome] = field(default_factory=dict)
    one_phase_commits: Mapping[int, Outcome] = field(default_factory=dict)
    rollbacks: Mapping[int, Outcome] = field(default_factory=dict)


class Draft(Interface):
    """The facts of some messages in the making, as ``Conduct.facts`` gets them. Arrays are numpy's, columns Arrow's."""

    columns: dict[str, Any]
    """Facts by name: a function may add to them, or replace some."""
    part: Any
    result: Any
    """Per message its part, and the place of its result in ``RESULTS``."""

    def __len__(self) -> int: ...

    def column(self, path: str) -> Any:
        """Return a field of the messages."""

    def select(self, selection: Selection) -> Any:
        """Return the mask of messages that are selected."""

    def introduce(self, selected: Any, facts: list[dict[str, Any]]) -> None:
        """Add what the selected messages, by their mask, say about the peers. A value of None is left out."""


@dataclass(frozen=True, eq=False)
class Conduct:
    """What messages mean to each other; the defaults suit a protocol with plain requests and replies."""

    parts: tuple[Part, ...] = ()
    limits: tuple[Limit, ...] = ()
    """Later ones win."""
    units: tuple[TimeUnit, ...] = ()
    no_reply: tuple[Selection, ...] = ()
    """Requests that want no reply."""
    results: tuple[Result, ...] = ()
    streams: Streams | None = None
    heartbeats: tuple[Selection, ...] = ()
    """Messages that say nothing but that the peer is alive."""
    introductions: tuple[Introduction, ...] = ()
    matching: Matching = Matching()
    pieces: Pieces | None = None
    brokered: bool = False
    """A broker forwards requests under ids of its own: an exchange has two legs, both with the same server."""
    not_forwarded: tuple[Selection, ...] = ()
    """Requests that the broker serves itself."""
    after_refusal: str = ""
    """The state of the life cycle that a refused handshake or login leads to; empty: nothing more may be sent."""
    either_may_dial: bool = False
    """The side that was dialled may be the client: the side that sends the opening message is."""
    branches: Branches | None = None
    facts: Callable[[Draft], None] | None = None
    """Completes the facts where data does not reach. It imports what it needs when it is called."""
    facts_read: tuple[str, ...] = ()
    """The columns that this function reads, besides those that are named above or have roles."""


def selections(conduct: Conduct) -> Iterator[tuple[str, Selection]]:
    """Yield every selection, with what it is for."""
    for name in ("parts", "limits", "units", "no_reply", "results", "heartbeats", "introductions", "not_forwarded"):
        yield from ((name, selection) for selection in getattr(conduct, name))
    yield from (("matching.invented", selection) for selection in conduct.matching.invented)
    for name in ("continues", "partial", "once"):
        yield from ((f"streams.{name}", selection) for selection in getattr(conduct.streams, name, ()))


def paths(conduct: Conduct) -> Iterator[tuple[str, str]]:
    """Yield every field that is named outside of conditions, with what it is for."""
    for introduction in conduct.introductions:
        yield from ((f"introductions.{name}", path) for name, path in introduction.facts.items())
    if (pieces := conduct.pieces) is not None:
        named = {"index": pieces.index, "count": pieces.count, "key": pieces.key}
        yield from ((f"pieces.{name}", path) for name, path in named.items() if path)
        yield from (("pieces.keys", path) for path in pieces.keys.values())
    if (branches := conduct.branches) is not None:
        named = {"flags": branches.flags, "resource": branches.resource}
        yield from ((f"branches.{name}", path) for name, path in named.items() if path)


def columns_read(conduct: Conduct) -> tuple[str, ...]:
    """Return the columns of the protocol's table that the facts are made of, besides those of roles."""
    conditions = [when.field for _, selection in selections(conduct) for when in selection.conditions]
    named = [*conditions, *(path for _, path in paths(conduct)), *conduct.facts_read]
    first = [path.partition(".")[0] for path in named if not path.startswith("@") and path not in EVERYWHERE]
    return tuple(dict.fromkeys(first))
