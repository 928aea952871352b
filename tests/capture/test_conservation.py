"""No byte of a capture is lost or told twice, whatever is wrong with it: packets, files, frames, or all at once.

What a capture holds is worked out here from its packets by a plain model, and compared with the rows and accounts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.capture import hostile
from tests.capture.hostile import FIN, LOW32, SYN, Packet
from tests.codec.test_stream import Flip, allowed_losses, draw_flip, traffic
from wirelake import encode
from wirelake.capture.chunks import DIRECTIONS
from wirelake.capture.decode import CaptureDecoder, CaptureRange, DecodedWindow
from wirelake.capture.partitions import decode_partition, plan
from wirelake.capture.settings import ReadSettings
from wirelake.capture.write.pcap import PcapWriter
from wirelake.capture.write.tcp import TcpWriter
from wirelake.generate import Closed, Event, Opened, generate
from wirelake.protocols import BUILT_IN, casual, ceda, dsa, load, mb
from wirelake.spec import Cell
from wirelake.spec.resolve import candidates

CAPTURES = 200
START_US = 1_704_067_200_000_000
PORT = 7000

Key = tuple[str, int, str]
"""Address and port of the client, direction: one stream."""


# --- what a capture holds


@dataclass
class Held:
    """What the packets of a capture hold of one stream: its bytes, which of them are known, and how far it goes."""

    data: bytearray = field(default_factory=bytearray)
    is_known: bytearray = field(default_factory=bytearray)

    def reach(self, end: int) -> None:
        more = max(0, end - len(self.data))
        self.data += bytes(more)
        self.is_known += bytes(more)

    def put(self, offset: int, data: bytes) -> None:
        self.reach(offset + len(data))
        for at, value in enumerate(data, offset):
            if not self.is_known[at]:
                self.data[at], self.is_known[at] = value, 1

    @property
    def known(self) -> int:
        return sum(self.is_known)

    @property
    def missing(self) -> int:
        return len(self.is_known) - self.known


def held(packets: Iterable[Packet]) -> dict[Key, Held]:
    """By a plain model: the first bytes that were captured for a place count; a FIN tells where a stream ends."""
    streams: dict[Key, Held] = defaultdict(Held)
    first: dict[hostile.Way, int] = {}
    for packet in packets:
        if packet.flags & SYN:
            first[packet.way] = (packet.sequence + 1) & LOW32
            continue
        if not packet.data and not packet.flags & FIN:
            continue
        to_server = packet.target_port < packet.source_port
        key = (*(packet.way[:2] if to_server else packet.way[2:]), DIRECTIONS[0 if to_server else 1])
        offset = (packet.sequence - first.setdefault(packet.way, packet.sequence)) & LOW32
        streams[key].put(offset, packet.data)
    return streams


# --- what the machine tells of it


@dataclass
class Told:
    """Rows and accounts by stream."""

    messages: dict[Key, list[tuple[int, int, str]]] = field(default_factory=lambda: defaultdict(list))
    """Offset, length, message."""
    quarantine: dict[Key, list[dict[str, Any]]] = field(default_factory=lambda: defaultdict(list))
    accounts: dict[Key, dict[str, int]] = field(default_factory=dict)
    foreign_bytes: int = 0

    def ranges(self, key: Key) -> list[tuple[int, int]]:
        """What is told of a stream, in order."""
        good = [(offset, length) for offset, length, _ in self.messages[key]]
        return sorted(good + [(row["offset"], row["length"]) for row in self.quarantine[key]])


def told(seen: Iterable[DecodedWindow]) -> Told:
    result = Told()
    names: dict[str, tuple[str, int]] = {}
    for one in seen:
        names.update({c.id: (c.client, c.client_port) for c in one.chunks.connections})
        for batches in one.output.messages.values():
            for batch in batches:
                for row in batch.select(["connection", "direction", "offset", "length", "message"]).to_pylist():
                    key = (*names[row["connection"]], row["direction"])
                    result.messages[key].append((row["offset"], row["length"], row["message"]))
        for row in one.output.quarantine.to_pylist():
            result.quarantine[(*names[row["connection"]], row["direction"])].append(row)
        for row in one.output.accounts.to_pylist():
            result.accounts[(*names[row["connection"]], row["direction"])] = row
        result.foreign_bytes += one.output.foreign_bytes
    return result


def read(path: Path, reading: ReadSettings | None = None, window: int = 1 << 15) -> Told:
    machine = CaptureDecoder(reading or ReadSettings(), window=window)

    def run() -> Iterator[DecodedWindow]:
        yield from machine.run(CaptureRange(str(path), path.name))
        yield from machine.finish()

    return told(run())


def assert_conserved(found: Told, streams: dict[Key, Held]) -> None:
    """Every stream that has bytes has its account, every byte its row."""
    for key, account in found.accounts.items():
        stream = streams.get(key, Held())
        quarantine = found.quarantine[key]
        gaps = [row for row in quarantine if row["rule"] == "gap"]
        bad = [row for row in quarantine if row["rule"] != "gap"]
        assert account["bytes_in"] == stream.known, key
        assert account["bytes_missing"] == stream.missing == sum(row["length"] for row in gaps), key
        assert account["bytes_decoded"] == sum(length for _, length, _ in found.messages[key]), key
        assert account["bytes_quarantined"] == sum(row["length"] for row in bad), key
        assert account["bytes_pending"] == 0, key
        assert account["bytes_in"] == account["bytes_decoded"] + account["bytes_quarantined"], key
        assert account["messages"] == len(found.messages[key]), key
        assert all(row["bytes"] is None for row in gaps), key
        for row in bad:
            assert row["bytes"] == stream.data[row["offset"] : row["offset"] + row["length"]], key
        assert_tiled(found.ranges(key), len(stream.data), key)
    assert {key for key, stream in streams.items() if stream.data} <= found.accounts.keys()


def assert_tiled(ranges: Sequence[tuple[int, int]], end: int, key: Key) -> None:
    at = 0
    for offset, length in ranges:
        assert offset == at and length > 0, (key, offset, at)
        at += length
    assert at == end, key


# --- mischief


def write_damaged(path: Path, protocol: str, number: int, rng: Random) -> None:
    """Generated traffic with damaged frames; every second capture has garbage before, between and behind them, too."""
    begun: set[tuple[int, str]] = set()
    with path.open("wb") as out:
        tcp = TcpWriter(PcapWriter(out))
        for item in generate(protocol, seed=number, messages=70, connections=2, corrupt=0.08).timeline():
            one = item.connection
            match item:
                case Opened():
                    tcp.open(one.number, one.client, one.server, item.ts_us)
                case Event():
                    data = item.frame
                    if number % 2:
                        is_first = (one.number, item.direction) not in begun
                        begun.add((one.number, item.direction))
                        data = garbage(rng) + data if is_first and rng.random() < 0.3 else data
                        data = data + garbage(rng) if rng.random() < 0.1 else data
                    tcp.send(one.number, item.direction == "to_server", data, item.ts_us)
                case Closed():
                    tcp.close(one.number, item.by == "client", item.how == "reset", item.ts_us)
        tcp.finish()


def garbage(rng: Random) -> bytes:
    return rng.choice(
        [rng.randbytes(rng.randint(1, 90)), bytes(rng.randint(1, 40)), b"GET / HTTP/1.1\r\n\r\n", b"\x82"]
    )


def lost(packets: list[Packet], rng: Random) -> list[Packet]:
    return hostile.reorder(hostile.drop(packets, rng, share=0.06, keep_ends=True)[0], rng)


def repeated(packets: list[Packet], rng: Random) -> list[Packet]:
    again = hostile.duplicate(hostile.resegment(hostile.retransmit(packets, rng), rng), rng)
    return hostile.reorder(hostile.wrap(again), rng)


def torn(packets: list[Packet], rng: Random) -> list[Packet]:
    """The capture ends before the connections do, in the middle of a packet (see ``write``)."""
    kept = hostile.drop(packets, rng, share=0.03)[0]
    holes = [packet for packet in packets if packet not in kept]
    ends = [
        index
        for index, packet in enumerate(kept)
        # What is missing of a packet behind a hole would show only if something came behind it.
        if len(packet.data) > 1 and not any(hole.way == packet.way and hole.ts_ns < packet.ts_ns for hole in holes)
    ]
    return kept[: ends[int(len(ends) * rng.uniform(0.3, 1.0))] + 1]


def joined_late(packets: list[Packet], rng: Random) -> list[Packet]:
    """The connections began before the capture, perhaps within a message."""
    begun = [packet for packet in packets if not packet.flags & SYN]
    return hostile.foreign(begun[rng.randrange(len(begun) // 3) :], rng)


MISCHIEF: tuple[Callable[[list[Packet], Random], list[Packet]], ...] = (
    hostile.reorder,
    lost,
    repeated,
    torn,
    joined_late,
)


def hostile_capture(path: Path, number: int) -> dict[Key, Held]:
    """Writes one of the captures; gives what it holds. Protocols, mischief and formats meet in all combinations."""
    rng = Random(number)
    write_damaged(path, BUILT_IN[number % 4], number, rng)
    turn = MISCHIEF[number % 5]
    packets = turn(hostile.read(path), rng)
    write = hostile.write_pcapng if number % 3 == 0 else hostile.write_pcap
    write(path, packets, nanoseconds=number % 7 == 0, big_endian=number % 11 == 0)
    streams = held(packet for packet in packets if packet.foreign is None)
    if turn is torn:
        tear(path, packets[-1], rng, streams)
    return streams


def tear(path: Path, last: Packet, rng: Random, streams: dict[Key, Held]) -> None:
    """Takes some bytes of the last packet's data off the file; they are missing now."""
    content = path.read_bytes()
    data_end = content.rfind(last.data) + len(last.data)
    cut = rng.randint(1, len(last.data) - 1)
    path.write_bytes(content[: data_end - cut])
    to_server = last.target_port < last.source_port
    stream = streams[(*(last.way[:2] if to_server else last.way[2:]), DIRECTIONS[0 if to_server else 1])]
    stream.is_known[len(stream.data) - cut :] = bytes(cut)


