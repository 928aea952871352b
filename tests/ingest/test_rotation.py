"""Captures that grow, rotate, move and are compressed give the lake that saw everything at once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.capture.packing import PACK, in_members
from tests.ingest.lakes import PLACE_OF_ROW, tables
from wirelake.errors import CaptureError
from wirelake.generate import generate, write_pcap, write_tap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.ingest.step import Report
from wirelake.lake import Lake

EVERY = pytest.mark.parametrize("suffix", PACK)


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """Three files of one capture, taken one after the other, each longer than what identifies it."""
    folder = tmp_path_factory.mktemp("parts")
    write_pcap(generate(("casual", "mb"), seed=5, messages=2400, connections=4), folder / "part.pcap", files=3)
    contents = [path.read_bytes() for path in sorted(folder.glob("*.pcap"))]
    assert min(map(len, contents)) > 150_000
    return contents


@pytest.fixture(scope="module")
def expected(parts: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("once")
    for number, content in enumerate(parts):
        (folder / f"{number}.pcap").write_bytes(content)
    ingest(InlineRunner(), [str(folder)], str(folder / "lake"), final=True)
    return tables(folder / "lake", PLACE_OF_ROW)


class Place:
    """A directory of captures, and the lake that follows it."""

    def __init__(self, folder: Path) -> None:
        self.captures, self.lake = folder / "captures", folder / "lake"
        self.captures.mkdir()

    def __truediv__(self, name: str) -> Path:
        return self.captures / name

    def ingest(self, *, final: bool = False, **options: int) -> Report:
        return ingest(InlineRunner(), [str(self.captures)], str(self.lake), final=final, **options)

    def tables(self) -> object:
        """All tables once nothing more comes; another ingest then finds nothing to do."""
        self.ingest(final=True)
        again = self.ingest()
        assert (again.commit, again.notes) == (None, [])
        return tables(self.lake, PLACE_OF_ROW)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def as_it_is(content: bytes) -> bytes:
    return content


def halves(content: bytes) -> bytes:
    """Cut in the middle of a packet, as a program that is still writing leaves it."""
    return content[: len(content) // 2 + 3]


def test_a_directory_is_read_while_its_newest_file_grows(place: Place, parts: list[bytes], expected: object) -> None:
    for number, content in enumerate(parts):
        path = place / f"{number}.pcap"
        for end in (10, 24, 100, 30_000, 70_000, len(content) // 2, len(content)):
            path.write_bytes(content[:end])
            place.ingest()
    assert place.tables() == expected


@EVERY
@pytest.mark.parametrize("move", [False, True])
def test_a_capture_that_was_read_while_it_grew_and_then_compressed_is_continued(
    place: Place, parts: list[bytes], expected: object, suffix: str, move: bool
) -> None:
    for number, content in enumerate(parts):
        path = place / f"{number}.pcap"
        path.write_bytes(halves(content))
        place.ingest()
        path.unlink()
        packed = place / (f"archive/{number}{suffix}" if move else f"{number}.pcap{suffix}")
        packed.parent.mkdir(exist_ok=True)
        packed.write_bytes(PACK[suffix](content))
        report = place.ingest()
        assert report.captures == 1 and not report.notes
        assert place.ingest().commit is None
    assert place.tables() == expected


@EVERY
def test_a_compressed_capture_that_grows_is_continued(
    place: Place, parts: list[bytes], expected: object, suffix: str
) -> None:
    for number, content in enumerate(parts):
        packed = in_members(suffix, content, 1000, 80_000, 140_000)
        for share in (0.3, 0.6, 0.9, 1.0):
            (place / f"{number}.pcap{suffix}").write_bytes(packed[: int(len(packed) * share)])
            report = place.ingest()
            assert any("ends early, behind byte" in note for note in report.notes) is (share < 1)
    assert place.tables() == expected


@EVERY
def test_compressed_captures_are_the_same_at_once_and_in_small_partitions(
    place: Place, parts: list[bytes], expected: object, suffix: str
) -> None:
    for number, content in enumerate(parts):
        (place / f"{number}.pcap{suffix}").write_bytes(in_members(suffix, content, 90_000))
    place.ingest(partition_bytes=20_000)
    assert place.tables() == expected


@EVERY
def test_captures_that_many_index_tasks_read_are_known_when_they_are_compressed(
    place: Place, parts: list[bytes], expected: object, suffix: str
) -> None:
    """Partitions so small that each capture is read by several index tasks: where each was left is remembered."""
    for number, content in enumerate(parts):
        (place / f"{number}.pcap").write_bytes(content)
    place.ingest(partition_bytes=10_000)
    for number, content in enumerate(parts):
        (place / f"{number}.pcap").unlink()
        (place / f"{number}.pcap{suffix}").write_bytes(PACK[suffix](content))
    assert not place.ingest().messages
    assert place.tables() == expected


@EVERY
def test_captures_that_were_read_are_compressed_and_unpacked_again_without_being_read_twice(
    place: Place, parts: list[bytes], expected: object, suffix: str
) -> None:
    for number, content in enumerate(parts):
        (place / f"{number}.pcap").write_bytes(content)
    place.ingest()
    for partition_bytes in (None, 10_000):
        for number, content in enumerate(parts):
            (place / f"{number}.pcap").unlink(missing_ok=True)
            (place / f"{number}.pcap{suffix}").write_bytes(PACK[suffix](content))
        report = place.ingest(**({"partition_bytes": partition_bytes} if partition_bytes else {}))
        assert (report.captures + report.skipped, report.messages, report.bytes_decoded) == (3, {}, 0)
        assert place.ingest().commit is None
        for number, content in enumerate(parts):
            (place / f"{number}.pcap{suffix}").unlink()
            (place / f"{number}.pcap").write_bytes(content)
        assert place.ingest().commit is None
    assert place.tables() == expected


@EVERY
def test_an_archive_that_is_still_being_written_is_not_read_beside_its_original(
    place: Place, parts: list[bytes], expected: object, suffix: str
) -> None:
    for number, content in enumerate(parts):
        packed = in_members(suffix, content, 2000, 70_000)
        (place / f"{number}.pcap").write_bytes(content)
        for share in (0.2, 0.7, 1.0):
            (place / f"{number}.pcap{suffix}").write_bytes(packed[: int(len(packed) * share)])
            place.ingest()
        (place / f"{number}.pcap").unlink()
        place.ingest()
    assert place.tables() == expected


def test_a_moved_capture_goes_on_growing_under_its_new_name(place: Place, parts: list[bytes], expected: object) -> None:
    for number, content in enumerate(parts):
        for name, end in (("a", 5000), ("b", 5000), ("b", 100_000), ("c", 100_000), ("d", len(content))):
            for old in place.captures.glob(f"{number}.*"):
                old.unlink()
            (place / f"{number}.{name}").write_bytes(content[:end])
            place.ingest()
    assert place.tables() == expected


def test_copies_are_read_once_and_named(place: Place, parts: list[bytes], expected: object) -> None:
    for number, content in enumerate(parts):
        (place / f"{number}.pcap").write_bytes(content)
        (place / f"{number}-copy.pcap").write_bytes(content)
    report = place.ingest()
    assert (report.captures, report.skipped) == (3, 3)
    assert [note for note in report.notes if "has the content of" in note] == report.notes and len(report.notes) == 3
    assert place.ingest().notes == []
    assert place.tables() == expected


def test_a_ring_of_two_files_is_followed(place: Place, parts: list[bytes], expected: object) -> None:
    ring = [place / "cap.pcap0", place / "cap.pcap1"]
    for number, content in enumerate(parts):
        for end in (24, 90_000, len(content)):
            ring[number % 2].write_bytes(content[:end])
            place.ingest()
    assert place.tables() == expected


def test_rotation_by_renaming_is_followed(place: Place, parts: list[bytes], expected: object) -> None:
    for number, content in enumerate(parts):
        for end in (100_000, len(content)):
            (place / "cap").write_bytes(content[:end])
            place.ingest()
            if end == 100_000:
                continue
            for n in reversed(range(number + 1)):
                os.rename(place / (f"cap.{n}" if n else "cap"), place / f"cap.{n + 1}")
            place.ingest()
    assert place.tables() == expected


def test_a_capture_that_a_ring_overwrote_is_continued_from_its_copy(
    place: Place, parts: list[bytes], expected: object
) -> None:
    first, second, third = parts
    (place / "cap").write_bytes(first[:100_000])
    place.ingest()
    (place / "cap").write_bytes(first)
    shutil.copy(place / "cap", place.captures.parent / "saved")
    (place / "cap").write_bytes(b"".join([first[:24]]))
    place.ingest()
    os.rename(place.captures.parent / "saved", place / "saved")
    place.ingest()
    (place / "cap").write_bytes(second)
    place.ingest()
    (place / "cap").write_bytes(third)
    place.ingest()
    assert place.tables() == expected


def test_taps_are_rotated_and_compressed_while_they_are_read(place: Place, tmp_path: Path) -> None:
    traffic = generate("ceda", seed=3, messages=1500)
    write_tap(traffic, tmp_path / "whole.tap")
    content = (tmp_path / "whole.tap").read_bytes()
    ingest(InlineRunner(), [str(tmp_path / "whole.tap")], str(tmp_path / "once"), final=True)
    for step, name, end in ((as_it_is, "a.tap", 1000), (as_it_is, "a.tap", 70_000), (PACK[".zst"], "a.tap.zst", None)):
        for old in place.captures.iterdir():
            old.unlink()
        (place / name).write_bytes(step(content[:end]))
        place.ingest()
    assert place.tables() == tables(tmp_path / "once", PLACE_OF_ROW)


def test_raw_files_with_one_content_are_two_captures_and_grow_by_name(tmp_path: Path) -> None:
    place = Place(tmp_path)
    (place / "a-to_server.bin").write_bytes(b"\x82" * 100)
    (place / "b-to_server.bin").write_bytes(b"\x82" * 100)
    assert place.ingest().captures == 2
    (place / "a-to_server.bin").write_bytes(b"\x82" * 150)
    assert place.ingest().captures == 1
    accounts = Lake.open(place.lake, create=False).dataset("accounting").to_table().to_pylist()
    assert sorted(row["bytes_in"] for row in accounts) == [0, 0, 100, 150], "both directions"


def test_a_capture_that_shrank_is_left_out_with_a_note_and_refused_by_name(place: Place, parts: list[bytes]) -> None:
    path = place / "a.pcap"
    path.write_bytes(parts[0])
    place.ingest()
    path.write_bytes(parts[0][:-5000])
    report = place.ingest()
    assert report.commit is None and "a.pcap: it became shorter than what was read of it" in report.notes[0]
    with pytest.raises(CaptureError, match="it became shorter"):
        ingest(InlineRunner(), [str(path)], str(place.lake))
    path.write_bytes(parts[0])
    assert place.ingest().commit is None


def test_an_unchanged_directory_is_not_opened_again(
    place: Place, parts: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, content in enumerate(parts):
        (place / f"{number}.pcap").write_bytes(content)
    place.ingest()
    opened: list[object] = []

    def count(real: Callable[..., object]) -> Callable[..., object]:
        return lambda *given: (opened.append(given), real(*given))[1]

    from wirelake.capture.read import listing
    from wirelake.ingest import known

    monkeypatch.setattr(listing, "open_binary", count(listing.open_binary))
    monkeypatch.setattr(known, "open_binary", count(known.open_binary))
    assert (place.ingest().skipped, opened) == (3, [])
    os.utime(place / "1.pcap", (1, 1))
    assert (place.ingest().skipped, len(opened)) == (3, 2)
