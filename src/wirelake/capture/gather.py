"""Chunks of many streams -> one buffer in which each stream's bytes lie together, behind what was pending of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .chunks import Chunks
from .stream_state import MARK, NO_MARKS, Entry, Table

Ints = NDArray[np.int64]
GAP = "gap"


@dataclass(slots=True)
class Break:
    """Something between the bytes of a stream: bytes that are missing or lost to it. ``place`` is where it is."""

    place: int
    length: int
    ts: int
    position: int
    capture: int
    rule: str
    data: bytes


@dataclass(slots=True)
class Gathered:
    """Streams in the order of their numbers; those of ``breaks`` are counted here, too."""

    buf: NDArray[np.uint8]
    streams: Ints
    starts: Ints
    ends: Ints
    tails: Ints
    """Bytes of each that were pending before."""
    added: Ints
    """Bytes of each that are new, lost ones included."""
    marks: Ints
    """Until which place each chunk reaches, its time, position, capture; in order."""
    borders: Ints
    """Places where WebSocket messages end."""
    breaks: dict[int, list[Break]] = field(default_factory=dict)

    def mark_of(self, ends: Ints) -> Ints:
        """The number of the mark that covers the last byte before each place."""
        return np.searchsorted(self.marks[:, 0], ends, side="left")


def gather(
    table: Table, chunks: Chunks, chosen: Ints, streams: Ints, captures: Ints, entries: Sequence[Entry], also: Ints
) -> Gathered:
    """Gathers the ``chosen`` chunks, of which ``streams`` and ``captures`` tell more, behind the ``entries``, which
    came first. Streams ``also`` named are there even if nothing of them has come.
    """
    lengths = chunks.length[chosen].astype(np.int64)
    sources = chunks.start[chosen].astype(np.int64)
    told = np.stack([chunks.ts[chosen], chunks.position[chosen], captures], axis=1) if len(chosen) else NO_MARKS[:, 1:]
    n_entries = len(entries)
    if n_entries:
        streams = np.concatenate([np.array([e.stream for e in entries], np.int64), streams])
        data_sizes = np.array([len(e.data) if not e.rule else 0 for e in entries], np.int64)
        lengths = np.concatenate([np.array([e.length for e in entries], np.int64), lengths])
        sources = np.concatenate([np.where([bool(e.rule) for e in entries], -1, _before(data_sizes)), sources])
        told = np.concatenate([np.array([(e.ts, e.position, e.capture) for e in entries], np.int64), told])
    is_break = sources < 0
    order = np.argsort(streams, kind="stable") if np.any(streams[1:] < streams[:-1]) else np.arange(len(streams))
    streams, lengths, sources = streams[order], lengths[order], sources[order]
    told, is_break = told[order], is_break[order]
    touched = np.union1d(streams, also) if len(also) else streams[_is_first(streams)]
    which = np.searchsorted(touched, streams)
    sizes = np.where(is_break, 0, lengths)
    tails = [table.tails[s] for s in touched.tolist()]
    tail_sizes = np.fromiter(map(len, tails), np.int64, len(tails))
    bounds = np.concatenate([[0], np.cumsum(tail_sizes + _sums(which, sizes, len(touched)))])
    places = _before(sizes) + np.cumsum(tail_sizes)[which] if len(which) else sizes
    buf = np.empty(int(bounds[-1]), np.uint8)
    _copy(np.frombuffer(b"".join(tails), np.uint8), _before(tail_sizes), tail_sizes, bounds[:-1], buf)
    from_chunks = ~is_break & (order >= n_entries)
    _copy(chunks.data, sources[from_chunks], sizes[from_chunks], places[from_chunks], buf)
    if n_entries:
        from_entries = ~is_break & (order < n_entries)
        joined = np.frombuffer(b"".join(e.data for e in entries if not e.rule), np.uint8)
        _copy(joined, sources[from_entries], sizes[from_entries], places[from_entries], buf)
    made = Gathered(
        buf,
        touched,
        bounds[:-1],
        bounds[1:],
        tail_sizes,
        _sums(which, sizes, len(touched)),
        _marks(table, touched, tail_sizes, bounds, places, sizes, told),
        _borders(entries, order, places, sizes),
    )
    _break(made, entries, order, np.flatnonzero(is_break), which, places, lengths, told)
    return made


def _before(sizes: Ints) -> Ints:
    """For each the sum of those before it."""
    return np.cumsum(sizes) - sizes


def _is_first(streams: Ints) -> NDArray[np.bool_]:
    first = np.ones(len(streams), np.bool_)
    first[1:] = streams[1:] != streams[:-1]
    return first


def _sums(which: Ints, values: Ints, n: int) -> Ints:
    return np.bincount(which, weights=values, minlength=n).astype(np.int64)


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


def _marks(table: Table, touched: Ints, tail_sizes: Ints, bounds: Ints, places: Ints, sizes: Ints, told: Ints) -> Ints:
    is_there = sizes > 0
    marks = np.empty((int(is_there.sum()), MARK), np.int64)
    marks[:, 0] = (places + sizes)[is_there]
    marks[:, 1:] = told[is_there]
    old = np.flatnonzero(tail_sizes)
    if not len(old):
        return marks
    kept = [table.marks[s] for s in touched[old].tolist()]
    before = np.concatenate(kept)
    before[:, 0] += np.repeat(bounds[:-1][old], [len(m) for m in kept])
    marks = np.concatenate([before, marks])
    return marks[np.argsort(marks[:, 0], kind="stable")]


def _borders(entries: Sequence[Entry], order: Ints, places: Ints, sizes: Ints) -> Ints:
    if not any(entry.ends_message for entry in entries):
        return np.empty(0, np.int64)
    ends = np.zeros(len(order), np.bool_)
    ends[: len(entries)] = [entry.ends_message for entry in entries]
    return (places + sizes)[ends[order]]


def _break(
    made: Gathered,
    entries: Sequence[Entry],
    order: Ints,
    breaks: Ints,
    which: Ints,
    places: Ints,
    lengths: Ints,
    told: Ints,
) -> None:
    for i in breaks.tolist():
        number = int(order[i])
        entry = entries[number] if number < len(entries) else None
        rule, data = (entry.rule, entry.data) if entry is not None else (GAP, b"")
        ts, position, capture = told[i].tolist()
        found = Break(int(places[i]), int(lengths[i]), ts, position, capture, rule, data)
        made.breaks.setdefault(int(which[i]), []).append(found)
        if rule != GAP:
            made.added[which[i]] += found.length
