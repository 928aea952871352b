"""Captures are known again: the same, grown, or another under an old name."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wirelake.errors import LakeError
from wirelake.lake import examine
from wirelake.lake.inputs import HEAD_BYTES


def test_a_file_that_nobody_saw_is_new(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"abc")
    found, change = examine(tmp_path / "a.pcap")
    assert change == "new"
    assert (found.path, found.size, found.head_bytes, found.position) == (str(tmp_path / "a.pcap"), 3, 3, 0)
    assert found.mtime_us == (tmp_path / "a.pcap").stat().st_mtime_ns // 1000


@pytest.mark.parametrize("size", [10, HEAD_BYTES - 1, HEAD_BYTES, HEAD_BYTES + 10])
def test_a_file_that_grew_is_known_again_with_its_position(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.pcap"
    data = os.urandom(size)
    path.write_bytes(data)
    before = examine(path)[0].read_to(size - 3)
    assert examine(path, before) == (before, "same")
    path.write_bytes(data + b"more")
    now, change = examine(path, before)
    assert change == "grown"
    assert (now.size, now.position) == (size + 4, size - 3)
    os.utime(path, (1, 1))
    assert examine(path, now)[1] == "same"


@pytest.mark.parametrize("other", [b"shorter", b"another beginning", b"the first file under this na"])
def test_another_file_under_that_name_has_changed_and_starts_over(tmp_path: Path, other: bytes) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(b"the first file under this name")
    before = examine(path)[0].read_to(9)
    path.write_bytes(other)
    now, change = examine(path, before)
    assert change == "changed"
    assert now.position == 0


def test_a_moved_file_has_the_same_identity(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    path.write_bytes(b"something")
    before, _ = examine(path)
    path.rename(tmp_path / "b.pcap")
    assert examine(tmp_path / "b.pcap")[0].identity == before.identity


def test_a_uri_works_as_well(tmp_path: Path) -> None:
    (tmp_path / "a b.pcap").write_bytes(b"abc")
    uri = (tmp_path / "a b.pcap").as_uri()
    found, change = examine(uri)
    assert (found.path, found.size, change) == (uri, 3, "new")


def test_what_is_no_file_is_said_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(LakeError, match=r"missing: there is no such file$"):
        examine(tmp_path / "missing")
    with pytest.raises(LakeError, match=r": is not a file$"):
        examine(tmp_path)
    with pytest.raises(LakeError, match=r"nonsense://x: cannot be read: [^\n]+$"):
        examine("nonsense://x")
