"""Record codec against columnar decoder: the same values, or the same rule, path and offset, for every input."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from wirelake.codec import decode
from wirelake.codec.encoder import encode_frame
from wirelake.codec.stream import Decoded, StreamDecoder
from wirelake.columnar import ColumnarDecoder, decode_frames, schema
from wirelake.columnar.rows import row_of
from wirelake.columnar.show import all_columns
from wirelake.errors import DecodeError
from wirelake.generate.values import random_message
from wirelake.protocols import load
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
STREAMS = [
    (name, options) for name, options in READINGS if options.get("framing") != "tcp" and "json_payload" not in options
]
STREAM_IDS = ["-".join([name, *map(str, options.values())]) for name, options in STREAMS]


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
            data[at] = rng.choice((0, 1, 0x0A, 0x3A, 0x7E, 0x7F, 0x80, 0x82, 0xC1, 0xFF, rng.randrange(256)))
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
    rows, row_frames, rejects, reject_frames = [], [], [], []
    offset = 0
    for i, frame in enumerate(frames):
        try:
            row = row_of(decode(protocol, frame, **options))
            row["offset"] = offset
            rows.append({name: row.get(name) for name in names})
            row_frames.append(i)
        except DecodeError as error:
            rejects.append((error.rule, error.path, error.offset))
            reject_frames.append(i)
        offset += len(frame)
    assert batch.row_frames is not None and batch.reject_frames is not None
    assert batch.reject_frames.tolist() == reject_frames
    assert batch.row_frames.tolist() == row_frames
    found = [(row["rule"], row["path"], row["error_offset"]) for row in batch.rejects.to_pylist()]
    assert found == rejects
    expected = pa.RecordBatch.from_pylist(rows, schema(declared, names))
    assert batch.records.schema == expected.schema
    batch.records.validate(full=True)
    if not batch.records.equals(expected):
        for i, (got, want) in enumerate(zip(batch.records.to_pylist(), expected.to_pylist(), strict=True)):
            assert repr(got) == repr(want), frames[row_frames[i]].hex()
    return len(rows), len(rejects)


Told = tuple[int, int, str, str, int | None]


def record_events(protocol: str, chunks: Sequence[bytes], **options: Any) -> list[Told]:
    """What the stream decoder tells: offset, length, and the message's name or rule, path and offset."""
    decoder = StreamDecoder(protocol, **options)
    told: list[Told] = []
    for events in (*map(decoder.feed, chunks), decoder.finish()):
        for event in events:
            if isinstance(event, Decoded):
                told.append((event.offset, event.length, event.message.to_json()["message"], "", None))
            else:
                told.append((event.offset, event.length, event.error.rule, event.error.path, event.error.offset))
    return told


def columnar_events(protocol: str, chunks: Sequence[bytes], **options: Any) -> list[Told]:
    """The same from the columnar decoder."""
    decoder = ColumnarDecoder(protocol, **options)
    told: list[Told] = []
    for batches in (*map(decoder.feed, chunks), decoder.finish()):
        for batch in batches:
            told += [(r["offset"], r["length"], r["message"], "", None) for r in batch.records.to_pylist()]
            told += [
                (r["offset"], r["length"], r["rule"], r["path"], r["error_offset"]) for r in batch.rejects.to_pylist()
            ]
    return sorted(told)


def split(data: bytes, rng: random.Random, most: int) -> list[bytes]:
    """The data in random pieces."""
    pieces = []
    at = 0
    while at < len(data):
        size = rng.randrange(1, most + 1)
        pieces.append(data[at : at + size])
        at += size
    return pieces
