"""Streams of bytes out of packets that come late, twice, in pieces, or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.capture import hostile
from tests.capture.following import Followed, Follower, follow, plain
from tests.capture.hostile import ACK, FIN, LOW32, PSH, RST, SYN, Packet
from tests.capture.reloading import reloaded
from tests.needs import require
from wirelake.capture.read import open_capture
from wirelake.capture.tcp import Tracker
from wirelake.capture.tcp_state import TrackerState
from wirelake.kernels import tcp_rows

S = 1_000_000_000
"""A second in nanoseconds."""


@pytest.fixture
def packets(tmp_path: Path) -> list[Packet]:
    return plain(tmp_path / "plain.pcap")


def sent(packets: list[Packet]) -> list[tuple[Any, ...]]:
    return [
        (stream.client, stream.server, bytes(stream.to_server), bytes(stream.to_client), stream.ended)
        for stream in hostile.streams(packets)
    ]


def told(found: list[Followed]) -> list[tuple[Any, ...]]:
    return [(*one.ends, one.stream(0), one.stream(1), one.connection.ended) for one in found]


# --- whole captures, turned over

MISCHIEF: dict[str, Callable[[list[Packet], Random], list[Packet]]] = {
    "nothing": lambda packets, rng: packets,
    "reordered": hostile.reorder,
    "duplicated": hostile.duplicate,
    "retransmitted": hostile.retransmit,
    "overlapping": hostile.resegment,
    "acknowledged first": lambda packets, rng: hostile.acknowledge_first(packets),
    "wrapped": lambda packets, rng: hostile.wrap(packets),
    "everything": lambda packets, rng: hostile.reorder(
        hostile.duplicate(hostile.resegment(hostile.retransmit(hostile.wrap(packets), rng), rng), rng), rng
    ),
}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", MISCHIEF)
def test_whatever_happens_to_packets_the_streams_are_those_that_were_sent(
    name: str, seed: int, packets: list[Packet], tmp_path: Path
) -> None:
    turned = MISCHIEF[name](packets, Random(seed))
    found, (counts,) = follow(hostile.write_pcap(tmp_path / "a.pcap", turned))
    assert told(found) == sent(packets)
    assert counts.missing_bytes == 0
    assert counts.repeated_bytes == sum(len(one.data) for one in turned) - sum(len(one.data) for one in packets)


@pytest.mark.parametrize("seed", range(3))
def test_lost_segments_are_gaps_and_nothing_else_is(seed: int, packets: list[Packet], tmp_path: Path) -> None:
    kept, missing = hostile.drop(packets, Random(seed), keep_ends=True)
    turned = hostile.reorder(hostile.duplicate(kept, Random(seed)), Random(seed))
    found, _ = follow(hostile.write_pcap(tmp_path / "a.pcap", turned))
    assert sum(length for spans in missing.values() for _, length in spans) > 1000
    for number, (one, (_, _, *streams, ended)) in enumerate(zip(found, sent(packets), strict=True)):
        assert one.connection.ended == ended
        for direction, name in enumerate(("to_server", "to_client")):
            expected = bytearray(streams[direction])
            for offset, length in missing.get((number, name), []):
                expected[offset : offset + length] = bytes(length)
            assert one.gaps(direction) == missing.get((number, name), [])
            assert one.stream(direction) == expected


def test_the_same_ports_used_again_are_another_connection(packets: list[Packet], tmp_path: Path) -> None:
    for turned in (hostile.reuse_ports(packets), hostile.without_end(hostile.reuse_ports(packets))):
        found, _ = follow(hostile.write_pcap(tmp_path / "a.pcap", turned))
        assert [row[:4] for row in told(found)] == [row[:4] for row in sent(turned)]
        assert len({one.connection.id for one in found}) == 6
        assert all(one.connection.ended == "closed" for one in found[:3])


def test_connections_that_began_before_the_capture_are_read(packets: list[Packet], tmp_path: Path) -> None:
    turned = hostile.without_handshake(packets)
    found, (counts,) = follow(hostile.write_pcap(tmp_path / "a.pcap", turned), ports=[7771])
    assert sorted(told(found)) == sorted(sent(packets))
    assert not any(one.connection.is_whole for one in found) and counts.missing_bytes == 0


def test_who_called_is_told_by_the_port_map_else_by_the_higher_port(tmp_path: Path) -> None:
    packets = hostile.without_handshake(plain(tmp_path / "plain.pcap"))
    path = hostile.write_pcap(tmp_path / "a.pcap", packets)
    assert {one.ends[1] for one in follow(path)[0]} == {("10.0.0.2", 7771)}
    ports = [40000, 40001, 40002]
    assert {one.ends[0] for one in follow(path, ports=ports)[0]} == {("10.0.0.2", 7771)}
    assert {one.ends[1] for one in follow(path, ports=[*ports, 7771])[0]} == {("10.0.0.2", 7771)}


def test_a_rotated_set_gives_what_one_file_gives(packets: list[Packet], tmp_path: Path) -> None:
    turned = MISCHIEF["everything"](packets, Random(7))
    whole, _ = follow(hostile.write_pcap(tmp_path / "a.pcap", turned))
    paths = hostile.write_rotated(tmp_path, turned, 40)
    parts, counts = follow(paths)
    assert streams_of(parts) == streams_of(whole)
    assert sum(one.packets for one in counts) == len(turned)
    positions = [piece.position for one in parts for piece in one.pieces[0] + one.pieces[1]]
    assert -1 in positions


# --- windows, marks, snapshots


def streams_of(found: list[Followed]) -> Any:
    """Everything that must not depend on how a capture was read, but for positions (``is_over`` is about windows)."""
    return {
        one.connection.id: (
            *((name, getattr(one.connection, name)) for name in one.connection.__slots__ if name != "is_over"),
            *([(p.offset, p.length, p.ts, p.data) for p in pieces] for pieces in one.pieces),
        )
        for one in found
    }


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Path, Any]]:
    """Captures in which a lot is held, lost and given up at any time; and what reading them at once gives."""
    directory = tmp_path_factory.mktemp("turned")
    captures = []
    for seed in range(3):
        packets = plain(directory / "plain.pcap", packets=500, connections=4, seed=seed)
        again = hostile.reuse_ports(packets)
        kept, _ = hostile.drop(again, Random(seed), share=0.1)
        mixed = hostile.foreign(hostile.reorder(hostile.resegment(kept, Random(seed)), Random(seed)), Random(seed))
        # Slow enough for holes to be given up while the connection goes on.
        slow = [replace(one, ts_ns=mixed[0].ts_ns + (one.ts_ns - mixed[0].ts_ns) * 30) for one in mixed]
        for write, name in ((hostile.write_pcap, "pcap"), (hostile.write_pcapng, "pcapng")):
            path = write(directory / f"{seed}.{name}", slow)
            found, (counts,) = follow(path)
            assert counts.missing_bytes > 0
            captures.append((path, (streams_of(found), counts)))
    return captures


@settings(max_examples=40)
@given(data=st.data(), window=st.integers(1, 1 << 20) | st.integers(1, 4000))
def test_chunks_do_not_depend_on_windows_and_stops(
    data: st.DataObject, window: int, turned: list[tuple[Path, Any]]
) -> None:
    path, (expected, expected_counts) = data.draw(st.sampled_from(turned), label="capture")
    share = data.draw(st.sampled_from([0.0, 0.3, 1.0]), label="share of windows after which reading stops")
    rng = Random(data.draw(st.integers(0, 1000)))
    tracker, follower, start, packets = Tracker(), Follower(), None, 0
    is_done = False
    while not is_done:
        reader = open_capture(path, tracker, start=start, window=max(window, 1 << 10))
        is_done = True
        for chunks in reader:
            follower.add(chunks)
            if rng.random() < share:
                start, is_done = reloaded(reader.resume_point()), False
                tracker = Tracker(reloaded(tracker.state()))
                break
        packets += reader.counts.packets
    follower.add(tracker.finish())
    assert streams_of(list(follower.all.values())) == expected
    assert packets == expected_counts.packets


@settings(max_examples=20)
@given(data=st.data())
def test_a_range_with_the_state_of_its_own_connections_gives_its_part(
    data: st.DataObject, turned: list[tuple[Path, Any]]
) -> None:
    path, (expected, _) = data.draw(st.sampled_from(turned), label="capture")
    window = data.draw(st.integers(2000, 60_000), label="window")
    tracker = Tracker()
    reader = open_capture(path, tracker, window=window)
    parts = []
    before, start = tracker.state(), None
    for chunks in reader:
        ids = {connection.id for connection in chunks.connections}
        parts.append((reloaded(before.only(ids)), start, reader.position))
        before, start = tracker.state(), reader.resume_point()
    follower = Follower()
    for known, begin, stop in parts:
        one = open_capture(path, Tracker(known), start=begin, stop=stop, window=1 << 20)
        for chunks in one:
            follower.add(chunks)
        assert one.position == stop and not one.counts.broken
    follower.add(Tracker(before).finish())
    assert streams_of(list(follower.all.values())) == expected


def test_a_state_of_some_connections_has_no_bytes_of_others(tmp_path: Path) -> None:
    packets = plain(tmp_path / "plain.pcap", packets=60)
    # Of every direction the first segment is lost, all others are held.
    lost: set[Any] = set()
    kept = [one for one in packets if not (one.data and one.way not in lost and not lost.add(one.way))]  # type: ignore[func-returns-value]
    path = hostile.write_pcap(tmp_path / "a.pcap", [one for one in kept if not one.flags & FIN])
    tracker = Tracker()
    seen = {one.id for chunks in open_capture(path, tracker) for one in chunks.connections}
    whole = tracker.state()
    parts = [whole.only([identity]) for identity in seen]
    assert sum(len(part.held) for part in parts) == len(whole.held) > 1000
    assert len(whole.only([]).held) == 0
    lengths = [int(Tracker(part).finish().length.sum()) for part in parts]
    assert sum(lengths) == int(tracker.finish().length.sum())


# --- one connection, packet by packet

CLIENT, SERVER = ("10.0.0.1", 40000), ("10.0.0.2", 7771)


class Talk:
    """Packets of one connection, told by stream offsets."""

    def __init__(self, initial: tuple[int, int] = (1000, 5000)) -> None:
        self.packets: list[Packet] = []
        self.initial = initial
        self.ts_ns = 1_700_000_000 * S

    def put(
        self, from_client: bool, flags: int, offset: int = 0, data: bytes = b"", ack: int = 0, after_ns: int = 1_000_000
    ) -> Talk:
        self.ts_ns += after_ns
        source, target = (CLIENT, SERVER) if from_client else (SERVER, CLIENT)
        mine, theirs = self.initial if from_client else self.initial[::-1]
        sequence = mine if flags & SYN else mine + 1 + offset
        acknowledged = theirs + 1 + ack if flags & ACK else 0
        self.packets.append(
            Packet(self.ts_ns, *source, *target, sequence & LOW32, acknowledged & LOW32, flags, b"", data)
        )
        return self

    def open(self) -> Talk:
        return self.put(True, SYN).put(False, SYN | ACK).put(True, ACK)

    def send(self, offset: int, data: bytes, **how: Any) -> Talk:
        return self.put(True, ACK | PSH, offset, data, **how)

    def answer(self, offset: int = 0, data: bytes = b"", **how: Any) -> Talk:
        return self.put(False, ACK, offset, data, **how)

    @property
    def now_us(self) -> int:
        return self.ts_ns // 1000

    def follow(self, path: Path, **how: Any) -> list[Followed]:
        return follow(hostile.write_pcap(path / "talk.pcap", self.packets), **how)[0]

    def before_finish(self, path: Path) -> Follower:
        """What is known without the promise that nothing more comes."""
        follower = Follower()
        for chunks in open_capture(hostile.write_pcap(path / "talk.pcap", self.packets), Tracker()):
            follower.add(chunks)
        return follower


def shown(one: Followed, direction: int = 0) -> list[tuple[int, bytes | None]]:
    return [(piece.offset, piece.data) for piece in one.pieces[direction]]


def test_a_held_segment_has_the_time_of_the_packet_that_filled_the_hole(tmp_path: Path) -> None:
    talk = Talk().open().send(3, b"def").send(0, b"abc")
    (one,) = talk.follow(tmp_path)
    assert shown(one) == [(0, b"abc"), (3, b"def")]
    assert [piece.ts for piece in one.pieces[0]] == [talk.now_us, talk.now_us]


def test_of_two_segments_that_overlap_the_one_that_begins_first_counts(tmp_path: Path) -> None:
    """Bytes that were given out stay; among held ones, tshark decides in the same way."""
    talk = Talk().open().send(0, b"aaaa").send(2, b"bbbb").send(10, b"cccc").send(8, b"dddddddd").send(12, b"eeeeee")
    talk.send(0, b"ff").send(6, b"gg")
    (one,) = talk.follow(tmp_path)
    assert one.stream(0) == b"aaaabbggddddddddee"


class Model:
    """The same with lists."""

    def __init__(self) -> None:
        self.given, self.held = bytearray(), list[tuple[int, bytes]]()

    def take(self, offset: int, data: bytes) -> None:
        for begin, content in [(0, bytes(self.given)), *self.held]:
            if begin <= offset:
                known = max(begin + len(content) - offset, 0)
                offset, data = offset + min(known, len(data)), data[known:]
        end = offset + len(data)
        if data:
            later = [
                (max(begin, end), content[max(end - begin, 0) :]) for begin, content in self.held if begin > offset
            ]
            before = [piece for piece in self.held if piece[0] <= offset]
            self.held = [*before, (offset, data), *(piece for piece in later if piece[1])]
        while self.held and self.held[0][0] == len(self.given):
            self.given += self.held.pop(0)[1]


SEGMENTS = st.lists(st.tuples(st.integers(0, 60), st.integers(1, 12)), max_size=25)


@given(segments=SEGMENTS, window=st.sampled_from([1 << 20, 300]))
def test_any_segments_give_what_a_plain_model_gives(
    segments: list[tuple[int, int]], window: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    talk, model = Talk((LOW32 - 30, 0)).open(), Model()
    for number, (offset, length) in enumerate(segments):
        talk.send(offset, bytes([number + 1]) * length)
        model.take(offset, bytes([number + 1]) * length)
    (one,) = talk.follow(tmp_path_factory.getbasetemp(), window=window)
    expected = bytes(model.given)
    for offset, data in model.held:
        expected = expected.ljust(offset, b"\0") + data
    assert one.stream(0) == expected
    places = {place for offset, length in one.gaps(0) for place in range(offset, offset + length)}
    assert places == {place for place, value in enumerate(expected) if value == 0}


@settings(max_examples=6, deadline=None)
@given(data=st.data(), seed=st.integers(0, 1000))
def test_thousands_of_held_segments_give_what_a_plain_model_gives(
    data: st.DataObject, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Long lists: links over many segments, segments that cover many others, and state put away in between."""
    rng, talk, model = Random(seed), Talk().open(), Model()
    longest = data.draw(st.sampled_from([3, 40, 2000]))
    for number in range(1500):
        offset, length = 10 + rng.randrange(6000), rng.randint(1, longest if rng.random() < 0.05 else 3)
        content = bytes([number % 255 + 1]) * length
        talk.send(offset, content, after_ns=1000)
        model.take(offset, content)
    talk.send(0, b"z" * 10, after_ns=1000)
    model.take(0, b"z" * 10)
    path = hostile.write_pcap(tmp_path_factory.getbasetemp() / "many.pcap", talk.packets)
    tracker, follower, start = Tracker(), Follower(), None
    while True:
        reader = open_capture(path, tracker, start=start, window=data.draw(st.sampled_from([8000, 40_000])))
        chunks = next(iter(reader), None)
        if chunks is None:
            break
        follower.add(chunks)
        start, tracker = reader.resume_point(), Tracker(reloaded(tracker.state()))
    (one,) = follower.all.values()
    assert one.stream(0) == bytes(model.given)
    assert int(tracker.held_accounts().bytes.sum()) == sum(len(content) for _, content in model.held)
    follower.add(tracker.finish())
    expected = bytes(model.given)
    for offset, content in model.held:
        expected = expected.ljust(offset, b"\0") + content
    assert one.stream(0) == expected


