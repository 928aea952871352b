"""Compressed files give what was compressed, up to where they are damaged or cut, within bounded memory."""

from __future__ import annotations

import io
import lzma
import random
import subprocess
import sys
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.capture.packing import PACK, SKIPPABLE, in_members, zstd
from wirelake.capture.read import unpack
from wirelake.capture.read.unpack import Unpacked, codec_of, without_suffix

EVERY = pytest.mark.parametrize("suffix", PACK)
RANDOM = random.Random(7).randbytes(90_000)
CONTENT = RANDOM + bytes(range(256)) * 2000 + RANDOM[::-1]


def opened(packed: bytes) -> Unpacked:
    codec = codec_of(packed[:6])
    assert codec is not None
    return Unpacked(io.BytesIO(packed), codec)


def read(file: Unpacked, size: int = 70_000) -> bytes:
    return b"".join(iter(lambda: file.read(size) or b"", b""))


@EVERY
def test_the_first_bytes_tell_how_a_file_is_compressed(suffix: str) -> None:
    file = opened(PACK[suffix](CONTENT))
    assert read(file) == CONTENT and not file.broken
    assert file.codec.name == {".gz": "gzip", ".zst": "zstd", ".xz": "xz"}[suffix]


def test_a_file_that_is_not_compressed_has_no_codec() -> None:
    assert [codec_of(head) for head in (b"", b"\x1f", b"\xd4\xc3\xb2\xa1\x02\0", b"\xfd7zXY\0", b"P")] == [None] * 5


def test_the_name_of_a_file_before_it_was_compressed() -> None:
    names = ["a.pcap.gz", "a.pcap.zst", "a.tap.xz", "a.pcap", "gz", "a.gz.xz"]
    assert [without_suffix(name) for name in names] == ["a.pcap", "a.pcap", "a.tap", "a.pcap", "gz", "a.gz"]


@EVERY
def test_members_and_what_lies_between_them_are_read_as_one(suffix: str) -> None:
    file = opened(in_members(suffix, CONTENT, 1000, 1000, 200_000))
    assert read(file) == CONTENT and not file.broken


def test_a_zstd_file_may_begin_with_a_frame_to_be_skipped() -> None:
    file = opened(SKIPPABLE + PACK[".zst"](CONTENT))
    assert read(file) == CONTENT and not file.broken


@EVERY
def test_a_file_is_sought_from_its_beginning_and_tells_where_it_ends(suffix: str) -> None:
    file = opened(in_members(suffix, CONTENT, 300_000))
    for place in (0, 400_000, 100, 600_000, len(CONTENT)):
        assert file.seek(place) == place == file.tell()
        assert file.read(10) == CONTENT[place : place + 10]
    assert file.seek(len(CONTENT) + 1) == len(CONTENT)
    with pytest.raises(io.UnsupportedOperation):
        file.seek(0, io.SEEK_END)


@EVERY
@settings(max_examples=25)
@given(share=st.floats(0, 1, exclude_max=True), size=st.integers(1, 200_000))
def test_a_file_that_is_cut_gives_a_beginning_and_says_where_it_ends(suffix: str, share: float, size: int) -> None:
    packed = PACK[suffix](CONTENT)
    cut = max(6, int(len(packed) * share))
    file = opened(packed[:cut])
    found = read(file, size)
    assert CONTENT.startswith(found)
    assert file.broken == f"the compressed file ends early, behind byte {len(found)} of its content"
    assert len(found) >= share * len(CONTENT) / 4 - 200_000


@EVERY
def test_a_file_that_grows_gives_ever_more(suffix: str) -> None:
    packed = in_members(suffix, CONTENT, 50_000, 150_000)
    ends = [len(read(opened(packed[:cut]))) for cut in range(6, len(packed), 9001)]
    assert ends == sorted(ends) and len(set(ends)) > 3
    assert read(opened(packed)) == CONTENT


