"""Streams and lists of frames -> batches.

The kernel decodes what is plain, the record codec the rest; rows are in the order of the bytes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec import codec_for
from ..codec import decode as decode_one
from ..codec.frame import plausible
from ..codec.stream import Decoded, Quarantined, StreamDecoder
from ..errors import DecodeError
from ..protocols import load
from ..spec import nodes as n
from ..spec.columns import columns as table_columns
from ..spec.resolve import Layout, candidates, layout
from .rows import row_of
from .schema import FRONT_NAMES, REJECT, default_columns, schema

MAX_BATCH_BYTES = 64 << 20
MAX_BATCH_ROWS = 500_000
STEP_FRAMES = 50_000
STEP_BYTES = 8 << 20
"""Less than that is kept until more comes: a step costs as much as thousands of messages."""
_FIRST_RECOVERY_BYTES = 1 << 8
_RECOVERY_BYTES = 1 << 16


@lru_cache(maxsize=1)
def _fast() -> Any:
    """The kernel's module, or None without numba (said once)."""
    try:
        from . import fast  # numba takes a second to load, and may be missing
    except ImportError:
        warnings.warn(
            "numba is not installed: columns are decoded by the record codec, which is much slower; "
            "pip install 'wirelake[columnar]'",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return fast


@dataclass
class Batch:
    """Decoded messages in order, and what could not be decoded.

    ``slow`` holds the messages of rows that the record codec decoded. For ``decode_frames``, ``row_frames`` and
    ``reject_frames`` tell which of the given frames a row is about.
    """

    records: pa.RecordBatch
    rejects: pa.RecordBatch
    slow: dict[int, Any] = field(default_factory=dict)
    row_frames: NDArray[np.int64] | None = None
    reject_frames: NDArray[np.int64] | None = None

    @staticmethod
    def joined(batches: list[Batch], decoder: ColumnarDecoder) -> Batch:
        if len(batches) == 1:
            return batches[0]
        slow: dict[int, Any] = {}
        rows = 0
        for batch in batches:
            slow |= {rows + row: message for row, message in batch.slow.items()}
            rows += batch.records.num_rows
        return Batch(
            _concat([b.records for b in batches], decoder.schema), _concat([b.rejects for b in batches], REJECT), slow
        )


def _concat(batches: list[pa.RecordBatch], kind: pa.Schema) -> pa.RecordBatch:
    """The batches as one. The list is empty afterwards: the pieces of a column are let go as soon as it is whole."""
    if len(batches) == 1:
        return batches.pop()
    rows = sum(batch.num_rows for batch in batches)
    columns = [[batch.column(i) for batch in batches] for i in range(len(kind))]
    batches.clear()
    arrays = []
    for pieces, declared in zip(columns, kind, strict=True):
        is_null = all(piece.null_count == len(piece) for piece in pieces)
        arrays.append(pa.nulls(rows, declared.type) if is_null else pa.concat_arrays(pieces))
        pieces.clear()
    return pa.RecordBatch.from_arrays(arrays, schema=kind)


class _Rows:
    """What a choice of columns is made of: schema, the kernel's programs, rows from messages."""

    def __init__(self, protocol: n.Protocol, columns: Sequence[str] | None) -> None:
        self.protocol = protocol
        self.names = tuple(columns) if columns is not None else default_columns(protocol)
        self.schema = schema(protocol, self.names)
        self.fields = tuple(name for name in table_columns(protocol) if name in self.names)
        self.wanted = frozenset(self.fields)

    def fast(self, layout: Layout, undecided: tuple[Layout, ...]) -> Any:
        module = _fast()
        return module.fast_for(layout, self.fields, undecided) if module is not None else None

    def of_messages(self, messages: list[tuple[int, Any]]) -> pa.RecordBatch:
        """A batch from (offset, message) pairs."""
        rows = []
        # Which texts are not UTF-8 does not depend on which columns are wanted.
        wanted = None if "raw_text" in self.names else self.wanted
        for offset, message in messages:
            row = row_of(message, wanted)
            row["offset"] = offset
            rows.append({name: row.get(name) for name in self.names})
        return pa.RecordBatch.from_pylist(rows, self.schema)

    def of_filled(self, filled: Any, offsets: NDArray[np.int64]) -> pa.RecordBatch:
        """A batch from what the kernel filled."""
        program = filled.program
        which = filled.row_message[: filled.rows]
        arrays = []
        for kind in self.schema:
            match kind.name:
                case "offset":
                    arrays.append(pa.array(offsets))
                case "length":
                    arrays.append(pa.array(filled.lengths.astype(np.int32)))
                case "message":
                    arrays.append(filled.named_by_message(program.names))
                case "code":
                    arrays.append(pa.array(np.array(program.message_codes, np.int32)[which]))
                case "notes":
                    arrays.append(filled.notes())
                case "raw_text":
                    arrays.append(pa.nulls(filled.rows, kind.type))
                case name:
                    arrays.append(filled.column(name))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def reject_row(offset: int, length: int, error: DecodeError, data: bytes) -> dict[str, Any]:
    return {
        "offset": offset,
        "length": length,
        "verdict": "incomplete" if error.incomplete else "error",
        "rule": error.rule,
        "path": error.path,
        "error_offset": error.offset,
        "detail": error.detail,
        "bytes": data,
    }


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
        declared = load(protocol)
        if "framing" in declared.options and "framing" not in options:
            options["framing"] = "tcp"
        self._options = options
        self._rows = _Rows(declared, columns)
        self._choices = candidates(declared, **options)
        self._layout: Layout | None = self._choices[0] if len(self._choices) == 1 else None
        self._fallback = layout(declared, **options)
        self._recovery: StreamDecoder | None = None
        self._recovery_base = 0
        self._recovery_step = 0
        self._tail = b""
        self._waiting: list[bytes] = []
        self._n_waiting = 0
        self._base = 0
        self.batch_bytes = batch_bytes
        self.batch_rows = batch_rows
        self._start()

    @property
    def schema(self) -> pa.Schema:
        return self._rows.schema

    @property
    def layout(self) -> Layout:
        return self._layout or self._fallback

    def _start(self) -> None:
        self._pieces: list[pa.RecordBatch] = []
        self._rejected: list[dict[str, Any]] = []
        self._slow: dict[int, Any] = {}
        self._n_rows = 0
        self._n_bytes = 0

    # --- in and out

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Batch]:
        """Batches that are full; the rest waits for more or for ``finish``."""
        self._waiting.append(bytes(data))
        self._n_waiting += len(data)
        if self._n_waiting >= min(STEP_BYTES, self.batch_bytes):
            yield from self._advance(final=False)

    def finish(self) -> Iterator[Batch]:
        yield from self._advance(final=True)
        if self._pieces or self._rejected:
            yield self._flush()

    def _flush(self) -> Batch:
        # By now the batch before is most likely gone: its memory must not stand beside that of this one.
        pa.default_memory_pool().release_unused()
        batch = Batch(
            _concat(self._pieces, self.schema), pa.RecordBatch.from_pylist(self._rejected, REJECT), self._slow
        )
        self._start()
        return batch

    def _advance(self, final: bool) -> Iterator[Batch]:
        parts = [part for part in (self._tail, *self._waiting) if part]
        buffer = parts[0] if len(parts) == 1 else b"".join(parts)
        del parts
        self._tail, self._waiting, self._n_waiting = b"", [], 0
        at = 0
        while True:
            moved = self._step(buffer, at, final)
            if moved is None:
                break
            at = moved
            if self._n_bytes >= self.batch_bytes or self._n_rows >= self.batch_rows:
                yield self._flush()
        self._tail = buffer[at:]
        self._base += at

    def _step(self, buffer: bytes, at: int, final: bool) -> int | None:
        """Decodes some of the buffer from ``at`` on; gives the new position, or None if more bytes are needed."""
        if self._recovery is not None:
            return self._recover(buffer, at, final)
        if at >= len(buffer):
            return None
        fast = self._rows.fast(self.layout, () if self._layout is not None else self._choices)
        if fast is None:
            return self._trouble(buffer, at, final)
        buf = np.frombuffer(buffer, np.uint8)
        limit = min(len(buffer), at + self.batch_bytes - self._n_bytes)
        frames, filled, status, stop = fast.stream(buf, at, limit, min(STEP_FRAMES, self.batch_rows - self._n_rows))
        if stop == at and limit < len(buffer):
            frames, filled, status, stop = fast.stream(buf, at, len(buffer), 1)
        if stop == at:
            return self._trouble(buffer, at, final)
        return self._run(buffer, frames, filled, status, final)

    def _run(self, buffer: bytes, frames: Any, filled: Any, status: NDArray[np.int8], final: bool) -> int:
        stop = len(status)
        declined = np.flatnonzero(status) if filled.rows < stop else np.empty(0, np.int64)
        slow: list[tuple[int, Any]] = []
        lost: set[int] = set()
        cut = stop
        for i in declined.tolist():
            start, length = int(frames.starts[i]), int(frames.lengths[i])
            if self._layout is None:
                cut = i
                break
            frame = buffer[start : start + length]
            try:
                slow.append((i, codec_for(self.layout).decode(frame)))
            except DecodeError as error:
                follows = plausible(self.layout, buffer, start + length, len(buffer))
                if follows is None and final:
                    follows = True
                if follows is not True:
                    cut = i
                    break
                error.locate(self._rows.protocol.name, "", frame)
                self._rejected.append(reject_row(self._base + start, length, error, frame))
                self._n_bytes += length
                lost.add(i)
        accepted = np.arange(stop)[filled.frames]
        if cut < stop:
            accepted = accepted[accepted < cut]
        self._add(filled, frames, accepted, slow)
        position = int(frames.starts[cut - 1] + frames.lengths[cut - 1]) if cut else int(frames.starts[0])
        if cut < stop:
            moved = self._trouble(buffer, position, final)
            return position if moved is None else moved
        return position

    def _add(self, filled: Any, frames: Any, accepted: NDArray[np.int64], slow: list[tuple[int, Any]]) -> None:
        if filled.rows and len(accepted):
            batch = self._rows.of_filled(filled, frames.starts[filled.frames] + self._base)
            if len(accepted) < filled.rows:
                batch = batch.slice(0, len(accepted))
        else:
            batch = None
        if slow:
            made = self._rows.of_messages([(self._base + int(frames.starts[i]), message) for i, message in slow])
            order = np.argsort(np.concatenate([accepted, np.array([i for i, _ in slow], np.int64)]), kind="stable")
            if batch is not None:
                batch = _concat([batch, made], self.schema).take(pa.array(order))
            else:
                batch = made
            place = np.empty(len(order), np.int64)
            place[order] = np.arange(len(order))
            for j, (_, message) in enumerate(slow):
                self._slow[self._n_rows + int(place[len(accepted) + j])] = message
        if batch is not None and batch.num_rows:
            self._pieces.append(batch)
            self._n_rows += batch.num_rows
            self._n_bytes += int(filled.lengths[: len(accepted)].sum()) + sum(m.wire_length for _, m in slow)

    # --- what the kernel does not read

    def _trouble(self, buffer: bytes, at: int, final: bool) -> int | None:
        """Hands over to the stream decoder, until it has found a message."""
        if at >= len(buffer):
            return None
        recovery = StreamDecoder(self._rows.protocol, **self._options)
        if self._layout is not None:
            recovery._prove(self._layout)
        # What follows the next message goes back to the kernel: most often it comes soon.
        self._recovery, self._recovery_base, self._recovery_step = recovery, self._base + at, _FIRST_RECOVERY_BYTES
        return self._recover(buffer, at, final)

    def _recover(self, buffer: bytes, at: int, final: bool) -> int | None:
        recovery = self._recovery
        assert recovery is not None
        while True:
            fed = self._recovery_base + recovery.bytes_in - self._base
            chunk = buffer[fed : fed + self._recovery_step]
            self._recovery_step = min(2 * self._recovery_step, _RECOVERY_BYTES)
            last = final and fed + len(chunk) >= len(buffer)
            if not chunk and not last:
                return None
            events = recovery.feed(chunk)
            if last:
                events += recovery.finish()
            for event in events:
                offset = self._recovery_base + event.offset
                if isinstance(event, Quarantined):
                    self._rejected.append(reject_row(offset, event.length, event.error, event.data))
                    self._n_bytes += event.length
                else:
                    self._one(offset, event)
                    if event.message.layout in self._choices:
                        # The decoder may have proved more from later bytes; up to this message, only this is sure.
                        self._layout = event.message.layout
                    self._recovery = None
                    return offset + event.length - self._base
            if last:
                self._recovery = None
                return len(buffer)

    def _one(self, offset: int, event: Decoded) -> None:
        self._pieces.append(self._rows.of_messages([(offset, event.message)]))
        self._slow[self._n_rows] = event.message
        self._n_rows += 1
        self._n_bytes += event.length


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
    rows = _Rows(declared, columns)
    choices = candidates(declared, **options)
    undecided = choices if len(choices) > 1 else ()
    chosen = layout(declared, **options)
    buf, places, starts = _laid_out(frames)
    lengths = np.diff(starts)
    starts = starts[:-1]
    fast = rows.fast(chosen, undecided)
    pieces: list[pa.RecordBatch] = []
    where: list[NDArray[np.int64]] = []
    declined: list[int] = list(range(len(frames))) if fast is None else []
    if fast is not None and len(frames):
        first = 0
        while first < len(frames):
            filled, status, stop = fast.decode(buf, places, lengths, first)
            declined += (np.flatnonzero(status) + first).tolist()
            if filled.rows:
                pieces.append(rows.of_filled(filled, starts[filled.frames]))
                where.append(np.arange(len(frames))[filled.frames])
            first = stop
    slow: list[tuple[int, Any]] = []
    rejected: list[tuple[int, dict[str, Any]]] = []
    for i in declined:
        frame = buf[places[i] : places[i] + lengths[i]].tobytes()
        try:
            slow.append((i, decode_one(declared, frame, **options)))
        except DecodeError as error:
            rejected.append((i, reject_row(int(starts[i]), len(frame), error, frame)))
    if slow:
        pieces.append(rows.of_messages([(int(starts[i]), message) for i, message in slow]))
        where.append(np.array([i for i, _ in slow], np.int64))
    batch = _concat(pieces, rows.schema)
    order = np.argsort(np.concatenate(where), kind="stable") if where else np.zeros(0, np.int64)
    if slow and len(where) > 1:
        batch = batch.take(pa.array(order))
    row_frames = np.concatenate(where)[order] if where else np.zeros(0, np.int64)
    return Batch(
        batch,
        pa.RecordBatch.from_pylist([row for _, row in rejected], REJECT),
        {int(np.searchsorted(row_frames, i)): message for i, message in slow},
        row_frames,
        np.array([i for i, _ in rejected], np.int64),
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


__all__ = ["FRONT_NAMES", "Batch", "ColumnarDecoder", "decode_frames"]