def test_acknowledged_bytes_are_waited_for_and_then_given_up(tmp_path: Path) -> None:
    talk = Talk().open().send(3, b"def").answer(ack=6)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == []
    talk.answer(ack=6, after_ns=2 * S - 2_000_000)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == []
    talk.answer(ack=6, after_ns=1_000_000)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == [(0, None), (3, b"def")]
    assert {piece.ts for piece in one.pieces[0]} == {talk.now_us}


def test_bytes_that_nobody_acknowledged_are_waited_for(tmp_path: Path) -> None:
    talk = Talk().open().send(3, b"def").answer(ack=0, after_ns=100 * S)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == []
    talk.send(0, b"abc")
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == [(0, b"abc"), (3, b"def")]


def test_packets_of_other_connections_tell_the_time_too(tmp_path: Path) -> None:
    talk = Talk().open().send(3, b"def").answer(ack=6)
    other = Packet(talk.ts_ns + 3 * S, "10.0.0.9", 1, "10.0.0.8", 2, 0, 0, SYN)
    talk.packets.append(other)
    one, _ = talk.before_finish(tmp_path).all.values()
    assert shown(one) == [(0, None), (3, b"def")]


def test_an_acknowledgement_alone_makes_no_gap(tmp_path: Path) -> None:
    talk = Talk().open().answer(ack=6).answer(ack=6, after_ns=10 * S).send(0, b"abcdef")
    (one,) = talk.follow(tmp_path)
    assert shown(one) == [(0, b"abcdef")]


