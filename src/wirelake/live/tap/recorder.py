"""Records what passes, chunk by chunk, into a rotated set of tap files, and is never in the way.

A chunk is given to the operating system before whoever passes it on goes on, so that what a peer has received is in
the capture even if this process is killed the next moment. That is why nothing is handed to a thread: one write into
the page cache costs some microseconds, less than handing it over would. Only the disk itself is waited for in a thread.

A disk that fails or is full stops the recording, not the traffic: what passes meanwhile is counted, and when the disk
can be written again the capture goes on with a gap of just these bytes.
"""

from __future__ import annotations

import asyncio
import errno
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...capture.write.tap import Address, TapWriter
from ..core.log import log
from ..drive.endpoint import TO_CLIENT, TO_SERVER

ROTATE_BYTES = 256 << 20
TEND_SECONDS = 0.5
SILENT_SECONDS, LONGEST_SILENCE_SECONDS = 1.0, 60.0
"""While nothing comes, the tap says so after so long, then after twice as long, and so on up to the longest."""
PROBE_BYTES = 1 << 16
HELD_CLOCK_US = 5_000_000
"""A clock that is set back by less than this stands still instead: times of a capture should not go back."""
_COMES_BACK = (errno.ENOSPC, errno.EDQUOT)
"""After these errors a file can be gone on with."""


@dataclass(slots=True)
class _Passing:
    """A connection that is recorded. ``number`` is that of the tap, None while the tap does not know of it."""

    client: Address
    server: Address
    protocol: str | None
    opened_us: int
    number: int | None = None
    missed: list[int] = field(default_factory=lambda: [0, 0])
    """Bytes that passed each way and that the tap has not been told of."""
    ended: tuple[int, Literal["closed", "reset"]] | None = None


