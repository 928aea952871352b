"""Streams: any split gives the same events, every byte is accounted for, and broken bytes cost little."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.differential import split
from tests.vectors.load import PROTOCOLS
from wirelake import StreamDecoder, decode, encode
from wirelake.codec.frame import measure
from wirelake.codec.stream import MAX_QUARANTINE, Decoded, Event, Quarantined
from wirelake.codec.walk import Seen, walk
from wirelake.errors import DecodeError
from wirelake.generate import generate
from wirelake.protocols import ceda, load
from wirelake.spec import Cell
from wirelake.spec.resolve import Layout, candidates

READINGS: list[tuple[str, dict[str, Any]]] = [
    ("casual", {}),
    ("dsa", {"mode": "strict"}),
    ("dsa", {"mode": "compat"}),
    ("mb", {"profile": "strict"}),
    ("mb", {"profile": "upstream"}),
    ("ceda", {"dialect": "ceda4"}),
    ("ceda", {"dialect": "ceda4-ws"}),
    ("ceda", {"dialect": "auto"}),
]
readings = pytest.mark.parametrize(
    ("protocol", "options"), READINGS, ids=["-".join([name, *options.values()]) for name, options in READINGS]
)


@lru_cache(maxsize=32)
def traffic(protocol: str, dialect: str = "") -> tuple[tuple[bytes, ...], ...]:
    """The frames of realistic streams, one direction of one connection each."""
    streams = defaultdict(list)
    for event in generate(protocol, messages=1500, seed=7, **({"dialect": dialect} if dialect else {})):
        streams[event.connection, event.direction].append(event.frame)
    return tuple(tuple(frames) for frames in streams.values() if len(frames) >= 12)


def speaking(protocol: str, options: dict[str, Any]) -> tuple[tuple[bytes, ...], ...]:
    """Realistic streams in the dialect that the options read."""
    dialect = options.get("dialect", "")
    return traffic(protocol, dialect if dialect != "auto" else "")


def events_of(protocol: str, pieces: Sequence[bytes], options: dict[str, Any]) -> list[Event]:
    """All events; checks at every step that the bytes add up, and at the end that every byte is told once."""
    decoder = StreamDecoder(protocol, **options)
    events: list[Event] = []
    for piece in pieces:
        events += decoder.feed(piece)
        assert decoder.bytes_decoded + decoder.bytes_quarantined + decoder.pending == decoder.bytes_in
    events += decoder.finish()
    assert decoder.pending == 0
    assert decoder.bytes_in == sum(map(len, pieces))
    assert decoder.messages == sum(isinstance(event, Decoded) for event in events)
    position = 0
    for event in events:
        assert event.offset == position
        position += event.length
    assert position == decoder.bytes_in
    return events


def told(events: list[Event]) -> list[Any]:
    """Events as plain values, to be compared."""
    return [
        (event.offset, event.message.to_json())
        if isinstance(event, Decoded)
        else (event.offset, event.length, event.error.rule, event.error.path, event.error.offset, event.data)
        for event in events
    ]


# --- splits


def damaged(frames: Sequence[bytes], rng: random.Random) -> bytes:
    """Some frames in a row, with garbage in, bytes out, or bytes changed."""
    first = rng.randrange(len(frames))
    data = bytearray(b"".join(frames[first : first + rng.randrange(1, 20)]))
    for _ in range(rng.randrange(4)):
        at = rng.randrange(len(data) + 1)
        data[at : at + rng.choice((0, 0, 1, 7, 40))] = rng.randbytes(rng.choice((0, 1, 1, 5, 60)))
    return bytes(data)


@readings
def test_any_split_of_a_stream_gives_the_same_events(protocol: str, options: dict[str, Any]) -> None:
    rng = random.Random(21)
    streams = speaking(protocol, options)
    for _ in range(25):
        data = damaged(rng.choice(streams), rng)
        whole = told(events_of(protocol, [data], options))
        for most in (1, 3, 17, 300):
            assert told(events_of(protocol, split(data, rng, most), options)) == whole


@readings
@settings(max_examples=60)
@given(data=st.data())
def test_any_split_of_any_mixture_gives_the_same_events(
    protocol: str, options: dict[str, Any], data: st.DataObject
) -> None:
    frames = speaking(protocol, options)[0][:40]
    short = [frame for frame in frames if len(frame) < 300]
    pieces = data.draw(st.lists(st.sampled_from(short) | st.binary(max_size=12), max_size=8))
    stream = b"".join(pieces)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    parts = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    assert told(events_of(protocol, parts, options)) == told(events_of(protocol, [stream], options))


@readings
def test_noise_gives_events_and_nothing_else(protocol: str, options: dict[str, Any]) -> None:
    rng = random.Random(22)
    for size in (1, 2, 3, 7, 31, 64, 500, 5000):
        data = rng.randbytes(size)
        whole = told(events_of(protocol, [data], options))
        assert told(events_of(protocol, split(data, rng, 11), options)) == whole


@readings
def test_bytes_that_look_like_headers_give_events_and_nothing_else(protocol: str, options: dict[str, Any]) -> None:
    rng = random.Random(23)
    for _ in range(30):
        data = bytes(rng.choice(b"\x00\x00\x01\x07\x0f\x82\x7e\x7f\x80\xfe\xffrequest:\n") for _ in range(300))
        whole = told(events_of(protocol, [data], options))
        assert told(events_of(protocol, split(data, rng, 9), options)) == whole


# --- one flipped byte


@dataclass
class Flip:
    """A stream of messages in which one byte is another."""

    frames: Sequence[bytes]
    at: int
    value: int

    @property
    def starts(self) -> list[int]:
        found = [0]
        for frame in self.frames:
            found.append(found[-1] + len(frame))
        return found

    @property
    def data(self) -> bytes:
        whole = b"".join(self.frames)
        return whole[: self.at] + bytes([self.value]) + whole[self.at + 1 :]

    def hurt(self) -> int:
        """The number of the message that holds the byte."""
        return max(i for i, start in enumerate(self.starts[:-1]) if start <= self.at)


def claimed_end(flip: Flip, layouts: Sequence[Layout]) -> int:
    """Where the hurt message now says that it ends (the furthest, where readings differ), else its true end."""
    first = flip.hurt()
    start, end = flip.starts[first], flip.starts[first + 1]
    claims = [end]
    for reading in layouts:
        with suppress(DecodeError):
            claims.append(start + measure(reading, flip.data, start, len(flip.data)).length)
    others = [claim for claim in claims if claim != end]
    return max(others, default=end)


def allowed_losses(flip: Flip, layouts: Sequence[Layout]) -> int:
    """One message; if the frame's length is false, those that it covers and one more."""
    first, end = flip.hurt(), claimed_end(flip, layouts)
    if end == flip.starts[first + 1]:
        return 1
    return 1 + sum(start < end for start in flip.starts[first:-1])


