"""Record codec against columnar decoder: the same values, or the same rule, path and offset, for every input."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tests.vectors.load import vectors
from wirelake.codec import decode, encode
from wirelake.codec.encoder import encode_frame
from wirelake.codec.stream import Decoded, Quarantined, Readings, StreamDecoder, torn
from wirelake.columnar import ColumnarDecoder, decode_frames, schema
from wirelake.columnar.message_to_row import row_of
from wirelake.columnar.streams import UNPROVED, Ranges, StreamsDecoder
from wirelake.columnar.to_json import all_columns
from wirelake.errors import DecodeError
from wirelake.generate.values import random_message
from wirelake.protocols import ceda, load
from wirelake.spec import Cell
from wirelake.spec.resolve import candidates

READINGS: list[tuple[str, dict[str, Any]]] = [
    ("casual", {}),
    ("dsa", {"mode": "strict"}),
    ("dsa", {"mode": "compat"}),
    ("dsa", {"mode": "compat", "frame_only": True}),
    ("mb", {"profile": "strict"}),
    ("mb", {"profile": "upstream"}),
    ("mb", {"profile": "strict", "json_payload": True}),
    ("mb", {"profile": "strict", "framing": "tcp"}),
    ("ceda", {"dialect": "ceda4"}),
    ("ceda", {"dialect": "ceda4-ws"}),
    ("ceda", {"dialect": "auto"}),
]
READING_IDS = ["-".join([name, *map(str, options.values())]) for name, options in READINGS]
Options = dict[str, Any]
STREAMS: list[tuple[str, Options, Options]] = [
    ("casual", {}, {}),
    ("dsa", {"mode": "strict"}, {}),
    ("dsa", {"mode": "compat"}, {}),
    ("dsa", {"mode": "compat", "frame_only": True}, {}),
    ("mb", {"profile": "strict", "framing": "tcp"}, {}),
    ("mb", {"profile": "upstream", "framing": "tcp"}, {}),
    ("mb", {"profile": "strict", "framing": "tcp"}, {"profile": "upstream"}),
    ("ceda", {"dialect": "ceda4"}, {}),
    ("ceda", {"dialect": "ceda4-ws"}, {}),
    ("ceda", {"dialect": "auto"}, {}),
]
"""How streams are read: protocol, options, and those of a second reading for what the first one refuses."""
STREAM_IDS = ["-".join([name, *map(str, options.values()), *lenient.values()]) for name, options, lenient in STREAMS]
_BYTES_OF_INTEREST = (0, 1, 2, 0x0A, 0x1C, 0x3A, 0x61, 0x7E, 0x7F, 0x80, 0x82, 0xC1, 0xFF)
_HEADS = [bytes.fromhex(h) for h in ("82", "827e", "827e01", "827e0102", "82021405", "82fe010161626364", "820101")]
"""Headers of CEDA that prove a dialect, or nearly."""


def valid_frames(protocol: str, count: int, rng: random.Random, **options: Any) -> list[bytes]:
    """Frames of random valid messages, every message of the protocol in turn."""
    layouts = candidates(load(protocol), **options)
    frames = []
    while len(frames) < count:
        layout = rng.choice(layouts)
        for node in layout.messages.values():
            frames.append(encode_frame(layout, random_message(layout, node, rng)))
    return frames[:count]


def mutate(frame: bytes, rng: random.Random) -> bytes:
    """The frame with a few bytes changed, cut out or put in."""
    data = bytearray(frame)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if not data:
            break
        at, kind = rng.randrange(len(data)), rng.random()
        if kind < 0.5:
            data[at] ^= 1 << rng.randrange(8)
        elif kind < 0.7:
            data[at] = rng.choice((*_BYTES_OF_INTEREST, rng.randrange(256)))
        elif kind < 0.85:
            del data[at : at + rng.randrange(1, 9)]
        else:
            data[at:at] = rng.randbytes(rng.randrange(1, 9))
    return bytes(data)


def assert_agreement(protocol: str, frames: Sequence[bytes], **options: Any) -> tuple[int, int]:
    """Every frame, judged alone, is the same to both decoders. Gives how many were accepted and rejected."""
    declared = load(protocol)
    names = all_columns(declared)
    batch = decode_frames(protocol, frames, names, **options)
    rows, row_frames, rejects, quarantined_frames = [], [], [], []
    offset = 0
    for i, frame in enumerate(frames):
        try:
            row = row_of(decode(protocol, frame, **options))
            row["offset"] = offset
            rows.append({name: row.get(name) for name in names})
            row_frames.append(i)
        except DecodeError as error:
            rejects.append((error.rule, error.path, error.offset))
            quarantined_frames.append(i)
        offset += len(frame)
    assert batch.row_frames is not None and batch.quarantined_frames is not None
    assert batch.quarantined_frames.tolist() == quarantined_frames
    assert batch.row_frames.tolist() == row_frames
    found = [(row["rule"], row["path"], row["error_offset"]) for row in batch.quarantined.to_pylist()]
    assert found == rejects
    expected = pa.RecordBatch.from_pylist(rows, schema(declared, names))
    assert batch.records.schema == expected.schema
    batch.records.validate(full=True)
    if not batch.records.equals(expected):
        for i, (got, want) in enumerate(zip(batch.records.to_pylist(), expected.to_pylist(), strict=True)):
            assert repr(got) == repr(want), f"{frames[row_frames[i]].hex()}: {got} {want}"
    return len(rows), len(rejects)


# --- streams


def mutated_streams(protocol: str, count: int, rng: random.Random, **options: Any) -> Iterator[bytes]:
    """Frames of random messages and of the vectors one after the other, most streams with faults of all kinds."""
    frames = [frame for frame in valid_frames(protocol, 300, rng, **options) if len(frame) < 3000]
    frames += _vector_frames(protocol)
    if protocol == "ceda":
        frames += [_disputed_frame(frames, rng) for _ in range(len(frames))] + _HEADS * 5
    for _ in range(count):
        pool = frames if rng.random() < 0.6 else rng.sample(frames, 3)
        data = b"".join(_damaged(rng.choice(pool), rng) for _ in range(rng.randrange(1, 8)))
        yield data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data


def _damaged(frame: bytes, rng: random.Random) -> bytes:
    """The frame, more often than not with a fault."""
    kind = rng.random()
    if kind < 0.35:
        return mutate(frame, rng)
    if kind < 0.45:
        return frame[: rng.randrange(len(frame) + 1)]
    if kind < 0.55:
        return frame + rng.randbytes(rng.randrange(1, 12))
    if kind < 0.6:
        return frame[:2] * rng.randrange(1, 9)
    return frame


def _vector_frames(protocol: str) -> list[bytes]:
    return sorted({vector.data for vector in vectors(protocol) if 0 < len(vector.data) < 3000})


def _disputed_frame(inner: Sequence[bytes], rng: random.Random) -> bytes:
    """A CEDA frame whose length is another one in the other dialect, with frames in its payload."""
    size = 256 * rng.randrange(1, 4) + rng.choice((1, 2, 3, 4, 126, 127, rng.randrange(256)))
    data = b"".join(rng.choices([frame for frame in inner if len(frame) < 100], k=size))
    record = (Cell(1, "BYTES", data[: size - 7]),)
    return encode(ceda.Publish(topic="T", record=record), dialect=rng.choice(("ceda4", "ceda4-ws")))


Event = tuple[int, int, str, str, int | None]
"""Offset, length, and the message's name or rule, path and offset."""