# --- conservation


@pytest.mark.parametrize("first", range(0, CAPTURES, 20))
def test_no_byte_of_two_hundred_damaged_captures_is_lost(first: int, tmp_path: Path) -> None:
    decoded = quarantined = 0
    for number in range(first, first + 20):
        path = tmp_path / f"{number}.pcap"
        streams = hostile_capture(path, number)
        found = read(path)
        try:
            assert_conserved(found, streams)
        except AssertionError as error:
            raise AssertionError(f"capture {number}: {error}") from error
        assert sum(account["bytes_in"] for account in found.accounts.values()) == sum(s.known for s in streams.values())
        decoded += sum(account["bytes_decoded"] for account in found.accounts.values())
        quarantined += sum(account["bytes_quarantined"] for account in found.accounts.values())
    assert decoded > 2 * quarantined > 0


def test_bytes_of_connections_that_speak_something_else_are_counted_as_well(tmp_path: Path) -> None:
    """Without a port map what is spoken is found out; what remains unknown is foreign, and counted."""
    for number in range(0, CAPTURES, 10):
        path = tmp_path / f"{number}.pcap"
        streams = hostile_capture(path, number)
        found = read(path, ReadSettings(protocols=("dsa", "mb"), ports={}))
        known = {key: stream for key, stream in streams.items() if key in found.accounts}
        assert_conserved(found, known)
        unread = sum(stream.known for key, stream in streams.items() if key not in found.accounts)
        assert found.foreign_bytes == unread, number


