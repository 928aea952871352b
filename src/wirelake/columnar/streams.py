"""Many streams at once: ranges of one buffer -> rows, bad ranges, and what is left of each stream.

What is found at each byte is exactly what ``StreamDecoder`` finds there, but all streams of a protocol go through the
kernel together, so that it does not matter how many there are. Where a stream needs thought, a stream decoder takes it
over until it has found a message.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.frame import plausible
from ..codec.stream import Decoded, Lost, Readings, StreamDecoder
from ..errors import DecodeError, Incomplete
from ..spec.resolve import Layout
from .decoder import STEP_FRAMES, _concat, _Rows

Ints = NDArray[np.int64]
UNPROVED = -1
_FIRST_STEP, _LONGEST_STEP = 1 << 8, 1 << 16
"""Bytes that a stream decoder is given at a time: a message is most often found soon."""
_MOST_PATIENCE = 1 << 12


@dataclass(slots=True)
class Ranges:
    """The bytes of each stream, as ranges of a buffer, in order; and what is known about the stream.

    ``shift`` makes a place in the buffer an offset in the stream. ``final``: no more bytes will come. ``proved`` is the
    number of the reading that earlier bytes proved, ``lost`` holds the searches that are under way.
    """

    starts: Ints
    ends: Ints
    shift: Ints
    final: NDArray[np.bool_]
    proved: Ints
    lost: dict[int, Lost] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts)


@dataclass(slots=True)
class Rows:
    """Messages: their columns (None if none were wanted), and the range, place and length of each."""

    records: pa.RecordBatch | None
    ranges: Ints
    starts: Ints
    lengths: Ints


@dataclass(slots=True)
class Bad:
    """A range of bytes that is no message."""

    range: int
    start: int
    length: int
    error: DecodeError
    data: bytes


@dataclass(slots=True)
class Found:
    """What was found; ``stops`` is where the pending bytes of each range begin."""

    rows: list[Rows]
    bad: list[Bad]
    stops: Ints
    proved: Ints
    lost: dict[int, Lost]


class ManyDecoder:
    """One protocol, one choice of columns, any number of streams."""

    def __init__(self, readings: Readings, columns: Sequence[str] | None) -> None:
        self.readings = readings
        self.rows = _Rows(readings.protocol, columns)
        self.check = _Rows(readings.protocol, ())

    def decode(self, buf: NDArray[np.uint8], ranges: Ranges) -> Found:
        """What the frames in these ranges hold."""
        return _Job(self, buf, ranges).run()

    def decode_given(self, buf: NDArray[np.uint8], ranges: Ranges, borders: Ints) -> Found:
        """The same for messages without a length of their own: ``borders`` are the places where they end."""
        job = _Job(self, buf, ranges)
        return job.run_given(borders)


class _Job:
    """The decoding of one buffer."""

    def __init__(self, decoder: ManyDecoder, buf: NDArray[np.uint8], ranges: Ranges) -> None:
        self.readings = decoder.readings
        self.rows, self.check = decoder.rows, decoder.check
        self.buf, self.view = buf, buf.data
        self.ranges = ranges
        self.at = ranges.starts.copy()
        self.proved = ranges.proved.copy()
        self.lost = dict(ranges.lost)
        self.patience: dict[int, int] = {}
        self.open = self.at < ranges.ends
        """Ranges in which there is something to be done."""
        self.pieces: list[Rows] = []
        self.later: list[tuple[int, Ints, Ints, Ints]] = []
        """Frames that were checked and not yet decoded: reading, ranges, places, lengths."""
        self.slow: list[tuple[int, int, Any]] = []
        self.bad: list[Bad] = []

    def run(self) -> Found:
        for which in list(self.lost):
            if self.open[which]:
                self._recover(which)
        rows = self.rows
        while self.open.any():
            for reading in np.unique(self.proved[self.open]).tolist():
                self._walk(reading, np.flatnonzero(self.open & (self.proved == reading)), rows)
            # What is left behind broken bytes comes in many small pieces: it is checked now and decoded together.
            rows = self.check
        for later in self._joined_later():
            self._decode(*later)
        return self._found()

    def _found(self) -> Found:
        return Found(self._ordered(), self.bad, self.at, self.proved, self.lost)

    def _layout(self, reading: int) -> Layout:
        return self.readings.choices[reading] if reading != UNPROVED else self.readings.fallback

    def _fast(self, reading: int, rows: _Rows) -> Any:
        is_sure = reading != UNPROVED or self.readings.proved is not None
        return rows.fast(self._layout(reading), () if is_sure else self.readings.choices)

    # --- the plain way

    def _walk(self, reading: int, group: Ints, rows: _Rows) -> None:
        """Goes through the frames of these ranges until each is at its end or handed over."""
        fast = self._fast(reading, rows if self.readings.strict is None else self.check)
        if fast is None:
            for which in group.tolist():
                self.patience[which] = len(self.buf)
                self._recover(which)
            return
        active = group
        while len(active):
            walked = fast.ranges(self.buf, self.at[active], self.ranges.ends[active], STEP_FRAMES)
            cut = self._take(walked, reading, active, rows)
            self.at[active] = walked.stops
            self._hand_over(walked, active, cut)
            goes_on = walked.is_good & (walked.stops < self.ranges.ends[active])
            goes_on[list(cut)] = False
            active = active[goes_on]

    def _hand_over(self, walked: Any, active: Ints, cut: dict[int, int]) -> None:
        """Looks closely where the kernel stopped, unless all that it lacks is more bytes."""
        closely = ~walked.is_good & ~(walked.is_short & ~self.ranges.final[active])
        is_done = walked.is_good & (walked.stops >= self.ranges.ends[active])
        self.open[active[is_done | walked.is_short]] = False
        # The kernel is on its way again: what comes next is another matter.
        for which in active[np.diff(walked.firsts) > 0].tolist() if self.patience else ():
            self.patience.pop(which, None)
        for local, frame in cut.items():
            closely[local] = False
            self.at[active[local]] = walked.starts[frame]
            self._recover(int(active[local]))
        for which in active[closely].tolist():
            self._recover(which)

    def _take(self, walked: Any, reading: int, active: Ints, rows: _Rows) -> dict[int, int]:
        """Keeps what the kernel decoded, decodes what it declined; gives the frames where ranges must be cut."""
        if not walked.count:
            return {}
        local = walked.range_of
        which = active[local]
        parts, status = [(walked.filled, 0)], walked.status
        if self.readings.strict is not None:
            parts, status = self._strictly(walked.starts, walked.lengths, rows)
        declined = np.flatnonzero(status)
        cut = self._declined(declined, local, which, walked, reading) if len(declined) else {}
        stop_of = np.full(len(active), walked.count)
        for range_, frame in cut.items():
            stop_of[range_] = frame
        keep = np.arange(walked.count) < stop_of[local] if cut else None
        for filled, _ in parts:
            accepted = np.arange(walked.count)[filled.frames]
            self._add(reading, rows, filled, accepted, which, walked.starts, walked.lengths, keep)
        return cut

    def _strictly(self, starts: Ints, lengths: Ints, rows: _Rows) -> tuple[list[tuple[Any, int]], NDArray[np.int8]]:
        """The frames as the strict reading reads them."""
        fast = self._strict_fast(rows)
        parts, status, first = [], [], 0
        while first < len(starts):
            filled, one, stop = fast.decode(self.buf, starts, lengths, first)
            parts.append((filled, first))
            status.append(one)
            first = stop
        return parts, np.concatenate(status)

    def _declined(self, declined: Ints, local: Ints, which: Ints, walked: Any, reading: int) -> dict[int, int]:
        """Decodes frames one by one; gives by range the frame from which on nothing is sure."""
        cut: dict[int, int] = {}
        layout = self._layout(reading)
        codec = self.readings.codec(layout)
        is_sure = reading != UNPROVED or self.readings.proved is not None
        for i in declined.tolist():
            range_, start = int(local[i]), int(walked.starts[i])
            if range_ in cut:
                continue
            if not is_sure:
                cut[range_] = i
                continue
            frame = self.view[start : start + int(walked.lengths[i])].tobytes()
            message, error = None, self.readings.doubt(frame)
            try:
                message = codec.decode(frame)
            except DecodeError as fault:
                error = fault
            if error is not None:
                end, final = int(self.ranges.ends[which[i]]), bool(self.ranges.final[which[i]])
                follows = plausible(layout, self.view, start + len(frame), end)
                if follows is False or (follows is None and not final):
                    cut[range_] = i
                    continue
            if message is not None:
                self.slow.append((int(which[i]), start, message))
            elif error is not None:
                error.locate(self.readings.protocol.name, "", frame)
                self.bad.append(Bad(int(which[i]), start, len(frame), error, frame))
        return cut

    def _add(
        self,
        reading: int,
        rows: _Rows,
        filled: Any,
        accepted: Ints,
        which: Ints,
        starts: Ints,
        lengths: Ints,
        keep: NDArray[np.bool_] | None,
    ) -> None:
        kept = accepted if keep is None else accepted[keep[accepted]]
        if not len(kept):
            return
        which, starts, lengths = which[kept], starts[kept], lengths[kept]
        if rows is not self.rows:
            self.later.append((reading, which, starts, lengths))
            return
        records = None
        if self.rows.names:
            places = starts if len(kept) == len(accepted) else None
            if places is None:
                mask = keep[accepted]  # type: ignore[index]
                offsets = np.zeros(len(accepted), np.int64)
                offsets[mask] = starts + self.ranges.shift[which]
                records = self.rows.of_filled(filled, offsets).filter(pa.array(mask))
            else:
                records = self.rows.of_filled(filled, starts + self.ranges.shift[which])
        self.pieces.append(Rows(records, which, starts, lengths))

    # --- frames that are known already

    def run_given(self, borders: Ints) -> Found:
        ranges = self.ranges
        borders = borders[borders <= ranges.ends[-1]]
        which = np.searchsorted(ranges.ends, borders, side="left")
        is_here = borders > ranges.starts[which]
        which, borders = which[is_here], borders[is_here]
        starts = ranges.starts[which].copy()
        if len(borders) > 1:
            same = which[1:] == which[:-1]
            starts[1:][same] = borders[:-1][same]
        is_some = borders > starts
        which, starts, lengths = which[is_some], starts[is_some], (borders - starts)[is_some]
        np.maximum.at(self.at, which, starts + lengths)
        if len(starts):
            self._decode(UNPROVED, which, starts, lengths)
        for last in np.flatnonzero(ranges.final & (self.at < ranges.ends)).tolist():
            self._tear(last)
        return self._found()

    def _tear(self, which: int) -> None:
        """The rest of a range is the beginning of a message that never became whole."""
        start, end = int(self.at[which]), int(self.ranges.ends[which])
        data = self.view[start:end].tobytes()
        error = Incomplete(
            f"{len(data)} bytes of a message are there",
            rule="frame_incomplete",
            offset=len(data),
            needed=len(data) + 1,
            available=len(data),
        )
        self.bad.append(Bad(which, start, len(data), error.locate(self.readings.protocol.name, "", data), data))
        self.at[which] = end

    def _decode(self, reading: int, which: Ints, starts: Ints, lengths: Ints) -> None:
        """Decodes frames of which each is judged alone."""
        fast = self._fast(reading, self.rows) if self.readings.strict is None else self._strict_fast(self.rows)
        codec = self.readings.codec(self._layout(reading))
        declined = list(range(len(starts))) if fast is None else []
        first = 0
        while fast is not None and first < len(starts):
            last = min(first + STEP_FRAMES, len(starts))
            filled, status, stop = fast.decode(self.buf, starts[:last], lengths[:last], first)
            declined += (np.flatnonzero(status) + first).tolist()
            accepted = np.arange(last)[filled.frames]
            self._add(reading, self.rows, filled, accepted, which, starts, lengths, None)
            first = stop
        for i in declined:
            start = int(starts[i])
            frame = self.view[start : start + int(lengths[i])].tobytes()
            try:
                self.slow.append((int(which[i]), start, codec.decode(frame)))
            except DecodeError as error:
                error.locate(self.readings.protocol.name, "", frame)
                self.bad.append(Bad(int(which[i]), start, len(frame), error, frame))

    def _strict_fast(self, rows: _Rows) -> Any:
        assert self.readings.strict is not None
        return rows.fast(self.readings.strict, ())

    def _joined_later(self) -> list[tuple[int, Ints, Ints, Ints]]:
        readings = sorted({reading for reading, *_ in self.later})
        joined = []
        for wanted in readings:
            parts = [part for reading, *part in self.later if reading == wanted]
            which, starts, lengths = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
            joined.append((wanted, which, starts, lengths))
        return joined

    # --- what needs thought

    def _recover(self, which: int) -> None:
        """Hands a range over to a stream decoder, until that has found a message (the next time: a few more)."""
        begin = fed = int(self.at[which])
        end, final = int(self.ranges.ends[which]), bool(self.ranges.final[which])
        reading = int(self.proved[which])
        proved = self.readings.choices[reading] if reading != UNPROVED else None
        decoder = StreamDecoder.of(self.readings, proved, self.lost.pop(which, None))
        wanted = self.patience.get(which, 1)
        self.patience[which] = min(2 * wanted, max(_MOST_PATIENCE, wanted))
        step = _FIRST_STEP
        while wanted and fed < end:
            decoder.push(self.view[fed : min(fed + step, end)])
            fed, step = min(fed + step, end), min(2 * step, _LONGEST_STEP)
            while wanted and (event := decoder.step(final and fed == end)) is not None:
                if isinstance(event, Decoded):
                    self.slow.append((which, begin + event.offset, event.message))
                    wanted -= 1
                else:
                    self.bad.append(Bad(which, begin + event.offset, event.length, event.error, event.data))
        if self.readings.proved is None and decoder.proved is not None:
            self.proved[which] = self.readings.choices.index(decoder.proved)
        self.at[which] = begin + decoder.bytes_in - decoder.pending
        self.open[which] = not wanted and self.at[which] < end
        if decoder.lost is not None:
            self.lost[which] = decoder.lost

    # --- together

    def _ordered(self) -> list[Rows]:
        """All rows in the order of their bytes."""
        if self.slow:
            self.pieces.append(self._slow_rows())
        is_ordered = all(a.starts[-1] < b.starts[0] for a, b in zip(self.pieces[:-1], self.pieces[1:], strict=True))
        if is_ordered:
            return self.pieces
        pieces = self.pieces
        starts = np.concatenate([piece.starts for piece in pieces])
        order = np.argsort(starts, kind="stable")
        records = None
        if self.rows.names:
            records = _concat([piece.records for piece in pieces], self.rows.schema).take(pa.array(order))
        ranges = np.concatenate([piece.ranges for piece in pieces])[order]
        return [Rows(records, ranges, starts[order], np.concatenate([piece.lengths for piece in pieces])[order])]

    def _slow_rows(self) -> Rows:
        self.slow.sort(key=lambda found: found[1])
        ranges = np.array([which for which, _, _ in self.slow], np.int64)
        starts = np.array([start for _, start, _ in self.slow], np.int64)
        lengths = np.array([message.wire_length for _, _, message in self.slow], np.int64)
        records = None
        if self.rows.names:
            offsets = (starts + self.ranges.shift[ranges]).tolist()
            records = self.rows.of_messages(
                [(offset, message) for offset, (_, _, message) in zip(offsets, self.slow, strict=True)]
            )
        return Rows(records, ranges, starts, lengths)