@EVERY
def test_a_damaged_file_ends_at_one_byte_however_it_is_read(suffix: str) -> None:
    packed = bytearray(in_members(suffix, CONTENT, 100_000))
    packed[len(packed) * 2 // 3 : len(packed) * 2 // 3 + 50] = bytes(range(50))
    ends = set()
    for size in (1000, 65_536, 1 << 20):
        file = opened(bytes(packed))
        ends.add((len(read(file, size)), file.broken))
    ((end, broken),) = ends
    assert broken.startswith(f"the compressed file is damaged behind byte {end} of its content: ")
    assert end >= 100_000 - unpack._STEP_BYTES


@EVERY
def test_rubbish_behind_the_last_member_is_damage(suffix: str) -> None:
    file = opened(PACK[suffix](CONTENT) + b"rubbish that nobody can unpack")
    assert read(file) == CONTENT
    assert file.broken.startswith(f"the compressed file is damaged behind byte {len(CONTENT)} of its content: ")


@EVERY
@given(junk=st.binary(max_size=200))
def test_any_bytes_behind_the_magic_end_in_words(suffix: str, junk: bytes) -> None:
    file = opened(PACK[suffix](b"")[:6] + junk)
    read(file)
    assert file.broken.startswith("the compressed file ")


def huge_window(suffix: str) -> bytes:
    """A small file that asks for 2 GB (zstd) or 1.5 GB (xz) before it gives a byte."""
    if suffix == ".zst":
        options = {zstd.CompressionParameter.window_log: 31, zstd.CompressionParameter.checksum_flag: 1}
        packer = zstd.ZstdCompressor(options=options)
        return bytes(packer.compress(b"a pcap file") + packer.flush())
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 0}]
    packed = bytearray(lzma.compress(b"a pcap file", filters=filters))
    # The block header of xz: size, flags, filter, size of properties, dictionary; then padding and a CRC-32.
    assert packed[12:16] == b"\x02\x00\x21\x01"
    packed[16] = 39
    packed[20:24] = zlib.crc32(packed[12:20]).to_bytes(4, "little")
    return bytes(packed)


@pytest.mark.parametrize("suffix", [".zst", ".xz"])
def test_a_file_that_needs_too_much_memory_is_refused_with_the_limit(suffix: str) -> None:
    tracemalloc.start()
    try:
        file = opened(huge_window(suffix))
        assert read(file) == b""
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()
    assert file.broken.startswith(
        "the compressed file needs a window of more than 128 MiB, which is the limit, behind byte 0 of its content: "
    )


@pytest.mark.parametrize("suffix", PACK)
def test_the_strongest_setting_of_each_tool_is_read(suffix: str) -> None:
    strongest = {
        ".gz": PACK[".gz"],
        ".zst": lambda content: zstd.compress(content, options={zstd.CompressionParameter.window_log: 27}),
        ".xz": lambda content: lzma.compress(content, preset=9),
    }
    file = opened(strongest[suffix](CONTENT))
    assert read(file) == CONTENT and not file.broken


MEASURE = """
import io, resource, sys
from tests.capture.packing import PACK
from wirelake.capture.read.unpack import Unpacked, codec_of
one = PACK[sys.argv[1]](bytes(64 << 20))
packed = one * 8
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
file, window, total = Unpacked(io.BytesIO(packed), codec_of(packed[:6])), bytearray(1 << 20), 0
while count := file.readinto(window):
    total += count
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
print(total, len(packed) < 4 << 20, grown)
"""


@EVERY
def test_a_bomb_is_a_long_file_that_takes_no_memory(suffix: str) -> None:
    done = subprocess.run([sys.executable, "-c", MEASURE, suffix], capture_output=True, text=True, check=True)
    total, is_small, grown = done.stdout.split()
    assert (int(total), is_small) == (512 << 20, "True")
    assert int(grown) < 16 << 10, "kilobytes"


@EVERY
def test_many_empty_members_take_linear_time(suffix: str) -> None:
    count = 100_000 if suffix == ".gz" else 20_000
    file = opened(PACK[suffix](b"") * count + PACK[suffix](b"the end"))
    assert read(file) == b"the end" and not file.broken


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, zstd.__name__, None)
    monkeypatch.setattr("backports.zstd", None, raising=False)
    monkeypatch.delattr("backports.zstd", raising=False)
    with pytest.raises(
        ImportError, match=r"reading zstd files needs backports\.zstd .*pip install 'wirelake\[columnar"
    ):
        opened(PACK[".zst"](CONTENT)).read(10)
