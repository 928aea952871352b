"""Conduct: what a protocol's messages mean to each other, beyond their bytes. Plain data on the ``Protocol``.

Gold, report, capture and live sessions read it; none of them knows a protocol by its name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

SECOND_US = 1_000_000

Side = Literal["client", "server"]
Outcome = Literal["committed", "rolled_back", "read_only", "in_doubt"]


@dataclass(frozen=True)
class Matching:
    """How replies find their requests, where it differs from: one open request per correlation, one reply each."""

    repeatable: frozenset[int] = frozenset()
    """Codes of requests that may be sent again while they are open: they continue what they began."""
    shared: bool = False
    """Several open requests of one connection may have the same correlation."""
    inventing_side: Side | None = None
    """The side whose error replies may carry an id of its own making, so that they need not match a request."""
    instead: frozenset[tuple[int, int]] = frozenset()
    """Pairs (declared reply, reply that known peers send in its place)."""
    closed_by_replier: frozenset[int] = frozenset()
    """Codes of replies in whose place some repliers send a close."""


@dataclass(frozen=True)
class Pieces:
    """How messages are split. The facts ``piece``, ``pieces`` and ``piece_key`` say which piece a message is."""

    rule: Literal["page_order", "group_order"]
    word: str
    """What a piece is called in messages to people."""
    per_stream: bool = False
    """Pieces belong to a stream, which sends nothing else meanwhile; otherwise ``piece_key`` alone ties them."""


@dataclass(frozen=True)
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
    one_phase_bits: int = 0
    """Flags of a commit that was asked for without a prepare."""
    votes: Mapping[int, Outcome] = field(default_factory=dict)
    commits: Mapping[int, Outcome] = field(default_factory=dict)
    one_phase_commits: Mapping[int, Outcome] = field(default_factory=dict)
    rollbacks: Mapping[int, Outcome] = field(default_factory=dict)


@dataclass(frozen=True)
class Conduct:
    """Everything of the above; the defaults suit a protocol with plain requests and replies."""

    matching: Matching = Matching()
    pieces: Pieces | None = None
    brokered: bool = False
    """A broker forwards requests under ids of its own: an exchange has two legs, both with the same server."""
    after_refusal: str = ""
    """The state of the life cycle that a refused handshake or login leads to; empty: nothing more may be sent."""
    either_may_dial: bool = False
    """The side that was dialled may be the client: who sends the opening message is."""
    branches: Branches | None = None

    def __hash__(self) -> int:
        return id(self)