def test_a_hole_stays_open_however_many_segments_are_held_behind_it(tmp_path: Path) -> None:
    talk = Talk().open()
    for number in range(5000):
        talk.send(10 + 2 * number, b"x", after_ns=1000)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == []
    talk.send(0, b"y" * 10)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == [(0, b"y" * 10), (10, b"x")]
    (one,) = talk.follow(tmp_path)
    assert len(one.gaps(0)) == 4999 and one.stream(0).count(b"x") == 5000


def test_too_many_held_bytes_give_the_hole_up(tmp_path: Path) -> None:
    talk = Talk().open()
    piece, most = bytes(60_000), tcp_rows.MOST_HELD_BYTES
    count = most // len(piece) + 1
    for number in range(count):
        talk.send(10 + len(piece) * number, piece, after_ns=1000)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert one.gaps(0) == [(0, 10)] and len(one.stream(0)) == 10 + count * len(piece)
    talk.packets.pop()
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == []


def test_too_many_held_segments_of_all_give_a_hole_up(tmp_path: Path) -> None:
    state = TrackerState.empty()
    state.now[tcp_rows.ELSEWHERE] = tcp_rows.MOST_HELD_OF_ALL - 10
    talk = Talk().open()
    for number in range(11):
        talk.send(10 + 2 * number, b"x", after_ns=1000)
    path = hostile.write_pcap(tmp_path / "a.pcap", talk.packets)
    (chunks,) = open_capture(path, Tracker(state))
    assert chunks.length.tolist() == [10, 1]


