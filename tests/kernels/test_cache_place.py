"""Kernels where Numba may write to no place of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import wirelake
from wirelake.kernels.cache_place import temporary_place

SCRIPT = """
from wirelake.kernels import numbers
from wirelake.kernels.cache import cache_counts
print(int(numbers.lowest(8)), cache_counts())
"""


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the package beside which nothing can be written: a file is where the directory should be.

    Permissions alone would not do: they do not hold for root.
    """
    package = tmp_path / "read-only" / "wirelake"
    shutil.copytree(Path(wirelake.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    (package / "kernels" / "__pycache__").touch()
    for path in (*package.rglob("*"), package):
        path.chmod(0o555 if path.is_dir() else 0o444)
    return package.parent


def run(copy: Path, tmp: Path) -> subprocess.CompletedProcess[str]:
    places = {"HOME": "/dev/null/home", "XDG_CACHE_HOME": "/dev/null/cache", "NUMBA_CACHE_DIR": "/dev/null/numba"}
    environment = os.environ | places | {"PYTHONPATH": str(copy), "TMPDIR": str(tmp)}
    return subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)


def test_a_temporary_directory_keeps_what_was_compiled(copy: Path, tmp_path: Path) -> None:
    tmp = tmp_path / "tmp"
    tmp.mkdir()
    first, second = run(copy, tmp), run(copy, tmp)
    assert (first.stdout, first.stderr) == ("255 (0, 1)\n", "")
    assert (second.stdout, second.stderr) == ("255 (1, 0)\n", "")
    (made,) = tmp.iterdir()
    assert made.stat().st_mode & 0o777 == 0o700


def test_a_directory_that_others_may_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (tmp_path / "kernels").mkdir()
    made = temporary_place(tmp_path / "kernels")
    assert made == temporary_place(tmp_path / "kernels")
    (tmp_path / "kernels" / "new.py").touch()
    assert temporary_place(tmp_path / "kernels") != made
    (tmp_path / "kernels" / "new.py").unlink()
    made.chmod(0o777)
    assert temporary_place(tmp_path / "kernels") != made
    made.rmdir()
    made.symlink_to(tmp_path / "kernels")
    assert temporary_place(tmp_path / "kernels") != made