def losses(flip: Flip, protocol: str, options: dict[str, Any]) -> int:
    """Messages that are no longer found where they were, with their length."""
    events = events_of(protocol, [flip.data], options)
    found = {(event.offset, event.length) for event in events if isinstance(event, Decoded)}
    places = zip(flip.starts[:-1], map(len, flip.frames), strict=True)
    return sum(place not in found for place in places)


def draw_flip(streams: Sequence[Sequence[bytes]], rng: random.Random) -> Flip:
    frames = rng.choice(streams)
    first = rng.randrange(len(frames) - 11)
    window = frames[first : first + 12]
    at = rng.randrange(sum(map(len, window)))
    value = b"".join(window)[at] ^ rng.randrange(1, 256)
    return Flip(window, at, value)


FLIPS = 10_000


@readings
def test_one_flipped_byte_costs_one_message_or_what_a_false_length_covers_and_one_more(
    protocol: str, options: dict[str, Any]
) -> None:
    framing = {"framing": "tcp"} if protocol == "mb" else {}
    layouts = candidates(load(protocol), **options, **framing)
    streams = [[frame for frame in frames if len(frame) < 600] for frames in speaking(protocol, options)]
    streams = [frames for frames in streams if len(frames) >= 12]
    rng = random.Random(31)
    broken = []
    for _ in range(FLIPS):
        flip = draw_flip(streams, rng)
        lost = losses(flip, protocol, options)
        if lost and lost > allowed_losses(flip, layouts):
            broken.append(f"{lost} lost: {flip.data.hex()} flipped at {flip.at}")
    assert not broken, "\n".join([f"{len(broken)} of {FLIPS}", *sorted(broken, key=len)[:3]])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_byte_outside_lengths_and_counts_never_moves_the_end_of_a_frame(protocol: str) -> None:
    """So the promise for such bytes is one message at most: what the frame claims can only change in its length."""
    options = {"dialect": "ceda4"} if protocol == "ceda" else {"framing": "tcp"} if protocol == "mb" else {}
    (reading,) = candidates(load(protocol), **options)
    rng = random.Random(32)
    frames = [frame for frame in traffic(protocol)[0] if len(frame) < 600][:60]
    for frame in frames:
        trace: list[Seen] = []
        walk(reading, frame, trace)
        lengths = {
            at
            for seen in trace
            if seen.what in ("length", "count")
            for at in range(seen.offset, seen.offset + seen.length)
        }
        for at in range(len(frame)):
            changed = frame[:at] + bytes([frame[at] ^ rng.randrange(1, 256)]) + frame[at + 1 :]
            try:
                moved = measure(reading, changed, 0, len(changed)).length != len(frame)
            except DecodeError:
                continue
            assert not moved or at in lengths