# --- partitions


def rows(seen: Iterable[DecodedWindow]) -> dict[str, Any]:
    """Every column of every row, in the order of streams, and the last account of each stream."""
    found: dict[str, Any] = defaultdict(list)
    accounts = {}
    for one in seen:
        for protocol, batches in one.output.messages.items():
            found[protocol] += [row for batch in batches for row in batch.to_pylist()]
        found["quarantine"] += one.output.quarantine.to_pylist()
        accounts.update({(row["connection"], row["direction"]): row for row in one.output.accounts.to_pylist()})
        found["foreign"].append(one.output.foreign_bytes)

    def place(row: dict[str, Any]) -> Any:
        return row["connection"], row["direction"], row["offset"]

    foreign = sum(found.pop("foreign"))
    # As text: a value that is not a number equals nothing, not even itself.
    return {name: repr(sorted(values, key=place)) for name, values in found.items() if values} | {
        "accounts": accounts,
        "foreign": foreign,
    }


def sequential(pieces: Sequence[CaptureRange], reading: ReadSettings) -> dict[str, Any]:
    machine = CaptureDecoder(reading)

    def run() -> Iterator[DecodedWindow]:
        for piece in pieces:
            yield from machine.run(piece)
        yield from machine.finish()

    return rows(run())


def partitioned(pieces: Sequence[CaptureRange], settings: ReadSettings, size: int) -> tuple[dict[str, Any], int]:
    """What the partitions give, and how many there were. Each is decoded by itself, from what it brings."""
    planned = plan(pieces, settings, partition_bytes=size, is_last=True)
    found = rows(one for partition in planned.partitions for one in decode_partition(partition, settings)[1])
    return found, len(planned.partitions)