def test_a_hole_is_given_up_once_both_directions_have_finished_and_acknowledged_beyond_it(tmp_path: Path) -> None:
    talk = Talk().open().send(0, b"abc").send(6, b"ghi").put(True, ACK | FIN, 9).answer(0, b"x", ack=10)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == [(0, b"abc")]
    talk.put(False, ACK | FIN, 1, ack=10)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == [(0, b"abc"), (3, None), (6, b"ghi")]
    assert (one.connection.ended, one.connection.ended_us) == ("closed", talk.now_us)


def test_a_hole_that_was_not_acknowledged_stays_open_though_both_have_finished(tmp_path: Path) -> None:
    talk = Talk().open().send(0, b"abc").send(6, b"ghi").put(True, ACK | FIN, 9).put(False, ACK | FIN, 0, ack=3)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == [(0, b"abc")] and one.connection.ended == ""
    talk.send(3, b"def")
    (one,) = talk.before_finish(tmp_path).all.values()
    assert one.stream(0) == b"abcdefghi" and one.connection.ended == "closed"


def test_what_is_held_is_accounted_for_by_connection_and_direction(tmp_path: Path) -> None:
    talk = Talk().open().send(3, b"def").send(9, b"jkl").send(8, b"ijk").put(True, ACK | FIN, 20).answer(1, b"yz")
    tracker = Tracker()
    (chunks,) = open_capture(hostile.write_pcap(tmp_path / "a.pcap", talk.packets), tracker)
    (connection,) = chunks.connections
    for known in (tracker, Tracker(reloaded(tracker.state()))):
        ids, directions, held, holes = known.held_accounts()
        assert sorted(zip(ids, directions.tolist(), held.tolist(), holes.tolist(), strict=True)) == [
            (connection.id, 0, 7, 3),
            (connection.id, 1, 2, 1),
        ]
    tracker.finish()
    assert tracker.held_accounts().connections == []


