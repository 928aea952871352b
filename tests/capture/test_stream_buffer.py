"""Chunks of many streams in one buffer: each stream's bytes together, behind its pending ones."""

from __future__ import annotations

import numpy as np

from tests.capture.feeds import Feed, chunks_of, connection
from wirelake.capture.state import LooseChunk
from wirelake.capture.stream_buffer import Gathered, gather
from wirelake.capture.stream_table import StreamTable

NONE = np.empty(0, np.int64)


def gathered(
    table: StreamTable, feed: Feed, loose: tuple[LooseChunk, ...] = (), also: tuple[int, ...] = ()
) -> Gathered:
    chunks = chunks_of(feed.packets)
    chosen = np.arange(len(chunks))
    streams = 2 * chunks.connection.astype(np.int64) + chunks.direction
    return gather(table, chunks, chosen, streams, np.zeros(len(chunks), np.int64), loose, np.array(also, np.int64))


def bytes_of(made: Gathered) -> dict[int, bytes]:
    bounds = zip(made.streams.tolist(), made.starts.tolist(), made.ends.tolist(), strict=True)
    return {stream: made.buf[start:end].tobytes() for stream, start, end in bounds}


def table_of(*ids: str) -> StreamTable:
    table = StreamTable()
    for name in ids:
        table.add(name)
    return table


def test_streams_lie_behind_their_pending_bytes_with_the_arrival_of_each_chunk() -> None:
    feed = Feed()
    first, second = connection("a"), connection("b")
    feed.add(first, 0, b"one ")
    feed.add(second, 1, b"two")
    feed.add(first, 0, b"three")
    table = table_of("a", "b")
    table.pending[0], table.arrivals[0] = b"zero ", np.array([[5, 7, 8, 9]])
    made = gathered(table, feed)
    assert bytes_of(made) == {0: b"zero one three", 3: b"two"}
    assert (made.pending.tolist(), made.added.tolist()) == ([5, 0], [9, 3])
    assert made.arrivals[:, 0].tolist() == [5, 9, 14, 17]
    assert made.arrivals[0].tolist() == [5, 7, 8, 9]
    assert made.arrival_of(np.array([1, 5, 6, 14, 15])).tolist() == [0, 0, 1, 2, 3]


def test_loose_chunks_come_first_and_gaps_interrupt() -> None:
    feed = Feed()
    peer = connection("a")
    feed.add(peer, 0, None, 100)
    feed.add(peer, 0, b"later")
    loose = (
        LooseChunk(0, b"early", 5, 1, 2, 3, ends_message=True),
        LooseChunk(0, b"??", 2, 1, 2, 3, rule="websocket"),
    )
    made = gathered(table_of("a"), feed, loose)
    assert bytes_of(made) == {0: b"earlylater"}
    assert made.borders.tolist() == [5]
    assert [(place, chunk.length, chunk.rule, chunk.data) for place, chunk in made.interruptions[0]] == [
        (5, 2, "websocket", b"??"),
        (5, 100, "gap", b""),
    ]
    assert made.added.tolist() == [12]


def test_a_stream_that_only_ends_is_there() -> None:
    table = table_of("a")
    table.pending[1], table.arrivals[1] = b"rest", np.array([[4, 0, 0, 0]])
    assert bytes_of(gathered(table, Feed(), also=(0, 1))) == {0: b"", 1: b"rest"}
