"""What a list knows of a node, merged from the updates that came; and tables that the results of actions make up."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...errors import LimitExceeded
from .events import ABSENT, Listed

CLOSED = 0x20
MOST_KEYS = 1_000_000
"""Keys of one list that are kept; beyond that a list can only be read update by update."""
MOST_ROWS = 1_000_000
_MODIFY = re.compile(r"(insert|replace) (\d{1,9})(?:-(\d{1,9}))?").fullmatch


@dataclass(slots=True)
class Listing:
    """A node as its list shows it."""

    path: str
    metadata: dict[str, Any] = field(default_factory=dict)
    """By name, with the leading ``$``."""
    attributes: dict[str, Any] = field(default_factory=dict)
    """By name, with the leading ``@``."""
    children: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What the list says about each child: those of ``$is``, ``$type``, ``$writable`` and ``$invokable`` that exist."""
    status: int = 0
    pub_path: str | None = None

    def __len__(self) -> int:
        return len(self.metadata) + len(self.attributes) + len(self.children)

    def apply(self, update: Listed, most: int = MOST_KEYS) -> None:
        """Merge an update. LimitExceeded if that makes too many keys."""
        self.status = 0 if update.status == CLOSED else update.status
        if update.is_refreshed:
            self.metadata, self.attributes, self.children = {}, {}, {}
        if update.pub_path is not None:
            self.pub_path = update.pub_path
        for key, value in update.entries.items():
            part = self._part(key)
            if value is ABSENT:
                part.pop(key, None)
            else:
                part[key] = value
        if len(self) > most:
            raise LimitExceeded(
                f"the list of {self.path!r} has more than {most} keys; read it update by update",
                rule="payload_too_large", limit=most, actual=len(self),
            )  # fmt: skip

    def _part(self, key: str) -> dict[str, Any]:
        return {"$": self.metadata, "@": self.attributes}.get(key[:1], self.children)

    def profile_path(self) -> str | None:
        """Return where the profile of the node is, None if it is a standard one, or only a label."""
        name = self.metadata.get("$is")
        if not isinstance(name, str) or not name or name[0].isdigit() or self.pub_path is None:
            return None
        return f"{self.pub_path}/{name}"


@dataclass(slots=True)
class Table:
    """Rows and columns of an action whose result is a table or a stream of rows."""

    columns: list[dict[str, Any]] = field(default_factory=list)
    rows: list[list[Any]] = field(default_factory=list)
    most: int = MOST_ROWS

    def apply(self, result: Any, *, is_refreshed: bool = False) -> None:
        """Merge a result. Values that are no table become a row of one value."""
        if is_refreshed:
            self.columns, self.rows = [], []
        if not isinstance(result, dict) or not result.keys() & {"meta", "columns", "rows"}:
            self.rows.append([result])
            return
        meta = result.get("meta")
        meta = meta if isinstance(meta, dict) else {}
        columns, rows = _lists(result.get("columns")), _lists(result.get("rows"))
        mode = meta.get("mode", "append")
        if mode == "refresh":
            self.rows = []
            if columns:
                self.columns = []
        self.columns += columns
        change = None if mode == "refresh" else _MODIFY(str(meta.get("modify", "")))
        if change is None:
            self.rows += rows
        else:
            self._modify(change[1], int(change[2]), int(change[3] or change[2]), rows)
        if len(self.rows) > self.most:
            if mode != "stream":
                raise LimitExceeded(
                    f"a table of more than {self.most} rows",
                    rule="payload_too_large",
                    limit=self.most,
                    actual=len(self.rows),
                )
            del self.rows[: len(self.rows) - self.most]

    def _modify(self, word: str, first: int, last: int, rows: list[Any]) -> None:
        if word == "insert":
            self.rows[first:first] = rows
        else:
            self.rows[first : last + 1] = rows


def _lists(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
