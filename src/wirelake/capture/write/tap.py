"""Write tap files: chunks as a proxy or a server saw them, appended record by record (docs/tap-format.md).

A record costs one ``struct.pack``, one CRC-32 and one copy into a buffer. A file can be read up to any byte.
"""

from __future__ import annotations

import os
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from .. import tap_format as form
from ..tap_format import DATA, DATA_HEAD, MARK, MAX_DATA

_FLUSH_BYTES = 1 << 16

Address = tuple[str, int]


@dataclass(slots=True)
class _Written:
    """A connection that is open in a tap. ``ends``: how many bytes have passed, each way."""

    client: Address
    server: Address
    opened_us: int
    protocol: str
    ends: list[int] = field(default_factory=lambda: [0, 0])


class TapWriter:
    """Appends records to a tap file, or to a rotated set of them in a directory.

    ``rotate_bytes`` begins a new file after about so many bytes, ``rotate_us`` after so much time of the records. Files
    in a directory are called by time, set and number, so that their names sort as they were written.

    A call that raises OSError has not taken its bytes (of very long data perhaps the beginning: ``offset`` tells); what
    was taken before stays, and ``flush`` can be tried again. Bytes that will never be given are announced by ``skip``.
    """

    def __init__(
        self,
        target: str | os.PathLike[str],
        *,
        rotate_bytes: int | None = None,
        rotate_us: int | None = None,
        set_id: bytes | None = None,
    ) -> None:
        self.target = Path(target)
        self.is_set = self.target.is_dir()
        if (rotate_bytes or rotate_us) and not self.is_set:
            raise ValueError(f"a rotated tap needs a directory, and {self.target} is none")
        self.set_id = os.urandom(16) if set_id is None else set_id
        self.rotate_bytes, self.rotate_us = rotate_bytes, rotate_us
        self.paths: list[Path] = []
        self.written = 0
        """Bytes of the present file that the operating system has."""
        self._file: Any = None
        self._buffer = bytearray()
        self._open: dict[int, _Written] = {}
        self._next = 0
        self._seed = 0
        self._limit = 1 << 62
        self._until_us = 1 << 62
        self._set_name = ""
        self._is_name_safe = True
        """Whether the directory entry of the present file outlasts a power failure."""

    @property
    def path(self) -> Path | None:
        """The file that is being written, if one has been begun and not ended."""
        return self.paths[-1] if self._file is not None else None

    # --- records

    def open(
        self, client: Address, server: Address, ts_us: int, protocol: str | None = None, *, is_whole: bool = True
    ) -> int:
        """Begin a connection; return its number. ``is_whole``: its very first bytes will be there."""
        self._room(ts_us)
        number, self._next = self._next, self._next + 1
        known = self._open[number] = _Written(client, server, ts_us, protocol or "")
        self._put_open(number, known, form.BEGINS if is_whole else form.GOES_ON)
        return number

    def data(self, connection: int, direction: int, ts_us: int, data: bytes | bytearray | memoryview) -> None:
        """Append bytes of one direction, TO_SERVER or TO_CLIENT."""
        ends = self._open[connection].ends
        for begin in range(0, len(data), MAX_DATA) if len(data) > MAX_DATA else (0,):
            self._room(ts_us)
            piece = data[begin : begin + MAX_DATA]
            head = DATA_HEAD.pack(16 + len(piece), MARK, DATA, direction, connection, ts_us, ends[direction])
            crc = zlib.crc32(piece, zlib.crc32(head, self._seed))
            self._buffer += crc.to_bytes(4, "little") + head
            self._buffer += piece
            ends[direction] += len(piece)

    def skip(self, connection: int, direction: int, count: int) -> None:
        """Pass over bytes that are not recorded: readers see a gap."""
        self._open[connection].ends[direction] += count

    def offset(self, connection: int, direction: int) -> int:
        """Return how many bytes of a direction have passed."""
        return self._open[connection].ends[direction]

    def close(self, connection: int, ts_us: int, how: Literal["closed", "reset"] = "closed") -> None:
        self._room(ts_us)
        ended = self._open.pop(connection)
        self._put(form.CLOSE, form.ENDED.index(how), connection, form.CLOSE_BODY.pack(ts_us, *ended.ends))

    def time(self, ts_us: int) -> None:
        """Say that nothing came until now, in the file that is being written, if there is one."""
        if self._file is not None:
            self._put(form.TIME, 0, 0, form.TIME_BODY.pack(ts_us))

    def _put_open(self, number: int, known: _Written, detail: int) -> None:
        (client, client_port), (server, server_port) = known.client, known.server
        texts = [text.encode()[:255] for text in (client, server, known.protocol)]
        body = form.OPEN_BODY.pack(known.opened_us, *known.ends, client_port, server_port, *map(len, texts))
        self._put(form.OPEN, detail, number, body + b"".join(texts))

    def _put(self, kind: int, detail: int, number: int, body: bytes) -> None:
        record = form.RECORD_HEAD.pack(len(body), MARK, kind, detail, number) + body
        self._buffer += zlib.crc32(record, self._seed).to_bytes(4, "little") + record

    # --- files

    def flush(self) -> None:
        """Hand what is buffered to the operating system."""
        while self._buffer:
            count = self._file.write(self._buffer)
            del self._buffer[:count]
            self.written += count

    def sync(self) -> None:
        """Make everything so far outlast a power failure."""
        self.flush()
        if self._file is not None:
            os.fsync(self._file.fileno())
        if not self._is_name_safe:
            _sync_directory(self.paths[-1].parent)
            self._is_name_safe = True

    def end(self) -> None:
        """Close the file; can be tried again if it fails. Open connections stay open: their end was not seen."""
        self.flush()
        self._close()

    def abandon(self) -> None:
        """Give up the present file, to which nothing more can be written, and what was not written to it: the next
        record begins another file. Open streams go on there, with a gap where bytes were given up.
        """
        self._buffer.clear()
        file, self._file = self._file, None
        if file is None:
            return
        with suppress(OSError):
            file.close()
        if self.written <= form.FILE_HEAD_BYTES:  # there is nothing in it
            with suppress(OSError):
                self.paths[-1].unlink()
                self.paths.pop()

    def __enter__(self) -> TapWriter:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.end()
        finally:
            self._close()

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _room(self, ts_us: int) -> None:
        """Make room for one more record: flush a full buffer, end a full file."""
        if self._file is None:
            self._begin_file(ts_us)
        elif self.written + len(self._buffer) >= self._limit or ts_us >= self._until_us:
            self.end()
            self._begin_file(ts_us)
        elif len(self._buffer) >= _FLUSH_BYTES:
            self.flush()

    def _begin_file(self, ts_us: int) -> None:
        number = len(self.paths)
        if number and not self.is_set:
            raise ValueError(f"the tap {self.target} has ended")
        path = self._path(number, ts_us)
        head = form.FILE_HEAD.pack(form.MAGIC, form.VERSION, 0, number, self.set_id, ts_us)
        self._seed = zlib.crc32(head)
        head += self._seed.to_bytes(4, "little")
        if self.is_set:
            self._file = _created(path, head)
            self.written = len(head)
        else:
            self._file = open(path, "wb", buffering=0, opener=private)  # noqa: SIM115
            self.written = 0
            self._buffer += head
        self.paths.append(path)
        self._is_name_safe = False
        for connection, known in self._open.items():
            self._put_open(connection, known, form.GOES_ON)
        if self.rotate_bytes:
            self._limit = max(self.rotate_bytes, self.written + len(self._buffer) + 1)
        if self.rotate_us:
            self._until_us = ts_us + self.rotate_us

    def _path(self, number: int, ts_us: int) -> Path:
        if not self.is_set:
            return self.target
        if not self._set_name:
            begun = datetime.fromtimestamp(ts_us / 1e6, UTC)
            self._set_name = f"{begun:%Y%m%dT%H%M%S}-{self.set_id.hex()[:8]}"
        return self.target / f"{self._set_name}-{number:06d}.tap"


def private(path: str, flags: int) -> int:
    """Open a file that only its owner may read if it is created: captures hold all traffic, also passwords."""
    return os.open(path, flags, 0o600)


def _created(path: Path, head: bytes) -> Any:
    """Create a file that has its head as soon as it has its name: readers recognise it as a tap whenever the writer is
    killed.
    """
    unnamed = path.with_name(f".{path.name}.new")
    file = open(unnamed, "xb", buffering=0, opener=private)  # noqa: SIM115
    try:
        while head:
            head = head[file.write(head) :]
        unnamed.rename(path)
    except OSError:
        file.close()
        with suppress(OSError):
            unnamed.unlink()
        raise
    return file


def _sync_directory(path: Path) -> None:
    directory = os.open(path, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
