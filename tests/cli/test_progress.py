"""How far something is, for people."""

from __future__ import annotations

import pytest

from wirelake.cli import progress
from wirelake.cli.progress import Bar, size


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(progress, "time", made)
    return made


def test_where_there_is_no_terminal_it_is_a_line_now_and_then(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar(indent="  ")
    bar.stage("traffic", 17, "s")
    for _ in range(12):
        clock.now += 1
        bar.add(1)
    bar.close()
    assert capsys.readouterr().err == "  traffic: 5 of 17 s\n  traffic: 10 of 17 s\n"


def test_on_a_terminal_the_line_moves_and_is_full_in_the_end(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar()
    bar.is_terminal = True
    bar.stage("index", 200_000)
    clock.now += 1
    bar.add(100_000)
    bar.close()
    moved = capsys.readouterr().err.split("\r")
    assert moved[2] == f"index        [{'#' * 15}{'.' * 15}]  50 %  100.0 kB of 200.0 kB, 100.0 kB/s"
    assert moved[-1].endswith("100 %  200.0 kB of 200.0 kB, 200.0 kB/s\n")


def test_what_nobody_knows_the_total_of_is_counted(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar()
    bar.is_terminal = True
    bar.stage("compiling", 0, "s")
    clock.now += 1
    bar.add(1)
    bar.leave()
    bar.close()
    assert capsys.readouterr().err == "\rcompiling    0 s\rcompiling    1 s\n"


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (2.5e9, "2.5 GB")])
def test_sizes_are_short(count: float, text: str) -> None:
    assert size(count) == text
