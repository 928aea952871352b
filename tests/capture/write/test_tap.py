"""The writer of taps: rotation, full disks, files that are given up."""

from __future__ import annotations

import errno
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.capture.taps import CLIENT, SERVER, START_US, read_tap, rotated, tap, together
from wirelake.capture.chunks import TO_SERVER
from wirelake.capture.tap_format import FILE_HEAD_BYTES, MAX_DATA
from wirelake.capture.write.tap import TapWriter


def test_data_that_is_too_long_for_a_record_is_several(tmp_path: Path) -> None:
    data = Random(1).randbytes(2 * MAX_DATA + 17)
    with tap(tmp_path / "a.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        writer.data(one, TO_SERVER, START_US, data)
        assert writer.offset(one, TO_SERVER) == len(data)
    for window in (1 << 16, 1 << 24):
        found, _ = read_tap((tmp_path / "a.tap").read_bytes(), window=window)
        assert [bytes(stream) for stream in found.streams.values()] == [data]
        assert len(found.rows) == 3


def test_a_set_is_rotated_by_time(tmp_path: Path) -> None:
    with tap(tmp_path, rotate_us=1_000_000) as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        for number in range(10):
            writer.data(one, TO_SERVER, START_US + number * 300_000, b"x")
    assert len(writer.paths) == 3
    assert writer.paths[0].name == "20231114T221320-00010203-000000.tap"


def test_a_rotated_tap_needs_a_directory(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a directory"):
        TapWriter(tmp_path / "a.tap", rotate_bytes=1000)


class Disk:
    """Takes some bytes and is then full, until there is room again."""

    def __init__(self, file: Any, room: int) -> None:
        self.file, self.room = file, room

    def write(self, data: bytearray) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = min(self.room, len(data), 5000)
        self.room -= count
        return int(self.file.write(data[:count]))

    def close(self) -> None:
        self.file.close()


def test_what_a_full_disk_did_not_take_can_be_written_later(tmp_path: Path) -> None:
    path = tmp_path / "a.tap"
    writer = tap(path)
    one = writer.open(CLIENT, SERVER, START_US)
    disk = writer._file = Disk(writer._file, 70_000)
    taken = 0
    with pytest.raises(OSError, match="No space"):
        for number in range(1000):
            writer.data(one, TO_SERVER, START_US + number, b"%04d" % number * 250)
            taken += 1
    assert writer.offset(one, TO_SERVER) == taken * 1000
    assert writer.written == path.stat().st_size == 70_000
    found, reader = read_tap(path.read_bytes())
    assert 60 < len(found.rows) < taken and reader.counts.broken
    disk.room = 1 << 20
    writer.data(one, TO_SERVER, START_US + taken, b"%04d" % taken * 250)
    writer.end()
    found, reader = read_tap(path.read_bytes())
    assert [row[3][:4] for row in found.rows] == [b"%04d" % number for number in range(taken + 1)]
    assert not found.gaps and not reader.counts.broken


def test_a_file_of_a_set_has_its_head_as_soon_as_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heads = []
    rename = Path.rename

    def named(source: Path, target: Path) -> Path:
        assert not target.exists() and source.name.startswith(".") and source.suffix != ".tap"
        heads.append(len(source.read_bytes()))
        return rename(source, target)

    monkeypatch.setattr(Path, "rename", named)
    writer, _ = rotated(tmp_path / "set")
    assert heads == [FILE_HEAD_BYTES] * len(writer.paths)
    assert sorted((tmp_path / "set").iterdir()) == writer.paths


def test_a_file_that_cannot_get_its_head_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(source: Path, target: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device")

    writer = tap(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuse)
        with pytest.raises(OSError, match="No space"):
            writer.open(CLIENT, SERVER, START_US)
    assert list(tmp_path.iterdir()) == [] and writer.path is None
    writer.open(CLIENT, SERVER, START_US)
    assert list(tmp_path.iterdir()) == writer.paths == [writer.path]
    writer.end()
    assert writer.path is None


def test_a_file_can_be_given_up_for_another_with_a_gap_where_bytes_were_lost(tmp_path: Path) -> None:
    writer = tap(tmp_path)
    one = writer.open(CLIENT, SERVER, START_US)
    writer.data(one, TO_SERVER, START_US, b"kept")
    writer.flush()
    writer.data(one, TO_SERVER, START_US + 1, b"lost")
    writer.abandon()
    writer.data(one, TO_SERVER, START_US + 2, b"later")
    writer.abandon()  # nothing is in that file
    writer.abandon()
    writer.data(one, TO_SERVER, START_US + 3, b"last")
    writer.end()
    assert sorted(tmp_path.iterdir()) == writer.paths and len(writer.paths) == 2
    found = together(writer.paths)
    (name,) = found.connections
    assert bytes(found.streams[name, TO_SERVER]) == b"keptlast"
    assert found.gaps == [(name, TO_SERVER, 4, 9)]


def test_a_disk_that_is_full_at_the_end_of_a_file_costs_nothing_either(tmp_path: Path) -> None:
    writer = tap(tmp_path, rotate_bytes=1000)
    one = writer.open(CLIENT, SERVER, START_US)
    disk = writer._file = Disk(writer._file, 500)
    writer.data(one, TO_SERVER, START_US, b"a" * 1000)
    for _ in range(2):
        with pytest.raises(OSError, match="No space"):
            writer.data(one, TO_SERVER, START_US + 1, b"b")
    assert len(writer.paths) == 1
    disk.room = 10_000
    writer.data(one, TO_SERVER, START_US + 1, b"b")
    writer.sync()
    writer.end()
    assert len(writer.paths) == 2
    assert [bytes(stream) for stream in together(writer.paths).streams.values()] == [b"a" * 1000 + b"b"]


def test_a_tap_in_one_file_is_not_written_over_after_its_end(tmp_path: Path) -> None:
    writer = tap(tmp_path / "a.tap")
    writer.open(CLIENT, SERVER, START_US)
    writer.end()
    with pytest.raises(ValueError, match=r"a\.tap has ended"):
        writer.open(CLIENT, SERVER, START_US)
