"""Moves the log of a SQLite store into its file beside the writer, who would have to wait for the disk meanwhile.

SQLite begins its log anew when all of it is in the file. So a thread moves what is there, then what was added in that
time, which is less; the writer moves the little that is left.
"""

from __future__ import annotations

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

PAGES = 4_000
"""So much of a log is moved, about."""
PASSES = 3
ROWS_PER_PAGE, PAGES_PER_BATCH = 5, 4
"""What a batch adds to the log is estimated by the rows that it changes; some pages are changed by every batch."""


class Checkpoints:
    """Those of one store. ``begin`` is called before each batch of its writer, ``end`` behind it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pages = self._changes = 0
        self._thread: threading.Thread | None = None
        self._is_moved = False

    def begin(self, connection: sqlite3.Connection) -> None:
        if self._is_moved:
            self._is_moved = False
            self.close()
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def end(self, connection: sqlite3.Connection) -> None:
        changes = connection.total_changes
        self._pages += PAGES_PER_BATCH + (changes - self._changes) // ROWS_PER_PAGE
        self._changes = changes
        if self._pages >= PAGES and self._thread is None:
            self._pages = 0
            self._thread = threading.Thread(target=self._move, name="wirelake-checkpoint", daemon=True)
            self._thread.start()

    def _move(self) -> None:
        """Move the log, as far as it has come. The writer meets the same error, and knows what to do about it."""
        try:
            with closing(sqlite3.connect(self._path, isolation_level=None)) as connection:
                for _ in range(PASSES):
                    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        except sqlite3.Error:
            pass
        self._is_moved = True

    def close(self) -> None:
        if self._thread is not None:
            self._thread.join()
            self._thread = None
