"""Who may do what: levels of permission, and the roles that give a client its level at a path.

A role has rules for paths and the nodes below them, perhaps a level of its own for all others, and perhaps another role
to fall back on. A client has one role; where no role says anything, there is no permission.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ...protocols.dsa import PERMISSION

NONE, LIST, READ, WRITE, CONFIG = (PERMISSION.code(name) for name in ("none", "list", "read", "write", "config"))
LEVELS: Mapping[str, int] = {name: code for code, name in PERMISSION.names.items()}
DEFAULT = "default"
"""The role of clients without one, and the last that is asked."""
MOST_FALLBACKS = 16
MOST_KNOWN = 10_000
"""Answers that are kept."""


def level_named(name: str) -> int:
    """Return the level of that name; ValueError lists the names."""
    if name not in LEVELS:
        raise ValueError(f"{name!r} is no permission: there are {', '.join(LEVELS)}")
    return LEVELS[name]


def name_of(level: int) -> str:
    return PERMISSION.names[round_down(level)]


def round_down(level: int) -> int:
    """Return the highest level that is not above this number, as a header may have any."""
    return max((known for known in LEVELS.values() if known <= level), default=NONE)


def capped(level: int, cap: int | None) -> int:
    """Return the level of a request with a Max Permission, or without."""
    return level if cap is None else min(level, round_down(cap))


@dataclass(slots=True)
class Role:
    """``rules`` are levels by path; ``level`` holds where none of them does."""

    name: str
    level: int | None = None
    fallback: str = ""
    rules: dict[str, int] = field(default_factory=dict)

    def find(self, path: str) -> int | None:
        """Return the level of the longest rule for the path, or of the role; None if it says nothing."""
        if self.rules:
            at = path
            while True:
                level = self.rules.get(at)
                if level is not None:
                    return level
                if not at:
                    break
                at = at.rpartition("/")[0]
        return self.level


class Roles:
    """All roles by name. Levels are looked up for each request, so the answers are kept until a role changes."""

    def __init__(self) -> None:
        self._roles: dict[str, Role] = {}
        self._known: dict[tuple[str, str], int] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._roles

    def get(self, name: str) -> Role | None:
        return self._roles.get(name)

    def names(self) -> list[str]:
        return list(self._roles)

    def put(self, role: Role) -> None:
        """Add a role, or replace the one of its name."""
        self._roles[role.name] = role
        self._known.clear()

    def remove(self, name: str) -> None:
        self._roles.pop(name, None)
        self._known.clear()

    def level(self, name: str, path: str) -> int:
        """Return the level of a client with that role at a path."""
        found = self._known.get((name, path))
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            found = self._known[name, path] = self._find(name, path)
        return found

    def _find(self, name: str, path: str) -> int:
        for _ in range(MOST_FALLBACKS):
            role = self._roles.get(name)
            if role is None:
                break
            level = role.find(path)
            if level is not None:
                return level
            name = role.fallback
        else:
            return NONE
        last = self._roles.get(DEFAULT)
        level = last.find(path) if last is not None else None
        return NONE if level is None else level
