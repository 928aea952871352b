"""Captures become rows window by window; what is left open goes on in another decoder."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.capture.decode import CaptureDecoder, CaptureRange
from wirelake.capture.settings import ReadSettings
from wirelake.generate import generate, write_pcap


def raw(path: Path, cut: int = 0) -> CaptureRange:
    frames = b"".join(event.frame for event in generate("ceda", messages=8, seed=2))
    path.write_bytes(frames[: len(frames) - cut])
    return CaptureRange(str(path), path.name, "raw")


def test_bare_bytes_are_what_the_only_protocol_says(tmp_path: Path) -> None:
    (window,) = CaptureDecoder(ReadSettings(protocols=("ceda",), ports={})).run(raw(tmp_path / "a.bin"))
    assert list(window.output.messages) == ["ceda"] and window.consumed == (tmp_path / "a.bin").stat().st_size


def test_the_last_window_ends_every_connection(tmp_path: Path) -> None:
    decoder = CaptureDecoder(ReadSettings(protocols=("ceda",), ports={}))
    list(decoder.run(raw(tmp_path / "a.bin", cut=1)))
    assert sum(decoder.streams.accounts().column("bytes_pending").to_pylist()) > 0
    *_, last = decoder.finish()
    assert last.is_end and last.range is None and last.output.quarantine.num_rows == 1
    assert decoder.streams.accounts().num_rows == 0


@pytest.mark.parametrize("window", [500, 1 << 20])
def test_counts_and_resume_points_are_kept_by_capture_and_another_decoder_goes_on(tmp_path: Path, window: int) -> None:
    path = tmp_path / "a.pcap"
    write_pcap(generate("mb", messages=20, seed=1), path)
    decoder = CaptureDecoder(ReadSettings(), window=window)
    windows = list(decoder.run(CaptureRange(str(path), "monday")))
    assert sum(each.consumed for each in windows) + 24 == path.stat().st_size
    assert decoder.counts["monday"].packets > 20 and not decoder.counts["monday"].broken
    point = decoder.resume_points[str(path)]
    assert point.position == path.stat().st_size
    later = CaptureDecoder(ReadSettings(), decoder.state())
    assert [each for each in later.run(CaptureRange(str(path), "monday", start=point)) if len(each.chunks)] == []
    assert later.streams.accounts().to_pylist() == decoder.streams.accounts().to_pylist()
