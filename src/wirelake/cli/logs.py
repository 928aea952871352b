"""Logs of long-running verbs on standard error: a line of text on a terminal, else one JSON object per line.

A thread writes them: a slow reader of standard error must not block the server.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import sys
import threading
import time
from datetime import UTC, datetime
from typing import Any, TextIO

COLOURS = {"warn": "\x1b[33m", "error": "\x1b[31m"}
PLAIN = "\x1b[0m"
_WORDS = {"WARNING": "warn", "CRITICAL": "error"}
MAX_WAITING = 10_000
"""Lines that may wait to be written; further ones are dropped and counted."""
CLOSE_SECONDS = 1.0
_ONE_LINE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
"""Characters of what peers say that would end the line, or move the cursor of a terminal."""


def show_logs(handler: logging.Handler, *, level: int = logging.INFO, form: str = "auto") -> logging.Logger:
    """Show what wirelake logs from now on; return the logger. Fields are in ``extra={"fields": {...}}`` of a call.

    ``form`` is ``json``, ``text`` or ``auto``: text on a terminal.
    """
    is_text = sys.stderr.isatty() if form == "auto" else form == "text"
    handler.setFormatter(_ForPeople(sys.stderr.isatty()) if is_text else _ForMachines())
    for name, least in (("asyncio", logging.WARNING), ("wirelake", level)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(least)
    return logger


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


def _level(record: logging.LogRecord) -> str:
    return _WORDS.get(record.levelname, record.levelname.lower())


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = dict(getattr(record, "fields", {}))
    if record.exc_info and record.exc_info[1] is not None:
        fields["error"] = repr(record.exc_info[1])
    return fields


class _ForMachines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        ts = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        shown = {"ts": ts, "level": _level(record), "text": record.getMessage(), **_fields(record)}
        return json.dumps(shown, ensure_ascii=False, default=str)


def _escape(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


class _ForPeople(logging.Formatter):
    def __init__(self, has_colours: bool) -> None:
        super().__init__()
        self._has_colours = has_colours

    def format(self, record: logging.LogRecord) -> str:
        level = _level(record)
        fields = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = _ONE_LINE.sub(_escape, f"{clock} {level:5} {record.getMessage()}  {fields}".rstrip())
        return f"{COLOURS[level]}{line}{PLAIN}" if self._has_colours and level in COLOURS else line
