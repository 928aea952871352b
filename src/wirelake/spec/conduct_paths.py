"""What a ``Conduct`` mentions: its selections, and the fields it reads, each with where it stands."""

from __future__ import annotations

from collections.abc import Iterator

from .conduct import Conduct, Selection

EVERYWHERE = frozenset({"direction"})
"""Fields of all messages that a condition may name."""


def selections(conduct: Conduct) -> Iterator[tuple[str, Selection]]:
    """Yield every selection, with what it is for."""
    for name in ("parts", "limits", "units", "no_reply", "results", "heartbeats", "introductions", "not_forwarded"):
        yield from ((name, one) for one in getattr(conduct, name))
    yield from (("matching.invented", one) for one in conduct.matching.invented)
    if conduct.streams is not None:
        for name in ("continues", "partial", "once"):
            yield from ((f"streams.{name}", one) for one in getattr(conduct.streams, name))


def paths(conduct: Conduct) -> Iterator[tuple[str, str]]:
    """Yield every field that is named outside of conditions, with what it is for."""
    for one in conduct.introductions:
        yield from ((f"introductions.{name}", path) for name, path in one.facts.items())
    if (pieces := conduct.pieces) is not None:
        named = {"index": pieces.index, "count": pieces.count, "key": pieces.key}
        yield from ((f"pieces.{name}", path) for name, path in named.items() if path)
        yield from (("pieces.keys", path) for path in pieces.keys.values())
    if (branches := conduct.branches) is not None:
        named = {"flags": branches.flags, "resource": branches.resource}
        yield from ((f"branches.{name}", path) for name, path in named.items() if path)


def columns_read(conduct: Conduct) -> tuple[str, ...]:
    """Return the columns of the protocol's table that the facts are made of, besides those of roles."""
    conditions = [when.field for _, one in selections(conduct) for when in one.conditions]
    named = [*conditions, *(path for _, path in paths(conduct)), *conduct.facts_read]
    first = [path.partition(".")[0] for path in named if not path.startswith("@") and path not in EVERYWHERE]
    return tuple(dict.fromkeys(first))
