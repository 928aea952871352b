"""Which captures are new."""

from __future__ import annotations

from pathlib import Path

from wirelake.generate import generate, write_pcap
from wirelake.ingest.plan import choose_new, find_captures, partition_bytes
from wirelake.lake import Input


def captures(folder: Path) -> list[Path]:
    write_pcap(generate("mb", seed=2, messages=200), folder / "part.pcap", files=2)
    return sorted(folder.glob("part-*.pcap"))


def chosen(paths: list[Path], known: dict[str, Input], positions: dict[str, object]) -> list[tuple[str, object]]:
    found, notes = find_captures([str(path) for path in paths], None)
    assert notes == []
    return [(Path(one.piece.path).name, one.piece.start) for one in choose_new(found, known, positions, False)]


def known_as(paths: list[Path]) -> dict[str, Input]:
    found, _ = find_captures([str(path) for path in paths], None)
    return {one.piece.path: one.input for one in choose_new(found, {}, {}, False)}


def test_captures_are_read_in_the_order_in_which_they_were_taken(tmp_path: Path) -> None:
    first, second = captures(tmp_path)
    assert chosen([second, first], {}, {}) == [("part-0000.pcap", None), ("part-0001.pcap", None)]


def test_a_known_capture_is_left_out_also_under_another_name(tmp_path: Path) -> None:
    first, second = captures(tmp_path)
    known = known_as([first])
    moved = first.rename(tmp_path / "moved.pcap")
    assert chosen([moved, second], known, {}) == [("part-0001.pcap", None)]


def test_a_capture_that_grew_is_read_on_where_it_was_left(tmp_path: Path) -> None:
    first, _ = captures(tmp_path)
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2])
    known = known_as([first])
    first.write_bytes(whole)
    assert chosen([first], known, {str(first): "here"}) == [("part-0000.pcap", "here")]


def test_partitions_grow_with_the_captures_within_limits() -> None:
    assert [partition_bytes(total >> 20 << 20) >> 20 for total in (0, 512 << 20, 100 << 30)] == [16, 32, 64]