@dataclass(eq=False)
class Recorder:
    """Record into ``directory``, which is created if missing; OSError if nothing can be written to it.

    A new file begins after ``rotate_bytes`` or ``rotate_seconds``. After ``start``, data is synced to disk every
    ``sync_seconds``, and a disk that failed is tried again every ``retry_seconds``. The log tells when recording stops,
    and when it resumes.
    """

    directory: str | os.PathLike[str]
    _: KW_ONLY
    rotate_bytes: int | None = ROTATE_BYTES
    rotate_seconds: float | None = None
    sync_seconds: float = 1.0
    retry_seconds: float = 2.0
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._directory = Path(self.directory)
        self._directory.mkdir(0o700, parents=True, exist_ok=True)
        self._probe()
        rotate_us = None if self.rotate_seconds is None else int(self.rotate_seconds * 1e6)
        self._writer = TapWriter(self._directory, rotate_bytes=self.rotate_bytes, rotate_us=rotate_us)
        self.problem = ""
        """Why nothing is recorded at the moment; empty if all is well."""
        self.recorded = self.unrecorded = 0
        """Bytes of streams that the operating system was given, and that it was not."""
        self.unrecorded_connections = 0
        """Connections that came and went while nothing could be recorded."""
        self._passing: dict[int, _Passing] = {}
        self._next = 0
        self._held = 0
        """Bytes of streams that the writer has taken and not yet given on."""
        self._reported = 0
        """Unrecorded bytes that the log was told of."""
        self._try_at = 0.0
        self._last_us = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._told = (0, 0)
        """Number of files, and bytes of the last one, when the tap said last that nothing comes, or something came."""
        self._tell_at, self._silence = 0.0, SILENT_SECONDS

    @property
    def paths(self) -> list[Path]:
        return self._writer.paths

    def opened(self, client: Address, server: Address, protocol: str | None = None) -> int:
        """A connection was made; gives its number for later calls."""
        number, self._next = self._next, self._next + 1
        passing = self._passing[number] = _Passing(_plain(client), _plain(server), protocol, self._now_us())
        if self._is_on():
            self._tell(self._open, passing)
        return number

    def data(self, connection: int, direction: int, data: bytes) -> None:
        """Record bytes that are about to be passed on."""
        passing = self._passing[connection]
        if not self._is_on() or passing.number is None:
            self._miss(passing, direction, len(data))
            return
        before = self._writer.offset(passing.number, direction)
        try:
            self._writer.data(passing.number, direction, self._now_us(), data)
            self._held += len(data)
            self._flush()
        except Exception as error:
            taken = self._writer.offset(passing.number, direction) - before
            if taken < len(data):
                self._held += taken
                self._miss(passing, direction, len(data) - taken)
            self._stop(error)

    def closed(self, connection: int, how: str = "closed") -> None:
        """The connection has ended, both ways; by a ``reset`` if that is said."""
        passing = self._passing[connection]
        passing.ended = (self._now_us(), "reset" if how == "reset" else "closed")
        if self._is_on():
            self._tell(self._close, connection, passing)
        elif passing.number is None:  # there is nothing to tell of it later, and memory must not grow with such
            del self._passing[connection]
            self.unrecorded_connections += 1

    def _tell(self, step: Callable[..., None], *what: Any) -> bool:
        """Tell the tap; return whether that went well. Whatever goes wrong, traffic goes on."""
        try:
            step(*what)
            self._flush()
        except Exception as error:
            self._stop(error)
            return False
        return True

    def _flush(self) -> None:
        """Give everything to the operating system: from then on it outlasts this process."""
        self._writer.flush()
        self.recorded += self._held
        self._held = 0

    def _miss(self, passing: _Passing, direction: int, count: int) -> None:
        passing.missed[direction] += count
        self.unrecorded += count

    def _now_us(self) -> int:
        now = time.time_ns() // 1000
        if not self._last_us - HELD_CLOCK_US < now < self._last_us:
            self._last_us = now
        return self._last_us

    # The next steps tell the tap. Each can fail, and is not done twice when it is tried again.

    def _open(self, passing: _Passing) -> None:
        if passing.number is None:
            passing.number = self._writer.open(passing.client, passing.server, passing.opened_us, passing.protocol)

    def _close(self, connection: int, passing: _Passing) -> None:
        if passing.ended is not None:
            assert passing.number is not None
            self._writer.close(passing.number, *passing.ended)
            del self._passing[connection]

    def _catch_up(self) -> None:
        """Tells the tap what happened while it could not be written."""
        for connection, passing in list(self._passing.items()):
            self._open(passing)
            assert passing.number is not None
            for direction in (TO_SERVER, TO_CLIENT):
                self._writer.skip(passing.number, direction, passing.missed[direction])
                passing.missed[direction] = 0
            self._close(connection, passing)

    def _is_on(self) -> bool:
        return not self.problem or (self.clock() >= self._try_at and self._resume())

    def _stop(self, error: Exception) -> None:
        self._try_at = self.clock() + self.retry_seconds
        was_on = not self.problem
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error) or repr(error)
        self.problem = f"{self._directory}: {reason}"
        if isinstance(error, OSError) and error.errno not in _COMES_BACK:
            self._give_up_file()
        if was_on:
            log.error(f"recording has stopped, traffic goes on: {self.problem}")

    def _give_up_file(self) -> None:
        """Nothing more can be written to the present file: the next try begins another."""
        self.unrecorded += self._held
        self._held = 0
        self._writer.abandon()

    def _resume(self) -> bool:
        """Whether it can be recorded again."""
        if not (self._tell(self._probe) and self._tell(self._catch_up)):
            return False
        self.problem = ""
        log.warning(f"recording goes on; {self.unrecorded - self._reported} bytes were not recorded")
        self._reported = self.unrecorded
        return True

    def _probe(self) -> None:
        """Raises OSError if the directory cannot take a little more than the next chunk."""
        with tempfile.TemporaryFile(dir=self._directory, buffering=0) as file:
            left = PROBE_BYTES
            while left:  # only the next write tells why the one before was short
                left -= file.write(bytes(left))

    def start(self) -> None:
        """From now on the running event loop looks after it: tries again after trouble, and syncs."""
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._tend()), loop.create_task(self._keep_synced())]

    async def _tend(self) -> None:
        while True:
            await asyncio.sleep(TEND_SECONDS)
            if self._is_on():
                path = self._writer.path
                if path is not None and not path.exists():  # it would take records, and keep none
                    self._give_up_file()
                    log.error(f"{path} was removed; another file is begun")
                self.tell_time(asyncio.get_running_loop().time())

    def tell_time(self, now: float) -> None:
        """Say in the capture that nothing came for a while, so that a reply is known to be late. To be called often."""
        if self._told != self._place():
            self._silence = SILENT_SECONDS
        elif now < self._tell_at:
            return
        else:
            self._tell(self._writer.time, self._now_us())
            self._silence = min(2 * self._silence, LONGEST_SILENCE_SECONDS)
        self._told = self._place()
        self._tell_at = now + self._silence

    def _place(self) -> tuple[int, int]:
        return len(self.paths), self._writer.written

    async def _keep_synced(self) -> None:
        """A thread waits for the disk. It opens the files itself: those of the writer may be closed meanwhile."""
        synced = (0, 0)
        while True:
            await asyncio.sleep(self.sync_seconds)
            place = self._place()
            if place != synced:
                problem = await asyncio.to_thread(_sync, self._directory, self.paths[max(synced[0] - 1, 0) :])
                if problem:
                    log.error(f"the disk may not have kept everything: {problem}")
                synced = place

    def end(self) -> None:
        """Closes the file. Connections that are still open stay so in the capture: their end was not seen."""
        for task in self._tasks:
            task.cancel()
        if self.problem:
            self._resume()
        try:
            self._writer.time(self._now_us())
            self._writer.sync()
            self._writer.end()
        except Exception as error:
            self._stop(error)
        if self.problem:
            self._give_up_file()


def _plain(address: Address) -> Address:
    """An address that surely can be written, whatever kind of socket it is of."""
    host, port = address
    return host.encode(errors="replace").decode(), port if 0 <= port < 1 << 16 else 0


def _sync(directory: Path, files: list[Path]) -> str:
    """Makes files and their names outlast a power failure; gives what went wrong."""
    try:
        for path in (*files, directory):
            with suppress(FileNotFoundError):
                descriptor = os.open(path, os.O_RDONLY)
                try:
                    os.fsync(descriptor)
                finally:
                    os.close(descriptor)
    except OSError as error:
        return f"{path}: {error.strerror}"
    return ""
