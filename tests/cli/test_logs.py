"""Log lines: JSON for programs, text for people; and a handler that never makes the caller wait."""

from __future__ import annotations

import io
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until
from wirelake.cli import logs
from wirelake.cli.logs import ThreadedHandler, show_logs


class Kept(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


@pytest.fixture(autouse=True)
def _loggers() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in ("asyncio", "wirelake")]
    before = [(one.handlers[:], one.propagate, one.level) for one in loggers]
    yield
    for one, (handlers, propagate, level) in zip(loggers, before, strict=True):
        one.handlers[:], one.propagate = handlers, propagate
        one.setLevel(level)


def test_programs_get_one_object_per_line_with_the_fields() -> None:
    kept = Kept()
    log = show_logs(kept, form="json")
    log.warning("it is full", extra={"fields": {"disk": "/srv", "bytes": 7}})
    shown = json.loads(kept.lines[0])
    assert shown.pop("ts").endswith("Z")
    assert shown == {"level": "warn", "text": "it is full", "disk": "/srv", "bytes": 7}


def test_people_get_a_line_with_the_time_and_the_fields() -> None:
    kept = Kept()
    show_logs(kept, form="text").error("it is full", extra={"fields": {"disk": "/srv"}})
    assert kept.lines[0].split(maxsplit=1)[1] == "error it is full  disk=/srv"


def test_what_peers_say_stays_in_one_line_and_moves_no_cursor() -> None:
    kept = Kept()
    log = show_logs(kept, form="text")
    log.error(
        "refused\nall is well", extra={"fields": {"user": "ann\r\n12:00:00 error fake\x1b[2J\u2028", "name": "Jörg"}}
    )
    shown = kept.lines[0].split(maxsplit=1)[1]
    assert shown == "error refused\\nall is well  user=ann\\r\\n12:00:00 error fake\\x1b[2J\\u2028 name=Jörg"


@pytest.mark.parametrize(("how", "shown"), [({}, ["b"]), ({"level": 10}, ["a", "b"]), ({"level": 40}, [])])
def test_the_level_says_which_lines_are_shown(how: dict[str, int], shown: list[str]) -> None:
    kept = Kept()
    log = show_logs(kept, form="json", **how)
    log.debug("a")
    log.info("b")
    assert [json.loads(line)["text"] for line in kept.lines] == shown


def test_an_exception_is_a_field() -> None:
    kept = Kept()
    log = show_logs(kept, form="json")
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("it failed")
    assert json.loads(kept.lines[0])["error"] == "ValueError('why')"


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
    monkeypatch.setattr(logs, "MAX_WAITING", 2)
    monkeypatch.setattr(logs, "CLOSE_SECONDS", 0.0)
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
