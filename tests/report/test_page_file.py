"""The report as a file: whole, not too large, and only over a report of wirelake."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.report.made import account, message, write
from wirelake.lake import Lake
from wirelake.report import page_file
from wirelake.report.page_file import check_replaceable, write_report


@pytest.fixture
def small(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    rows = {"silver/messages": [message(0)], "accounting": [account(1)]}
    return write(tmp_path_factory.mktemp("small") / "lake", rows)


def test_the_page_is_written_whole_and_is_not_too_large(report_lake: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    written = write_report(Lake.open(report_lake, create=False), target)
    page = target.read_bytes()
    assert len(page) == written.bytes < 10_000_000
    assert page.startswith(b"<!") and page.rstrip().endswith(b"</html>")
    assert written.conversations > 100 and {row["why"] for row in written.held} >= {"violation", "in_doubt"}
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_page_that_would_be_too_large_has_fewer_conversations(
    report_lake: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake = Lake.open(report_lake, create=False)
    whole = write_report(lake, tmp_path / "whole.html")
    monkeypatch.setattr(page_file, "MAX_PAGE_BYTES", whole.bytes - 1_000_000)
    smaller = write_report(lake, tmp_path / "smaller.html")
    assert smaller.bytes < whole.bytes - 1_000_000
    assert 0 < smaller.conversations < whole.conversations


def test_a_report_that_fails_leaves_the_one_that_was_there(
    small: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "report.html"
    write_report(small, target, name="yesterday")
    before = target.read_bytes()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(page_file.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        write_report(small, target)
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_report_of_wirelake_is_replaced(small: Lake, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    write_report(small, target, name="first")
    write_report(small, target, name="second")
    assert b"second \xc2\xb7 wirelake" in target.read_bytes()


FOREIGN: dict[str, Callable[[Path], object]] = {
    "a text": lambda path: path.write_text("my thesis"),
    "an empty file": lambda path: path.touch(),
    "a page": lambda path: path.write_text("<!doctype html>\n<title>wirelake</title>"),
    "a page that quotes ours": lambda path: path.write_text(' <meta name="generator" content="wirelake">'),
    "bytes": lambda path: path.write_bytes(b"\xff" * 100),
    "a link": lambda path: path.symlink_to("precious"),
    "a link to nothing": lambda path: path.symlink_to("nothing"),
    "a pipe": os.mkfifo,
}


@pytest.mark.parametrize("make", FOREIGN.values(), ids=FOREIGN.keys())
def test_anything_else_is_left_alone_without_force(small: Lake, tmp_path: Path, make: Callable[[Path], object]) -> None:
    precious, target = tmp_path / "precious", tmp_path / "target.html"
    precious.write_text("precious")
    make(target)
    before = target.lstat()
    with pytest.raises(FileExistsError, match="it exists and is not a report of wirelake"):
        write_report(small, target)
    assert target.lstat() == before and sorted(path.name for path in tmp_path.iterdir()) == ["precious", "target.html"]
    write_report(small, target, force=True)
    check_replaceable(target)
    assert precious.read_text() == "precious" and not (tmp_path / "nothing").exists()


def test_a_link_to_a_report_of_wirelake_is_not_followed(small: Lake, tmp_path: Path) -> None:
    write_report(small, tmp_path / "real.html", name="real")
    (tmp_path / "link.html").symlink_to("real.html")
    with pytest.raises(FileExistsError):
        write_report(small, tmp_path / "link.html")
    write_report(small, tmp_path / "link.html", name="new", force=True)
    assert not (tmp_path / "link.html").is_symlink()
    assert b"real \xc2\xb7 wirelake" in (tmp_path / "real.html").read_bytes()


def test_a_file_that_appears_while_the_report_is_made_is_left_alone(small: Lake, tmp_path: Path) -> None:
    target = tmp_path / "report.html"
    with pytest.raises(FileExistsError):
        write_report(small, target, progress=lambda _: target.write_text("meanwhile"))
    assert target.read_text() == "meanwhile" and len(list(tmp_path.iterdir())) == 1


def test_a_directory_is_never_replaced(small: Lake, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    for force in (False, True):
        with pytest.raises(IsADirectoryError):
            write_report(small, tmp_path / "here", force=force)
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
