"""Which captures are new."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.packing import PACK
from wirelake.capture.read import ResumePoint
from wirelake.errors import CaptureError
from wirelake.generate import generate, write_pcap
from wirelake.ingest.known import recognise
from wirelake.ingest.plan import NewCapture, choose_new, find_captures, partition_bytes, refuse_shrunk
from wirelake.lake import Input


def captures(folder: Path) -> list[Path]:
    write_pcap(generate("mb", seed=2, messages=200), folder / "part.pcap", files=2)
    return sorted(folder.glob("part-*.pcap"))


def chosen(paths: list[Path], known: dict[str, Input], positions: dict[str, ResumePoint]) -> list[NewCapture]:
    seen, notes = find_captures([str(path) for path in paths], None, known)
    assert notes == []
    return choose_new(recognise(seen, known), positions, False)


def test_captures_are_read_in_the_order_in_which_they_were_taken(tmp_path: Path) -> None:
    first, second = captures(tmp_path)
    assert [(one.piece.path, one.piece.start) for one in chosen([second, first], {}, {})] == [
        (str(first), None),
        (str(second), None),
    ]


def test_a_known_capture_is_left_out_also_under_another_name(tmp_path: Path) -> None:
    first, second = captures(tmp_path)
    (known,) = chosen([first], {}, {})
    moved = first.rename(tmp_path / "moved.pcap")
    record = known.input.read_to(moved.stat().st_size)
    assert [one.piece.path for one in chosen([moved, second], {str(first): record}, {})] == [str(second)]


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_a_capture_that_grew_is_read_on_where_it_was_left(suffix: str, tmp_path: Path) -> None:
    first, _ = captures(tmp_path)
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    (known,) = chosen([first], {}, {})
    first.unlink()
    now = tmp_path / f"other.pcap{suffix}"
    now.write_bytes(PACK[suffix](whole) if suffix else whole)
    (found,) = chosen([now], {str(first): known.input.read_to(1000)}, {str(first): ResumePoint(1000)})
    assert (found.piece.path, found.piece.start, found.input.position) == (str(now), ResumePoint(1000), 1000)
    assert found.piece.size == (now.stat().st_size if suffix else len(whole) - 1000)


def test_a_file_that_is_no_capture_is_left_out_with_a_note_unless_it_is_named(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    (tmp_path / "cut.pcap.gz").write_bytes(b"\x1f\x8bnot really")
    seen, notes = find_captures([str(tmp_path)], None, {})
    assert (seen, len(notes)) == ([], 2)
    assert "cut.pcap.gz: not a pcap, pcapng or tap file: the compressed file is damaged behind byte 0" in notes[0]
    with pytest.raises(CaptureError, match="it begins with 68 65"):
        find_captures([str(tmp_path / "notes.txt")], None, {})


def test_a_capture_that_shrank_is_refused_if_it_is_named(tmp_path: Path) -> None:
    first, second = captures(tmp_path)
    known = {one.input.path: one.input.read_to(one.input.size) for one in chosen([first, second], {}, {})}
    first.write_bytes(first.read_bytes()[:-1000])
    seen, _ = find_captures([str(tmp_path)], None, known)
    found = recognise(seen, known)
    assert [one.change for one in found] == ["shrunk", "same"] and choose_new(found, {}, False) == []
    refuse_shrunk(found, [str(tmp_path)])
    with pytest.raises(CaptureError, match=r"part-0000\.pcap: it became shorter than what was read of it, \d+ bytes"):
        refuse_shrunk(found, [str(first)])


def test_partitions_grow_with_the_captures_within_limits() -> None:
    assert [partition_bytes(total >> 20 << 20) >> 20 for total in (0, 512 << 20, 100 << 30)] == [16, 32, 64]
