"""A small store for tests of the frame: notes by key, which are put, read and refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wirelake.live.storage.database import Database, Schema

NOTEBOOK = Schema(
    "notebooks",
    "wirelake_notebooks",
    0x6E6F7465,
    1,
    ("CREATE TABLE notes (key {blob} PRIMARY KEY, text {blob} NOT NULL)",),
)


class Notebook:
    """Requests: ("put", key, text), ("jot", key, text) without a promise, ("get", key), ("spoil", key, error)."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def is_new(self, request: tuple[Any, ...]) -> bool:
        return request[0] in ("put", "jot")

    def is_durable(self, request: tuple[Any, ...]) -> bool:
        return request[0] == "put"

    def apply_all(self, requests: Sequence[tuple[Any, ...]]) -> list[Any]:
        return list(map(self.apply, requests))

    def apply(self, request: tuple[Any, ...]) -> Any:
        match request:
            case ("put" | "jot", key, text):
                self._database.execute(
                    "INSERT INTO notes (key, text) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET text = excluded.text",
                    (key, text),
                )
                return None
            case ("get", key):
                row = self._database.find("SELECT text FROM notes WHERE key = ?", (key,))
                return None if row is None else bytes(row[0])
            case ("spoil", key, error):
                self._database.execute("DELETE FROM notes WHERE key = ?", (key,))
                raise error
        raise ValueError(f"no such request: {request}")
