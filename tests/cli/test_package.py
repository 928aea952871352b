"""package: the archive works wherever it is unpacked, and nothing is compiled there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from wirelake.cli import cli
from wirelake.spark.package import STAMP, build, settings, submit_options

LOOK = """
import json, sys
import wirelake
from wirelake.spark.package import warm_up
from wirelake.kernels.cache import cache_counts
messages = warm_up(seed=2)
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


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("made") / "wirelake.tar.gz"
    done = CliRunner().invoke(cli, ["package", "-o", str(path)])
    assert done.exit_code == 0, done.output
    assert done.stdout.split() == submit_options(path)
    assert done.stderr.startswith(f"wrote {path}: ") and "compiled kernels" in done.stderr
    return path


@pytest.fixture
def unpacked(archive: Path, tmp_path: Path) -> Path:
    place = tmp_path / "some" / "other place"
    with tarfile.open(archive) as packed:
        packed.extractall(place, filter="data")
    return place


def test_the_compiled_kernels_are_found_where_the_archive_was_unpacked(unpacked: Path) -> None:
    wirelake, _, messages, hits, misses = look(unpacked)
    assert wirelake.is_relative_to(unpacked)
    assert messages > 100
    assert hits > 0
    assert misses == 0


def test_a_kernel_whose_source_was_changed_is_compiled_again(unpacked: Path) -> None:
    """The counts above do count: the same look sees it when something has to be compiled."""
    gather = unpacked / "wirelake" / "kernels" / "gather.py"
    gather.write_text(gather.read_text() + "\n# changed\n")
    assert look(unpacked)[4] > 0


def test_byte_code_is_in_it_and_used(unpacked: Path) -> None:
    sources = list(unpacked.rglob("*.py"))
    assert len(sources) > 50
    for source in sources:
        assert list((source.parent / "__pycache__").glob(f"{source.stem}.cpython-*.pyc")), source
    (unpacked / "wirelake" / "__init__.py").write_text("raise SystemExit('the source was read')")
    assert look(unpacked)[2] > 100


def test_times_are_whole_seconds_and_compiled_kernels_come_last(archive: Path) -> None:
    with tarfile.open(archive) as packed:
        entries = packed.getmembers()
    assert {entry.mtime for entry in entries} == {STAMP}
    assert {(entry.uid, entry.gid, entry.uname, entry.gname) for entry in entries} == {(0, 0, "", "")}
    is_cache = [entry.name.endswith((".nbi", ".nbc")) for entry in entries]
    assert any(is_cache) and is_cache == sorted(is_cache)


def test_the_modules_by_which_spark_finds_formats_are_in_it(archive: Path) -> None:
    source = Path(__file__).resolve().parents[2] / "src"
    with tarfile.open(archive) as packed:
        names = {name.partition("/")[0] for name in packed.getnames()} - {"__pycache__"}
    assert names == {path.name for path in source.iterdir() if path.name.startswith(("wirelake", "pyspark_wirelake"))}


def test_an_unpacked_archive_packs_itself_again_to_the_same_bytes(
    archive: Path, unpacked: Path, tmp_path: Path
) -> None:
    again = tmp_path / "again.tar.gz"
    code = "from wirelake.cli import main; main()"
    environment = os.environ | {"PYTHONPATH": str(unpacked), "PYTHONHASHSEED": "7"}
    subprocess.run([sys.executable, "-c", code, "package", "-o", again], env=environment, check=True)
    assert again.read_bytes() == archive.read_bytes()


def test_with_dependencies_a_bare_python_is_enough(tmp_path: Path) -> None:
    """Python without its site-packages stands for an executor on which nothing was installed."""
    made = build(tmp_path / "all.tar.gz", with_dependencies=True)
    place = tmp_path / "there"
    with tarfile.open(made.path) as packed:
        packed.extractall(place, filter="data")
    wirelake, numpy, messages, hits, misses = look(place, "-S")
    assert wirelake.is_relative_to(place) and numpy.is_relative_to(place)
    assert messages > 100
    assert hits > 0
    assert misses == 0


@pytest.mark.parametrize("name", ["wirelake.zip", "wirelake.tar", "wirelake"])
def test_a_name_that_spark_does_not_unpack_is_refused(tmp_path: Path, name: str) -> None:
    done = CliRunner().invoke(cli, ["package", "-o", str(tmp_path / name)])
    assert done.exit_code == 1
    assert "must end in .tar.gz" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(cli, ["package", "-o", str(tmp_path / "no" / "w.tar.gz")])
    assert done.exit_code == 1
    assert f"there is no directory {tmp_path / 'no'}" in done.stderr


def test_a_session_and_spark_submit_are_told_the_same() -> None:
    told = dict(zip(*[iter(submit_options("w.tar.gz"))] * 2, strict=True))
    assert told["--archives"] == settings("w.tar.gz")["spark.archives"]
    name, _, value = told["--conf"].partition("=")
    assert settings("w.tar.gz")[name] == value
