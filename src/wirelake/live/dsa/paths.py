"""Paths and names of nodes: what is allowed, and how they are taken apart. The empty path is the root."""

from __future__ import annotations

import re

_BAD_NAME = re.compile(r"""[\x00-\x1f\\/'"?*|<>=:;]|%(?![0-9A-Fa-f]{2})|^[@$]|^\.\.?$|^$""")
"""What no name contains, how none begins, and what none is."""


class InvalidPath(ValueError):
    """A path that no node can have."""


def is_name(name: str) -> bool:
    """Whether a node may be called so. Text that was not UTF-8 is not refused: nodes of others may have it."""
    return _BAD_NAME.search(name) is None


def check_path(path: str, *, is_strict: bool = False) -> str:
    """Return a received path as nodes have it: without the leading slash that Java users write, unless ``is_strict``.

    InvalidPath if no node can have it.
    """
    if not path:
        return path
    if path[0] == "/" and not is_strict:
        path = path[1:]
        if not path:
            return path
    for name in path.split("/"):
        if _BAD_NAME.search(name) is not None:
            raise InvalidPath(f"{name!r} is no name of a node" if name else "an empty name: no slash may lead or trail")
    return path


def names_of(path: str) -> list[str]:
    """Return the names on the way from the root."""
    return path.split("/") if path else []


def join_path(*parts: str) -> str:
    """Return the path of parts one below the other; empty parts are the root, and add nothing."""
    return "/".join(part for part in parts if part)


def is_within(path: str, top: str) -> bool:
    """Whether a node is another one, or lies below it."""
    return not top or path == top or path.startswith(top + "/")
