"""Files are opened wherever and however packed they are."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture import hostile
from tests.capture.following import follow, plain
from tests.capture.packing import PACK, in_members
from wirelake.capture.read import ResumePoint, files, open_capture
from wirelake.capture.read.files import open_binary
from wirelake.capture.tcp import Tracker
from wirelake.errors import CaptureError

CONTENT = bytes(range(256)) * 5000
EVERY = pytest.mark.parametrize("suffix", PACK)


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def everything(file: object) -> bytes:
    parts = []
    while part := file.read(70_000):  # type: ignore[attr-defined]
        parts.append(part)
    return b"".join(parts)


@EVERY
def test_a_packed_file_is_unpacked_whatever_its_name(suffix: str, tmp_path: Path) -> None:
    path = packed(tmp_path / "a.pcap", PACK[suffix](CONTENT))
    assert everything(open_binary(path)) == CONTENT


@EVERY
@pytest.mark.parametrize("cut", [1, 8, 3000])
def test_a_packed_file_that_ends_early_gives_what_there_is_and_says_so(suffix: str, cut: int, tmp_path: Path) -> None:
    packets = plain(tmp_path / "plain.pcap")
    path = hostile.cut(hostile.write_pcap(tmp_path / f"a.pcap{suffix}", packets), cut)
    found, (counts,) = follow(path)
    assert counts.broken.startswith("the compressed file ends early, behind byte ")
    assert counts.packets > 100
    for one, stream in zip(found, hostile.streams(packets), strict=True):
        assert bytes(stream.to_server).startswith(one.stream(0).rstrip(b"\0"))


@EVERY
@pytest.mark.parametrize("growing", [False, True])
def test_a_packed_file_that_is_damaged_ends_there(suffix: str, growing: bool, tmp_path: Path) -> None:
    packets = plain(tmp_path / "plain.pcap")
    unpacked = hostile.write_pcap(tmp_path / "a.pcap", packets).read_bytes()
    content = in_members(suffix, unpacked, len(unpacked) // 2) + b"rubbish, rubbish"
    reader = open_capture(packed(tmp_path / f"a.pcap{suffix}", content), Tracker(), growing=growing)
    assert sum(int(chunks.length.sum()) for chunks in reader) == sum(len(packet.data) for packet in packets)
    assert reader.counts.broken.startswith(f"the compressed file is damaged behind byte {len(unpacked)} of its content")


@EVERY
def test_a_packed_capture_gives_the_same_and_goes_on_at_a_resume_point(suffix: str, tmp_path: Path) -> None:
    packets = plain(tmp_path / "plain.pcap")
    path = hostile.write_pcap(tmp_path / f"a.pcap{suffix}", packets)
    expected, _ = follow(tmp_path / "plain.pcap")
    found, _ = follow(path)
    assert [(one.stream(0), one.stream(1)) for one in found] == [(one.stream(0), one.stream(1)) for one in expected]
    tracker = Tracker()
    reader = open_capture(path, tracker, window=5000)
    lengths = [int(next(iter(reader)).length.sum())]
    place = reader.resume_point()
    lengths += [int(chunks.length.sum()) for chunks in open_capture(path, tracker, start=place)]
    assert sum(lengths) == sum(len(packet.data) for packet in packets)


@EVERY
def test_a_packed_capture_that_was_cut_goes_on_when_it_has_grown(suffix: str, tmp_path: Path) -> None:
    packets = plain(tmp_path / "plain.pcap")
    unpacked = hostile.write_pcap(tmp_path / "a.pcap", packets).read_bytes()
    path = tmp_path / f"a.pcap{suffix}"
    whole = in_members(suffix, unpacked, len(unpacked) // 4, len(unpacked) // 2)
    tracker, start, lengths = Tracker(), None, []
    for end in (len(whole) // 3, len(whole) // 3, len(whole) * 2 // 3, len(whole)):
        path.write_bytes(whole[:end])
        reader = open_capture(path, tracker, start=start, growing=True)
        lengths.append(sum(int(chunks.length.sum()) for chunks in reader))
        assert bool(reader.counts.broken) is (end < len(whole))
        start = reader.resume_point()
    assert sum(lengths) == sum(len(packet.data) for packet in packets)
    assert lengths[1] == 0 and min(lengths[0], lengths[2], lengths[3]) > 0


@EVERY
def test_a_packed_capture_that_became_shorter_than_it_was_says_so(suffix: str, tmp_path: Path) -> None:
    path = packed(tmp_path / "a.bin", PACK[suffix](CONTENT))
    reader = open_capture(path, Tracker(), start=ResumePoint(len(CONTENT) + 5))
    assert list(reader) == []
    expected = f"it ends at byte {len(CONTENT)}, before byte {len(CONTENT) + 5}, up to which it was read"
    assert reader.counts.broken == expected and reader.resume_point().position == len(CONTENT) + 5


def test_a_packed_file_without_content_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.pcap.gz", PACK[".gz"](CONTENT)[:11])
    with pytest.raises(CaptureError, match=r"not a pcap, pcapng or tap file: the compressed file ends early, behind "):
        open_capture(path, Tracker())


def test_a_uri_is_opened(tmp_path: Path) -> None:
    path = packed(tmp_path / "with space", CONTENT)
    for uri in (path.as_uri(), f"file:{path}"):
        assert everything(open_binary(uri)) == CONTENT


def test_a_capture_is_read_through_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packets = plain(tmp_path / "plain.pcap")
    monkeypatch.setattr(files, "local_path", lambda path: None)
    for name in ("plain.pcap", "a.pcap.gz", "a.pcap.zst", "a.pcap.xz"):
        hostile.write_pcap(tmp_path / name, packets)
        reader = open_capture((tmp_path / name).as_uri(), Tracker(), window=5000)
        assert sum(int(chunks.length.sum()) for chunks in reader) == sum(len(packet.data) for packet in packets)
    with pytest.raises(CaptureError, match=r"missing\.pcap"):
        open_capture((tmp_path / "missing.pcap").as_uri(), Tracker())


def test_a_uri_that_pyarrow_does_not_know_is_refused() -> None:
    with pytest.raises(CaptureError, match="nosuch"):
        open_binary("nosuch://somewhere/a.pcap")


def test_a_file_that_may_not_be_read_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(CaptureError) as caught:
        open_binary(tmp_path / "missing.pcap")
    assert str(caught.value) == f"{tmp_path}/missing.pcap: No such file or directory [capture]"
