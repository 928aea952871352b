"""No byte of a capture is lost or told twice, whatever is wrong with it: packets, files, frames, or all at once.

What a capture holds is worked out here from its packets by a plain model, and compared with the rows and accounts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.capture import hostile
from tests.capture.hostile import ACK, FIN, LOW32, SYN, Packet
from tests.codec.test_stream import Flip, allowed_losses, draw_flip, traffic
from wirelake import encode
from wirelake.capture.chunks import DIRECTIONS
from wirelake.capture.partitions import Machine, Piece, Seen, decode, plan
from wirelake.capture.pcap import PcapWriter, TcpWriter
from wirelake.capture.reading import Reading
from wirelake.generate import Closed, Event, Opened, generate
from wirelake.protocols import BUILT_IN, casual, load
from wirelake.spec.resolve import candidates

CAPTURES = 200
START_US = 1_704_067_200_000_000

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


def told(seen: Iterable[Seen]) -> Told:
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
        result.foreign_bytes += sum(one.output.foreign_bytes.values())
    return result


def read(path: Path, reading: Reading | None = None, window: int = 1 << 15) -> Told:
    machine = Machine(reading or Reading(), window=window)

    def run() -> Iterator[Seen]:
        yield from machine.run(Piece(str(path), path.name))
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
    return rng.choice([rng.randbytes(rng.randint(1, 90)), bytes(rng.randint(1, 40)), b"GET / HTTP/1.1\r\n\r\n", b"\x82"])


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
    lambda packets, rng: hostile.reorder(packets, rng),
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
    assert decoded > 10 * quarantined > 0
