"""What may stand in a lake: tables, paths, file names, numbers.

A lake may come from a stranger. Whatever is read back from it is held against these rules, which allow what wirelake
writes and nothing else, before it becomes a path or a name in SQL.
"""

from __future__ import annotations

import re
from typing import Annotated

from msgspec import Meta

CARRY = "_carry"
STAGING = "_staging"
SNAPSHOTS = "_tables"
"""Where snapshots find files that a commit has removed from their tables, until they are swept."""
TABLES = frozenset(
    {
        "bronze/chunks",
        "silver/messages",
        "silver/quarantine",
        "gold/exchanges",
        "gold/sessions",
        "gold/transactions",
        "gold/addresses",
        "gold/violations",
        "gold/open",
        "accounting",
    }
)
"""The tables of every lake. Beside them there is ``silver/<protocol>`` for each protocol."""

Count = Annotated[int, Meta(ge=0, le=(1 << 63) - 1)]
Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
LONGEST_TEXT = 1 << 14
Text = Annotated[str, Meta(max_length=LONGEST_TEXT)]
Scalar = bool | Int64 | float | Text | None
Values = dict[Text, Scalar | dict[Text, Scalar]]
"""Facts, labels, settings: small values by name, and such mappings one level deep."""

_NAME = "[A-Za-z0-9_.-]{1,100}"
_NUMBER = "[0-9]{8,12}"
_RANDOM = "[0-9a-f]{12}"
_PROTOCOL = re.compile("[a-z][a-z0-9_-]{0,99}")
_PARTITION = re.compile("|date=[0-9]{4}-[0-9]{2}-[0-9]{2}|date=__HIVE_DEFAULT_PARTITION__")
PART = f"part-{_NUMBER}-{_NAME}-[0-9]{{1,9}}[.]parquet"
"""The name of a file of a table: the commit whose rows it has, the task that wrote it, a number."""
_PART = re.compile(PART)
_CARRIED = re.compile(f"{_NUMBER}-{_NAME}")
_RUN = re.compile(f"{_NUMBER}-{_RANDOM}")
_ATTEMPT = re.compile(f"{_NAME}-{_RANDOM}")
_SEGMENT = re.compile("[A-Za-z0-9_.=-]{1,200}")


def is_name(text: str) -> bool:
    """Tell whether a task or a carry may have this name."""
    return re.fullmatch(_NAME, text) is not None


def is_protocol(name: str) -> bool:
    """Tell whether a protocol may have this name: never the path of a declaration, which is code."""
    return _PROTOCOL.fullmatch(name) is not None


def is_table(name: str) -> bool:
    return name in TABLES or (name.startswith("silver/") and is_protocol(name.removeprefix("silver/")))


def is_partition(name: str) -> bool:
    """Tell whether a directory of a table may have this name; it is empty for a table without dates."""
    return _PARTITION.fullmatch(name) is not None


def is_table_file(table: str, partition: str, name: str) -> bool:
    return is_table(table) and is_partition(partition) and bool(_PART.fullmatch(name))


def is_table_path(path: str) -> bool:
    """Tell whether a path is that of a file in a table."""
    above, _, name = path.rpartition("/")
    table, _, partition = above.rpartition("/")
    return is_path(path) and (is_table_file(table, partition, name) or is_table_file(above, "", name))


def table_of(path: str) -> str:
    """Return the table that a path of a file belongs to."""
    above = path.rpartition("/")[0]
    table, _, partition = above.rpartition("/")
    return table if partition.startswith("date=") else above


def is_carry_path(path: str) -> bool:
    directory, _, name = path.partition("/")
    return directory == CARRY and _CARRIED.fullmatch(name) is not None


def is_run(name: str) -> bool:
    """Tell whether a directory in ``_staging`` may have this name."""
    return _RUN.fullmatch(name) is not None


def is_staged_path(path: str, run: str) -> bool:
    """Tell whether a path is that of a file that an attempt of this run wrote."""
    attempt, _, rest = path.removeprefix(f"{STAGING}/{run}/").partition("/")
    return path.startswith(f"{STAGING}/{run}/") and bool(_ATTEMPT.fullmatch(attempt)) and is_path(rest)


def is_path(path: str) -> bool:
    """Tell whether a path is relative, leads nowhere else, and has plain characters only."""
    return all(_SEGMENT.fullmatch(part) and part not in (".", "..") for part in path.split("/"))


def shown(text: str) -> str:
    """Return a text from a lake in a form that is safe to print: quoted, escaped, cut."""
    return repr(text if len(text) <= 100 else f"{text[:100]}…")


def printable(text: str) -> str:
    """Return the same without quotes."""
    return shown(text)[1:-1]