# --- quarantine and resynchronisation


HEARTBEAT = bytes.fromhex("820101")
PUBLISH = encode(ceda.Publish(topic="T", record=(Cell(1, "INT", 5),)), dialect="ceda4")


def shapes(events: list[Event]) -> list[tuple[str, int, int]]:
    return [(type(event).__name__, event.offset, event.length) for event in events]


def test_a_clean_frame_is_believed_at_once_whatever_follows() -> None:
    decoder = StreamDecoder("ceda", dialect="ceda4")
    assert shapes(decoder.feed(HEARTBEAT)) == [("Decoded", 0, 3)]
    assert shapes(decoder.feed(PUBLISH + b"\xff")) == [("Decoded", 3, len(PUBLISH))]


def test_a_bad_frame_costs_itself_if_another_begins_at_its_end() -> None:
    bad = bytes.fromhex("820302 8201")
    events = events_of("ceda", [HEARTBEAT + bad + HEARTBEAT], {"dialect": "ceda4"})
    assert shapes(events) == [("Decoded", 0, 3), ("Quarantined", 3, 5), ("Decoded", 8, 3)]
    assert isinstance(events[1], Quarantined)
    assert (events[1].error.rule, events[1].error.offset) == ("unknown_code", 2)
    assert events[1].data == bad


def test_a_bad_frame_is_searched_from_its_second_byte_if_none_begins_at_its_end() -> None:
    stream = bytes.fromhex("8205 02") + HEARTBEAT + HEARTBEAT + PUBLISH
    assert shapes(events_of("ceda", [stream], {"dialect": "ceda4"})) == [
        ("Quarantined", 0, 3),
        ("Decoded", 3, 3),
        ("Decoded", 6, 3),
        ("Decoded", 9, len(PUBLISH)),
    ]


def test_garbage_between_frames_is_one_quarantined_range() -> None:
    for protocol in PROTOCOLS:
        frames = traffic(protocol)[0]
        garbage = b"\xee" * 37
        events = events_of(protocol, [frames[0] + garbage + frames[1] + frames[2]], {})
        assert shapes(events) == [
            ("Decoded", 0, len(frames[0])),
            ("Quarantined", len(frames[0]), 37),
            ("Decoded", len(frames[0]) + 37, len(frames[1])),
            ("Decoded", len(frames[0]) + 37 + len(frames[1]), len(frames[2])),
        ]


