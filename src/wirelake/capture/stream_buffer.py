"""Bring the chunks of many streams into one buffer in which the bytes of each lie together, behind its pending ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .chunks import Chunks
from .state import ARRIVAL, END, NO_ARRIVALS, LooseChunk
from .stream_table import StreamTable

Ints = NDArray[np.int64]
GAP = "gap"


@dataclass(slots=True)
class Interruption:
    """Bytes at ``place`` of a stream that are missing, or that do not belong to it: ``rule`` says which."""

    place: int
    length: int
    ts: int
    position: int
    capture: int
    rule: str
    data: bytes


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
    interruptions: dict[int, list[Interruption]] = field(default_factory=dict)

    def arrival_of(self, ends: Ints) -> Ints:
        """Return the number of the arrival that covers the last byte before each place."""
        return np.searchsorted(self.arrivals[:, END], ends, side="left")


@dataclass(slots=True)
class _Incoming:
    """Chunks sorted by stream. ``source`` is the place of their bytes in their origin, negative if there are none."""

    streams: Ints
    lengths: Ints
    sources: Ints
    arrivals: Ints
    """Time, position, capture."""
    order: Ints
    """The number of each before sorting: the loose chunks come first."""

    @property
    def is_interruption(self) -> NDArray[np.bool_]:
        return self.sources < 0

    @property
    def sizes(self) -> Ints:
        return np.where(self.is_interruption, 0, self.lengths)


def gather(
    table: StreamTable, chunks: Chunks, chosen: Ints, streams: Ints, captures: Ints, loose: Sequence[LooseChunk],
    also: Ints,
) -> Gathered:  # fmt: skip
    """Gather the loose chunks and, behind them, the ``chosen`` ones, whose ``streams`` and ``captures`` are given.

    The streams ``also`` named are there even if nothing of them has come.
    """
    incoming = _sorted(_incoming(chunks, chosen, streams, captures, loose))
    sizes = incoming.sizes
    touched = np.union1d(incoming.streams, also) if len(also) else incoming.streams[_is_first(incoming.streams)]
    which = np.searchsorted(touched, incoming.streams)
    pending = [table.pending[stream] for stream in touched.tolist()]
    pending_sizes = np.fromiter(map(len, pending), np.int64, len(pending))
    added = _sums(which, sizes, len(touched))
    bounds = np.concatenate([[0], np.cumsum(pending_sizes + added)])
    places = _before(sizes) + np.cumsum(pending_sizes)[which] if len(which) else sizes
    buf = np.empty(int(bounds[-1]), np.uint8)
    _copy(np.frombuffer(b"".join(pending), np.uint8), _before(pending_sizes), pending_sizes, bounds[:-1], buf)
    _fill(buf, incoming, places, chunks, loose)
    ends = places + sizes
    made = Gathered(
        buf,
        touched,
        bounds[:-1],
        bounds[1:],
        pending_sizes,
        added,
        _arrivals(table, touched, pending_sizes, bounds, ends, incoming),
        _borders(loose, incoming.order, ends),
    )
    _interrupt(made, incoming, which, places, loose)
    return made


def _incoming(chunks: Chunks, chosen: Ints, streams: Ints, captures: Ints, loose: Sequence[LooseChunk]) -> _Incoming:
    lengths, sources = chunks.length[chosen].astype(np.int64), chunks.start[chosen].astype(np.int64)
    arrivals = NO_ARRIVALS[:, 1:]
    if len(chosen):
        arrivals = np.stack([chunks.ts[chosen], chunks.position[chosen], captures], axis=1)
    if loose:
        sizes = np.array([0 if chunk.rule else len(chunk.data) for chunk in loose], np.int64)
        is_interruption = [bool(chunk.rule) for chunk in loose]
        streams = np.concatenate([np.array([chunk.stream for chunk in loose], np.int64), streams])
        lengths = np.concatenate([np.array([chunk.length for chunk in loose], np.int64), lengths])
        sources = np.concatenate([np.where(is_interruption, -1, _before(sizes)), sources])
        known = np.array([(chunk.ts, chunk.position, chunk.capture) for chunk in loose], np.int64)
        arrivals = np.concatenate([known, arrivals])
    return _Incoming(streams, lengths, sources, arrivals, np.arange(len(streams)))


def _sorted(incoming: _Incoming) -> _Incoming:
    streams = incoming.streams
    if not np.any(streams[1:] < streams[:-1]):
        return incoming
    order = np.argsort(streams, kind="stable")
    return _Incoming(streams[order], incoming.lengths[order], incoming.sources[order], incoming.arrivals[order], order)


def _before(sizes: Ints) -> Ints:
    """Return for each the sum of those before it."""
    return np.cumsum(sizes) - sizes


def _is_first(streams: Ints) -> NDArray[np.bool_]:
    first = np.ones(len(streams), np.bool_)
    first[1:] = streams[1:] != streams[:-1]
    return first


def _sums(which: Ints, values: Ints, n: int) -> Ints:
    return np.bincount(which, weights=values, minlength=n).astype(np.int64)


def _fill(
    buf: NDArray[np.uint8], incoming: _Incoming, places: Ints, chunks: Chunks, loose: Sequence[LooseChunk]
) -> None:
    has_bytes, is_loose, sizes = ~incoming.is_interruption, incoming.order < len(loose), incoming.sizes
    origins = [(chunks.data, has_bytes & ~is_loose)]
    if loose:
        joined = b"".join(chunk.data for chunk in loose if not chunk.rule)
        origins.append((np.frombuffer(joined, np.uint8), has_bytes & is_loose))
    for source, chosen in origins:
        _copy(source, incoming.sources[chosen], sizes[chosen], places[chosen], buf)


def _copy(source: NDArray[np.uint8], starts: Ints, lengths: Ints, places: Ints, target: NDArray[np.uint8]) -> None:
    if not len(starts):
        return
    place = _kernel()
    if place is not None:
        place(source, starts, lengths, places, target)
        return
    for start, length, at in zip(starts.tolist(), lengths.tolist(), places.tolist(), strict=True):
        target[at : at + length] = source[start : start + length]


def _kernel() -> Any:
    try:
        from ..kernels.gather import place  # numba takes a second to load, and may be missing
    except ImportError:
        return None
    return place


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


def _interrupt(made: Gathered, incoming: _Incoming, which: Ints, places: Ints, loose: Sequence[LooseChunk]) -> None:
    for i in np.flatnonzero(incoming.is_interruption).tolist():
        number, length = int(incoming.order[i]), int(incoming.lengths[i])
        rule, data = (loose[number].rule, loose[number].data) if number < len(loose) else (GAP, b"")
        ts, position, capture = incoming.arrivals[i].tolist()
        interruption = Interruption(int(places[i]), length, ts, position, capture, rule, data)
        made.interruptions.setdefault(int(which[i]), []).append(interruption)
        if rule != GAP:
            made.added[which[i]] += length
