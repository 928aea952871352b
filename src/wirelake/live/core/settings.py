"""Settings that people write: a table of TOML becomes one frozen dataclass, checked once.

The dataclass is the description: its fields are the keys, their types what is allowed, their defaults what holds where
nothing is said. What is wrong is refused with the file, the key, and what would be right.
"""

from __future__ import annotations

import builtins
import dataclasses
import importlib
import math
import pathlib
import sys
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

from .address import Address, parse_address

T = TypeVar("T")
_NAMES: dict[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Path: "a path, as a text",
    Address: "HOST:PORT, as a text",
    tuple[str, ...]: "a list of texts",
    dict[str, str]: "a table of texts",
}


class SettingsError(ValueError):
    """Something in the settings is wrong: where, and what is allowed, in one line."""


def rules(*, among: tuple[str, ...] = (), least: float = 0, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """What a field allows. ``among``: these words; ``least``: numbers from this one on; ``without``: not these fields
    of its dataclass, which are no business of who writes the settings.
    """
    return {"among": among, "least": least, "without": without}


def setting(default: Any, **allowed: Any) -> Any:
    return dataclasses.field(default=default, metadata=rules(**allowed))


def find_object(key: str, name: str, directory: Path) -> Any:
    """Return what ``module:attribute`` names; the module may lie beside the settings. ``key`` is the setting."""
    module, _, attribute = name.partition(":")
    if not module or not attribute:
        raise SettingsError(f"{key}: {name!r} has to be module:attribute")
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    try:
        return getattr(importlib.import_module(module), attribute)
    except AttributeError:
        raise SettingsError(f"{key}: {module} has no {attribute}") from None
    except Exception as error:  # a module of somebody else's may raise anything
        raise SettingsError(f"{key}: cannot import {module}: {type(error).__name__}: {error}") from None


def load_toml(path: Path) -> dict[str, Any]:
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise SettingsError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"{path}: not a text in UTF-8") from None
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{path}: {error}") from None


@dataclasses.dataclass(frozen=True, slots=True)
class Reader:
    """Reads tables of one file. Paths in it are relative to where the file is."""

    name: str
    directory: Path

    def fail(self, key: str, detail: str) -> typing.NoReturn:
        raise SettingsError(f"{self.name}: {key}: {detail}" if key else f"{self.name}: {detail}")

    def refuse_unknown(self, table: dict[str, Any], known: list[str], key: str) -> None:
        for name in table:
            if name not in known:
                where = f"{key}.{name}" if key else name
                self.fail(where, f"no such key; there are {', '.join(sorted(known))}")

    def read(self, kind: type[T], table: Any, key: str = "", without: tuple[str, ...] = ()) -> T:
        """The dataclass that a table describes."""
        if not isinstance(table, dict):
            self.fail(key, f"has to be a table, not {_shown(table)}")
        fields = {field.name: field for field in dataclasses.fields(kind) if field.name not in without}  # type: ignore[arg-type]
        self.refuse_unknown(table, list(fields), key)
        for name, one in fields.items():
            if name not in table and one.default is one.default_factory is dataclasses.MISSING:
                self.fail(f"{key}.{name}" if key else name, "is missing")
        hints = typing.get_type_hints(kind)
        values = {
            name: self.value(hints[name], value, f"{key}.{name}" if key else name, fields[name].metadata)
            for name, value in table.items()
        }
        try:
            return kind(**values)
        except (ValueError, LookupError) as error:
            self.fail(key, str(error))

    def value(self, kind: Any, value: Any, key: str, allowed: typing.Mapping[str, Any]) -> Any:
        """A value of that kind, or of the one kind that is allowed besides None."""
        if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
            (kind,) = (one for one in typing.get_args(kind) if one is not types.NoneType)
        if dataclasses.is_dataclass(kind):
            return self.read(typing.cast(type, kind), value, key, tuple(allowed.get("without", ())))
        match value, typing.get_origin(kind) or kind:
            case str(), _ if kind == Address:
                try:
                    return parse_address(value)
                except ValueError as error:
                    self.fail(key, str(error))
            case list(), builtins.tuple if kind != Address:
                element = typing.get_args(kind)[0]
                return tuple(self._element(element, one, f"{key}[{n}]", allowed) for n, one in enumerate(value))
            case dict(), builtins.dict:
                return {n: self.value(typing.get_args(kind)[1], one, f"{key}.{n}", {}) for n, one in value.items()}
            case str(), pathlib.Path:
                return self.directory / Path(value).expanduser()
            case str(), builtins.str:
                among = allowed.get("among") or (value,)
                if value not in among:
                    self.fail(key, f"has to be {' or '.join(among)}, not {value!r}")
                return value
            case bool(), builtins.bool:
                return value
            case (int(), builtins.int) | (int() | float(), builtins.float) if not isinstance(value, bool):
                least = allowed.get("least", 0)
                if not math.isfinite(value) or value < least:
                    self.fail(key, f"has to be {least:g} or more, not {value:g}")
                return kind(value)
        tables = "a list of tables" if typing.get_origin(kind) is tuple else "a table of tables"
        self.fail(key, f"has to be {_NAMES.get(kind, tables)}, not {_shown(value)}")

    def _element(self, kind: Any, value: Any, key: str, allowed: typing.Mapping[str, Any]) -> Any:
        """One of a list; a text stands for a table that has only the first key."""
        if dataclasses.is_dataclass(kind) and isinstance(value, str):
            value = {dataclasses.fields(kind)[0].name: value}
        return self.value(kind, value, key, allowed)


def _shown(value: Any) -> str:
    words = {dict: "a table", list: "a list", bool: str(value).lower()}
    return words.get(type(value)) or repr(value)
