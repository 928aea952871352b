"""One writer per lake, in one process and in several."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from wirelake.errors import LakeError
from wirelake.lake import Lake
from wirelake.lake.lock import LOCK, locked
from wirelake.lake.store import Store

HOLDER = """
import sys
from wirelake.lake import Lake
with Lake.open(sys.argv[1]).writing() as run:
    print("writing", flush=True)
    sys.stdin.readline()
"""


def test_two_processes_cannot_write_at_once(tmp_path: Path) -> None:
    Lake.open(tmp_path)
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "writing\n"
        expected = rf"another run \(pid {holder.pid} on \S+, since \d{{4}}-\S+\) is writing to this lake"
        with pytest.raises(LakeError, match=expected), Lake.open(tmp_path).writing():
            pass
        assert Lake.open(tmp_path).tables() == []
        holder.kill()
    with Lake.open(tmp_path).writing() as run:
        run.commit()


def test_two_runs_of_one_process_cannot_write_at_once(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing(), pytest.raises(LakeError, match=f"pid {os.getpid()}"), Lake.open(tmp_path).writing():
        pass


@pytest.mark.parametrize("content", [b"", bytes(40), b'{"pid": 1, "host": "x", "since": "y"}'])
def test_a_lock_that_a_crash_left_is_taken_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK).write_bytes(content)
    with locked(Store.at(tmp_path)):
        assert (tmp_path / LOCK).read_bytes().startswith(b'{"pid"')


@pytest.mark.parametrize("content", [b"my notes", b'{"pid"' + bytes(5000)])
def test_another_file_of_that_name_is_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / LOCK).write_bytes(content)
    with pytest.raises(LakeError, match="_lock: is not a lock of wirelake; remove it"), locked(Store.at(tmp_path)):
        pass
    assert (tmp_path / LOCK).read_bytes() == content
