"""Measuring itself, with messages too few to mean anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.__main__ import main, ratios
from benchmarks.contest import CODEC, COLUMNAR, CONSTRUCT, HAND_COLUMNS, HAND_RECORDS, RECORD, TWO, Contestant
from benchmarks.measure import peak_memory, race
from benchmarks.traffic import make_frames


def test_a_run_prints_a_table_and_writes_the_same_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "results.json"
    assert main(["--messages", "200", "--rounds", "1", "--protocol", "casual", "--no-memory", "--json", str(file)]) == 0
    found = json.loads(file.read_text())["protocols"]["casual"]
    assert set(found["contestants"]) == {COLUMNAR, TWO, HAND_COLUMNS, RECORD, CODEC, HAND_RECORDS, CONSTRUCT}
    assert len(found["ratios"]) == 5
    printed = capsys.readouterr().out
    assert all(name in printed for name in found["contestants"])
    assert all(ratio["passed"] is (ratio["value"] >= ratio["demanded"]) for ratio in found["ratios"])


def test_a_ratio_below_its_demand_is_missed() -> None:
    best = {COLUMNAR: 1.0, CONSTRUCT: 24.9, HAND_COLUMNS: 4.0}
    assert [(ratio["value"], ratio["passed"]) for ratio in ratios(best)] == [(24.9, False), (4.0, True)]


def test_every_contestant_is_run_in_every_round_and_once_before() -> None:
    runs: list[str] = []
    runners = [Contestant(name, 1, 1, lambda name=name: runs.append(name), list) for name in ("a", "b")]
    said: list[str] = []
    assert set(race(runners, 3, said.append)) == {"a", "b"}
    assert runs == ["a", "a", "b", "b"] * 3
    assert len(said) == 3


def test_memory_is_measured_in_a_process_of_its_own() -> None:
    peaks = peak_memory("mb", make_frames("mb", 20_000), [HAND_RECORDS])
    # A record with its texts and its payload; and not the process around it.
    assert 200 < peaks[HAND_RECORDS] / 20_000 < 2_000