def piece_of(path: Path) -> CaptureRange:
    return CaptureRange(str(path), path.name, size=path.stat().st_size)


@pytest.mark.parametrize("number", range(1, CAPTURES, 10))
def test_partitions_of_damaged_captures_give_what_reading_them_in_one_go_gives(number: int, tmp_path: Path) -> None:
    pieces = []
    for file in range(2):
        hostile_capture(tmp_path / f"{file}.pcap", number + file)
        pieces.append(piece_of(tmp_path / f"{file}.pcap"))
    found, count = partitioned(pieces, ReadSettings(), 4000)
    assert count > 5
    assert found == sequential(pieces, ReadSettings())


def test_late_packets_of_an_ended_connection_change_nothing_in_whatever_window_they_come(tmp_path: Path) -> None:
    """A connection that was told as ended is not told again, as an empty one, by its last acknowledgement."""
    for number in (2, 7, 22, 27):
        path = tmp_path / f"{number}.pcap"
        hostile_capture(path, number)
        whole = sequential([piece_of(path)], ReadSettings())
        for window in (1 << 10, 3000, 1 << 15):
            machine = CaptureDecoder(ReadSettings(), window=window)
            assert rows([*machine.run(piece_of(path)), *machine.finish()]) == whole


INNER_FRAMES = {name: [frame for frame in traffic(name)[0] if 8 < len(frame) < 300][:40] for name in BUILT_IN}


def carrier(protocol: str, content: bytes) -> bytes:
    """A good frame that carries these bytes."""
    match protocol:
        case "casual":
            return encode(
                casual.ServiceCallRequest(
                    correlation=bytes(16),
                    execution=bytes(range(16)),
                    service=casual.Service("echo", 0),
                    parent=casual.Parent(""),
                    xid=casual.NULL_XID,
                    flags=0,
                    buffer=casual.Buffer("X_OCTET/", content),
                )
            )
        case "dsa":
            body = b"\0\0\xc6" + len(content).to_bytes(4, "big") + content
            return encode(dsa.SubscribeResponse(request_id=7, ack_id=9, headers=dsa.Headers(status=0), body=body))
        case "mb":
            return encode(mb.Publish(topic="a.b", version="1.0.0", payload=content), framing="tcp")
        case _:
            return encode(ceda.Publish(topic="T", record=(Cell(1, "BYTES", content),)), dialect="ceda4")


def speaking(protocol: str) -> ReadSettings:
    return ReadSettings(ports={PORT: protocol})


