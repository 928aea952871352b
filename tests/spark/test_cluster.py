"""On executors of their own, with nothing shared but what Spark brings them: wirelake comes out of its archive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark
import pytest

from tests.needs import require
from wirelake.spark.package import submit_options

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "cluster"
SPARK = Path(pyspark.__file__).parent
SECONDS = 300


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Spark as it is installed, but what executors leave behind goes to a place of the test."""
    made = tmp_path / "spark"
    made.mkdir()
    for part in ("bin", "jars", "python"):
        (made / part).symlink_to(SPARK / part)
    return made


def run(command: list[str], place: Path, more: Mapping[str, str] | None = None) -> str:
    place.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable} | dict(more or {})
    done = subprocess.run(
        command, cwd=place, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def rows_of(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]


def assert_each_used_its_own_copy(rows: list[dict[str, Any]]) -> None:
    assert len({row["directory"] for row in rows}) == 2
    for row in rows:
        assert Path(row["wirelake"]).is_relative_to(row["directory"])
        assert row["messages"] > 100
        assert row["cached"] > 0
        assert row["compiled"] == 0


def test_executors_of_a_local_cluster_decode_with_what_the_archive_brought(
    executor_archive: Path, home: Path, tmp_path: Path
) -> None:
    require("java")
    submit = [
        str(home / "bin" / "spark-submit"),
        "--master",
        "local-cluster[2,1,1024]",
        *submit_options(executor_archive),
    ]
    command = [*submit, "--conf", "spark.ui.enabled=false", str(EXAMPLE / "check.py"), "2"]
    assert_each_used_its_own_copy(rows_of(run(command, tmp_path / "driver", {"SPARK_HOME": str(home)})))


def test_a_real_master_and_its_workers_do_the_same_and_are_gone_afterwards(
    executor_archive: Path, tmp_path: Path
) -> None:
    require("java")
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, str(EXAMPLE / "run.py"), "--archive", str(executor_archive)]
    printed = run(command, tmp_path / "here", {"TMPDIR": str(tmp_path / "tmp")})
    assert_each_used_its_own_copy(rows_of(printed))
    assert list((tmp_path / "tmp").glob("wirelake-cluster-*")) == []
    assert processes_that_name(tmp_path) == []


def processes_that_name(place: Path) -> list[str]:
    """Command lines with this directory in them, where the system shows command lines."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()
        except OSError:
            continue  # it has just ended
        if os.fsencode(place) in line and process.name != str(os.getpid()):
            found.append(line.replace(b"\0", b" ").decode(errors="replace"))
    return found
