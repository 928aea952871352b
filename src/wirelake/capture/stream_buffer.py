"""Bring the chunks of many streams into one buffer in which the bytes of each lie together, behind its pending ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..kernels.times import STRANGE
from .chunks import Chunks, Ints
from .lazy_kernels import gather as kernel
from .state import ARRIVAL, END, LooseChunk
from .stream_table import StreamTable

GAP, STRANGE_TIME = "gap", "time_range"


@dataclass(slots=True)
class Gathered:
    """Streams in the order of their numbers; other fields count them in this order."""

    buf: NDArray[np.uint8]
    streams: Ints
    starts: Ints
    ends: Ints
    pending: Ints
    """Bytes of each that were pending before."""
    added: Ints
    """Bytes of each that are new, also those that do not belong to the stream."""
    arrivals: Ints
    """Until which place the bytes of each chunk reach, its time, position, capture; in order."""
    borders: Ints
    """Places where WebSocket messages end."""
    interruptions: dict[int, list[tuple[int, LooseChunk]]] = field(default_factory=dict)
    """Bytes that are missing or do not belong to the stream, as their rule says, each with its place."""

    def arrival_of(self, ends: Ints) -> Ints:
        """Return the number of the arrival that covers the last byte before each place."""
        return np.searchsorted(self.arrivals[:, END], ends, side="left")


class _Incoming:
    """Chunks sorted by stream. ``sources`` are the places of their bytes in their origin, negative if there are none;
    ``order`` the number of each before sorting: the loose chunks come first.
    """

    def __init__(
        self, chunks: Chunks, chosen: Ints, streams: Ints, captures: Ints, loose: Sequence[LooseChunk]
    ) -> None:
        self.streams = streams
        self.lengths, self.sources = chunks.length[chosen].astype(np.int64), chunks.start[chosen].astype(np.int64)
        self.arrivals = np.stack([chunks.ts[chosen], chunks.position[chosen], captures], axis=1)
        """Time, position, capture."""
        if loose:
            self._put_in_front(loose)
        self.order = np.arange(len(self.streams))
        if np.any(self.streams[1:] < self.streams[:-1]):
            self.order = order = np.argsort(self.streams, kind="stable")
            self.streams, self.lengths = self.streams[order], self.lengths[order]
            self.sources, self.arrivals = self.sources[order], self.arrivals[order]
        self.has_bytes = (self.sources >= 0) & (self.arrivals[:, 0] != STRANGE)
        self.sizes = np.where(self.has_bytes, self.lengths, 0)

    def _put_in_front(self, loose: Sequence[LooseChunk]) -> None:
        sizes = np.array([0 if chunk.rule else len(chunk.data) for chunk in loose], np.int64)
        sources = np.where([bool(chunk.rule) for chunk in loose], -1, _before(sizes))
        arrivals = np.array([(chunk.ts, chunk.position, chunk.capture) for chunk in loose], np.int64)
        self.streams = np.append(np.array([chunk.stream for chunk in loose], np.int64), self.streams)
        self.lengths = np.append(np.array([chunk.length for chunk in loose], np.int64), self.lengths)
        self.sources = np.append(sources, self.sources)
        self.arrivals = np.concatenate([arrivals, self.arrivals])


def gather(
    table: StreamTable, chunks: Chunks, chosen: Ints, streams: Ints, captures: Ints, loose: Sequence[LooseChunk],
    also: Ints,
) -> Gathered:  # fmt: skip
    """Gather the loose chunks and, behind them, the ``chosen`` ones, whose ``streams`` and ``captures`` are given.

    The streams ``also`` named are there even if nothing of them has come.
    """
    incoming = _Incoming(chunks, chosen, streams, captures, loose)
    sizes = incoming.sizes
    touched = np.union1d(incoming.streams, also) if len(also) else incoming.streams[is_first(incoming.streams)]
    which = np.searchsorted(touched, incoming.streams)
    pending = [table.pending[stream] for stream in touched.tolist()]
    pending_sizes = np.fromiter(map(len, pending), np.int64, len(pending))
    added = np.bincount(which, weights=sizes, minlength=len(touched)).astype(np.int64)
    bounds = np.concatenate([[0], np.cumsum(pending_sizes + added)])
    places = _before(sizes) + np.cumsum(pending_sizes)[which] if len(which) else sizes
    buf = np.empty(int(bounds[-1]), np.uint8)
    _copy(np.frombuffer(b"".join(pending), np.uint8), _before(pending_sizes), pending_sizes, bounds[:-1], buf)
    _fill(buf, incoming, places, chunks, loose)
    ends = places + sizes
    arrivals = _arrivals(table, touched, pending_sizes, bounds, ends, incoming)
    borders = _borders(loose, incoming.order, ends)
    made = Gathered(buf, touched, bounds[:-1], bounds[1:], pending_sizes, added, arrivals, borders)
    _interrupt(made, incoming, which, places, chunks, loose)
    return made


def _before(sizes: Ints) -> Ints:
    """Return for each the sum of those before it."""
    return np.cumsum(sizes) - sizes


def is_first(streams: Ints) -> NDArray[np.bool_]:
    """Return which chunks are of another stream than the one before them."""
    first = np.ones(len(streams), np.bool_)
    first[1:] = streams[1:] != streams[:-1]
    return first


def _fill(
    buf: NDArray[np.uint8], incoming: _Incoming, places: Ints, chunks: Chunks, loose: Sequence[LooseChunk]
) -> None:
    is_loose = incoming.order < len(loose)
    joined = b"".join(chunk.data for chunk in loose if not chunk.rule)
    for source, is_origin in ((chunks.data, ~is_loose), (np.frombuffer(joined, np.uint8), is_loose)):
        chosen = incoming.has_bytes & is_origin
        _copy(source, incoming.sources[chosen], incoming.sizes[chosen], places[chosen], buf)


def _copy(source: NDArray[np.uint8], starts: Ints, lengths: Ints, places: Ints, target: NDArray[np.uint8]) -> None:
    if len(starts):
        kernel.place(source, starts, lengths, places, target)


def _arrivals(
    table: StreamTable, touched: Ints, pending_sizes: Ints, bounds: Ints, ends: Ints, incoming: _Incoming
) -> Ints:
    has_bytes = incoming.sizes > 0
    arrivals = np.empty((int(has_bytes.sum()), ARRIVAL), np.int64)
    arrivals[:, END] = ends[has_bytes]
    arrivals[:, 1:] = incoming.arrivals[has_bytes]
    old = np.flatnonzero(pending_sizes)
    if not len(old):
        return arrivals
    kept = [table.arrivals[stream] for stream in touched[old].tolist()]
    before = np.concatenate(kept)
    before[:, END] += np.repeat(bounds[:-1][old], [len(known) for known in kept])
    arrivals = np.concatenate([before, arrivals])
    return arrivals[np.argsort(arrivals[:, END], kind="stable")]


def _borders(loose: Sequence[LooseChunk], order: Ints, ends: Ints) -> Ints:
    if not any(chunk.ends_message for chunk in loose):
        return np.empty(0, np.int64)
    is_border = np.zeros(len(order), np.bool_)
    is_border[: len(loose)] = [chunk.ends_message for chunk in loose]
    return ends[is_border[order]]


def _interrupt(
    made: Gathered, incoming: _Incoming, which: Ints, places: Ints, chunks: Chunks, loose: Sequence[LooseChunk]
) -> None:
    for i in np.flatnonzero(~incoming.has_bytes).tolist():
        number, length = int(incoming.order[i]), int(incoming.lengths[i])
        if number < len(loose):
            chunk = loose[number]
        else:
            start, (ts, position, capture) = int(incoming.sources[i]), incoming.arrivals[i].tolist()
            data, rule = (chunks.data[start : start + length].tobytes(), STRANGE_TIME) if start >= 0 else (b"", GAP)
            chunk = LooseChunk(int(incoming.streams[i]), data, length, ts, position, capture, rule=rule)
        made.interruptions.setdefault(int(which[i]), []).append((int(places[i]), chunk))
        if chunk.rule != GAP:
            made.added[which[i]] += length
