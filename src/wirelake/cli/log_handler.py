"""Writes log lines in a thread: who does not read our standard error must not make everybody else wait."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from typing import TextIO

MAX_WAITING = 10_000
"""Lines that may wait to be written; those beyond are only counted."""
CLOSE_SECONDS = 1.0


class ThreadedHandler(logging.Handler):
    """A handler whose ``handle`` never waits for who reads."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self._stream = stream or sys.stderr
        self._file = _file_of(self._stream)
        self._waiting: queue.Queue[str | None] = queue.Queue(MAX_WAITING)
        self.lost = 0
        self._thread = threading.Thread(target=self._write, name="wirelake-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            self.handleError(record)
            return
        try:
            if self.lost:
                self._waiting.put_nowait(self.format(_told(self.lost)))
                self.lost = 0
            self._waiting.put_nowait(line)
        except queue.Full:
            self.lost += 1

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            try:
                self._put(line + "\n")
            except (OSError, ValueError):  # nobody reads any more
                return

    def _put(self, text: str) -> None:
        """Past the buffer of the stream: while that is being written nobody else can close it, also not the
        interpreter at its end.
        """
        if self._file is None:
            self._stream.write(text)
            return
        data = text.encode(errors="backslashreplace")
        while data:
            data = data[os.write(self._file, data) :]

    def close(self) -> None:
        """Writes what waits, if somebody reads it soon."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            pass
        else:
            self._thread.join(CLOSE_SECONDS)
        super().close()


def _file_of(stream: TextIO) -> int | None:
    """None for what is no file of the system."""
    try:
        return stream.fileno()
    except (OSError, AttributeError, ValueError):
        return None


def _told(count: int) -> logging.LogRecord:
    record = logging.LogRecord("wirelake", logging.WARNING, "", 0, "log lines were lost: nobody took them", (), None)
    record.fields = {"count": count}
    return record
