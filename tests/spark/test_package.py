"""The archive works wherever it is unpacked, and nothing is compiled there."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from wirelake.spark.package import STAMP, settings, submit_options

MAIN = "from wirelake.cli import main; main()"
LOOK = """
import json, sys
import wirelake
from wirelake.ingest.compile_kernels import compile_kernels
from wirelake.kernels.cache import cache_counts
messages = compile_kernels(seed=2, messages=2400)
hits, misses = cache_counts()
import numpy
print(json.dumps([wirelake.__file__, numpy.__file__, messages, hits, misses]))
"""


def look(place: Path, *python_options: str) -> tuple[Path, Path, int, int, int]:
    """Decodes other traffic than the packing did, in a new process that finds wirelake in ``place``."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, *python_options, "-c", LOOK],
        cwd=place.parent, env=environment | {"PYTHONPATH": str(place)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    wirelake, numpy, messages, hits, misses = json.loads(done.stdout)
    return Path(wirelake), Path(numpy), messages, hits, misses


@pytest.fixture
def unpacked(executor_archive: Path, tmp_path: Path) -> Path:
    return unpack(executor_archive, tmp_path / "some" / "other place")


def unpack(archive: Path, place: Path) -> Path:
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    return place


def test_the_compiled_kernels_are_found_where_the_archive_was_unpacked(unpacked: Path) -> None:
    wirelake, _, messages, hits, misses = look(unpacked)
    assert wirelake.is_relative_to(unpacked)
    assert messages > 100
    assert hits > 0
    assert misses == 0


def test_a_kernel_that_is_not_in_the_archive_is_compiled_and_counted(unpacked: Path) -> None:
    """The counts above do count."""
    for index in unpacked.glob("wirelake/kernels/__pycache__/gather.*.nbi"):
        index.unlink()
    assert look(unpacked)[4] > 0


def test_byte_code_is_in_it_and_used(unpacked: Path) -> None:
    sources = list(unpacked.rglob("*.py"))
    assert len(sources) > 50
    for source in sources:
        assert list((source.parent / "__pycache__").glob(f"{source.stem}.cpython-*.pyc")), source
    (unpacked / "wirelake" / "__init__.py").write_text("raise SystemExit('the source was read')")
    assert look(unpacked)[2] > 100


def test_times_are_whole_seconds_and_compiled_kernels_come_last(executor_archive: Path) -> None:
    with tarfile.open(executor_archive) as packed:
        entries = packed.getmembers()
    assert {entry.mtime for entry in entries} == {STAMP}
    assert {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries} == {(0, 0, "", "")}
    is_cache = [entry.name.endswith((".nbi", ".nbc")) for entry in entries]
    assert any(is_cache) and is_cache == sorted(is_cache)


def test_the_modules_by_which_spark_finds_formats_are_in_it(executor_archive: Path) -> None:
    source = Path(__file__).resolve().parents[2] / "src"
    with tarfile.open(executor_archive) as packed:
        names = {name.partition("/")[0] for name in packed.getnames()} - {"__pycache__"}
    assert names == {path.name for path in source.iterdir() if path.name.startswith(("wirelake", "pyspark_wirelake"))}


def test_with_dependencies_a_bare_python_is_enough_and_the_rest_is_the_same(
    executor_archive: Path, unpacked: Path, tmp_path: Path
) -> None:
    """Packed again by what was unpacked. Python without its site-packages stands for an executor on which nothing was
    installed."""
    path = tmp_path / "all.tar.gz"
    command = [sys.executable, "-c", MAIN, "package", "--with-dependencies", "-o", path]
    environment = os.environ | {"PYTHONPATH": str(unpacked), "PYTHONHASHSEED": "7"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == submit_options(path)
    assert re.fullmatch(rf"wrote {path}: \d+ files, [\d.]+ MB, [1-9]\d* compiled kernels \(.*\)\n", done.stderr)

    place = unpack(path, tmp_path / "there")
    wirelake, numpy, messages, hits, misses = look(place, "-S")
    assert wirelake.is_relative_to(place) and numpy.is_relative_to(place)
    assert messages > 100
    assert hits > 0
    assert misses == 0

    small, big = contents(executor_archive), contents(path)
    assert {name: big.get(name) for name in small} == small
    assert any(name.startswith("llvmlite/") for name in set(big) - set(small))


def contents(archive: Path) -> dict[str, tuple[int, bytes]]:
    """Time and content of every file, but for what Numba compiled: it notes where NumPy was."""
    with tarfile.open(archive) as packed:
        return {
            entry.name: (int(entry.mtime), hashlib.sha256(file.read()).digest())
            for entry in packed.getmembers()
            if not entry.name.endswith(".nbc") and (file := packed.extractfile(entry)) is not None
        }


def test_a_session_and_spark_submit_are_given_the_same() -> None:
    given = dict(zip(*[iter(submit_options("w.tar.gz"))] * 2, strict=True))
    assert given["--archives"] == settings("w.tar.gz")["spark.archives"]
    name, _, value = given["--conf"].partition("=")
    assert settings("w.tar.gz")[name] == value
