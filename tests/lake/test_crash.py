"""A run that is killed, at every step and at any moment, and started again: the lake is that of a clean run."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lake.job import contents, opened, whole_job

MEMORY = Path("/dev/shm")
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Path]:
    """In memory where that goes: a kill does not need a disk, and hundreds of runs would wait for it."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as directory:
        yield Path(directory)


def killed(*arguments: object) -> int:
    """Runs the killer in a fresh interpreter; the number that it prints."""
    command = [sys.executable, "-m", "tests.lake.job", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("store", ["local", "objects"])
def test_a_kill_at_any_step_of_a_commit_changes_nothing(place: Path, store: str) -> None:
    clean, base, work = (place / store / name for name in ("clean", "base", "work"))
    whole_job(clean, 2)
    whole_job(base, 1)
    steps = killed("every", base, work, 2, 1000)
    assert steps > (50 if store == "local" else 20)
    expected = contents(opened(clean))
    for copy in sorted(work.iterdir()):
        assert contents(opened(copy)) == expected, copy.name


def test_a_kill_while_a_lake_is_made_changes_nothing(place: Path) -> None:
    clean, base, work = (place / name for name in ("clean", "base", "work"))
    whole_job(clean, 1)
    base.mkdir()
    assert killed("every", base, work, 1, 15) == 15
    expected = contents(opened(clean))
    for copy in sorted(work.iterdir()):
        assert contents(opened(copy)) == expected, copy.name


@pytest.mark.parametrize("store", ["local", "objects"])
def test_thirty_kills_at_random_moments_change_nothing(place: Path, store: str) -> None:
    clean, work = place / store / "clean", place / store / "work"
    whole_job(clean, 4)
    lakes = killed("random", work, 4, 30, 7)
    expected = contents(opened(clean))
    for number in range(1, lakes + 1):
        assert contents(opened(work / f"lake-{number}")) == expected
