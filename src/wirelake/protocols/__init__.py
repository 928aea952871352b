"""The built-in protocols, loaded on first use, and the way to a user's own.

A protocol is named ``casual``, ``dsa``, ``mb``, ``ceda``, or ``path/to/file.py:NAME`` for a declaration of yours.
Installed packages can offer more through the entry point group ``wirelake.protocols``."""

from __future__ import annotations

import hashlib
import importlib
import sys
import traceback
import types
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path

from ..errors import SpecError
from ..spec.nodes import Protocol

_TEXT = "wirelake_declared_"
BUILT_IN = ("casual", "dsa", "mb", "ceda")
_declared: dict[str, Protocol] = {}
"""Protocols of users by the names they declare; the last one of a name counts."""


def load(name: str | Protocol) -> Protocol:
    """Return the protocol of this name; ValueError says which ones there are.

    SpecError: its declaration has the name of another protocol, whose tables and traffic it would take over.
    """
    if isinstance(name, Protocol):
        return _checked(name)
    return _declared.get(name) or _load(name)


def known() -> tuple[Protocol, ...]:
    """Return the built-in protocols, and those that were loaded here: they are found by the names they declare, too."""
    return (*map(load, BUILT_IN), *_declared.values())


def check_distinct(names: Iterable[str]) -> None:
    """Refuse declarations that have the same name: they would share a table."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(load(name).name, name)
        if load(other) is not load(name):
            raise ValueError(f"{other} and {name} are both named {load(name).name!r}: rename one of them")


@lru_cache(maxsize=64)
def _load(name: str) -> Protocol:
    if name in BUILT_IN:
        return _protocol(importlib.import_module(f".{name}", __name__), "PROTOCOL", name)
    declared = _checked(_load_declared(name))
    _declared[declared.name] = declared
    return declared


def _checked(protocol: Protocol) -> Protocol:
    """Refuse a protocol that nobody checked, and one that takes the name of a built-in one."""
    name = protocol.name
    if not any(getattr(cls, "__protocol__", None) for cls in protocol.messages):
        raise SpecError(f"protocol {name} is not declared; write PROTOCOL = declare(Protocol(...))")
    if name in BUILT_IN and protocol.messages != _load(name).messages:
        raise SpecError(f"protocol {name} has the name of a built-in protocol; write another name")
    return protocol


def _load_declared(name: str) -> Protocol:
    path, colon, attribute = name.rpartition(":")
    if colon and path.endswith(".py"):
        return _protocol(_import_file(Path(path)), attribute, name)
    if colon and path.startswith(_TEXT) and path in sys.modules:
        return _protocol(sys.modules[path], attribute, name)
    from importlib.metadata import entry_points

    for entry in entry_points(group="wirelake.protocols"):
        if entry.name == name:
            declared = entry.load()
            if isinstance(declared, Protocol):
                return declared
            raise SpecError(f"the entry point {name!r} is not a Protocol")
    raise ValueError(f"unknown protocol {name!r}: one of {', '.join(BUILT_IN)}, or path/to/file.py:NAME")


def load_text(text: str, attribute: str) -> str:
    """Take in the text of a declaration where its file is not: in a worker of a cluster. Return a name to load it by.

    The same text has the same name in every process, so that what belongs to it can be pickled.
    """
    name = f"{_TEXT}{_digest(text, 16)}"
    if name not in sys.modules:
        _run(name, text, f"<{name}>")
    _protocol(sys.modules[name], attribute, "the declaration")
    return f"{name}:{attribute}"


def _import_file(path: Path) -> types.ModuleType:
    if not path.is_file():
        raise ValueError(f"no such file: {path}")
    return _run(f"wirelake_user_{path.stem}_{_digest(str(path.resolve()), 12)}", path.read_bytes(), str(path))


def _digest(text: str, size: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:size]


def _run(name: str, source: str | bytes, file: str) -> types.ModuleType:
    """Run a declaration as a module of this name."""
    module = sys.modules[name] = types.ModuleType(name)
    module.__file__ = file
    try:
        exec(compile(source, file, "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        del sys.modules[name]
        if isinstance(error, TypeError) and (line := _line_in(file, error)):
            raise SpecError(f"{file}, line {line}: TypeError: {error}") from None
        raise
    return module


def _line_in(file: str, error: BaseException) -> int:
    """Return the line of the declaration that made the call which failed; 0 if it failed further inside."""
    frames = traceback.extract_tb(error.__traceback__)
    return frames[-1].lineno or 0 if frames and frames[-1].filename == file else 0


def _protocol(module: types.ModuleType, attribute: str, name: str) -> Protocol:
    declared = getattr(module, attribute, None)
    if not isinstance(declared, Protocol):
        raise ValueError(f"{name}: {attribute!r} is not a protocol declaration")
    return declared
