"""What the rules of a protocol see of a database, and what a database has to know about the rules.

Rules are written once, in the SQL that SQLite and PostgreSQL share: ``?`` for arguments, RETURNING, ON CONFLICT. Where
the two differ, they name the difference in braces: ``{blob}``, ``{empty}``, ``{serial}``, ``{for_update}``,
``{skip_locked}``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

Row = tuple[Any, ...]
Item = TypeVar("Item")


class StorageError(Exception):
    """A store cannot be used: which one, why, and what to do, in one line."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables of a protocol. ``number`` marks its files, ``space`` is its namespace where a database holds other
    things too, ``version`` is that of the tables.
    """

    name: str
    space: str
    number: int
    version: int
    statements: tuple[str, ...]


class Database(Protocol):
    """Runs statements in the transaction of the batch. ``owner`` is this process, among those that share the store."""

    is_shared: bool
    owner: int

    def execute(self, sql: str, arguments: Sequence[Any] = ()) -> list[Row]:
        """Return the rows of a query, or what RETURNING gives."""
        ...

    def find(self, sql: str, arguments: Sequence[Any] = ()) -> Row | None:
        """Return the first row, or None."""
        ...

    def dead_owners(self) -> list[int] | None:
        """Return the owners that died, which this process answers for from now on; None: all, nobody else is here."""
        ...


class Rules(Protocol):
    """What requests do to a database."""

    def apply(self, request: Any) -> Any:
        """Carry out a request, and return its result."""
        ...

    def apply_all(self, requests: Sequence[Any]) -> list[Any]:
        """Carry out requests one after the other, or some of them in one statement; return their results."""
        ...

    def is_durable(self, request: Any) -> bool:
        """Tell whether the result of a request promises that the disk has it."""
        ...

    def is_new(self, request: Any) -> bool:
        """Tell whether a request brings something. What ends or takes what is there may use the last of the disk."""
        ...


MakeRules = Callable[[Database], Rules]


def any_of(values: Collection[Any]) -> tuple[str, list[Any]]:
    """Return the marks of a list for ``IN (…)``, and its values. The last is repeated until there is a power of two of
    them, so that few statements are needed.
    """
    count = 1 << (len(values) - 1).bit_length()
    padded = [*values]
    padded += padded[-1:] * (count - len(padded))
    return _marks(count), padded


@cache
def _marks(count: int) -> str:
    return ", ".join("?" * count)


def in_powers(items: Sequence[Item], most: int) -> Iterator[Sequence[Item]]:
    """Yield items in pieces of a power of two, for statements with a row for each: few statements are needed then."""
    at = 0
    while at < len(items):
        count = min(1 << (len(items) - at).bit_length() - 1, most)
        yield items[at : at + count]
        at += count