def nearly_full(spare_bytes: int) -> Tracker:
    """A tracker that believes that connections which it need not know hold almost all that may be held."""
    state = TrackerState.empty()
    state.now[tcp_rows.ELSEWHERE_BYTES] = tcp_rows.MOST_HELD_BYTES_OF_ALL - spare_bytes
    return Tracker(state)


def test_of_all_that_is_held_the_longest_waiting_is_given_up_and_acknowledged_holes_first(tmp_path: Path) -> None:
    talk = Talk()
    ways = [(f"10.1.0.{number}", 50_000, "10.0.0.2", 7771) for number in range(4)]
    for way in ways:
        talk.ts_ns += 1000
        talk.packets.append(Packet(talk.ts_ns, *way, 999, 0, SYN))
        talk.packets.append(Packet(talk.ts_ns, *way, 1010, 0, ACK, data=b"x" * 100))
        if way == ways[2]:
            talk.packets.append(Packet(talk.ts_ns, *way[2:], *way[:2], 1, 1110, ACK))
    path = hostile.write_pcap(tmp_path / "a.pcap", talk.packets)
    for spare, given_up in ((400, []), (399, [2]), (299, [0, 2]), (199, [0, 1, 2]), (99, [0, 1, 2, 3])):
        tracker = nearly_full(spare)
        follower = Follower()
        for chunks in open_capture(path, tracker):
            follower.add(chunks)
        found = list(follower.all.values())
        assert [number for number, one in enumerate(found) if one.gaps(0)] == given_up
        assert [len(one.stream(0)) for one in found if one.gaps(0)] == [110] * len(given_up)


