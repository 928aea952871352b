"""Captures -> rows, window by window: files, TCP, protocols and messages behind one class."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .chunks import Chunks, Counts
from .output import Output
from .partitions import CaptureRange, Partition
from .read import open_capture
from .settings import ReadSettings
from .state import State
from .streams import Streams
from .tcp import Tracker

WINDOW_BYTES = 16 << 20


@dataclass(slots=True)
class DecodedWindow:
    """What decoding a window gave."""

    chunks: Chunks
    output: Output
    piece: CaptureRange | None
    consumed: int = 0
    is_end: bool = False
    """Nothing more comes: every connection has ended."""


class CaptureDecoder:
    """Tracker and streams together: captures in, rows out."""

    def __init__(self, settings: ReadSettings, state: State | None = None, window: int = WINDOW_BYTES) -> None:
        state = state or State()
        self.window = window
        self.settings = settings
        self.tracker = Tracker(state.tracker, ports=frozenset(settings.ports))
        self.streams = Streams(settings, state.streams)
        self.reader: Any = None
        self.counts: dict[str, Counts] = {}
        self.marks: dict[str, Any] = {}
        """Where each capture was left, by path."""

    def run(self, piece: CaptureRange) -> Iterator[DecodedWindow]:
        self.reader = reader = open_capture(
            piece.path,
            self.tracker,
            kind=piece.kind,
            start=piece.start,
            stop=piece.stop,
            window=self.window,
            growing=piece.is_growing,
        )
        before = reader.position
        for chunks in reader:
            if piece.kind == "raw" and len(self.settings.protocols) == 1:
                # Bare bytes have neither ports nor a beginning to go by, and nothing else is looked for.
                for connection in chunks.connections:
                    connection.protocol = self.settings.protocols[0]
            yield DecodedWindow(chunks, self.streams.feed(chunks, piece.capture), piece, reader.position - before)
            before = reader.position
        self.counts[piece.capture] = reader.counts
        self.marks[piece.path] = reader.mark()

    def finish(self) -> Iterator[DecodedWindow]:
        """Nothing more comes."""
        chunks = self.tracker.finish()
        yield DecodedWindow(chunks, self.streams.feed(chunks, ""), None)
        yield DecodedWindow(chunks, self.streams.finish(), None, is_end=True)

    def state(self) -> State:
        return State(self.tracker.snapshot(), self.streams.snapshot())


def decode_partition(partition: Partition, settings: ReadSettings) -> tuple[CaptureDecoder, Iterator[DecodedWindow]]:
    """The rows of a partition, window by window, and the decoder that makes them."""
    decoder = CaptureDecoder(settings, State.unpack(partition.before))

    def run() -> Iterator[DecodedWindow]:
        for piece in partition.pieces:
            yield from decoder.run(piece)
        if partition.is_last:
            yield from decoder.finish()

    return decoder, run()
