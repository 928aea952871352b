"""Formats and functions in a Spark Connect session, in a process of its own: a process has one kind of session."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.differential import valid_frames
from tests.needs import require
from wirelake import decode

ROOT = Path(__file__).resolve().parents[2]


def test_formats_and_functions_work_in_a_connect_session(tmp_path: Path) -> None:
    require("java")
    for needed in ("grpc", "grpc_status", "google.rpc", "pandas", "zstandard"):
        pytest.importorskip(needed)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.spark.connect_session", str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    messages = [decode("casual", frame) for frame in valid_frames("casual", 60, random.Random(7))]
    assert ".connect." in found["kind"]
    assert found["again"] == found["sql"] == 60
    assert found["calls"] == sum(one.__message__["code"] == 3100 for one in messages)
    assert found["common"] == sum(one.__message__["kind"] == "request" for one in messages)
    assert found["own"] == "a"
    assert found["format"] == 10
    assert found["schema"] == ["flags"]
    assert "[frame_incomplete]" in found["error"] and "Traceback" not in found["error"]
    assert "path does not exist: /nowhere" in found["no path"]
    assert found["ingest"].startswith("Spark Connect cannot run an ingest: ") and "\n" not in found["ingest"]
    assert not (tmp_path / "lake").exists()
