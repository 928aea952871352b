"""A run that is killed, at every step and at any moment, and started again: the lake is that of a clean run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.lake.job import contents, opened, whole_job

ROOT = Path(__file__).resolve().parents[2]


def killed(*arguments: object) -> int:
    """Runs the killer in a fresh interpreter; the number that it prints."""
    command = [sys.executable, "-m", "tests.lake.job", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.parametrize("store", ["local", "objects"])
def test_a_kill_at_any_step_of_a_commit_changes_nothing(tmp_path: Path, store: str) -> None:
    clean, base, work = (tmp_path / store / name for name in ("clean", "base", "work"))
    whole_job(clean, 2)
    whole_job(base, 1)
    steps = killed("every", base, work, 2)
    assert steps > (50 if store == "local" else 20)
    expected = contents(opened(clean))
    for copy in sorted(work.iterdir()):
        assert contents(opened(copy)) == expected, copy.name


def test_a_kill_at_any_step_of_the_first_commit_changes_nothing(tmp_path: Path) -> None:
    clean, base, work = (tmp_path / name for name in ("clean", "base", "work"))
    whole_job(clean, 1)
    base.mkdir()
    assert killed("every", base, work, 1) > 50
    expected = contents(opened(clean))
    for copy in sorted(work.iterdir()):
        assert contents(opened(copy)) == expected, copy.name


@pytest.mark.parametrize("store", ["local", "objects"])
def test_thirty_kills_at_random_moments_change_nothing(tmp_path: Path, store: str) -> None:
    clean, work = tmp_path / store / "clean", tmp_path / store / "work"
    whole_job(clean, 4)
    lakes = killed("random", work, 4, 30, 7)
    expected = contents(opened(clean))
    for number in range(1, lakes + 1):
        assert contents(opened(work / f"lake-{number}")) == expected
