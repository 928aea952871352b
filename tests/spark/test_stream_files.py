"""Streams of captures without Spark: whatever the batches, the rows are those of one read."""

from __future__ import annotations

import gzip
import random
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spark.captured import read, split_pcap, table_of
from wirelake.errors import CaptureError
from wirelake.generate import generate, write_pcap
from wirelake.spark.stream_files import StreamPlanner, advance, again_if_gone
from wirelake.spark.stream_shares import stream_rows

KEY = ("connection", "direction", "offset")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRELAKE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    path = tmp_path_factory.mktemp("parts") / "all.pcap"
    write_pcap(generate(("casual", "dsa", "mb", "ceda"), messages=400, connections=4, seed=5, corrupt=0.02), path)
    return split_pcap(path, 4)


def planner(folder: Path, **options: Any) -> StreamPlanner:
    return StreamPlanner(table_of("wire", folder, columnNameOfCorruptRecord="bad", **options))


def batch(stream: StreamPlanner, start: Any, end: Any) -> list[dict[str, Any]]:
    batches = [made for share in stream.plan(start, end) for made in stream_rows(stream.table, share)]
    return pa.Table.from_batches(batches, stream.table.target).to_pylist()


def ordered(found: list[dict[str, Any]]) -> str:
    return repr(sorted(found, key=lambda row: tuple(row[name] for name in KEY)))


def whole(folder: Path) -> str:
    """One batch over everything."""
    stream = planner(folder)
    return ordered(batch(stream, {}, advance({}, stream.files.list())))


@pytest.mark.parametrize("seed", range(25))
def test_files_that_grow_and_rotate_give_the_rows_of_one_read(tmp_path: Path, parts: list[Path], seed: int) -> None:
    draw, folder = random.Random(seed), tmp_path / "in"
    folder.mkdir()
    stream, at, found = planner(folder), {}, []
    for part in parts:
        data, written = part.read_bytes(), 0
        while written < len(data):
            written = min(len(data), written + draw.randrange(1, 60_000))
            (folder / part.name).write_bytes(data[:written])
            if draw.random() < 0.3:
                stream = planner(folder)  # a restart
            if draw.random() < 0.1 and stream._folder is not None:
                for kept in stream._folder.glob("stream-*"):
                    kept.unlink()
            end = advance(at, stream.files.list(), draw.choice([None, draw.randrange(100, 50_000)]))
            found += batch(stream, at, end)
            at = end
    found += batch(stream, at, end := advance(at, stream.files.list()))
    assert advance(end, stream.files.list()) == end
    assert ordered(found) == whole(folder)


def test_a_stream_of_whole_connections_has_the_rows_of_a_batch_read(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    write_pcap(generate(("casual", "mb"), messages=300, connections=4, seed=2), folder / "all.pcap")
    split_pcap(folder / "all.pcap", 3)
    (folder / "all.pcap").unlink()
    expected = read("wire", folder, rotated="true", columnNameOfCorruptRecord="bad")
    assert whole(folder) == ordered(expected)


def test_a_batch_is_the_same_after_its_captures_were_compressed(tmp_path: Path, parts: list[Path]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for part in parts:
        (folder / part.name).write_bytes(part.read_bytes())
    stream = planner(folder)
    middle = advance({}, stream.files.list(), 100_000)
    end = advance(middle, stream.files.list())
    batch(stream, {}, middle)
    expected = batch(stream, middle, end)
    for part in parts[:3]:
        (folder / f"{part.name}.gz").write_bytes(gzip.compress((folder / part.name).read_bytes()))
        (folder / part.name).unlink()
    assert ordered(batch(planner(folder), middle, end)) == ordered(expected)
    assert advance(end, planner(folder).files.list()) == end


def test_a_capture_that_vanishes_is_an_error_or_said_to_be_lost(tmp_path: Path, parts: list[Path]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / parts[0].name).write_bytes(parts[0].read_bytes())
    stream = planner(folder)
    at = advance({}, stream.files.list())
    batch(stream, {}, at)
    (folder / parts[0].name).unlink()
    (folder / parts[1].name).write_bytes(parts[1].read_bytes())
    end = advance(at, stream.files.list())
    with pytest.raises(CaptureError, match="it is not there any more; failOnDataLoss=false"):
        batch(stream, at, end)
    assert batch(planner(folder, failOnDataLoss="false"), at, end)


def test_a_finished_capture_that_grows_is_an_error(tmp_path: Path, parts: list[Path]) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    first, second = (part.read_bytes() for part in parts[:2])
    (folder / parts[0].name).write_bytes(first[:-5000])
    (folder / parts[1].name).write_bytes(second[:-5000])
    stream = planner(folder)
    at = advance({}, stream.files.list())
    batch(stream, {}, at)
    (folder / parts[0].name).write_bytes(first)
    (folder / parts[1].name).write_bytes(second)
    with pytest.raises(CaptureError, match="it grew from"):
        batch(planner(folder), at, advance(at, stream.files.list()))


def test_limits_share_bytes_between_sensors(tmp_path: Path, parts: list[Path]) -> None:
    for name in ("a", "b"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "x.pcap").write_bytes(parts[0].read_bytes())
    stream = planner(tmp_path / "in", recursiveFileLookup="true")
    end = advance({}, stream.files.list(), most_bytes=1000)
    assert [position["position"] for position in end.values()] == [500, 500]
    assert len(advance({}, stream.files.list(), most_files=1)) == 1


def test_a_capture_that_went_while_it_was_looked_at_is_looked_for_again(tmp_path: Path) -> None:
    path, looks = tmp_path / "a.pcap", []

    def look() -> int:
        looks.append(path)
        if len(looks) < 3:
            raise CaptureError("no such file", path=str(path))
        return len(looks)

    assert again_if_gone(look) == 3
    path.touch()
    looks.clear()
    with pytest.raises(CaptureError, match="no such file"):
        again_if_gone(look)
    assert len(looks) == 1


@pytest.mark.parametrize("seed", range(4))
def test_captures_that_are_compressed_at_any_moment_lose_nothing(tmp_path: Path, parts: list[Path], seed: int) -> None:
    folder, stop = tmp_path / "in", threading.Event()
    folder.mkdir()

    def compress() -> None:
        draw = random.Random(seed)
        while not stop.is_set():
            for path in sorted(folder.glob("*.pcap"))[: draw.randrange(3)]:
                packed = path.with_name(f".{path.name}.gz")
                packed.write_bytes(gzip.compress(path.read_bytes()))
                packed.rename(folder / f"{path.name}.gz")
                path.unlink()

    other = threading.Thread(target=compress)
    other.start()
    stream, at, found = planner(folder), {}, []
    try:
        for part in parts:
            staged = tmp_path / part.name
            staged.write_bytes(part.read_bytes())
            staged.rename(folder / part.name)
            for limit in (60_000, None):
                end = advance(at, stream.files.list(), limit)
                found += batch(stream, at, end)
                at = end
    finally:
        stop.set()
        other.join()
    assert ordered(found) == whole(folder)
