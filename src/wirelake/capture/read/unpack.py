"""Unpack files that gzip, zstd or xz compressed, while they are read. Positions are those of the unpacked bytes.

Files may consist of several members (gzip), frames (zstd, some of them to be skipped) or streams (xz), with zeros
behind them. How a file is cut into calls of its library depends on the file alone, so a damaged file ends at the same
byte however it is read.
"""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

LARGEST_WINDOW = 128 << 20
"""Bytes that unpacking may keep, as for the tools of zstd and xz; ``zstd --long=31`` would take 2 GB."""
SUFFIXES = (".gz", ".zst", ".xz")
LONGEST_MAGIC = 6
_BUFFER_BYTES = 1 << 20
_READ_BYTES = 1 << 15
_STEP_BYTES = 1 << 14
"""What one call unpacks at most, and loses where it meets damage."""


class Unpacker(Protocol):
    """Unpacks one member, as the classes of the standard library do."""

    @property
    def eof(self) -> bool: ...

    @property
    def needs_input(self) -> bool: ...

    @property
    def unused_data(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = -1) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Codec:
    name: str
    new: Callable[[], Unpacker]


def codec_of(head: bytes) -> Codec | None:
    """Return how a file with these first bytes is compressed; None if it is not."""
    if head.startswith(b"\x1f\x8b"):
        return Codec("gzip", _Gzip)
    if head.startswith(b"\xfd7zXZ\0"):
        return Codec("xz", _xz)
    is_skippable = head[1:4] == b"\x2a\x4d\x18" and head[0] & 0xF0 == 0x50
    return Codec("zstd", _zstd) if is_skippable or head.startswith(b"\x28\xb5\x2f\xfd") else None


def without_suffix(name: str) -> str:
    """Return the name of a file before it was compressed."""
    return name.rpartition(".")[0] if name.endswith(SUFFIXES) else name


class _Gzip:
    """zlib behind the same methods as the others."""

    def __init__(self) -> None:
        self._inner = zlib.decompressobj(wbits=31)
        self._is_full = False

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    @property
    def needs_input(self) -> bool:
        return not self._is_full and not self._inner.unconsumed_tail

    def decompress(self, data: bytes, max_length: int = -1) -> bytes:
        unpacked = self._inner.decompress(self._inner.unconsumed_tail + data, max_length)
        self._is_full = len(unpacked) == max_length  # zlib may hold back bytes for which there was no room
        return unpacked


def _xz() -> Unpacker:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=LARGEST_WINDOW + (2 << 20))


def _zstd() -> Unpacker:
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError as error:
        raise ImportError(
            f"reading zstd files needs backports.zstd ({error}); pip install 'wirelake[columnar]'"
        ) from error
    return zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: LARGEST_WINDOW.bit_length() - 1})


class Unpacked(io.RawIOBase):
    """A compressed file, unpacked while it is read. It ends where it is damaged or cut, and ``broken`` says so."""

    def __init__(self, file: BinaryIO, codec: Codec) -> None:
        self.codec = codec
        self._file = io.BufferedReader(file, _BUFFER_BYTES)  # type: ignore[type-var]
        self._rewind()

    def _rewind(self) -> None:
        self._file.seek(0)
        self._unpacker: Unpacker | None = None
        """None between two members."""
        self._packed = self._ready = b""
        self._position = 0
        self.broken = ""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place counted from the beginning, by unpacking up to there; return the place, or the end."""
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("a compressed file can only be sought from its beginning")
        if offset < self._position:
            self._rewind()
        while self._position < offset and self._fill():
            self._take(offset - self._position)
        return self._position

    def readinto(self, target: Any, /) -> int:
        view = memoryview(target).cast("B")
        if not len(view) or not self._fill():
            return 0
        data = self._take(len(view))
        view[: len(data)] = data
        return len(data)

    def _take(self, most: int) -> bytes:
        taken, self._ready = self._ready[:most], self._ready[most:]
        self._position += len(taken)
        return taken

    def _fill(self) -> bool:
        """Unpack more if nothing is ready; return False at the end."""
        while not self._ready and not self.broken:
            unpacker = self._unpacker
            packed = b""
            if (unpacker is None or unpacker.needs_input) and not (packed := self._more()):
                if unpacker is not None:
                    self.broken = f"the compressed file ends early, behind byte {self._position} of its content"
                break
            self._unpack(packed)
        return bool(self._ready)

    def _more(self) -> bytes:
        """Return the next packed bytes. Zeros between members and at the end fill blocks and mean nothing."""
        packed, self._packed = self._packed, b""
        while not packed and (read := self._file.read(_READ_BYTES)):
            packed = read if self._unpacker is not None else read.lstrip(b"\0")
        return packed

    def _unpack(self, packed: bytes) -> None:
        try:
            unpacker = self._unpacker = self._unpacker or self.codec.new()
            self._ready = unpacker.decompress(packed, _STEP_BYTES)
        except (ImportError, MemoryError):
            raise
        except Exception as error:  # each library has an exception of its own
            self.broken = f"the compressed file {_reason(error)} behind byte {self._position} of its content: {error}"
            return
        if unpacker.eof:
            self._packed, self._unpacker = unpacker.unused_data.lstrip(b"\0"), None

    def close(self) -> None:
        self._file.close()
        super().close()


def _reason(error: Exception) -> str:
    if "memory" in str(error).lower():
        return f"needs a window of more than {LARGEST_WINDOW >> 20} MiB, which is the limit,"
    return "is damaged"
