"""Which files a path means."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from wirelake.capture.read.listing import Listing, Peek, find, glob_expression, in_order, peek
from wirelake.errors import CaptureError, OptionError
from wirelake.generate import generate, write_pcap, write_tap


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("a.pcap", "b.pcap", "c.txt", ".hidden", "_later", "day1/d.pcap", "day2/e.pcap", "day2/deep/f.pcap"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    return tmp_path


def names(tree: Path, *paths: str, **options: object) -> list[str]:
    given = tuple(str(tree / path) for path in paths)
    found = find(Listing(given, **options))  # type: ignore[arg-type]
    assert all(one.size == len(Path(one.path).read_bytes()) for one in found)
    return [os.path.relpath(one.path, tree) for one in found]


def test_a_directory_is_its_files_without_hidden_ones(tree: Path) -> None:
    assert names(tree, "") == ["a.pcap", "b.pcap", "c.txt"]


def test_a_lookup_can_go_deeper(tree: Path) -> None:
    assert names(tree, "", recursive=True, path_glob_filter="*.pcap") == [
        "a.pcap", "b.pcap", "day1/d.pcap", "day2/deep/f.pcap", "day2/e.pcap",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.pcap", ["a.pcap", "b.pcap"]),
        ("[ab].pcap", ["a.pcap", "b.pcap"]),
        ("[!a].pcap", ["b.pcap"]),
        ("{a,c}.*", ["a.pcap", "c.txt"]),
        ("day?/*.pcap", ["day1/d.pcap", "day2/e.pcap"]),
        ("day*", ["day1/d.pcap", "day2/e.pcap"]),
        ("day2/*/f.pcap", ["day2/deep/f.pcap"]),
    ],
)
def test_patterns_are_those_of_hadoop(tree: Path, pattern: str, found: list[str]) -> None:
    assert names(tree, pattern) == found


def test_a_file_is_found_once_however_often_it_is_meant(tree: Path) -> None:
    assert names(tree, "a.pcap", "*.pcap", "a.pcap") == ["a.pcap", "b.pcap"]


def test_links_to_directories_are_followed_but_not_in_circles(tree: Path) -> None:
    (tree / "day2" / "up").symlink_to(tree)
    (tree / "day1" / "other").symlink_to(tree / "day2" / "deep")
    assert names(tree, "", recursive=True, path_glob_filter="*.pcap") == [
        "a.pcap", "b.pcap", "day1/d.pcap", "day1/other/f.pcap", "day2/deep/f.pcap", "day2/e.pcap",
    ]  # fmt: skip


def test_a_file_may_have_a_name_that_looks_like_a_pattern(tree: Path) -> None:
    (tree / "x[1].pcap").write_bytes(b"x")
    assert names(tree, "x[1].pcap") == ["x[1].pcap"]


def test_times_of_change_count(tree: Path) -> None:
    os.utime(tree / "a.pcap", (1000, 1000))
    os.utime(tree / "b.pcap", (2000, 2000))
    assert names(tree, "*.pcap", modified_before=1500.0) == ["a.pcap"]
    assert names(tree, "*.pcap", modified_after=1000.0) == ["b.pcap"]


def test_addresses_of_local_files_are_local_paths(tree: Path) -> None:
    assert [one.path for one in find(Listing((f"file://{tree}/a.pcap",)))] == [str(tree / "a.pcap")]


def test_what_is_missing_is_an_error_or_nothing(tree: Path) -> None:
    with pytest.raises(OptionError, match=re.escape(f"path does not exist: {tree / 'z*'}")):
        names(tree, "a.pcap", "z*")
    assert names(tree, "a.pcap", "z*", ignore_missing_files=True) == ["a.pcap"]
    with pytest.raises(OptionError, match="needs a path"):
        find(Listing(()))


def test_a_place_that_nobody_knows_is_an_error(tree: Path) -> None:
    with pytest.raises(OptionError, match="nowhere://x/y cannot be read"):
        find(Listing(("nowhere://x/y",)))


def test_a_pattern_is_about_whole_names() -> None:
    assert re.fullmatch(glob_expression("a.{b,c}?"), "a.cx")
    assert not re.fullmatch(glob_expression("a.*"), "ab")
    assert re.fullmatch(glob_expression("a[.b"), "a[.b")


def test_captures_are_sorted_by_their_first_packet_and_raw_files_come_last(tmp_path: Path) -> None:
    for number, name in enumerate(("late.pcap", "early.pcap")):
        write_pcap(generate("mb", messages=5, start_us=(3 - number) * 10**15), tmp_path / name)
    write_tap(generate("mb", messages=5, start_us=10**15), tmp_path / "first.tap")
    (tmp_path / "b.bin").write_bytes(b"raw")
    peeks = [peek(str(path)) for path in sorted(tmp_path.iterdir())]
    assert [Path(each.path).name for each in in_order(peeks)] == ["first.tap", "early.pcap", "late.pcap", "b.bin"]
    assert [each.kind for each in in_order(peeks)] == ["tap", "pcap", "pcap", "raw"]


def test_a_kind_that_is_named_is_not_looked_for(tmp_path: Path) -> None:
    (tmp_path / "stream.dump").write_bytes(b"anything")
    path = str(tmp_path / "stream.dump")
    assert peek(path, "raw") == Peek(path, "raw", None)
    with pytest.raises(CaptureError, match="not a pcap, pcapng or tap file: it begins with 61 6e"):
        peek(path)
