"""Directories named ``key=value`` as columns, by the rules of Spark's own file formats.

The values are a function of a file's path, so that the planner, which skips files by them, and the workers, which put
them into rows, need not tell each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from ..capture.read.listing import Listing, find, full_path, glob_expression
from ..errors import OptionError
from .schema import spelled

NULL = "__HIVE_DEFAULT_PARTITION__"
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
_IGNORE = "recursiveFileLookup=true reads them without such columns"

Keys = tuple[tuple[str, str | None], ...]


@dataclass(frozen=True)
class Places:
    """Where the directories begin that may be columns: at the paths that were given, or at ``basePath``."""

    paths: tuple[str, ...]
    base: str | None = None

    @classmethod
    def of(cls, listing: Listing, base: str | None) -> Places:
        return cls(tuple(map(full_path, listing.paths)), None if base is None else full_path(base))

    def keys(self, path: str) -> Keys:
        """Return what the directories of a file say, the outermost first."""
        inner = path[len(self.begin(path)) :].split("/")[1:-1]
        pairs = (name.partition("=") for name in inner if "=" in name)
        return tuple((unquote(key), None if value == NULL else unquote(value)) for key, _, value in pairs)

    def begin(self, path: str) -> str:
        """Return the directory at which they begin."""
        if self.base is not None:
            if not path.startswith(f"{self.base}/"):
                raise OptionError(f"{path} is not in the directory {self.base} that the option basePath names")
            return self.base
        parts = path.split("/")
        for given in self.paths:
            beginning = "/".join(parts[: len(given.split("/"))])
            if beginning == given or re.fullmatch(glob_expression(given), beginning):
                return beginning if beginning != path else path.rpartition("/")[0]
        return path.rpartition("/")[0]


def discover(listing: Listing, places: Places, *, infer: bool = True) -> list[pa.Field]:
    """Return the columns that directories make; none where they are not looked at."""
    if not listing.has_partitions or not listing.paths:
        return []
    found = {path: places.keys(path) for path in (file.path for file in find(listing))}
    if not any(found.values()):
        return []
    beginnings = list(dict.fromkeys(map(places.begin, found)))
    if len(beginnings) > 1:
        raise OptionError(
            f"the columns of {beginnings[0]} and {beginnings[1]} are those of two tables: name the directory of both "
            f"with basePath, or {_IGNORE}"
        )
    first = next(path for path, keys in found.items() if keys)
    names = [key for key, _ in found[first]]
    for path, keys in found.items():
        if [key for key, _ in keys] != names:
            raise OptionError(
                f"the directories of {first} and {path} do not make the same columns: read them apart, or {_IGNORE}"
            )
    twice = next((name for name in names if [other.lower() for other in names].count(name.lower()) > 1), None)
    if twice is not None:
        raise OptionError(f"{first}: two directories are named {twice}=...; {_IGNORE}")
    columns = zip(names, zip(*found.values(), strict=True), strict=True)
    return [pa.field(name, _type(pairs) if infer else pa.string()) for name, pairs in columns]


def refuse_collisions(fields: Iterable[pa.Field], taken: Iterable[str], what: str) -> None:
    """Refuse a directory that is named like a column of messages. Spark would overwrite the column."""
    known = {name.lower() for name in taken}
    for field in fields:
        if field.name.lower() in known:
            raise OptionError(
                f"{what}: the directories {field.name}=... are named like a column of its messages; {_IGNORE}"
            )


def value_of(path: str, keys: Keys, field: pa.Field) -> Any:
    """Return the value that a file has in such a column, as its type."""
    texts = {key.lower(): value for key, value in keys}
    if field.name.lower() not in texts:
        raise OptionError(f"{path} is in no directory named {field.name}=...")
    text = texts[field.name.lower()]
    if text is None:
        return pa.scalar(None, field.type)
    try:
        return pa.scalar(text if pa.types.is_string(field.type) else text.removeprefix("+")).cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise OptionError(f"{path}: {field.name}={text} is not of the type {spelled(field.type)}") from None


# --- types


def _type(pairs: Iterable[tuple[str, str | None]]) -> Any:
    """Return the narrowest type that all values have."""
    kinds = {_kind(value) for _, value in pairs if value is not None}
    if kinds <= {"int", "long"} and kinds:
        return pa.int64() if "long" in kinds else pa.int32()
    if kinds in ({"double"}, {"int", "double"}):
        return pa.float64()
    return pa.date32() if kinds == {"date"} else pa.string()


def _kind(text: str) -> str:
    if re.fullmatch(r"[+-]?[0-9]+", text):
        number = int(text)
        return "int" if -(1 << 31) <= number < 1 << 31 else "long" if -(1 << 63) <= number < 1 << 63 else "text"
    if _NUMBER.fullmatch(text):
        return "double"
    return "date" if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", text) and _is_date(text) else "text"


def _is_date(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True
