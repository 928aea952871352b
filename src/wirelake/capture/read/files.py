"""Open capture files, wherever they are: local paths, and URIs that pyarrow knows (s3://, hdfs://, file:// ...).

Compressed files (gzip, zstd, xz) are unpacked on the way; positions are always those of the unpacked bytes.
"""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from ...errors import CaptureError
from .unpack import LONGEST_MAGIC, Unpacked, codec_of

WINDOW_BYTES = 16 << 20


def open_binary(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a file, unpacked if its first bytes say that it is compressed; a compressed one is sought by reading on."""
    try:
        file = _open(path)
        codec = codec_of(file.read(LONGEST_MAGIC))
        file.seek(0)
    except OSError as error:
        raise _unreadable(path, error) from error
    return Unpacked(file, codec) if codec is not None else file  # type: ignore[return-value]


def compression_of(path: str | os.PathLike[str]) -> str:
    """Return ``gzip``, ``zstd`` or ``xz``; nothing for a file that is not compressed."""
    with open_binary(path) as file:
        return file.codec.name if isinstance(file, Unpacked) else ""


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
        self._too_short = ""

    @property
    def broken(self) -> str:
        """Why a compressed file could not be unpacked to its end; empty if it could."""
        return getattr(self._file, "broken", "") or self._too_short

    @property
    def compression(self) -> str:
        """``gzip``, ``zstd`` or ``xz``; nothing for a file that is not compressed."""
        return self._file.codec.name if isinstance(self._file, Unpacked) else ""

    def seek(self, position: int) -> None:
        reached = self._file.seek(position)
        if reached < position:
            self._too_short = f"it ends at byte {reached}, before byte {position}, up to which it was read"
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
