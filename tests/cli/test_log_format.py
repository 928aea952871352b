"""Log lines: JSON for programs, text for people."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import pytest

from wirelake.cli.log_format import show_logs


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
    log = show_logs(form="json", handler=kept)
    log.warning("it is full", extra={"fields": {"disk": "/srv", "bytes": 7}})
    shown = json.loads(kept.lines[0])
    assert shown.pop("ts").endswith("Z")
    assert shown == {"level": "warn", "text": "it is full", "disk": "/srv", "bytes": 7}


def test_people_get_a_line_with_the_time_and_the_fields() -> None:
    kept = Kept()
    show_logs(form="text", handler=kept).error("it is full", extra={"fields": {"disk": "/srv"}})
    assert kept.lines[0].split(maxsplit=1)[1] == "error it is full  disk=/srv"


@pytest.mark.parametrize(("how", "shown"), [({}, ["b"]), ({"verbose": True}, ["a", "b"]), ({"level": 40}, [])])
def test_the_level_says_which_lines_are_shown(how: dict[str, int], shown: list[str]) -> None:
    kept = Kept()
    log = show_logs(form="json", handler=kept, **how)  # type: ignore[arg-type]
    log.debug("a")
    log.info("b")
    assert [json.loads(line)["text"] for line in kept.lines] == shown


def test_an_exception_is_a_field() -> None:
    kept = Kept()
    log = show_logs(form="json", handler=kept)
    try:
        raise ValueError("why")
    except ValueError:
        log.exception("it failed")
    assert json.loads(kept.lines[0])["error"] == "ValueError('why')"