def test_a_stream_that_begins_inside_a_frame_loses_only_that_one() -> None:
    for protocol in PROTOCOLS:
        frames = [frame for frame in traffic(protocol)[0] if len(frame) > 12][:6]
        for cut in (1, 5, len(frames[0]) // 2, len(frames[0]) - 1):
            events = events_of(protocol, [b"".join(frames)[cut:]], {})
            rest = [event.message for event in events if isinstance(event, Decoded)][-5:]
            framing = {"framing": "tcp"} if protocol == "mb" else {}
            assert [message.wire_length for message in rest] == [len(frame) for frame in frames[1:]]
            assert rest == [decode(protocol, frame, **framing) for frame in frames[1:]]


def test_a_fault_inside_a_message_is_told_with_its_path() -> None:
    bad = bytearray(PUBLISH)
    bad[4] = 0xFF
    events = events_of("ceda", [bytes(bad) + HEARTBEAT], {"dialect": "ceda4"})
    assert isinstance(events[0], Quarantined)
    assert str(events[0].error).startswith("ceda publish topic at byte 4: is not UTF-8 [text_utf8]")


def test_the_end_of_a_stream_inside_a_frame_is_told_as_incomplete() -> None:
    for protocol in PROTOCOLS:
        frames = traffic(protocol)[0]
        decoder = StreamDecoder(protocol)
        assert shapes(decoder.feed(frames[0] + frames[1][:-1])) == [("Decoded", 0, len(frames[0]))]
        assert decoder.pending == len(frames[1]) - 1
        (event,) = decoder.finish()
        assert isinstance(event, Quarantined)
        assert event.error.incomplete
        assert (event.offset, event.length) == (len(frames[0]), len(frames[1]) - 1)


def test_a_stream_that_ends_between_frames_ends_silently() -> None:
    decoder = StreamDecoder("ceda")
    decoder.feed(HEARTBEAT)
    assert decoder.finish() == []
    assert StreamDecoder("ceda").finish() == []


# --- false lengths


def with_false_length(protocol: str, frames: Sequence[bytes]) -> bytes:
    """The first frame claims much more than there is, within its limit."""
    first = bytearray(frames[0])
    match protocol:
        case "casual":
            first[29] = 0x10
        case "dsa":
            first[1] = 0xBF
        case "mb":
            first[2] = 0x40
        case _:
            first[1:2] = b"\x7e\x00\x60"
    return bytes(first) + b"".join(frames[1:])


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_false_length_is_pending_until_the_stream_ends_and_hides_nothing_then(protocol: str) -> None:
    frames = [frame for frame in traffic(protocol)[0] if len(frame) > 10][:10]
    options = {"dialect": "ceda4"} if protocol == "ceda" else {}
    data = with_false_length(protocol, frames)
    decoder = StreamDecoder(protocol, **options)
    assert decoder.feed(data) == []
    assert decoder.pending == len(data)
    events = decoder.finish()
    assert [event.length for event in events if isinstance(event, Decoded)] == [len(frame) for frame in frames[1:]]
    assert isinstance(events[0], Quarantined)


def test_a_false_length_that_is_filled_is_searched_inside() -> None:
    frames = traffic("casual")[0]
    covered = b"".join(frames[1:])[:4000]
    first = bytearray(frames[0])
    first[24:32] = (len(first) - 32 + len(covered)).to_bytes(8, "big")
    decoder = StreamDecoder("casual")
    data = bytes(first) + covered
    assert decoder.feed(data[:-1]) == []
    found = [event for event in decoder.feed(data[-1:] + b"\xff" * 40) if isinstance(event, Decoded)]
    assert len(found) >= 5


def test_a_length_above_its_limit_does_not_wait() -> None:
    frames = traffic("casual")[0]
    first = bytearray(frames[0])
    first[24] = 0x7F
    decoder = StreamDecoder("casual")
    events = decoder.feed(bytes(first) + b"".join(frames[1:4]))
    assert [event.length for event in events if isinstance(event, Decoded)] == [len(frame) for frame in frames[1:4]]


# --- memory


def peak_of(protocol: str, piece: bytes, times: int, options: dict[str, Any]) -> int:
    decoder = StreamDecoder(protocol, **options)
    tracemalloc.start()
    for _ in range(times):
        decoder.feed(piece)
        assert decoder.pending < 1 << 22
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@readings
def test_memory_does_not_grow_with_the_stream(protocol: str, options: dict[str, Any]) -> None:
    piece = b"".join(speaking(protocol, options)[0][:200])
    assert peak_of(protocol, piece, 3, options) * 2 + (1 << 20) > peak_of(protocol, piece, 30, options)


@readings
def test_memory_does_not_grow_with_garbage(protocol: str, options: dict[str, Any]) -> None:
    piece = b"\xee" * 65536
    assert peak_of(protocol, piece, 60, options) < 8 * MAX_QUARANTINE


def test_a_long_bad_range_is_told_in_pieces() -> None:
    events = events_of("ceda", [b"\xee" * (3 * MAX_QUARANTINE + 5)], {"dialect": "ceda4"})
    assert [event.length for event in events] == [MAX_QUARANTINE] * 3 + [5]
    assert all(isinstance(event, Quarantined) and event.error.rule == "magic" for event in events)


# --- use


def test_frames_without_a_length_cannot_be_streamed() -> None:
    with pytest.raises(ValueError, match="frames of mb without a length cannot be told apart in a stream"):
        StreamDecoder("mb", framing="message")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind_are_fed(kind: Any) -> None:
    decoder = StreamDecoder("ceda")
    assert shapes(decoder.feed(kind(HEARTBEAT))) == [("Decoded", 0, 3)]


def test_a_stream_may_go_on_after_a_pause_of_nothing() -> None:
    decoder = StreamDecoder("ceda")
    assert decoder.feed(b"") == []
    assert decoder.feed(HEARTBEAT[:1]) == []
    assert decoder.feed(b"") == []
    assert shapes(decoder.feed(HEARTBEAT[1:])) == [("Decoded", 0, 3)]


# --- time


def seconds(protocol: str, data: bytes, options: dict[str, Any]) -> float:
    start = time.perf_counter()
    events_of(protocol, [data[at : at + 65536] for at in range(0, len(data), 65536)], options)
    return time.perf_counter() - start


def test_a_stream_full_of_headers_takes_linear_time() -> None:
    """Every 32 bytes a header claims a quarter of the stream: decoding all those frames would take hours for 64 MB."""

    def headers(size: int) -> bytes:
        header = (3100).to_bytes(8, "big") + bytes(16) + (size // 4).to_bytes(8, "big")
        return b"\xff" * 32 + header * (size // 32)

    assert seconds("casual", headers(1 << 19), {}) < 5
    assert seconds("casual", headers(1 << 20), {}) < 10


@pytest.mark.parametrize("options", [{"dialect": "ceda4"}, {"dialect": "auto"}], ids=["ceda4", "auto"])
def test_a_stream_full_of_magic_takes_linear_time(options: dict[str, Any]) -> None:
    assert seconds("ceda", b"\xff" + bytes.fromhex("827effff61") * 8000, options) < 10