def test_what_is_given_up_does_not_depend_on_which_connections_a_state_has(tmp_path: Path) -> None:
    talk = Talk()
    ways = [(f"10.1.0.{number}", 50_000, "10.0.0.2", 7771) for number in range(6)]
    for way in ways:
        talk.ts_ns += 1000
        talk.packets.append(Packet(talk.ts_ns, *way, 999, 0, SYN))
    for k in range(40):
        talk.ts_ns += 1000
        talk.packets.append(Packet(talk.ts_ns, *ways[k * k % 6], 1010 + 200 * k, 0, ACK, data=b"x" * 100))
    path = hostile.write_pcap(tmp_path / "a.pcap", talk.packets)
    whole, parts = Follower(), Follower()
    tracker, before, start = nearly_full(900), nearly_full(900).state(), None
    reader = open_capture(path, tracker, window=1024)
    for chunks in reader:
        whole.add(chunks)
        known = Tracker(reloaded(before.only({connection.id for connection in chunks.connections})))
        for part in open_capture(path, known, start=start, stop=reader.position):
            parts.add(part)
        before, start = tracker.state(), reader.resume_point()
    whole.add(tracker.finish())
    parts.add(Tracker(before).finish())
    assert streams_of(list(parts.all.values())) == streams_of(list(whole.all.values()))
    assert sum(len(one.gaps(0)) for one in whole.all.values()) >= 40


def test_a_fin_waits_for_the_bytes_before_it(tmp_path: Path) -> None:
    talk = Talk().open().put(True, ACK | FIN, 3).put(False, ACK | FIN, 0, ack=0)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert one.connection.ended == ""
    talk.send(0, b"abc").put(False, ACK, 1, ack=4)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert (one.stream(0), one.connection.ended) == (b"abc", "closed")
    assert one.connection.ended_us == talk.now_us - 1000 and one.connection.last_us == talk.now_us


def test_bytes_missing_before_a_fin_are_a_gap_in_the_end(tmp_path: Path) -> None:
    talk = Talk().open().put(True, ACK | FIN, 3).put(False, ACK | FIN, ack=4).put(True, ACK, 4, ack=1)
    (one,) = talk.follow(tmp_path)
    assert one.gaps(0) == [(0, 3)] and one.connection.ended == "closed"
    talk.packets.append(Packet(talk.ts_ns + 3 * S, "10.0.0.9", 1, "10.0.0.8", 2, 0, 0, SYN))
    one, _ = talk.before_finish(tmp_path).all.values()
    assert one.gaps(0) == [(0, 3)] and one.connection.ended == "closed"


def test_a_reset_ends_the_connection_and_gives_out_what_is_held(tmp_path: Path) -> None:
    talk = Talk().open().send(3, b"def").put(False, RST | ACK, 0, ack=0).send(6, b"ghi")
    path = hostile.write_pcap(tmp_path / "a.pcap", talk.packets)
    (one, later), (counts,) = follow(path)
    assert shown(one) == [(0, None), (3, b"def")]
    assert one.connection.ended == "reset" and counts.repeated_bytes == 0
    assert shown(later) == [(0, b"ghi")] and later.connection.ended == "" and not later.connection.is_whole


def test_a_reset_with_a_number_from_elsewhere_is_none(tmp_path: Path) -> None:
    talk = Talk().open().send(0, b"abc").put(True, RST, 1 << 29).send(3, b"def")
    (one,) = talk.follow(tmp_path)
    assert one.stream(0) == b"abcdef" and one.connection.ended == ""


def test_a_refused_connection_that_is_tried_again_is_another(tmp_path: Path) -> None:
    talk = Talk().put(True, SYN).put(False, RST | ACK, -1).open().send(0, b"abc")
    refused, one = talk.follow(tmp_path)
    assert refused.connection.ended == "reset" and one.connection.ended == ""
    assert one.stream(0) == b"abc" and one.connection.is_whole


def test_a_repeated_syn_begins_nothing(tmp_path: Path) -> None:
    talk = Talk().put(True, SYN).open().send(0, b"abc").put(True, SYN).put(False, SYN | ACK).send(3, b"def")
    (one,) = talk.follow(tmp_path)
    assert one.stream(0) == b"abcdef"


