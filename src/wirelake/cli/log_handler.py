"""A log handler that writes in a thread: a slow reader of standard error must not block the server."""

from __future__ import annotations

import logging
import os
import queue
import sys
import threading
from typing import TextIO

MAX_WAITING = 10_000
"""Lines that may wait to be written; further ones are dropped and counted."""
CLOSE_SECONDS = 1.0


class ThreadedHandler(logging.Handler):
    """A handler whose ``handle`` never waits for the reader."""

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
                self._waiting.put_nowait(self.format(_loss_record(self.lost)))
                self.lost = 0
            self._waiting.put_nowait(line)
        except queue.Full:
            self.lost += 1

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            try:
                self._put(line + "\n")
            except (OSError, ValueError):  # the reader is gone
                return

    def _put(self, text: str) -> None:
        """Write past the buffer of the stream: its lock would keep the interpreter from exiting."""
        if self._file is None:
            self._stream.write(text)
            return
        data = text.encode(errors="backslashreplace")
        while data:
            data = data[os.write(self._file, data) :]

    def close(self) -> None:
        """Write what waits, if it is read soon."""
        try:
            self._waiting.put_nowait(None)
        except queue.Full:
            pass
        else:
            self._thread.join(CLOSE_SECONDS)
        super().close()


def _file_of(stream: TextIO) -> int | None:
    """Return the file descriptor, None if the stream has none."""
    try:
        return stream.fileno()
    except (OSError, AttributeError, ValueError):
        return None


def _loss_record(count: int) -> logging.LogRecord:
    record = logging.LogRecord(
        "wirelake", logging.WARNING, "", 0, "log lines dropped: standard error was not read", (), None
    )
    record.fields = {"count": count}
    return record
