"""Open capture files, wherever they are: local paths, and URIs that pyarrow knows (s3://, hdfs://, file:// ...).

Compressed files are unpacked on the way; positions are always those of the unpacked bytes.
"""

from __future__ import annotations

import io
import os
import zlib
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from ...errors import CaptureError

GZIP = b"\x1f\x8b"
_READ_BYTES = 1 << 18
WINDOW_BYTES = 16 << 20


def open_binary(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file, unpacked if its first bytes say that it is compressed; a compressed one is sought by reading on."""
    try:
        file = _open(path)
        head = file.read(len(GZIP))
        file.seek(0)
    except OSError as error:
        raise _unreadable(path, error) from error
    return Gunzip(file) if head == GZIP else file  # type: ignore[return-value]


def _open(path: str | os.PathLike[str]) -> BinaryIO:
    local = local_path(path)
    if local is not None:
        return _File(local)
    from pyarrow import ArrowException, fs

    try:
        system, place = fs.FileSystem.from_uri(os.fspath(path))
    except ArrowException as error:
        raise CaptureError(str(error).splitlines()[0], path=os.fspath(path)) from error
    file: BinaryIO = system.open_input_file(place)
    return file


class _File(io.FileIO):
    """Closes itself when nothing refers to it: a reader need not be read to its end."""

    def __del__(self) -> None:
        self.close()


def local_path(path: str | os.PathLike[str]) -> Path | None:
    """Return the path of a local file; None for a URI of anything else."""
    text = os.fspath(path)
    if text.startswith("file:"):
        return Path(unquote(urlsplit(text).path))
    return None if "://" in text else Path(text)


def _unreadable(path: str | os.PathLike[str], error: OSError, offset: int | None = None) -> CaptureError:
    return CaptureError(error.strerror or str(error).splitlines()[0], path=os.fspath(path), offset=offset)


class CaptureFile:
    """The bytes of an open capture, window by window; up to ``stop``, if that is given."""

    def __init__(self, file: BinaryIO, path: str = "", *, stop: int | None = None, window: int = WINDOW_BYTES) -> None:
        self.path, self.stop = path, stop
        self.position = 0
        """That of the next byte to read."""
        self.is_end = False
        """The file has no more bytes; ``is_over``: or no more are to be read."""
        self.is_over = False
        self._file, self._window = file, max(window, 1)

    @property
    def broken(self) -> str:
        """Why a compressed file could not be unpacked to its end; empty if it could."""
        return getattr(self._file, "broken", "")

    def seek(self, position: int) -> None:
        self._file.seek(position)
        self.position = position

    def head(self, size: int) -> bytes:
        """Return the next bytes, fewer if the file has no more."""
        head = bytearray(size)
        return bytes(head[: self._read_into(memoryview(head))])

    def more(self, *kept: NDArray[np.uint8], spare: int = 0) -> NDArray[np.uint8]:
        """Return the bytes to keep and, behind them, the next window of the file; ``spare`` bytes of memory follow."""
        begin = sum(map(len, kept))
        count = self._window if self.stop is None else min(self._window, max(0, self.stop - self.position))
        buffer = np.empty(begin + count + spare, np.uint8)
        if kept:
            np.concatenate(kept, out=buffer[:begin])
        done = self._read_into(buffer.data[begin : begin + count])
        self.is_end = done < count
        self.is_over = self.is_end or count < self._window
        return buffer[: begin + done]

    def _read_into(self, target: memoryview) -> int:
        """Fill as much of the target as the file has; unbuffered files may give less at a time."""
        done = 0
        try:
            while done < len(target) and (count := self._file.readinto(target[done:])):  # type: ignore[attr-defined]
                done += count
        except OSError as error:
            raise _unreadable(self.path, error, self.position + done) from error
        self.position += done
        return done


class Gunzip(io.RawIOBase):
    """A gzip file, unpacked while it is read. It ends where it is damaged or cut, and ``broken`` says so."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._rewind()

    def _rewind(self) -> None:
        self._file.seek(0)
        self._unpacker = zlib.decompressobj(wbits=31)
        self._packed = b""
        self._is_between = True
        """Between two members, a file may hold several."""
        self._position = 0
        self.broken = ""

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go to a place counted from the beginning; backwards by unpacking again."""
        if whence != io.SEEK_SET:
            raise io.UnsupportedOperation("a compressed file can only be sought from its beginning")
        if offset < self._position:
            self._rewind()
        while self._position < offset and self.read(min(_READ_BYTES, offset - self._position)):
            pass
        return self._position

    def readinto(self, target: Any, /) -> int:
        view = memoryview(target).cast("B")
        data = self._unpack(len(view)) if len(view) else b""
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def _unpack(self, most: int) -> bytes:
        while not self.broken:
            if not self._packed:
                self._packed = self._file.read(_READ_BYTES)
                if not self._packed:
                    if not self._is_between:
                        self.broken = "the compressed file ends early"
                    break
            try:
                data = self._unpacker.decompress(self._packed, most)
            except zlib.error as error:
                self.broken = f"the compressed file is damaged behind byte {self._position}: {error}"
                break
            self._is_between = False
            self._packed = self._unpacker.unconsumed_tail
            if self._unpacker.eof:
                # Some writers fill the last block with zeros.
                self._packed = self._unpacker.unused_data.lstrip(b"\0")
                self._unpacker = zlib.decompressobj(wbits=31)
                self._is_between = True
            if data:
                return data
        return b""

    def close(self) -> None:
        self._file.close()
        super().close()
