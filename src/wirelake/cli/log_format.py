"""Logs of long-running verbs on standard error: a line of text on a terminal, else one JSON object per line."""

from __future__ import annotations

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any

COLOURS = {"warn": "\x1b[33m", "error": "\x1b[31m"}
PLAIN = "\x1b[0m"
_WORDS = {"WARNING": "warn", "CRITICAL": "error"}


def show_logs(
    *, verbose: bool = False, level: int | None = None, form: str = "auto", handler: logging.Handler | None = None
) -> logging.Logger:
    """Show what wirelake logs from now on; return the logger. Fields are in ``extra={"fields": {...}}`` of a call.

    ``form`` is ``json``, ``text`` or ``auto``: text on a terminal. ``handler`` writes the lines, by default to standard
    error.
    """
    handler = handler or logging.StreamHandler(sys.stderr)
    is_text = sys.stderr.isatty() if form == "auto" else form == "text"
    handler.setFormatter(_ForPeople(sys.stderr.isatty()) if is_text else _ForMachines())
    chosen = level if level is not None else logging.DEBUG if verbose else logging.INFO
    for name, level in (("asyncio", logging.WARNING), ("wirelake", chosen)):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.propagate = False
        logger.setLevel(level)
    return logger


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


class _ForPeople(logging.Formatter):
    def __init__(self, has_colours: bool) -> None:
        super().__init__()
        self._has_colours = has_colours

    def format(self, record: logging.LogRecord) -> str:
        level = _level(record)
        fields = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        clock = time.strftime("%H:%M:%S", time.localtime(record.created))
        line = f"{clock} {level:5} {record.getMessage()}  {fields}".rstrip()
        return f"{COLOURS[level]}{line}{PLAIN}" if self._has_colours and level in COLOURS else line
