from __future__ import annotations

import io

import pytest

from wirelake.capture.chunks import TO_CLIENT, TO_SERVER
from wirelake.capture.read.files import CaptureFile
from wirelake.capture.read.raw import NO_TIME, RawReader, stream_of


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("0000-casual-to_server.bin", TO_SERVER),
        ("0000-casual-to_client.bin", TO_CLIENT),
        ("x_to_client.raw.gz", TO_CLIENT),
        ("x_to_client.raw.zst", TO_CLIENT),
        ("x_to_client.raw.xz", TO_CLIENT),
        ("to_client.bin", TO_CLIENT),
        ("anything.bin", TO_SERVER),
        ("goto_client.bin", TO_SERVER),
    ],
)
def test_the_name_tells_the_direction(name: str, direction: int) -> None:
    assert stream_of(name)[1] == direction


def test_two_directions_are_one_connection_wherever_the_files_are() -> None:
    pair = {
        stream_of(name)[0].id
        for name in ("a/x-to_server.bin", "s3://b/c/x-to_client.bin", "x-to_client.bin.gz", "x-to_server.bin.zst")
    }
    assert len(pair) == 1
    assert stream_of("y-to_server.bin")[0].id not in pair


def test_a_raw_file_is_read_in_windows_without_times() -> None:
    content = bytes(range(250)) * 10
    reader = RawReader(CaptureFile(io.BytesIO(content), "x-to_client.bin", window=700))
    found = list(reader)
    assert [int(chunks.offset[0]) for chunks in found] == [0, 700, 1400, 2100]
    assert b"".join(chunks.data[: chunks.length[0]].tobytes() for chunks in found) == content
    assert {(int(chunks.ts[0]), int(chunks.direction[0])) for chunks in found} == {(NO_TIME, TO_CLIENT)}
    connection = found[0].connections[0]
    assert (connection.first_us, connection.is_whole, connection.protocol) == (None, True, None)
    assert (reader.position, reader.counts.bytes) == (2500, 2500)


def test_reading_goes_on_at_a_resume_point_and_ends_at_a_stop() -> None:
    content = bytes(2500)
    reader = RawReader(CaptureFile(io.BytesIO(content), "x.bin", window=700))
    next(iter(reader))
    later = RawReader(CaptureFile(io.BytesIO(content), "x.bin", stop=1400), reader.resume_point())
    (chunks,) = later
    assert (int(chunks.offset[0]), int(chunks.length[0]), later.position) == (700, 700, 1400)


def test_an_empty_raw_file_has_no_chunks() -> None:
    assert list(RawReader(CaptureFile(io.BytesIO(b""), "x.bin"))) == []
