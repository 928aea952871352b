"""Between the plan of a batch and its tasks, captures are compressed, moved, and overwritten."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from tests.spark.captured import table_of
from wirelake.errors import CaptureError
from wirelake.generate import generate, write_pcap
from wirelake.spark.stream_files import StreamPlanner, advance
from wirelake.spark.stream_shares import StreamShare, stream_rows


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIRELAKE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "in" / "a.pcap"
    path.parent.mkdir()
    write_pcap(generate(("casual",), messages=200, seed=3), path)
    return path


def planned(capture: Path) -> tuple[StreamPlanner, list[StreamShare]]:
    planner = StreamPlanner(table_of("casual", capture.parent))
    return planner, planner.plan({}, advance({}, planner.files.list()))


def count(planner: StreamPlanner, shares: list[StreamShare]) -> int:
    return sum(len(batch) for share in shares for batch in stream_rows(planner.table, share))


def test_a_capture_that_was_compressed_is_found(capture: Path) -> None:
    planner, shares = planned(capture)
    capture.with_name("a.pcap.gz").write_bytes(gzip.compress(capture.read_bytes()))
    expected = count(planner, shares)
    capture.unlink()
    assert count(planner, shares) == expected > 0


def test_a_capture_that_was_unpacked_is_found(capture: Path) -> None:
    packed = capture.with_name("a.pcap.gz")
    packed.write_bytes(gzip.compress(capture.read_bytes()))
    content = capture.read_bytes()
    capture.unlink()
    planner, shares = planned(packed)
    expected = count(planner, shares)
    packed.unlink()
    capture.write_bytes(content)
    assert count(planner, shares) == expected > 0


def test_another_capture_with_its_name_is_not_read_instead(capture: Path, tmp_path: Path) -> None:
    planner, shares = planned(capture)
    write_pcap(generate(("casual",), messages=200, seed=4, start_us=1_000_000), tmp_path / "other.pcap")
    os.replace(tmp_path / "other.pcap", capture)
    with pytest.raises(CaptureError, match="another capture took its name"):
        count(planner, shares)


def test_a_capture_that_is_overwritten_while_it_is_read_is_an_error(capture: Path, tmp_path: Path) -> None:
    planner, shares = planned(capture)
    write_pcap(generate(("casual",), messages=200, seed=4, start_us=1_000_000), tmp_path / "other.pcap")
    rows = stream_rows(planner.table, shares[0])
    next(rows)
    os.replace(tmp_path / "other.pcap", capture)
    with pytest.raises(CaptureError, match="another capture took its name"):
        list(rows)
