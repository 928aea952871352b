"""The measurement of the start measures whole runs, and says why one fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.start import commands, seconds_of
from wirelake.generate import generate, write_pcap
from wirelake.lake import Lake


def test_every_round_makes_lakes_of_its_own(tmp_path: Path) -> None:
    capture = tmp_path / "small.pcap"
    write_pcap(generate(["mb"], seed=1, messages=50, connections=1), capture)
    for number in range(2):
        assert seconds_of(commands(capture, tmp_path, number, "local[1]")["ingest --engine inline"]) > 0
        assert Lake.open(tmp_path / f"inline-{number}", create=False).number() == 1


def test_a_run_that_fails_is_not_a_time() -> None:
    with pytest.raises(SystemExit, match="no such thing"):
        seconds_of([sys.executable, "-c", "raise SystemExit('no such thing')"])
