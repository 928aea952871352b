"""Files are opened wherever and however packed they are."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.capture import hostile
from tests.capture.following import follow, plain
from wirelake.capture.read import files, open_capture
from wirelake.capture.read.files import Gunzip, open_binary
from wirelake.capture.tcp import Tracker
from wirelake.errors import CaptureError

CONTENT = bytes(range(256)) * 5000


def packed(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def everything(file: object) -> bytes:
    parts = []
    while part := file.read(70_000):  # type: ignore[attr-defined]
        parts.append(part)
    return b"".join(parts)


def test_a_packed_file_is_unpacked_whatever_its_name(tmp_path: Path) -> None:
    path = packed(tmp_path / "a.pcap", gzip.compress(CONTENT))
    file = open_binary(path)
    assert everything(file) == CONTENT


def test_a_file_of_several_members_and_padding_is_unpacked(tmp_path: Path) -> None:
    parts = [gzip.compress(CONTENT[:1000]), gzip.compress(b""), gzip.compress(CONTENT[1000:]), bytes(512)]
    file = open_binary(packed(tmp_path / "a.gz", b"".join(parts)))
    assert everything(file) == CONTENT
    assert isinstance(file, Gunzip) and not file.broken


def test_a_packed_file_is_sought_from_its_beginning(tmp_path: Path) -> None:
    file = open_binary(packed(tmp_path / "a.gz", gzip.compress(CONTENT)))
    for place in (0, 700_000, 100, 1_000_000, len(CONTENT)):
        assert file.seek(place) == place == file.tell()
        assert file.read(10) == CONTENT[place : place + 10]


@pytest.mark.parametrize("cut", [1, 8, 3000])
def test_a_packed_file_that_ends_early_gives_what_there_is_and_says_so(cut: int, tmp_path: Path) -> None:
    packets = plain(tmp_path / "plain.pcap")
    path = hostile.cut(hostile.write_pcap(tmp_path / "a.pcap.gz", packets), cut)
    found, (counts,) = follow(path)
    assert counts.broken == "the compressed file ends early"
    assert counts.packets > 100
    for one, stream in zip(found, hostile.streams(packets), strict=True):
        assert bytes(stream.to_server).startswith(one.stream(0).rstrip(b"\0"))


def test_a_packed_file_that_is_damaged_ends_there(tmp_path: Path) -> None:
    packets = plain(tmp_path / "plain.pcap")
    path = hostile.write_pcap(tmp_path / "a.pcap.gz", packets)
    content = bytearray(path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 50] = bytes(50)
    path.write_bytes(content)
    _, (counts,) = follow(path)
    assert counts.broken.startswith("the compressed file is damaged behind byte ")


def test_a_packed_capture_gives_the_same_and_goes_on_at_a_resume_point(tmp_path: Path) -> None:
    packets = plain(tmp_path / "plain.pcap")
    path = hostile.write_pcap(tmp_path / "a.pcap.gz", packets)
    expected, _ = follow(tmp_path / "plain.pcap")
    found, _ = follow(path)
    assert [(one.stream(0), one.stream(1)) for one in found] == [(one.stream(0), one.stream(1)) for one in expected]
    tracker = Tracker()
    reader = open_capture(path, tracker, window=5000)
    lengths = [int(next(iter(reader)).length.sum())]
    place = reader.resume_point()
    lengths += [int(chunks.length.sum()) for chunks in open_capture(path, tracker, start=place)]
    assert sum(lengths) == sum(len(packet.data) for packet in packets)


def test_a_uri_is_opened(tmp_path: Path) -> None:
    path = packed(tmp_path / "with space", CONTENT)
    for uri in (path.as_uri(), f"file:{path}"):
        assert everything(open_binary(uri)) == CONTENT


def test_a_capture_is_read_through_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packets = plain(tmp_path / "plain.pcap")
    hostile.write_pcap(tmp_path / "a.pcap.gz", packets)
    monkeypatch.setattr(files, "local_path", lambda path: None)
    for name in ("plain.pcap", "a.pcap.gz"):
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
