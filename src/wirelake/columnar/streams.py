"""Streams -> rows, quarantined ranges, and what is left of each stream: any number of streams of a protocol at once.

What is found at each byte is exactly what ``StreamDecoder`` finds there, but all streams go through the kernel
together, so that it does not matter how many there are. Where a stream is broken, a stream decoder takes it over until
enough messages have come one after the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..codec.frame import read_header
from ..codec.outline import outlines_for
from ..codec.stream import Decoded, Lost, Readings, StreamDecoder
from ..errors import DecodeError, Incomplete
from ..spec.resolve import Layout
from .selection import Selection, concat

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
UNPROVED = -1
STEP_FRAMES = 50_000
"""The kernel decodes at most this many frames at a time."""
NO_LIMIT = 1 << 62
_FIRST_STEP, _LONGEST_STEP = 1 << 8, 1 << 16
"""Bytes that a stream decoder is given at a time: a message is most often found soon."""
_LEAST_CALM, _MOST_CALM = 2, 64
"""Messages one after the other that end the work of a stream decoder: starting the kernel costs as much."""
_FIRST_EVENTS = 16
"""Events that a stream decoder is asked for at first; as long as faults come, for twice as many each time."""
_LONGEST_HEADER = 1 << 9
"""More bytes are not needed to see whether a frame seems to begin."""
_SOON = 1 << 8
"""Bytes within which the next fault comes soon."""


@dataclass(slots=True)
class Ranges:
    """The bytes of each stream, as ranges of a buffer, in order; and what is known about the stream.

    ``shift`` makes a place in the buffer an offset in the stream. ``final``: no more bytes will come. ``proved`` is the
    number of the reading that earlier bytes proved, ``lost`` holds the searches that are under way.
    """

    starts: Ints
    ends: Ints
    shift: Ints
    final: Bools
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
class QuarantinedRange:
    """Undecodable bytes of a range."""

    range: int
    start: int
    length: int
    error: DecodeError
    data: bytes


@dataclass(slots=True)
class Frames:
    """Frames that were judged and not yet decoded into columns: the range, place and length of each."""

    reading: int
    ranges: Ints
    starts: Ints
    lengths: Ints


@dataclass(slots=True)
class Outcome:
    """What the ranges hold; ``stops`` is where the pending bytes of each begin.

    ``slow`` are the rows that the record codec decoded: range, place, message.
    """

    rows: list[Rows]
    quarantined: list[QuarantinedRange]
    stops: Ints
    proved: Ints
    lost: dict[int, Lost]
    slow: list[tuple[int, int, Any]]


class StreamsDecoder:
    """One protocol, one choice of columns, any number of streams."""

    def __init__(self, readings: Readings, columns: Sequence[str] | None) -> None:
        self.readings = readings
        self.selection = Selection(readings.protocol, columns)
        self.no_columns = Selection(readings.protocol, ())

    def decode(self, buf: NDArray[np.uint8], ranges: Ranges, most: int = NO_LIMIT) -> Outcome:
        """Decode the frames in these ranges. Stop early once there are ``most`` messages."""
        return _Decoding(self, buf, ranges, most).run()

    def decode_given(self, buf: NDArray[np.uint8], ranges: Ranges, borders: Ints) -> Outcome:
        """Do the same for messages without a length of their own: ``borders`` are the places where they end."""
        return _Decoding(self, buf, ranges, NO_LIMIT).run_given(borders)


class _Decoding:
    """The decoding of one buffer."""

    def __init__(self, decoder: StreamsDecoder, buf: NDArray[np.uint8], ranges: Ranges, most: int) -> None:
        self.readings = decoder.readings
        self.selection, self.no_columns = decoder.selection, decoder.no_columns
        self.buf, self.view = buf, buf.data
        self.ranges = ranges
        self.room = most
        self.at = ranges.starts.copy()
        self.proved = ranges.proved.copy()
        self.lost = dict(ranges.lost)
        self.is_open = self.at < ranges.ends
        """Ranges of which more may be said now."""
        self.calm: dict[int, int] = {}
        self.recovered: dict[int, int] = {}
        """Where the last stream decoder stopped, by range."""
        self.decoded: dict[int, Any] = {}
        """What stream decoders found, by place: the kernel declines some of it."""
        self.pieces: list[Rows] = []
        self.judged: list[Frames] = []
        self.slow: list[tuple[int, int, Any]] = []
        self.quarantined: list[QuarantinedRange] = []

    def run(self) -> Outcome:
        selection = self.selection
        while self.room > 0 and self.is_open.any():
            for number in list(self.lost):
                if self.is_open[number]:
                    self._recover(number)
            for reading in np.unique(self.proved[self.is_open]).tolist():
                self._walk(reading, np.flatnonzero(self.is_open & (self.proved == reading)), selection)
            # What is left behind broken bytes comes in many small pieces: they are judged now and decoded together.
            selection = self.no_columns
        for frames in self._joined():
            if self.selection.names:
                self._decode(frames)
            else:
                self.pieces.append(Rows(None, frames.ranges, frames.starts, frames.lengths))
        return self._outcome()

    def _outcome(self) -> Outcome:
        rows = self._ordered()
        return Outcome(rows, self.quarantined, self.at, self.proved, self.lost, self.slow)

    def _layout(self, reading: int) -> Layout:
        return self.readings.known[reading] if reading != UNPROVED else self.readings.fallback

    def _is_sure(self, reading: int) -> bool:
        return reading != UNPROVED or self.readings.proved is not None

    def _fast(self, reading: int, selection: Selection) -> Any:
        return selection.fast(self._layout(reading), () if self._is_sure(reading) else self.readings.choices)

    def _strict_fast(self, selection: Selection) -> Any:
        assert self.readings.strict is not None
        return selection.fast(self.readings.strict, ())

    # --- frames through the kernel

    def _walk(self, reading: int, group: Ints, selection: Selection) -> None:
        """Go through the frames of these ranges until each is at its end or handed over."""
        fast = self._fast(reading, selection if self.readings.strict is None else self.no_columns)
        if fast is None:
            for number in group.tolist():
                self._recover(number, calm=NO_LIMIT)
            return
        self.is_sure = self._is_sure(reading)
        self.codec, self.outlines = self.readings.codec(fast.program.layout), outlines_for((fast.program.layout,))
        active, is_plain = group, self.readings.strict is None
        while len(active) and self.room > 0:
            most, final = min(STEP_FRAMES, self.room), self.ranges.final[active]
            walked = fast.ranges(self.buf, self.at[active], self.ranges.ends[active], final, is_plain, most)
            cut = self._take(walked, reading, active, selection)
            self.at[active] = walked.stops
            self._hand_over(walked, active, cut)
            goes_on = walked.is_good & (walked.stops < self.ranges.ends[active])
            goes_on[list(cut)] = False
            active = active[goes_on]

    def _hand_over(self, walked: Any, active: Ints, cut: dict[int, tuple[int, int]]) -> None:
        """Look closely where the kernel stopped, unless all that it lacks is more bytes."""
        closely = ~walked.is_good & ~(walked.is_short & ~self.ranges.final[active])
        is_done = walked.is_good & (walked.stops >= self.ranges.ends[active])
        self.is_open[active[is_done | walked.is_short]] = False
        for local, (_, place) in cut.items():
            closely[local] = False
            self.at[active[local]] = place
            self._recover(int(active[local]))
        for number in active[closely].tolist():
            self._recover(number)

    def _take(self, walked: Any, reading: int, active: Ints, selection: Selection) -> dict[int, tuple[int, int]]:
        """Keep what the kernel decoded, decode what it declined; return the frames and places where ranges are cut."""
        if not walked.count and not walked.faults:
            return {}
        local = walked.range_of
        ranges = active[local] if len(active) > 1 else np.broadcast_to(active, (walked.count,))
        parts, status = [walked.filled], walked.status
        if self.readings.strict is not None:
            parts, status = self._strictly(walked.starts, walked.lengths, selection)
        declined = np.flatnonzero(status).tolist()
        cut = self._doubtful(declined, local, active, walked) if declined or walked.faults else {}
        stop_of = np.full(len(active), walked.count)
        for number, (frame, _) in cut.items():
            stop_of[number] = frame
        keep = np.arange(walked.count) < stop_of[local] if cut else None
        self.room -= walked.count if keep is None else int(keep.sum())
        frames = Frames(reading, ranges, walked.starts, walked.lengths)
        for filled in parts:
            self._add(frames, selection, filled, keep)
        return cut

    def _strictly(self, starts: Ints, lengths: Ints, selection: Selection) -> tuple[list[Any], NDArray[np.int8]]:
        """Return the frames as the strict reading reads them."""
        fast = self._strict_fast(selection)
        parts, statuses, first = [], [], 0
        while first < len(starts):
            filled, status, first = fast.decode(self.buf, starts, lengths, first)
            parts.append(filled)
            statuses.append(status)
        return parts, np.concatenate(statuses)

    def _doubtful(self, declined: list[int], local: Ints, active: Ints, walked: Any) -> dict[int, tuple[int, int]]:
        """Decode frames one by one; return by range the frame, and its place, from which on nothing is sure."""
        cut: dict[int, tuple[int, int]] = {}
        faults = {fault[-1]: fault for fault in walked.faults}
        for frame in sorted({*faults, *declined}):
            number = faults[frame][0] if frame in faults else int(local[frame])
            if number in cut:
                continue
            # A fault comes before the frame that follows it, and that frame is good.
            place = faults[frame][1] if frame in faults else int(walked.starts[frame])
            if frame in faults:
                is_good = self._fault(int(active[number]), faults[frame], walked)
            else:
                is_good = self.is_sure and self._judge(int(active[number]), place, int(walked.lengths[frame]))
            if not is_good:
                cut[number] = frame, place
                if len(cut) == len(active):
                    break
        return cut

    def _judge(self, number: int, start: int, length: int) -> bool:
        """Decode or quarantine a frame of a stream; say no if it takes a search."""
        frame = self.view[start : start + length].tobytes()
        message = self.codec.judge(frame)
        is_fault = isinstance(message, DecodeError)
        is_doubtful = is_fault or self.readings.doubt(frame) is not None
        if is_doubtful and not self._follows(number, start + length):
            return False
        if is_fault:
            self._quarantine(number, start, message, frame)
        else:
            self.slow.append((number, start, message))
        return True

    def _follows(self, number: int, place: int) -> bool | None:
        """Whether a frame seems to begin at a place, or the range ends there; None: too few bytes to tell."""
        head = self.view[place : min(place + _LONGEST_HEADER, int(self.ranges.ends[number]))].tobytes()
        follows = self.outlines.follows(head, 0, len(head))
        return True if follows is None and self.ranges.final[number] else follows

    def _fault(self, number: int, fault: list[int], walked: Any) -> bool:
        """Quarantine what is before a frame that the kernel searched for; say no if that may be wrong."""
        _, begin, stop, length, frame = fault
        if frame >= walked.count or walked.status[frame]:
            return False
        if not self._follows(number, int(walked.starts[frame] + walked.lengths[frame])):
            return False
        try:
            if not length:
                length = read_header(self.codec.layout, self.view, begin, int(self.ranges.ends[number])).length
                if self._follows(number, begin + length) is not False:
                    return False
            error = self.codec.judge(self.view[begin : begin + length].tobytes())
        except DecodeError as raised:
            error = raised.as_value()
        if not isinstance(error, DecodeError) or error.incomplete:
            return False
        self._quarantine(number, begin, error, self.view[begin:stop].tobytes())
        return True

    def _quarantine(self, number: int, start: int, error: DecodeError, data: bytes) -> None:
        error.locate(self.readings.protocol.name, "", data)
        self.quarantined.append(QuarantinedRange(number, start, len(data), error, data))

    def _add(self, frames: Frames, selection: Selection, filled: Any, keep: Bools | None) -> None:
        """Keep the rows that the kernel filled in, of these frames those that are to be kept."""
        index, mask = filled.frames, None
        if keep is not None:
            accepted = np.arange(len(frames.starts))[filled.frames]
            mask = keep[accepted]
            index = accepted[mask]
        ranges, starts, lengths = frames.ranges[index], frames.starts[index], frames.lengths[index]
        if not len(starts):
            return
        if selection is not self.selection:
            self.judged.append(Frames(frames.reading, ranges, starts, lengths))
            return
        records = None
        if selection.names:
            offsets = starts + (self.ranges.shift[ranges] if len(self.ranges) > 1 else self.ranges.shift)
            if mask is None:
                records = selection.of_filled(filled, offsets)
            else:
                spread = np.zeros(len(mask), np.int64)
                spread[mask] = offsets
                records = selection.of_filled(filled, spread).filter(pa.array(mask))
        self.pieces.append(Rows(records, ranges, starts, lengths))

    # --- frames that are known already

    def run_given(self, borders: Ints) -> Outcome:
        ranges = self.ranges
        borders = borders[borders <= ranges.ends[-1]]
        numbers = np.searchsorted(ranges.ends, borders, side="left")
        is_here = borders > ranges.starts[numbers]
        numbers, borders = numbers[is_here], borders[is_here]
        starts = ranges.starts[numbers].copy()
        if len(borders) > 1:
            same = numbers[1:] == numbers[:-1]
            starts[1:][same] = borders[:-1][same]
        is_some = borders > starts
        numbers, starts, lengths = numbers[is_some], starts[is_some], (borders - starts)[is_some]
        np.maximum.at(self.at, numbers, starts + lengths)
        if len(starts):
            self._decode(Frames(UNPROVED, numbers, starts, lengths))
        for last in np.flatnonzero(ranges.final & (self.at < ranges.ends)).tolist():
            self._tear(last)
        return self._outcome()

    def _tear(self, number: int) -> None:
        """The rest of a range is the beginning of a message that never became whole."""
        start, end = int(self.at[number]), int(self.ranges.ends[number])
        data = self.view[start:end].tobytes()
        error = Incomplete(
            f"{len(data)} bytes of a message are there",
            rule="frame_incomplete",
            offset=len(data),
            needed=len(data) + 1,
            available=len(data),
        )
        self._quarantine(number, start, error, data)
        self.at[number] = end

    def _decode(self, frames: Frames) -> None:
        """Decode frames of which each is judged alone."""
        fast = (
            self._fast(frames.reading, self.selection)
            if self.readings.strict is None
            else self._strict_fast(self.selection)
        )
        count = len(frames.starts)
        declined = list(range(count)) if fast is None else []
        first = 0
        while fast is not None and first < count:
            last = min(first + STEP_FRAMES, count)
            filled, status, stop = fast.decode(self.buf, frames.starts[:last], frames.lengths[:last], first)
            declined += (np.flatnonzero(status) + first).tolist()
            self._add(frames, self.selection, filled, None)
            first = stop
        codec = self.readings.codec(self._layout(frames.reading))
        for i in declined:
            number, start = int(frames.ranges[i]), int(frames.starts[i])
            frame = self.view[start : start + int(frames.lengths[i])].tobytes()
            message = self.decoded.get(start) or codec.judge(frame)
            if isinstance(message, DecodeError):
                self._quarantine(number, start, message, frame)
            else:
                self.slow.append((number, start, message))

    def _joined(self) -> list[Frames]:
        """The frames that were judged, by reading."""
        joined = []
        for reading in sorted({frames.reading for frames in self.judged}):
            parts = [(f.ranges, f.starts, f.lengths) for f in self.judged if f.reading == reading]
            ranges, starts, lengths = map(np.concatenate, zip(*parts, strict=True))
            joined.append(Frames(reading, ranges, starts, lengths))
        return joined

    # --- broken bytes

    def _recover(self, number: int, calm: int = 0) -> None:
        """Hand a range over to a stream decoder, until that has found ``calm`` messages one after the other."""
        begin = fed = int(self.at[number])
        end, final = int(self.ranges.ends[number]), bool(self.ranges.final[number])
        reading = int(self.proved[number])
        proved = self.readings.known[reading] if reading != UNPROVED else None
        decoder = StreamDecoder.of(self.readings, proved, self.lost.pop(number, None))
        messages: list[tuple[int, Any]] = []
        calm = wanted = calm or self._calm(number)
        step, bulk = _FIRST_STEP, _FIRST_EVENTS
        while wanted > 0 and self.room > 0 and fed < end:
            decoder.push(self.view[fed : min(fed + step, end)])
            fed, step = min(fed + step, end), min(2 * step, _LONGEST_STEP)
            while wanted > 0 and (events := decoder.advance(final and fed == end, min(bulk, self.room))):
                bulk *= 2
                for event in events:
                    place = begin + event.offset
                    if isinstance(event, Decoded):
                        messages.append((place, event.message))
                        wanted, self.room = wanted - 1, self.room - 1
                    else:
                        self.quarantined.append(QuarantinedRange(number, place, event.length, event.error, event.data))
                        wanted = calm
        if (self.readings.proved is None or self.readings.has_states) and decoder.proved is not None:
            self.proved[number] = self.readings.known.index(decoder.proved)
        self.at[number] = self.recovered[number] = begin + decoder.bytes_in - decoder.pending
        self.is_open[number] = (wanted <= 0 or self.room <= 0) and self.at[number] < end
        lost = decoder.lost
        is_kept = self.readings.has_states or self.room <= 0 or not self.is_open[number]
        if lost is not None and (lost.passed or is_kept):
            # Otherwise the kernel begins the search again.
            self.lost[number] = lost
        self._keep(number, messages)

    def _calm(self, number: int) -> int:
        """Return how many messages end the work of a stream decoder: more where the kernel did not get far before."""
        is_soon = self.at[number] < self.recovered.get(number, -_SOON) + _SOON
        self.calm[number] = min(2 * self.calm.get(number, 0), _MOST_CALM) if is_soon else _LEAST_CALM
        return self.calm[number]

    def _keep(self, number: int, messages: list[tuple[int, Any]]) -> None:
        """Keep messages that a stream decoder found: their frames are decoded with the others that were judged."""
        if self._fast(UNPROVED, self.no_columns) is None:
            self.slow += [(number, start, message) for start, message in messages]
            return
        self.decoded.update(messages)
        places: dict[int, list[tuple[int, int]]] = {}
        for start, message in messages:
            places.setdefault(self._reading(message.layout), []).append((start, message.wire_length))
        for reading, ours in places.items():
            starts, lengths = np.array(ours, np.int64).T
            self.judged.append(Frames(reading, np.full(len(ours), number), starts, lengths))

    def _reading(self, layout: Layout) -> int:
        is_open = self.readings.proved is None and layout in self.readings.choices
        return self.readings.choices.index(layout) if is_open else UNPROVED

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
        if self.selection.names:
            records = concat([piece.records for piece in pieces], self.selection.schema).take(pa.array(order))
        ranges = np.concatenate([piece.ranges for piece in pieces])[order]
        return [Rows(records, ranges, starts[order], np.concatenate([piece.lengths for piece in pieces])[order])]

    def _slow_rows(self) -> Rows:
        self.slow.sort(key=_start)
        ranges = np.array([number for number, _, _ in self.slow], np.int64)
        starts = np.array([start for _, start, _ in self.slow], np.int64)
        lengths = np.array([message.wire_length for _, _, message in self.slow], np.int64)
        records = None
        if self.selection.names:
            offsets = (starts + self.ranges.shift[ranges]).tolist()
            messages = [message for _, _, message in self.slow]
            records = self.selection.of_messages(list(zip(offsets, messages, strict=True)))
        return Rows(records, ranges, starts, lengths)


def _start(row: tuple[int, int, Any]) -> int:
    return row[1]
