"""Index tasks: each goes on where the one before ended, and together they find every byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.capture.decode import CaptureRange
from wirelake.generate import generate, write_pcap
from wirelake.ingest.tasks import StepSettings
from wirelake.ingest.tasks.index import PARTITIONS, IndexResult, IndexTask
from wirelake.lake import Lake

CUT = 4 << 10


@pytest.fixture
def pieces(tmp_path: Path) -> tuple[CaptureRange, ...]:
    write_pcap(generate(("casual", "mb"), seed=3, messages=900, connections=3), tmp_path / "part.pcap", files=3)
    paths = sorted(tmp_path.glob("part-*.pcap"))
    return tuple(CaptureRange(str(path), path.name, "pcap", size=path.stat().st_size) for path in paths)


def indexed(settings: StepSettings, pieces: tuple[CaptureRange, ...]) -> list[IndexResult]:
    results: list[IndexResult] = []
    before = None
    while pieces:
        results.append(IndexTask(settings, len(results), pieces, before, CUT).run())
        pieces, before = results[-1].rest, results[-1].end.state.staged
    return results


def test_a_chain_of_tasks_finds_every_byte_in_pieces_of_bounded_size(
    pieces: tuple[CaptureRange, ...], tmp_path: Path
) -> None:
    lake = Lake.open(tmp_path / "lake", settings={"buckets": 1}, durable=False)
    with lake.writing() as run:
        results = indexed(StepSettings(run.staging, "here", "k", 1), pieces)
    assert len(results) > 3
    assert all(len(result.partitions) <= PARTITIONS for result in results)
    ends: dict[str, int] = {}
    for result in results:
        for partition in result.partitions:
            for captured in partition.ranges:
                start = captured.start.position if captured.start is not None else 0
                assert start == ends.get(captured.path, 0)
                ends[captured.path] = captured.stop or Path(captured.path).stat().st_size
    assert ends == {piece.path: piece.size for piece in pieces}


def test_the_last_task_accounts_for_what_is_open(pieces: tuple[CaptureRange, ...], tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", settings={"buckets": 1}, durable=False)
    with lake.writing() as run:
        *earlier, last = indexed(StepSettings(run.staging, "here", "k", 1), pieces[:1])
        assert all(not result.end.accounts for result in earlier)
        assert [file.table for file in last.end.accounts] == ["accounting"]
        final = indexed(StepSettings(run.staging, "here", "f", 1, final=True), pieces[:1])[-1]
        assert not final.end.accounts and final.end.resume_points[pieces[0].path].position == pieces[0].size
