"""On executors of their own, with nothing shared but what Spark brings them: wirelake comes out of its archive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
import pytest

from tests.ingest.lakes import tables
from tests.needs import require
from wirelake.generate import generate, write_pcap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.protocols import BUILT_IN
from wirelake.spark.package import settings

if TYPE_CHECKING:
    pass

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "cluster"
SPARK = Path(pyspark.__file__).parent
SECONDS = 900


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


def test_a_lake_made_on_a_local_cluster_is_that_of_one_process_and_nothing_was_compiled_there(
    executor_archive: Path, home: Path, tmp_path: Path
) -> None:
    capture = tmp_path / "all.pcap"
    write_pcap(generate(BUILT_IN, seed=5, messages=3000, connections=4, corrupt=0.01), capture)
    ingest(InlineRunner(), [str(capture)], str(tmp_path / "alone"), final=True)

    conf = [word for name, value in settings(executor_archive).items() for word in ("--conf", f"{name}={value}")]
    where = ["--master", "local-cluster[2,1,1024]", "--partition-bytes", "128k", *conf]
    command = [sys.executable, "-c", "from wirelake.cli import main; main()", "ingest", str(capture)]
    printed = run([*command, str(tmp_path / "lake"), "--final", *where], tmp_path / "driver", {"SPARK_HOME": str(home)})
    assert json.loads(printed)["commit"] == 1
    assert tables(tmp_path / "lake") == tables(tmp_path / "alone")

    with tarfile.open(executor_archive) as packed:
        brought = {Path(name).name for name in packed.getnames() if name.endswith(".nbc")}
    copies = list(home.glob("work/*/*/wirelake_package/wirelake/kernels/__pycache__"))
    assert len(copies) == 2
    for copy in copies:
        assert {path.name for path in copy.glob("*.nbc")} == brought


def test_a_real_master_and_its_workers_do_the_same_and_are_gone_afterwards(
    executor_archive: Path, tmp_path: Path
) -> None:
    require("java")
    (tmp_path / "tmp").mkdir()
    command = [sys.executable, str(EXAMPLE / "run.py"), "--archive", str(executor_archive)]
    printed = run(command, tmp_path / "here", {"TMPDIR": str(tmp_path / "tmp")})
    *seen, report = rows_of(printed)
    assert_each_used_its_own_copy(seen)
    assert report["commit"] == 1
    assert set(report["messages"]) == set(BUILT_IN)
    assert report["bytes_in"] == report["bytes_decoded"] > 0
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
