"""export: taps as packets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from wirelake.capture.write.tap import TapWriter
from wirelake.cli import cli

COMMAND = (sys.executable, "-c", "from wirelake.cli import main; main()")
SECONDS = 50.0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, check=False, timeout=SECONDS)


@pytest.fixture
def taps(tmp_path: Path) -> Path:
    directory = tmp_path / "captures"
    directory.mkdir()
    with TapWriter(directory, rotate_bytes=1000) as writer:
        one = writer.open(("10.0.0.1", 4711), ("10.0.0.2", 3001), 1_700_000_000_000_000)
        for number in range(30):
            writer.data(one, number % 2, 1_700_000_000_000_000 + number, bytes(100))
        writer.close(one, 1_700_000_000_001_000)
    return directory


def test_a_directory_of_taps_is_exported_to_a_file_or_to_standard_output(taps: Path, tmp_path: Path) -> None:
    target = tmp_path / "a.pcapng"
    done = CliRunner().invoke(cli, ["export", str(taps), "-o", str(target)])
    assert (done.exit_code, done.stdout) == (0, "")
    files = len(list(taps.iterdir()))
    assert done.stderr.startswith(f"wrote {target}: 1 connections, ")
    assert done.stderr.endswith(f" packets, 3000 bytes of {files} files\n")
    content = target.read_bytes()
    assert content[:4] == b"\x0a\x0d\x0d\x0a"
    command = [*COMMAND, "export", str(taps), "-o", "-"]
    assert subprocess.run(command, capture_output=True, check=True, timeout=SECONDS).stdout == content


def test_damage_is_told_and_gives_another_status(taps: Path, tmp_path: Path) -> None:
    first = min(taps.iterdir())
    content = bytearray(first.read_bytes())
    content[200] ^= 1
    first.write_bytes(content)
    done = CliRunner().invoke(cli, ["export", str(taps), "-o", str(tmp_path / "a.pcapng")])
    assert done.exit_code == 1
    assert f"note: {first}" in done.stderr and "100 bytes missing" in done.stderr


def test_what_cannot_be_exported_is_said_in_one_line_and_no_file_is_touched(taps: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    there = tmp_path / "there"
    there.write_bytes(b"of somebody")
    for arguments, said in (
        (
            [str(tmp_path / "empty"), "-o", str(there)],
            "no files *.tap, *.tap.gz, *.tap.zst, *.tap.xz",
        ),
        ([str(tmp_path / "missing.tap"), "-o", str(there)], "No such file or directory"),
        ([str(taps), "-o", str(tmp_path / "no" / "x")], f"cannot write {tmp_path}/no/x: No such file or directory"),
    ):
        done = CliRunner().invoke(cli, ["export", *arguments])
        assert done.exit_code == 1 and said in done.stderr and done.stderr.count("\n") == 1, done.stderr
    assert there.read_bytes() == b"of somebody"
