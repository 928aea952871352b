"""Captures are told apart by their first bytes, and what is none is refused in one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture import hostile
from wirelake.capture.read import open_capture
from wirelake.capture.tcp import Tracker
from wirelake.errors import CaptureError


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.pcap", b"", "not a pcap, pcapng or tap file: it is empty"),
        ("a.pcap", b"hello world", "not a pcap, pcapng or tap file: it begins with 68 65 6c 6c 6f 20 77 6f"),
        ("a.pcap", b"\xd4\xc3", "not a pcap, pcapng or tap file: it begins with d4 c3"),
    ],
)
def test_a_file_that_is_no_capture_is_refused(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CaptureError) as caught:
        open_capture(tmp_path / name, Tracker())
    assert caught.value.detail == message and caught.value.path == str(tmp_path / name)


def test_paths_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CaptureError, match="No such file or directory"):
        open_capture(tmp_path / "nothing.pcap", Tracker())
    with pytest.raises(CaptureError, match="Is a directory"):
        open_capture(tmp_path, Tracker())


def test_a_kind_that_is_asked_for_must_be_right(tmp_path: Path) -> None:
    path = hostile.write_pcap(tmp_path / "a.pcap", [])
    with pytest.raises(CaptureError, match="not a pcapng file: it begins with d4 c3 b2 a1"):
        open_capture(path, Tracker(), kind="pcapng")
    with pytest.raises(CaptureError, match="'pcapx' is not a kind of captures; choose pcap, pcapng, tap, raw"):
        open_capture(path, Tracker(), kind="pcapx")
    assert open_capture(path, Tracker(), kind="raw").kind == "raw"
    assert open_capture(path, Tracker()).kind == "pcap"
