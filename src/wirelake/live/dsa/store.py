"""What a broker keeps: facts (clients, tokens, roles, nodes, switches) by kind and key, and the queues of durable
subscriptions. Requests say what is to be done; ``BrokerRules`` does it in any database.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ..storage.database import Database, Schema

Pages = list[tuple[bytes, bytes]]
_pack = msgspec.msgpack.Encoder().encode
_unpack_pages = msgspec.msgpack.Decoder(Pages).decode
_unpack = msgspec.msgpack.Decoder().decode


@dataclass(frozen=True, slots=True)
class Load:
    """Read everything: the result is Kept."""


@dataclass(frozen=True, slots=True)
class Put:
    """Keep a fact, in place of the one with the same kind and key. No text shows what it is: it may be a secret."""

    kind: str
    key: str
    fact: Any = field(repr=False)


@dataclass(frozen=True, slots=True)
class Remove:
    kind: str
    key: str


@dataclass(frozen=True, slots=True)
class OpenQueue:
    """Keep what a queue is about."""

    queue: str
    record: Any


@dataclass(frozen=True, slots=True)
class Append:
    """Keep an update at the end of a queue. ``at`` is the time of day."""

    queue: str
    number: int
    at: float
    pages: Pages


@dataclass(frozen=True, slots=True)
class Forget:
    """Forget the updates below a number."""

    queue: str
    below: int


@dataclass(frozen=True, slots=True)
class DropQueue:
    queue: str


Request = Load | Put | Remove | OpenQueue | Append | Forget | DropQueue


@dataclass(slots=True)
class KeptQueue:
    """``updates`` have number, time of day and pages, oldest first."""

    queue: str
    record: Any
    updates: list[tuple[int, float, Pages]]


@dataclass(slots=True)
class Kept:
    """All that is stored."""

    facts: list[tuple[str, str, Any]] = field(default_factory=list)
    queues: list[KeptQueue] = field(default_factory=list)


SCHEMA = Schema(
    "DSA brokers",
    "wirelake_dsa",
    0x64736162,
    1,
    (
        "CREATE TABLE facts (kind TEXT NOT NULL, name TEXT NOT NULL, fact {blob} NOT NULL, PRIMARY KEY (kind, name))",
        "CREATE TABLE queues (queue TEXT PRIMARY KEY, record {blob} NOT NULL)",
        "CREATE TABLE updates (queue TEXT NOT NULL, number BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL,"
        " pages {blob} NOT NULL, PRIMARY KEY (queue, number))",
    ),
)
_PUT = (
    "INSERT INTO facts (kind, name, fact) VALUES (?, ?, ?) ON CONFLICT (kind, name) DO UPDATE SET fact = excluded.fact"
)
_OPEN = "INSERT INTO queues (queue, record) VALUES (?, ?) ON CONFLICT (queue) DO UPDATE SET record = excluded.record"
_APPEND = (
    "INSERT INTO updates (queue, number, at, pages) VALUES (?, ?, ?, ?)"
    " ON CONFLICT (queue, number) DO UPDATE SET at = excluded.at, pages = excluded.pages"
)


class BrokerRules:
    """Carries out requests."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def is_new(self, request: Request) -> bool:
        return True

    def is_durable(self, request: Request) -> bool:
        """To remove twice harms nobody, to lose what was promised does."""
        return isinstance(request, Put | Remove | OpenQueue | Append)

    def apply(self, request: Request) -> Any:
        execute = self._database.execute
        match request:
            case Append(queue, number, at, pages):
                execute(_APPEND, (queue, number, at, _pack(pages)))
            case Forget(queue, below):
                execute("DELETE FROM updates WHERE queue = ? AND number < ?", (queue, below))
            case Put(kind, key, fact):
                execute(_PUT, (kind, key, _pack(fact)))
            case Remove(kind, key):
                execute("DELETE FROM facts WHERE kind = ? AND name = ?", (kind, key))
            case OpenQueue(queue, record):
                execute(_OPEN, (queue, _pack(record)))
            case DropQueue(queue):
                execute("DELETE FROM queues WHERE queue = ?", (queue,))
                execute("DELETE FROM updates WHERE queue = ?", (queue,))
            case Load():
                return self._load()
        return None

    def apply_all(self, requests: Sequence[Request]) -> list[Any]:
        return list(map(self.apply, requests))

    def _load(self) -> Kept:
        execute = self._database.execute
        facts = execute("SELECT kind, name, fact FROM facts ORDER BY kind, name")
        queues = {
            queue: KeptQueue(queue, _unpack(record), [])
            for queue, record in execute("SELECT queue, record FROM queues ORDER BY queue")
        }
        for queue, number, at, pages in execute("SELECT queue, number, at, pages FROM updates ORDER BY queue, number"):
            if queue in queues:
                queues[queue].updates.append((number, at, _unpack_pages(pages)))
        return Kept([(kind, name, _unpack(fact)) for kind, name, fact in facts], list(queues.values()))
