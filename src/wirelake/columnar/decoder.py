"""One stream, or a list of frames -> batches of rows and of quarantined ranges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec import decode as decode_frame
from ..codec.stream import Lost, readings
from ..errors import DecodeError
from ..protocols import load
from ..spec import nodes as n
from ..spec.resolve import candidates, layout
from .schema import QUARANTINE
from .selection import Selection, concat, quarantine_row
from .streams import UNPROVED, Outcome, Ranges, StreamsDecoder

MAX_BATCH_BYTES = 64 << 20
MAX_BATCH_ROWS = 500_000
STEP_BYTES = 8 << 20
"""Less than that is kept until more comes: a step costs as much as thousands of messages."""


@dataclass
class Batch:
    """Decoded messages in order, and what could not be decoded.

    ``slow`` holds the messages of rows that the record codec decoded. For ``decode_frames``, ``row_frames`` and
    ``quarantined_frames`` tell which of the given frames a row is about.
    """

    records: pa.RecordBatch
    quarantined: pa.RecordBatch
    slow: dict[int, Any] = field(default_factory=dict)
    row_frames: NDArray[np.int64] | None = None
    quarantined_frames: NDArray[np.int64] | None = None

    @property
    def rejects(self) -> pa.RecordBatch:
        """The former name of ``quarantined``."""
        return self.quarantined


class ColumnarDecoder:
    """A stream in pieces -> batches. What is found at each byte is exactly what ``StreamDecoder`` finds there."""

    def __init__(
        self,
        protocol: str | n.Protocol,
        columns: Sequence[str] | None = None,
        *,
        batch_bytes: int = MAX_BATCH_BYTES,
        batch_rows: int = MAX_BATCH_ROWS,
        **options: Any,
    ) -> None:
        self._streams = StreamsDecoder(readings(protocol, options), columns)
        if not self._streams.readings.is_stream:
            raise ValueError(f"frames of {load(protocol).name} without a length cannot be told apart in a stream")
        self.batch_bytes = batch_bytes
        self.batch_rows = batch_rows
        self._waiting: list[bytes] = []
        self._n_waiting = 0
        self._tail = b""
        self._offset = 0
        self._proved = UNPROVED
        self._lost: Lost | None = None
        self._begin()

    @property
    def schema(self) -> pa.Schema:
        return self._streams.selection.schema

    def _begin(self) -> None:
        """Begin a batch."""
        self._pieces: list[pa.RecordBatch] = []
        self._quarantined: list[dict[str, Any]] = []
        self._slow: dict[int, Any] = {}
        self._n_rows = 0
        self._n_bytes = 0

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Batch]:
        """Take bytes; yield the batches that are full. The rest waits for more or for ``finish``."""
        self._waiting.append(bytes(data))
        self._n_waiting += len(data)
        if self._n_waiting >= min(STEP_BYTES, self.batch_bytes):
            yield from self._advance(final=False)

    def finish(self) -> Iterator[Batch]:
        """Yield what is left: no more bytes will come."""
        yield from self._advance(final=True)
        if self._pieces or self._quarantined:
            yield self.take_batch()

    def _advance(self, final: bool) -> Iterator[Batch]:
        parts = [part for part in (self._tail, *self._waiting) if part]
        buffer = parts[0] if len(parts) == 1 else b"".join(parts)
        del parts
        self._tail, self._waiting, self._n_waiting = b"", [], 0
        at, size = 0, self.batch_bytes
        while at < len(buffer):
            stop = min(len(buffer), at + size - self._n_bytes)
            moved = self._step(buffer, at, stop, final and stop == len(buffer))
            if moved == at and stop == len(buffer):
                break
            # A frame that is longer than a batch needs more room than that.
            size = 2 * size if moved == at and not self._n_bytes else self.batch_bytes
            is_full = self._n_bytes >= self.batch_bytes or self._n_rows >= self.batch_rows
            if is_full or (moved == at and self._n_bytes):
                yield self.take_batch()
            at = moved
        self._tail = buffer[at:]

    def _step(self, buffer: bytes, at: int, stop: int, final: bool) -> int:
        """Decode what is between ``at`` and ``stop``; return how far that goes."""
        ranges = Ranges(
            np.array([at]),
            np.array([stop]),
            np.array([self._offset - at]),
            np.array([final]),
            np.array([self._proved]),
            {0: self._lost} if self._lost is not None else {},
        )
        outcome = self._streams.decode(np.frombuffer(buffer, np.uint8), ranges, max(self.batch_rows - self._n_rows, 1))
        self._collect(outcome, self._offset - at)
        moved = int(outcome.stops[0])
        self._offset += moved - at
        self._n_bytes += moved - at
        self._proved, self._lost = int(outcome.proved[0]), outcome.lost.get(0)
        return moved

    def _collect(self, outcome: Outcome, shift: int) -> None:
        """Add what was decoded to the batch."""
        first = self._n_rows
        starts = [rows.starts for rows in outcome.rows]
        self._pieces += [rows.records for rows in outcome.rows]
        self._n_rows += sum(map(len, starts))
        if outcome.slow:
            places = np.searchsorted(np.concatenate(starts), [start for _, start, _ in outcome.slow])
            messages = [message for _, _, message in outcome.slow]
            self._slow.update(zip((first + places).tolist(), messages, strict=True))
        quarantined = sorted(outcome.quarantined, key=lambda range_: range_.start)
        self._quarantined += [quarantine_row(r.start + shift, r.length, r.error, r.data) for r in quarantined]

    def take_batch(self) -> Batch:
        """Return what was decoded since the last batch."""
        # By now the batch before is most likely gone: its memory must not stand beside that of this one.
        pa.default_memory_pool().release_unused()
        quarantined = pa.RecordBatch.from_pylist(self._quarantined, QUARANTINE)
        batch = Batch(concat(self._pieces, self.schema), quarantined, self._slow)
        self._begin()
        return batch


def decode_frames(
    protocol: str | n.Protocol,
    frames: Sequence[bytes] | pa.BinaryArray,
    columns: Sequence[str] | None = None,
    **options: Any,
) -> Batch:
    """Frames that are already apart, each judged alone, as a batch; ``offset`` counts as if they were joined.

    They may be an Arrow array of binaries, which is read where it is; its nulls are frames without a byte.
    """
    declared = load(protocol)
    selection = Selection(declared, columns)
    choices = candidates(declared, **options)
    undecided = choices if len(choices) > 1 else ()
    chosen = layout(declared, **options)
    buf, places, starts = _laid_out(frames)
    lengths = np.diff(starts)
    starts = starts[:-1]
    fast = selection.fast(chosen, undecided)
    pieces: list[pa.RecordBatch] = []
    where: list[NDArray[np.int64]] = []
    declined: list[int] = list(range(len(frames))) if fast is None else []
    if fast is not None and len(frames):
        first = 0
        while first < len(frames):
            filled, status, stop = fast.decode(buf, places, lengths, first)
            declined += (np.flatnonzero(status) + first).tolist()
            if filled.rows:
                pieces.append(selection.of_filled(filled, starts[filled.frames]))
                where.append(np.arange(len(frames))[filled.frames])
            first = stop
    slow: list[tuple[int, Any]] = []
    quarantined: list[tuple[int, dict[str, Any]]] = []
    for i in declined:
        frame = buf[places[i] : places[i] + lengths[i]].tobytes()
        try:
            slow.append((i, decode_frame(declared, frame, **options)))
        except DecodeError as error:
            quarantined.append((i, quarantine_row(int(starts[i]), len(frame), error, frame)))
    if slow:
        pieces.append(selection.of_messages([(int(starts[i]), message) for i, message in slow]))
        where.append(np.array([i for i, _ in slow], np.int64))
    batch = concat(pieces, selection.schema)
    order = np.argsort(np.concatenate(where), kind="stable") if where else np.zeros(0, np.int64)
    if slow and len(where) > 1:
        batch = batch.take(pa.array(order))
    row_frames = np.concatenate(where)[order] if where else np.zeros(0, np.int64)
    return Batch(
        batch,
        pa.RecordBatch.from_pylist([row for _, row in quarantined], QUARANTINE),
        {int(np.searchsorted(row_frames, i)): message for i, message in slow},
        row_frames,
        np.array([i for i, _ in quarantined], np.int64),
    )


def _laid_out(
    frames: Sequence[bytes] | pa.BinaryArray,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """The bytes of all frames, where each begins there, and where it would if they were joined (and where they end)."""
    ends = np.zeros(len(frames) + 1, np.int64)
    if not len(frames):
        return np.zeros(1, np.uint8), ends[:-1], ends
    if not isinstance(frames, pa.Array):
        np.cumsum([len(frame) for frame in frames], out=ends[1:])
        return np.frombuffer(b"".join(frames) or b"\0", np.uint8), ends[:-1], ends
    _, offsets, data = frames.buffers()
    kind = np.dtype(np.int64 if pa.types.is_large_binary(frames.type) else np.int32)
    places = np.frombuffer(offsets, kind, len(frames) + 1, frames.offset * kind.itemsize)
    np.cumsum(np.diff(places), out=ends[1:])
    in_place = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    return in_place, places[:-1].astype(np.int64), ends
