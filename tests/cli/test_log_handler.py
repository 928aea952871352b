"""A log handler that never makes the caller wait."""

from __future__ import annotations

import io
import logging
import os
from pathlib import Path

import pytest

from tests.waiting import wait_until
from wirelake.cli import log_handler
from wirelake.cli.log_handler import ThreadedHandler


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("wirelake", logging.INFO, "", 0, text, (), None)


def test_lines_are_written_in_order_and_the_last_ones_at_the_end(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as stream:
        handler = ThreadedHandler(stream)
        for number in range(100):
            handler.handle(record(f"line {number}"))
        handler.close()
    assert (tmp_path / "log").read_text().splitlines() == [f"line {number}" for number in range(100)]


def test_a_stream_without_a_file_is_written_too() -> None:
    stream = io.StringIO()
    handler = ThreadedHandler(stream)
    handler.handle(record("a"))
    handler.close()
    assert stream.getvalue() == "a\n"


def test_lines_that_nobody_reads_are_dropped_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_handler, "MAX_WAITING", 2)
    monkeypatch.setattr(log_handler, "CLOSE_SECONDS", 0.0)
    reading, writing = os.pipe()
    with os.fdopen(writing, "w") as stream, os.fdopen(reading, "rb") as reader:
        handler = ThreadedHandler(stream)
        handler.handle(record("x" * (1 << 20)))  # more than a pipe holds
        wait_until(handler._waiting.empty)
        for _ in range(5):
            handler.handle(record("y"))
        assert handler.lost == 3
        assert reader.read((1 << 20) + 1 + 2 * len("y\n")).endswith(b"x\ny\ny\n")
        handler.handle(record("z"))
        assert handler.lost == 0
        assert [reader.readline(), reader.readline()] == [b"log lines dropped: standard error was not read\n", b"z\n"]
        handler.close()
