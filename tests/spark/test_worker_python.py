"""Sessions whose workers run a Python that cannot run wirelake say so, and what to set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from pathlib import Path

import pyspark
import pytest

from tests.needs import require
from wirelake.generate import generate, write_pcap
from wirelake.spark import worker_python

JOB = Path(__file__).with_name("workers_job.py")
PAGE = (Path(__file__).resolve().parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
NOWHERE = "/nowhere/python"
OTHER_VERSION = """
import sys
from collections import namedtuple
sys.version_info = namedtuple("version_info", "major minor micro releaselevel serial")(3, 99, 0, "final", 0)
"""
SECONDS = 300


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter without packages; Spark itself brings it PySpark."""
    place = tmp_path_factory.mktemp("bare")
    venv.create(place, with_pip=False)
    return str(place / "bin" / "python")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An interpreter that is of another version, as far as anybody who asks can see."""
    place = tmp_path_factory.mktemp("other")
    venv.create(place, with_pip=False)
    (packages,) = place.glob("lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(OTHER_VERSION)
    return str(place / "bin" / "python")


def said_by(tmp_path: Path, master: str, *pythons: str) -> dict[tuple[str, str], str]:
    require("java")
    home = tmp_path / "spark"  # what executors leave behind goes to a place of the test
    home.mkdir()
    for part in ("bin", "jars", "python"):
        (home / part).symlink_to(Path(pyspark.__file__).parent / part)
    write_pcap(generate("casual", messages=20, seed=1), tmp_path / "calls.pcap")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(
        [sys.executable, str(JOB), master, str(tmp_path / "calls.pcap"), str(tmp_path / "lake"), *pythons],
        cwd=tmp_path,
        env=environment | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    return {(python, what): said for python, what, said in rows}


def in_the_docs(what: str) -> bool:
    """Return whether the table of Spark's words has this as the beginning of a row."""
    return any(line.startswith("| ") and what in line.split("|")[1] for line in PAGE.splitlines())


def test_a_local_session_says_which_python_it_runs_and_what_to_set(tmp_path: Path, bare: str, other: str) -> None:
    said = said_by(tmp_path, "local[1]", bare, other, NOWHERE)
    faults = {
        bare: "which has no wirelake",
        other: f"which is Python 3.99, not {worker_python.HERE} as here",
        NOWHERE: "which cannot be run (No such file or directory)",
    }
    for python, fault in faults.items():
        told = f"the workers of this session run {python}, {fault}: set PYSPARK_PYTHON={sys.executable} before the "
        for what in ("register", "function", "ingest"):
            assert said[python, what] == f"SparkStartError: {told}session starts"
    assert "DATA_SOURCE_NOT_FOUND" in said[bare, "discovered"]  # nothing of wirelake runs there
    assert in_the_docs("[DATA_SOURCE_NOT_FOUND] Failed to find the data source: casual")


def test_on_a_cluster_the_first_task_that_fails_tells(tmp_path: Path, bare: str, other: str) -> None:
    said = said_by(tmp_path, "local-cluster[1,1,1024]", bare, other, NOWHERE)
    named = f"name a Python {worker_python.HERE} that has wirelake by PYSPARK_PYTHON or spark.pyspark.python"
    faults = {
        bare: (
            "which has no wirelake: give the executors the archive of `wirelake package`, or ",
            "ModuleNotFoundError",
        ),
        other: (f"which is Python 3.99, not {worker_python.HERE} as here: ", "[PYTHON_VERSION_MISMATCH]"),
        NOWHERE: ("which cannot be run (No such file or directory): ", "Cannot run program"),
    }
    for python, (fault, words) in faults.items():
        told = f"the workers of this session run {python}, {fault}{named}"
        assert said[python, "ingest"] == f"IngestError: {told}"
        assert words in said[python, "format"] and words in said[python, "function"]
        assert in_the_docs(words)


def test_an_interpreter_that_suits_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    path = os.environ.get("PYTHONPATH", "")
    assert worker_python._fault(sys.executable, path) is None
    monkeypatch.setattr(subprocess, "run", None)
    assert worker_python._fault(sys.executable, path) is None


def test_one_that_gets_wirelake_later_suits(bare: str) -> None:
    packages = os.pathsep.join(entry for entry in sys.path if entry)
    assert worker_python._fault(bare, "") == "which has no wirelake"
    assert worker_python._fault(bare, packages) is None


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("#!/bin/sh\necho hello", "which is no Python"),
        ("#!/bin/sh\necho 2.7; exit 1", f"which is Python 2.7, not {worker_python.HERE} as here"),
        ("#!/bin/sh\nread line; exec sleep 1000", None),
    ],
)
def test_what_is_no_python_of_ours(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, program: str, said: str | None
) -> None:
    monkeypatch.setattr(worker_python, "ASK_SECONDS", 0.5 if said is None else 60.0)
    place = tmp_path / "python"
    place.write_text(program)
    place.chmod(0o755)
    assert worker_python._fault(str(place), "") == said