def record_events(readings: Readings, chunks: Sequence[bytes], *, torn_at_start: bool = False) -> list[Event]:
    """What the stream decoder finds in a stream that comes in these chunks."""
    decoder = StreamDecoder.of(readings, lost=torn() if torn_at_start else None)
    events = [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.finish()
    return [_event(event) for event in events]


def record_events_so_far(readings: Readings, data: bytes) -> list[Event]:
    """What the stream decoder finds while it does not know whether more comes."""
    return [_event(event) for event in StreamDecoder.of(readings).feed(data)]


def _event(event: Decoded | Quarantined) -> Event:
    if isinstance(event, Decoded):
        return event.offset, event.length, event.message.__message__["name"], "", None
    return event.offset, event.length, event.error.rule, event.error.path, event.error.offset


def columnar_events(protocol: str, chunks: Sequence[bytes], **options: Any) -> list[Event]:
    """The same from the columnar decoder."""
    decoder = ColumnarDecoder(protocol, **options)
    told: list[Event] = []
    for batches in (*map(decoder.feed, chunks), decoder.finish()):
        for batch in batches:
            told += [(r["offset"], r["length"], r["message"], "", None) for r in batch.records.to_pylist()]
            told += [
                (r["offset"], r["length"], r["rule"], r["path"], r["error_offset"])
                for r in batch.quarantined.to_pylist()
            ]
    return sorted(told)


class SteppedStreams:
    """The columnar decoder of many streams, which keeps what is between two steps as an ingest does."""

    def __init__(self, readings: Readings) -> None:
        self.decoder = StreamsDecoder(readings, ("offset", "length", "message"))

    def events(self, chunks: Sequence[bytes], *, ends_alone: bool, torn_at_start: bool = False) -> list[Event]:
        """What it finds in a stream of which each step brings a chunk. ``ends_alone``: no byte comes with the end."""
        tail, offset, proved = b"", 0, np.full(1, UNPROVED)
        lost = {0: torn()} if torn_at_start else {}
        events: list[Event] = []
        last = len(chunks) - (not ends_alone)
        for i, chunk in enumerate([*chunks, b""]):
            data = tail + chunk
            place = np.array([len(data)])
            ranges = Ranges(np.zeros(1, np.int64), place, np.array([offset]), np.array([i >= last]), proved, lost)
            found = self.decoder.decode(np.frombuffer(data or b"\0", np.uint8), ranges)
            for rows in found.rows:
                assert rows.records is not None
                events += [(r["offset"], r["length"], r["message"], "", None) for r in rows.records.to_pylist()]
            events += [
                (offset + b.start, b.length, b.error.rule, b.error.path, b.error.offset) for b in found.quarantined
            ]
            stop = int(found.stops[0])
            tail, offset, proved, lost = data[stop:], offset + stop, found.proved, found.lost
        assert not tail
        return sorted(events)


def split(data: bytes, rng: random.Random, most: int) -> list[bytes]:
    """The data in random pieces."""
    pieces = []
    at = 0
    while at < len(data):
        size = rng.randrange(1, most + 1)
        pieces.append(data[at : at + size])
        at += size
    return pieces
