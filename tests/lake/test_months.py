"""Two thousand commits with compaction, expiry, publication, readers and kills. ``make soak`` has 43 200."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEMORY = Path("/dev/shm")


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """In memory where that goes: the disk is not what is tested."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path / "lake"
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(directory, "lake")


def test_a_lake_stays_whole_and_small_over_two_thousand_commits(place: Path) -> None:
    command = [sys.executable, "-m", "tests.lake.months", str(place), "2000", "8", "11"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    looks, measured = (json.loads(line) for line in done.stdout.splitlines())
    assert looks["looks"] > 20 and measured["kills"] == 8
    quarter, end = measured["500"], measured["2000"]
    check_flat(quarter, end)


def check_flat(early: dict[str, Any], late: dict[str, Any]) -> None:
    """What a lake costs does not depend on how long it has lived."""
    assert late["open_seconds"] <= 0.2 and late["open_megabytes"] <= 100
    assert late["refresh_seconds"] <= 0.01
    assert late["files"] <= early["files"] + 30
