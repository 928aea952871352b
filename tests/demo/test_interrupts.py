"""Ctrl-C and SIGTERM, at any step: one calm line, and nothing is left behind."""

from __future__ import annotations

import json
import signal
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.demo.running import Demo, demo
from tests.needs import require
from tests.waiting import wait_until
from wirelake.lake import Lake

CALM = "stopping and cleaning up; interrupt again to stop at once\n"


@pytest.fixture(autouse=True)
def _java() -> None:
    require("java")


def assert_nothing_is_left(run: Demo) -> None:
    assert run.left() == []
    assert list(run.home.iterdir()) == []
    assert list(run.here.iterdir()) == []


@pytest.mark.parametrize(
    ("moment", "number", "status"),
    [
        ("1/4", signal.SIGINT, 130),
        ("2/4", signal.SIGTERM, 143),
        ("3/4", signal.SIGINT, 130),
    ],
)
def test_a_signal_ends_it_in_good_order(tmp_path: Path, moment: str, number: signal.Signals, status: int) -> None:
    with demo(tmp_path, "-n", 1, "--keep", tmp_path / "new" / "kept", "-o", tmp_path / "pages" / "demo.html") as run:
        run.hear(moment)
        run.send(number)
        assert run.end() == (status, "")
        assert run.said.endswith(CALM) and "Traceback" not in run.said
        assert_nothing_is_left(run)


def test_a_demonstration_that_goes_on_shows_its_traffic_until_it_is_told_to_end(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with demo(tmp_path, "-n", 2000, "--live", "--keep", kept) as run:
        run.hear("until Ctrl-C")
        url = run.said.partition("follows the traffic at ")[2].split()[0]
        first = ask(url)["recent"]
        wait_until(lambda: ask(url)["recent"] > max(first, 0), seconds=60)
        run.send(signal.SIGINT)
        status, printed = run.end()
        assert status == 0 and run.said.endswith(f"{url} until Ctrl-C\n"), run.said
        assert run.left() == []
    listening, places = map(json.loads, printed.splitlines())
    assert listening == {"listening": url} and places == {name: str(kept / name) for name in ("capture", "lake")}
    assert Lake.open(kept / "lake", create=False).number() > first


def ask(url: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{url}state", timeout=30) as answer:
        return json.load(answer)


def test_a_second_one_ends_it_at_once(tmp_path: Path) -> None:
    with demo(tmp_path, "-n", 1) as run:
        run.hear("traffic: ")
        run.send(signal.SIGINT)
        run.hear(CALM)
        run.send(signal.SIGINT)
        assert run.end() == (130, "")
        assert "Traceback" not in run.said
        assert_nothing_is_left(run)