def test_a_handshake_in_any_order_is_one_connection(tmp_path: Path) -> None:
    first = Talk().open().send(0, b"abc").answer(0, b"xyz", ack=3).packets
    for order in ([1, 0, 2, 3, 4], [2, 0, 1, 3, 4], [3, 0, 1, 2, 4], [1, 2, 3, 4, 0], [0, 2, 3, 1, 4], [0, 3, 4, 1, 2]):
        talk = Talk()
        talk.packets = hostile._in_time([first[k] for k in order], first)
        (one,) = talk.follow(tmp_path)
        assert told([one]) == [(CLIENT, SERVER, b"abc", b"xyz", "")], order
        assert one.connection.is_whole


def test_a_lost_answer_to_the_syn_hides_no_hole(tmp_path: Path) -> None:
    talk = Talk().put(True, SYN).put(True, ACK).answer(3, b"def").answer(0, b"abc")
    (one,) = talk.follow(tmp_path)
    assert one.stream(1) == b"abcdef"


def test_bytes_from_before_the_first_segment_are_counted_as_early(tmp_path: Path) -> None:
    talk = Talk().send(3, b"def").send(0, b"abcd")
    (one,), (counts,) = follow(hostile.write_pcap(tmp_path / "a.pcap", talk.packets))
    assert one.stream(0) == b"def"
    assert (counts.early_bytes, counts.repeated_bytes) == (3, 1)


def test_a_packet_that_asks_whether_the_peer_is_there_is_no_data(tmp_path: Path) -> None:
    talk = Talk().put(True, ACK, 99, b"\0").answer(0, b"xyz", ack=100).put(True, ACK, 99).send(100, b"abc")
    (one,) = talk.follow(tmp_path)
    assert (one.stream(0), one.stream(1)) == (b"abc", b"xyz")


def test_late_packets_of_an_ended_connection_begin_no_other(tmp_path: Path) -> None:
    talk = Talk().open().send(0, b"abc").put(True, ACK | FIN, 3).put(False, ACK | FIN, ack=4)
    talk.send(0, b"abc").put(False, RST, 1).put(True, ACK, 4, ack=1, after_ns=200 * S)
    path = hostile.write_pcap(tmp_path / "a.pcap", talk.packets)
    (one,), (counts,) = follow(path)
    assert one.connection.ended == "closed" and counts.repeated_bytes == 3
    talk.send(50, b"new", after_ns=S)
    _, new = talk.follow(tmp_path)
    assert new.stream(0) == b"new" and not new.connection.is_whole


def test_a_gap_of_gigabytes_is_one_gap(tmp_path: Path) -> None:
    jump = 3_000_000_000
    talk = Talk().open().send(0, b"abc").send(jump, b"def", ack=0)
    (one,) = talk.before_finish(tmp_path).all.values()
    assert shown(one) == [(0, b"abc")]
    follower = Follower()
    tracker = Tracker()
    for chunks in open_capture(tmp_path / "talk.pcap", tracker):
        follower.add(chunks)
    chunks = tracker.finish()
    assert chunks.length.tolist() == [jump - 3, 3] and chunks.start[0] == -1


def test_a_stream_of_more_than_four_gigabytes_has_offsets_beyond(tmp_path: Path) -> None:
    talk = Talk().open()
    step = 1 << 30
    for number in range(12):
        talk.send(number * step, b"abc").answer(ack=number * step + 3).answer(ack=number * step + 3, after_ns=3 * S)
    tracker = Tracker()
    offsets = [
        int(offset)
        for chunks in open_capture(hostile.write_pcap(tmp_path / "a.pcap", talk.packets), tracker)
        for offset, start in zip(chunks.offset, chunks.start, strict=True)
        if start >= 0
    ]
    assert offsets == [number * step for number in range(12)]


def test_ended_connections_are_forgotten(tmp_path: Path) -> None:
    """Memory does not grow with the number of connections that were."""
    packets = []
    ts_ns = 1_700_000_000 * S
    for number in range(30_000):
        ts_ns += S // 50
        source, target = (f"10.1.{number >> 8}.{number & 255}", 50_000), ("10.0.0.2", 7771)
        packets.append(Packet(ts_ns, *source, *target, 5, 0, SYN))
        if number % 2:
            packets.append(Packet(ts_ns, *target, *source, 0, 6, RST | ACK))
    tracker = Tracker()
    seen = set()
    for chunks in open_capture(hostile.write_pcap(tmp_path / "a.pcap", packets), tracker, window=100_000):
        seen |= {one.id for one in chunks.connections}
    assert len(seen) == 30_000
    assert tracker.count < 20_000


# --- other programs


