"""Stream bytes become message rows with their envelope; gaps become rows of the quarantine."""

from __future__ import annotations

import numpy as np

from tests.capture.feeds import Feed, connection, joined, play
from wirelake.capture.settings import ReadSettings
from wirelake.capture.streams import Streams
from wirelake.generate import generate


def test_a_message_has_the_time_and_place_of_the_chunk_with_its_last_byte() -> None:
    frame = next(event.frame for event in generate("casual", messages=5, seed=1))
    feed = Feed()
    peer = connection()
    for piece in (frame[:10], frame[10:] + frame[:5], frame[5:-1], frame[-1:] + frame):
        feed.add(peer, 0, piece)
    rows = play(feed, ReadSettings(protocol="casual"), [1, 1, 1, 1]).messages["casual"]
    chunks = [feed.packets[i] for i in (1, 3, 3)]
    assert [row["order"] for row in rows] == [chunk.position for chunk in chunks]
    assert [int(row["ts"].timestamp() * 1_000_000) for row in rows] == [chunk.ts for chunk in chunks]
    assert [row["offset"] for row in rows] == [0, len(frame), 2 * len(frame)]


def test_a_message_belongs_to_the_capture_that_completed_it() -> None:
    frame = next(event.frame for event in generate("casual", messages=5, seed=1))
    feed = Feed()
    peer = connection()
    feed.add(peer, 0, frame + frame[:10])
    feed.add(peer, 0, frame[10:] + frame[:7])
    streams = Streams(ReadSettings(protocol="casual"))
    outputs = [streams.feed(chunks, f"{i}.pcap") for i, chunks in enumerate(feed.windows([1, 1]))]
    outputs.append(streams.finish())
    result = joined(outputs)
    assert [row["capture"] for row in result.messages["casual"]] == ["0.pcap", "1.pcap"]
    assert [(row["capture"], row["rule"]) for row in result.quarantine] == [("1.pcap", "frame_incomplete")]


def test_messages_of_one_batch_may_belong_to_two_captures_and_have_the_columns_that_are_asked_for() -> None:
    frames = [event.frame for event in generate("casual", messages=40, seed=1) if event.direction == "to_server"]
    feed = Feed()
    peer = connection(is_whole=False)
    feed.add(peer, 0, frames[0])
    feed.add(peer, 0, b"".join(frames[1:]))
    columns = ("ts", "message", "capture", "connection", "direction", "order")
    streams = Streams(ReadSettings(protocols=("casual",), ports={}, columns={"casual": columns}))
    early, late = (streams.feed(chunks, f"{i}.pcap") for i, chunks in enumerate(feed.windows([1, 1])))
    assert not early.messages
    (batch,) = late.messages["casual"]
    assert tuple(batch.schema.names) == columns
    assert batch.column("capture").to_pylist() == ["0.pcap", *["1.pcap"] * (len(frames) - 1)]
    assert batch.column("order").to_pylist() == [
        feed.packets[0].position,
        *[feed.packets[1].position] * (len(frames) - 1),
    ]
    assert set(zip(*batch.select(["connection", "direction"]).to_pydict().values(), strict=True)) == {
        ("c0", "to_server")
    }


def test_chunks_without_times_give_messages_without_times() -> None:
    frame = next(event.frame for event in generate("casual", messages=5, seed=1))
    feed = Feed()
    feed.add(connection(), 0, frame)
    feed.packets[0].ts = -1
    assert [row["ts"] for row in play(feed, ReadSettings(protocol="casual")).messages["casual"]] == [None]


def test_a_gap_is_a_row_without_bytes_and_counted_as_missing() -> None:
    frames = [event.frame for event in generate("casual", messages=40, seed=1) if event.direction == "to_server"][:4]
    feed = Feed()
    peer = connection()
    feed.add(peer, 0, frames[0] + frames[1][:20])
    feed.add(peer, 0, None, 1000)
    feed.add(peer, 0, frames[1][30:] + frames[2] + frames[3])
    result = play(feed, ReadSettings(protocol="casual"), [1])
    assert [row["rule"] for row in result.quarantine] == ["frame_incomplete", "gap", "frame_torn"]
    gap = result.quarantine[1]
    assert (gap["length"], gap["bytes"], gap["offset"]) == (1000, None, len(frames[0]) + 20)
    account = result.accounts["c0", "to_server"]
    assert account["bytes_missing"] == 1000
    assert account["bytes_quarantined"] == len(frames[1]) - 10
    assert [row["offset"] for row in result.messages["casual"]][1:] == [
        len(frames[0]) + 20 + 1000 + len(frames[1]) - 30,
        len(frames[0]) + 20 + 1000 + len(frames[1]) - 30 + len(frames[2]),
    ]


def test_behind_a_gap_a_frame_is_believed_at_its_very_first_byte() -> None:
    frames = [event.frame for event in generate("casual", messages=40, seed=1) if event.direction == "to_server"][:3]
    feed = Feed()
    peer = connection()
    feed.add(peer, 0, None, 9)
    feed.add(peer, 0, b"".join(frames))
    result = play(feed, ReadSettings(protocol="casual"))
    assert [row["offset"] for row in result.messages["casual"]] == list(9 + np.cumsum([0, *map(len, frames[:-1])]))
    assert [row["rule"] for row in result.quarantine] == ["gap"]