def write_nested(path: Path, protocol: str, rng: Random, carriers: int) -> list[int]:
    """One connection that sends frames within frames, cut so that packets begin where inner frames do; the lengths of
    the outer ones.
    """
    lengths = []
    with path.open("wb") as out:
        tcp = TcpWriter(PcapWriter(out))
        tcp.open(0, ("10.0.0.1", 50000), ("10.0.0.2", PORT), START_US)
        ts_us = START_US + 1000
        for _ in range(carriers):
            inner = [rng.choice(INNER_FRAMES[protocol]) for _ in range(rng.randint(2, 40))]
            outer = carrier(protocol, b"".join(inner))
            lengths.append(len(outer))
            cuts = [outer.index(inner[0])]
            for frame in inner:
                cuts.append(cuts[-1] + len(frame))
            for begin, end in zip([0, *cuts], [*cuts, len(outer)], strict=True):
                ts_us += 100
                tcp.send(0, True, outer[begin:end], ts_us)
        tcp.close(0, True, False, ts_us + 100)
        tcp.finish()
    return lengths


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_frames_within_payloads_are_not_taken_for_frames_however_a_giant_connection_is_cut(
    protocol: str, tmp_path: Path
) -> None:
    path = tmp_path / "nested.pcap"
    lengths = write_nested(path, protocol, Random(3), 60)
    found = read(path, speaking(protocol))
    (messages,) = (rows for rows in found.messages.values() if rows)
    assert [length for _, length, _ in messages] == lengths
    assert not any(found.quarantine.values())
    whole = sequential([piece_of(path)], speaking(protocol))
    for partition_bytes in (1000, 9000, 70_000):
        parts, count = partitioned([piece_of(path)], speaking(protocol), partition_bytes)
        assert count > 2
        assert parts == whole


def test_frames_within_payloads_cost_nothing_more_behind_a_gap_wherever_it_is_cut(tmp_path: Path) -> None:
    """Behind a gap the first thing that looks like a frame may be one within a payload: but the same in all cuts."""
    path = tmp_path / "nested.pcap"
    for protocol in BUILT_IN:
        write_nested(path, protocol, Random(4), 20)
        packets = hostile.drop(hostile.read(path), Random(5), share=0.03, keep_ends=True)[0]
        hostile.write_pcap(path, packets)
        reading = speaking(protocol)
        assert_conserved(read(path, reading), held(packets))
        assert partitioned([piece_of(path)], reading, 3000)[0] == sequential([piece_of(path)], reading)


# --- one flipped byte


FLIPS = 300


def write_flips(path: Path, protocol: str, flips: Sequence[Flip]) -> None:
    """Each stream is a connection of its own, begun before the one before it has ended."""
    with path.open("wb") as out:
        tcp = TcpWriter(PcapWriter(out))
        for number, flip in enumerate(flips):
            ts_us = START_US + number * 1000
            tcp.open(number, ("10.0.0.1", 20_000 + number), ("10.0.0.2", PORT), ts_us)
            for count, at in enumerate(range(0, len(flip.data), 700)):
                tcp.send(number, True, flip.data[at : at + 700], ts_us + 200 + count)
            if number:
                tcp.close(number - 1, True, False, ts_us + 900)
        tcp.close(len(flips) - 1, True, False, ts_us + 950)
        tcp.finish()


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_one_flipped_byte_costs_one_message_or_what_a_false_length_covers_and_one_more(
    protocol: str, tmp_path: Path
) -> None:
    """The promise of the stream decoder holds for captures, too."""
    captured = load(protocol).captured
    framing = {"framing": "tcp"} if protocol == "mb" else {}
    layouts = {
        layout
        for options in (captured.options, {**captured.options, **captured.fallback})
        for layout in candidates(load(protocol), **framing, **options)
    }
    streams = [[frame for frame in frames if len(frame) < 600] for frames in traffic(protocol)]
    rng = Random(41)
    flips = [draw_flip([frames for frames in streams if len(frames) >= 12], rng) for _ in range(FLIPS)]
    write_flips(tmp_path / "flips.pcap", protocol, flips)
    found = read(tmp_path / "flips.pcap", speaking(protocol), window=1 << 17)
    hurt = 0
    for number, flip in enumerate(flips):
        key = ("10.0.0.1", 20_000 + number, "to_server")
        places = {(offset, length) for offset, length, _ in found.messages[key]}
        wanted = list(zip(flip.starts[:-1], map(len, flip.frames), strict=True))
        lost = [index for index, place in enumerate(wanted) if place not in places]
        hurt += bool(lost)
        assert len(lost) <= allowed_losses(flip, list(layouts)), (number, flip.data.hex(), flip.at)
        assert all(index >= flip.hurt() for index in lost), (number, flip.data.hex(), flip.at)
        assert_tiled(found.ranges(key), len(flip.data), key)
    assert hurt > FLIPS / 10
