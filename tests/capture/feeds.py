"""Chunks made by hand from generated traffic: cut, mixed, with holes, in windows of any size."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tests.capture.reloading import reloaded
from wirelake.capture.chunks import DIRECTIONS, Chunks, Connection
from wirelake.capture.messages import Output
from wirelake.capture.settings import ReadSettings
from wirelake.capture.streams import Streams
from wirelake.generate import Closed, Event, Opened, generate

# The beginning of a TLS handshake.
CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + random.Random(1).randbytes(194)
SERVER_HELLO = bytes.fromhex("160303004a0200004603") + random.Random(2).randbytes(69)


@dataclass
class Packet:
    """One chunk to be. ``data`` is None for a gap of ``length`` bytes."""

    connection: Connection
    direction: int
    offset: int
    data: bytes | None
    ts: int
    position: int = 0
    length: int = 0
    ends: str = ""

    def __post_init__(self) -> None:
        if self.data is not None:
            self.length = len(self.data)


@dataclass
class Feed:
    """Packets in the order of the capture."""

    packets: list[Packet] = field(default_factory=list)
    offsets: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    ts: int = 1_700_000_000_000_000
    position: int = 24

    def add(self, connection: Connection, direction: int, data: bytes | None, length: int = 0) -> None:
        self.ts += 7
        key = (connection.id, direction)
        packet = Packet(connection, direction, self.offsets[key], data, self.ts, self.position, length)
        self.offsets[key] += packet.length
        self.position += 70 + packet.length
        self.packets.append(packet)

    def end(self, connection: Connection, how: str = "closed") -> None:
        self.packets.append(Packet(connection, 0, 0, b"", self.ts, self.position, ends=how))

    def windows(self, sizes: Iterable[int]) -> Iterator[Chunks]:
        """Chunks of so many packets each; the last size is used for the rest."""
        at = 0
        size = 1
        sizes = iter(sizes)
        while at < len(self.packets):
            size = next(sizes, size)
            yield chunks_of(self.packets[at : at + size])
            at += size

    def streams(self) -> dict[tuple[str, str], list[bytes | int]]:
        """The bytes of each stream in runs, with the lengths of the gaps between them."""
        found: dict[tuple[str, str], list[bytes | int]] = defaultdict(list)
        for packet in self.packets:
            runs = found[packet.connection.id, DIRECTIONS[packet.direction]]
            if packet.data is None:
                runs.append(packet.length)
            elif runs and isinstance(runs[-1], bytes):
                runs[-1] += packet.data
            else:
                runs.append(packet.data)
        return found


def chunks_of(packets: Sequence[Packet]) -> Chunks:
    """These packets as one list of chunks. Bytes lie apart in ``data``, as behind packet headers."""
    known: dict[str, int] = {}
    connections: list[Connection] = []
    rows = []
    data = bytearray()
    for packet in packets:
        if packet.connection.id not in known:
            known[packet.connection.id] = len(connections)
            connections.append(packet.connection)
        if packet.ends:
            packet.connection.ended = packet.ends
            continue
        data += b"\xee" * 11
        start = len(data) if packet.data is not None else -1
        data += packet.data or b""
        rows.append(
            (
                known[packet.connection.id],
                packet.direction,
                packet.offset,
                packet.length,
                packet.ts,
                start,
                packet.position,
            )
        )
    columns = np.array(rows, np.int64).reshape(-1, 7).T
    return Chunks(np.frombuffer(bytes(data), np.uint8), connections, *np.ascontiguousarray(columns))


def connection(name: str = "c0", **details: Any) -> Connection:
    return Connection(name, "10.0.0.1", "10.0.0.2", **({"is_whole": True} | details))


def generated(
    protocol: Any,
    rng: random.Random,
    *,
    most: int = 1460,
    lose: float = 0.0,
    whole: bool = True,
    port: bool = True,
    **options: Any,
) -> Feed:
    """Generated traffic, cut into pieces of up to ``most`` bytes, of which a share is lost."""
    feed = Feed()
    known: dict[int, Connection] = {}
    for item in generate(protocol, **options).timeline():
        number = item.connection.number
        if number not in known:
            known[number] = Connection(
                f"{number}-{item.connection.name}",
                item.connection.client[0],
                item.connection.server[0],
                item.connection.client[1],
                item.connection.server[1] if port else 9,
                is_whole=whole,
            )
        match item:
            case Opened():
                pass
            case Event():
                direction = DIRECTIONS.index(item.direction)
                at = 0
                while at < len(item.frame):
                    size = rng.randint(1, most)
                    piece = item.frame[at : at + size]
                    if rng.random() < lose:
                        feed.add(known[number], direction, None, len(piece))
                    else:
                        feed.add(known[number], direction, piece)
                    at += size
            case Closed():
                feed.end(known[number], item.how)
    return feed


@dataclass
class Result:
    """All outputs together, as plain values in an order of their own."""

    messages: dict[str, list[dict[str, Any]]]
    quarantine: list[dict[str, Any]]
    accounts: dict[tuple[str, str], dict[str, Any]]
    foreign_bytes: int
    envelope_bytes: int


def play(
    feed: Feed,
    reading: ReadSettings,
    sizes: Iterable[int] = (1_000_000,),
    *,
    restart: random.Random | None = None,
    finish: bool = True,
) -> Result:
    """Feeds the packets; with ``restart``, the state is put away and taken up again now and then."""
    for packet in feed.packets:
        packet.connection.ended = ""
    streams = Streams(reading)
    outputs = []
    for chunks in feed.windows(sizes):
        outputs.append(streams.feed(chunks, "one.pcap"))
        if restart is not None and restart.random() < 0.3:
            streams = Streams(reading, reloaded(streams.state()))
    if finish:
        outputs.append(streams.finish())
    return joined(outputs)


def joined(outputs: list[Output]) -> Result:
    messages: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for output in outputs:
        for protocol, batches in output.messages.items():
            for batch in batches:
                messages[protocol] += batch.to_pylist()
    for rows in messages.values():
        _in_order(rows)
        rows.sort(key=_where)
    quarantine = [row for output in outputs for row in output.quarantine.to_pylist()]
    _in_order(quarantine)
    quarantine.sort(key=_where)
    accounts = {(row["connection"], row["direction"]): row for output in outputs for row in output.accounts.to_pylist()}
    for row in accounts.values():
        assert row["bytes_in"] == row["bytes_decoded"] + row["bytes_quarantined"] + row["bytes_pending"], row
    return Result(
        dict(messages),
        quarantine,
        accounts,
        sum(output.foreign_bytes for output in outputs),
        sum(output.envelope_bytes for output in outputs),
    )


def _where(row: dict[str, Any]) -> tuple[str, str, int]:
    return row["connection"], row["direction"], row["offset"]


def _in_order(rows: list[dict[str, Any]]) -> None:
    """The rows of each stream must come in the order of its bytes."""
    last: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["connection"], row["direction"])
        assert row["offset"] >= last.get(key, -1)
        last[key] = row["offset"]


def table(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches)
