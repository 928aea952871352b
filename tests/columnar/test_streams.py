"""Many streams at once: bounded steps, full columns and missing numba change nothing."""

from __future__ import annotations

import random

import numpy as np
import pytest

import wirelake
from wirelake.codec.stream import readings
from wirelake.columnar.run_kernel import fast_for
from wirelake.columnar.streams import UNPROVED, Outcome, Ranges, StreamsDecoder
from wirelake.generate import generate
from wirelake.protocols.casual import Domain, DomainDiscoverRequest

ID = bytes(16)
COLUMNS = ("offset", "length", "message", "service_names")


def request(names: int) -> bytes:
    return wirelake.encode(DomainDiscoverRequest(ID, ID, Domain(ID, "d"), ("n",) * names, ()))


def decode(streams: list[bytes]) -> Outcome:
    ends = np.cumsum([len(stream) for stream in streams])
    starts = np.concatenate([[0], ends[:-1]])
    n = len(streams)
    ranges = Ranges(starts, ends, -starts, np.zeros(n, np.bool_), np.full(n, UNPROVED))
    buf = np.frombuffer(b"".join(streams), np.uint8)
    return StreamsDecoder(readings("casual", {}), COLUMNS).decode(buf, ranges)


def told(found: Outcome) -> list[tuple[int, int, int]]:
    """Range, offset and number of names of each row."""
    rows = []
    for piece in found.rows:
        assert piece.records is not None
        values = piece.records.to_pylist()
        rows += [
            (int(which), row["offset"], len(row["service_names"]))
            for which, row in zip(piece.ranges, values, strict=True)
        ]
    return rows


def expected(counts: list[list[int]]) -> list[tuple[int, int, int]]:
    rows = []
    for which, names in enumerate(counts):
        offset = 0
        for count in names:
            rows.append((which, offset, count))
            offset += len(request(count))
    return rows


@pytest.mark.parametrize("steps", [1, 2, 5, 50_000])
def test_steps_of_any_size_give_the_same_rows(monkeypatch: pytest.MonkeyPatch, steps: int) -> None:
    monkeypatch.setattr("wirelake.columnar.streams.STEP_FRAMES", steps)
    rng = random.Random(steps)
    counts = [[rng.randrange(5) for _ in range(rng.randrange(7))] for _ in range(30)]
    streams = [b"".join(map(request, names)) + request(1)[: rng.randrange(40)] for names in counts]
    found = decode(streams)
    assert told(found) == expected(counts)
    ends = np.cumsum([len(stream) for stream in streams])
    pending = (ends - found.stops).tolist()
    whole = [sum(len(request(n)) for n in names) for names in counts]
    assert pending == [len(stream) - size for stream, size in zip(streams, whole, strict=True)]
    assert not found.quarantined


@pytest.mark.parametrize("large", [900, 5_000, 60_000])
def test_full_columns_are_gone_on_with_where_they_were_full(large: int) -> None:
    rng = random.Random(large)
    for _ in range(5):
        fast_for.cache_clear()
        counts = [[rng.choice((0, 1, 3, large)) for _ in range(rng.randrange(4))] for _ in range(8)]
        assert told(decode([b"".join(map(request, names)) for names in counts])) == expected(counts)


def test_without_numba_the_result_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(7)
    frames = [event.frame for event in generate("casual", messages=120, seed=2, corrupt=0.1)]
    streams = [b"".join(rng.choices(frames, k=9))[: rng.randrange(2000, 4000)] for _ in range(6)]
    quick = decode(streams)
    monkeypatch.setattr("wirelake.columnar.selection.load_kernel", lambda: None)
    slow = decode(streams)
    assert [piece.records.to_pylist() for piece in slow.rows] == [piece.records.to_pylist() for piece in quick.rows]
    assert [(b.range, b.start, b.length, b.error.rule) for b in slow.quarantined] == [
        (b.range, b.start, b.length, b.error.rule) for b in sorted(quick.quarantined, key=lambda b: b.start)
    ]
    assert slow.stops.tolist() == quick.stops.tolist()
