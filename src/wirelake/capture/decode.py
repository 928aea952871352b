"""Captures -> rows, window by window: files, TCP, protocols and messages behind one class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..errors import CaptureError
from .chunks import DIRECTIONS, Chunks, Counts
from .messages import Output
from .read import Reader, ResumePoint, open_capture
from .read.files import WINDOW_BYTES
from .settings import ReadSettings
from .state import State
from .streams import Streams
from .tcp import Tracker


@dataclass(frozen=True, slots=True)
class CaptureRange:
    """A range of one capture file. ``start`` and ``stop`` are None at the ends of the file."""

    path: str
    capture: str
    """What the tables call it."""
    kind: str | None = None
    start: ResumePoint | None = None
    stop: int | None = None
    is_growing: bool = False
    """The file may grow: an incomplete last packet is left for later."""
    size: int = 0
    """Bytes of the file in this range, as far as that is known: for progress only."""


@dataclass(slots=True)
class DecodedWindow:
    """What decoding a window gave; ``range`` is None for what comes behind the last one."""

    chunks: Chunks
    output: Output
    range: CaptureRange | None
    captures: list[str]
    """The capture of each connection of the chunks: the last one that had packets of it."""
    consumed: int = 0
    is_end: bool = False
    """Nothing more comes: every connection has ended."""


class OpenAccounts(NamedTuple):
    """Accounts of connections that have not ended; bytes that are held behind holes, and how many holes there are."""

    rows: pa.RecordBatch
    held: int
    holes: int


class CaptureDecoder:
    """Tracker and streams together: captures in, rows out."""

    def __init__(self, settings: ReadSettings, state: State | None = None, window: int = WINDOW_BYTES) -> None:
        state = state or State()
        self.window = window
        self.settings = settings
        self.tracker = Tracker(state.tracker, ports=frozenset(settings.ports))
        self.streams = Streams(settings, state.streams)
        self.reader: Reader | None = None
        self.counts: dict[str, Counts] = {}
        self.resume_points: dict[str, ResumePoint] = {}
        """Where each capture was left, by path."""

    def run(self, captured: CaptureRange) -> Iterator[DecodedWindow]:
        """Decode a range of a capture."""
        try:
            self.reader = reader = open_capture(
                captured.path,
                self.tracker,
                kind=captured.kind,
                start=captured.start,
                stop=captured.stop,
                window=self.window,
                growing=captured.is_growing,
            )
            yield from self._windows(reader, captured)
        except CaptureError:
            raise
        except Exception as error:
            # Whatever a capture does to its readers: its name tells which one to set aside.
            raise CaptureError(f"cannot be decoded: {error}", path=captured.path) from error
        self.counts[captured.capture] = reader.counts
        self.resume_points[captured.path] = replace(reader.resume_point(), seen=reader.source.position)

    def _windows(self, reader: Reader, captured: CaptureRange) -> Iterator[DecodedWindow]:
        before = reader.position
        for chunks in reader:
            if captured.kind == "raw" and len(self.settings.protocols) == 1:
                # Bare bytes have neither ports nor a beginning to go by, and nothing else is looked for.
                for connection in chunks.connections:
                    connection.protocol = self.settings.protocols[0]
            self._note_unknown(reader, chunks)
            output = self.streams.feed(chunks, captured.capture)
            captures = [captured.capture] * len(chunks.connections)
            yield DecodedWindow(chunks, output, captured, captures, reader.position - before)
            before = reader.position

    def _note_unknown(self, reader: Reader, chunks: Chunks) -> None:
        """Say which protocol a capture names that is not among those that are read."""
        if self.settings.protocol is not None:
            return
        for name in sorted({connection.protocol for connection in chunks.connections if connection.protocol}):
            if self.settings.named(name) is None:
                note = f"connections are marked as {name}, which is not read: name it with -p path/to/file.py:NAME"
                if note not in reader.counts.notes:
                    reader.counts.notes.append(note)

    def finish(self) -> Iterator[DecodedWindow]:
        """Decode what is left: nothing more comes."""
        chunks = self.tracker.finish()
        captures = self.streams.captures(chunks.connections)
        yield DecodedWindow(chunks, self.streams.feed(chunks, ""), None, captures)
        yield DecodedWindow(chunks, self.streams.finish(), None, captures, is_end=True)

    def open_accounts(self) -> OpenAccounts:
        """Return what became of the bytes of all connections that have not ended.

        Bytes behind holes have come, too, and are pending.
        """
        rows, held = self.streams.accounts(), self.tracker.held_accounts()
        ends = zip(rows.column("connection").to_pylist(), rows.column("direction").to_pylist(), strict=True)
        places = {end: place for place, end in enumerate(ends)}
        extra = np.zeros(len(rows), np.int64)
        holes = 0
        for connection, direction, count, between in zip(*held, strict=True):
            place = places.get((connection, DIRECTIONS[direction]))
            if place is not None:  # bytes of other protocols are not accounted for
                extra[place], holes = count, holes + int(between)
        for name in ("bytes_in", "bytes_pending"):
            number = rows.schema.get_field_index(name)
            rows = rows.set_column(number, rows.schema.field(name), pc.add(rows.column(name), pa.array(extra)))
        return OpenAccounts(rows, int(extra.sum()), holes)

    def state(self) -> State:
        return State(self.tracker.state(), self.streams.state())