def tshark_streams(path: Path, count: int) -> list[tuple[bytes, bytes]]:
    """Both directions of each connection, as tshark follows them."""
    require("tshark")
    arguments = [part for number in range(count) for part in ("-z", f"follow,tcp,raw,{number}")]
    done = subprocess.run(
        ["tshark", "-r", str(path), "-q", *arguments], capture_output=True, text=True, check=True, timeout=120
    )
    streams = {}
    for section in done.stdout.split("Follow: tcp,raw")[1:]:
        number = re.search(r"Filter: tcp.stream eq (\d+)", section)
        assert number is not None
        sides = (bytearray(), bytearray())
        for line in section.splitlines():
            if re.fullmatch(r"\t?[0-9a-f]+", line):
                sides[line.startswith("\t")].extend(bytes.fromhex(line.strip()))
        streams[int(number[1])] = (bytes(sides[0]), bytes(sides[1]))
    return [streams[number] for number in range(count)]


TSHARK_MISCHIEF: dict[str, Callable[[list[Packet], Random], list[Packet]]] = {
    "reordered": lambda packets, rng: hostile.reorder(packets, rng, behind_ack=False),
    "duplicated": hostile.duplicate,
    "retransmitted": hostile.retransmit,
    "overlapping": lambda packets, rng: hostile.reorder(hostile.resegment(packets, rng), rng, behind_ack=False),
    "everything": lambda packets, rng: hostile.reorder(
        hostile.duplicate(hostile.resegment(hostile.retransmit(packets, rng), rng), rng), rng, behind_ack=False
    ),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", TSHARK_MISCHIEF)
def test_streams_are_those_that_tshark_follows(name: str, seed: int, tmp_path: Path) -> None:
    packets = TSHARK_MISCHIEF[name](plain(tmp_path / "plain.pcap", seed=seed), Random(seed))
    write = hostile.write_pcapng if seed % 2 else hostile.write_pcap
    path = write(tmp_path / "a.pcap", packets)
    found, _ = follow(path)
    assert [(one.stream(0), one.stream(1)) for one in found] == tshark_streams(path, len(found))


MARKER = b"this is the last that is captured"


def require_root() -> None:
    if os.geteuid() != 0:
        if os.environ.get("CI"):
            pytest.fail("capturing needs root")
        pytest.skip("capturing needs root")


@contextlib.contextmanager
def tcpdump(path: Path, port: int) -> Iterator[None]:
    """Captures what goes over the loopback interface to and from a port, until the marker does."""
    require("tcpdump")
    require_root()
    process = subprocess.Popen(
        ["tcpdump", "-i", "lo", "-U", "-B", "65536", "-w", "-", "tcp", "port", str(port)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    watch = threading.Timer(60, process.kill)
    watch.start()
    assert process.stdout is not None and process.stderr is not None
    try:
        assert any(b"listening on" in line for line in process.stderr), "tcpdump did not begin to listen"
        yield
        content = bytearray()
        while MARKER not in content[-100_000:]:
            more = os.read(process.stdout.fileno(), 1 << 16)
            assert more, "the marker was not captured"
            content += more
        path.write_bytes(content)
    finally:
        process.terminate()
        process.communicate(timeout=30)
        watch.cancel()


def test_a_capture_by_tcpdump_has_what_went_over_real_sockets(tmp_path: Path) -> None:
    path, rng = tmp_path / "lo.pcap", Random(1)
    requests = [rng.randbytes(rng.choice([1, 100, 5000, 200_000])) for _ in range(20)]
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        port = server.getsockname()[1]
        echo = threading.Thread(target=echo_once, args=(server, [len(request) for request in requests]))
        with tcpdump(path, port):
            echo.start()
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                address = client.getsockname()
                for request in requests:
                    client.sendall(request)
                    assert received(client, len(request)) == request[::-1]
            echo.join(30)
            with socket.create_connection(("127.0.0.1", port), timeout=30) as client:
                client.sendall(MARKER)
    (one, last), (counts,) = follow(path, ports=[port])
    assert one.ends == (address, ("127.0.0.1", port))
    assert one.stream(0) == b"".join(requests)
    assert one.stream(1) == b"".join(request[::-1] for request in requests)
    assert one.connection.is_whole and one.connection.ended == "closed"
    assert last.stream(0) == MARKER
    assert counts.foreign_packets == counts.missing_bytes == counts.cut_packets == 0


def echo_once(server: socket.socket, sizes: list[int]) -> None:
    """Sends every burst back, the last byte first."""
    connection, _ = server.accept()
    with connection:
        connection.settimeout(30)
        for size in sizes:
            connection.sendall(received(connection, size)[::-1])
        assert connection.recv(1) == b""


def received(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        more = connection.recv(size - len(data))
        assert more
        data += more
    return bytes(data)
