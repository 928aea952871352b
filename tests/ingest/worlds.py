"""Generated worlds: what several sensors captured, in rotated files with damage.

A seed makes a world. Each sensor has at least three files and a fault, and its own clock: sensors lie hours apart or on
top of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import BinaryIO, NamedTuple

from tests.capture.test_websocket import PORTS, RESPONSE, frame, request
from wirelake.capture.read.listing import peek
from wirelake.capture.write.pcap import PcapngWriter, PcapWriter
from wirelake.capture.write.tcp import TcpWriter
from wirelake.generate import Closed, Event, Opened, Traffic, generate, write_raw, write_tap
from wirelake.generate.line import Line
from wirelake.protocols import BUILT_IN

START_US, HOUR_US = 1_704_067_200_000_000, 3_600_000_000
YEAR_2106_US = 4_294_967_295_000_000
LEAST_SENSORS, LEAST_FILES = 2, 3

TRAFFIC_FAULTS = {"corrupt": 0.03, "gaps": 0.04, "disorder": 0.1, "violations": 0.1}
FILE_FAULTS = ("torn", "junk", "time", "lost_file")
"""Of packets: a file ends inside a packet, or with bytes that are no packet; a packet has an absurd time; a file of the
set is missing.
"""
MESSAGES, TINY = (30, 60, 120), (4, 8, 14)
KINDS = ("pcap", "pcap", "pcap", "pcapng", "websocket", "tap", "mixed", "raw")
WRITERS: dict[str, Callable[[BinaryIO], PcapWriter | PcapngWriter]] = {
    "pcap": PcapWriter, "websocket": PcapWriter, "mixed": PcapWriter, "pcapng": PcapngWriter
}  # fmt: skip


class Packet(NamedTuple):
    ts_us: int
    data: bytes


@dataclass
class Packets:
    """A capture that is a list."""

    listed: list[Packet] = field(default_factory=list)

    def packet(self, ts_us: int, data: bytes) -> None:
        self.listed.append(Packet(ts_us, data))


@dataclass(frozen=True)
class Sensor:
    """What a sensor captured: its files in their order.

    ``closed_behind``: the number of the file behind which somebody once said that nothing more comes.
    """

    name: str
    kind: str
    files: tuple[Path, ...]
    faults: frozenset[str]
    closed_behind: int | None = None

    @property
    def parts(self) -> dict[str, list[Path]]:
        """What by default is a sensor, by name."""
        taps = [path for path in self.files if path.suffix == ".tap"] if self.kind == "mixed" else []
        packets = [path for path in self.files if path not in taps]
        return {self.name: packets} | ({f"{self.name}/tap": taps} if taps else {})

    @property
    def is_raw(self) -> bool:
        return self.kind == "raw"


@dataclass
class World:
    """What sensors captured, drawn from a seed."""

    seed: int
    folder: Path
    kinds: Sequence[str] = KINDS
    sensors: dict[str, Sensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        draw = Random(f"{self.seed} world")
        for number in range(draw.choice((2, 2, 2, 2, 3))):
            sensor = _sensor(draw, f"sensor-{number}", self.folder / f"sensor-{number}", self.kinds)
            assert len(sensor.files) >= LEAST_FILES and sensor.faults, sensor
            self.sensors[sensor.name] = sensor
        assert len(self.sensors) >= LEAST_SENSORS

    @property
    def is_mixed(self) -> bool:
        """Whether a directory has packets and taps: by default these are two sensors, for they overlap in time."""
        return any(sensor.kind == "mixed" for sensor in self.sensors.values())


@dataclass
class TinyWorld:
    """Two sensors with a few messages each, so that a lake of them costs little; ``cut`` says how they are cut into
    files, at any packet, or any record of a tap. However they are cut, it is the same traffic.
    """

    seed: int
    folder: Path
    cut: int | None = None
    """None: not at all."""
    sensors: dict[str, Sensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        draw, how = Random(f"{self.seed} tiny world"), Random(f"{self.seed} {self.cut} cut")
        for name in ("sensor-0", "sensor-1"):
            kind = draw.choice(("pcap", "pcapng", "tap", "websocket"))
            faults = frozenset(fault for fault in TRAFFIC_FAULTS if draw.random() < 0.4)
            traffic = _traffic(draw, kind, faults, START_US + draw.randrange(HOUR_US), TINY, few=True)
            place = self.folder / name
            place.mkdir(parents=True)
            count = 1 if self.cut is None else how.choice((1, 2, 2, 3))
            files = _cut_tap(traffic, place, count) if kind == "tap" else _cut_packets(kind, traffic, place, count, how)
            self.sensors[name] = Sensor(name, kind, tuple(files), faults)


def _cut_tap(traffic: Traffic, place: Path, count: int) -> list[Path]:
    (whole,) = write_tap(traffic, place / "whole.tap")
    if count == 1:
        return [whole]
    size = whole.stat().st_size // count
    whole.unlink()
    return write_tap(traffic, place, rotate_bytes=size)


def _cut_packets(kind: str, traffic: Traffic, place: Path, count: int, how: Random) -> list[Path]:
    packets = packets_of(traffic, is_websocket=kind == "websocket")
    edges = [0]
    for edge in sorted(how.randrange(1, len(packets)) for _ in range(count - 1)):
        if packets[edge].ts_us > packets[edges[-1]].ts_us:  # files have the order of their first packets
            edges.append(edge)
    return [
        _write_packets_to(place / f"part-{number}.pcap", kind, packets[begin:end])
        for number, (begin, end) in enumerate(pairwise([*edges, len(packets)]))
    ]


def _sensor(draw: Random, name: str, place: Path, kinds: Sequence[str]) -> Sensor:
    place.mkdir(parents=True)
    kind = draw.choice(kinds)
    chosen = {fault for fault in TRAFFIC_FAULTS if draw.random() < 0.5}
    if kind in WRITERS:
        chosen |= {fault for fault in FILE_FAULTS if draw.random() < 0.15}
    if kind == "raw":
        chosen -= {"gaps", "disorder"}  # of these, bare bytes show nothing
    faults = frozenset(chosen or {"corrupt"})
    files = _write(draw, kind, place, faults)
    last = len(files) - 1
    closed_behind = draw.randrange(last) if kind not in ("raw", "mixed") and draw.random() < 0.25 else None
    return Sensor(name, kind, files, faults, closed_behind)


def _traffic(
    draw: Random,
    kind: str,
    faults: frozenset[str],
    start_us: int,
    messages: Sequence[int] = MESSAGES,
    few: bool = False,
) -> Traffic:
    # Without times nobody can say which requests of a broker belong together.
    known = [name for name in BUILT_IN if kind != "raw" or name != "mb"]
    names = ["mb", "dsa"] if kind == "websocket" else draw.sample(known, draw.choice((1, 1, 1, 2)))
    pace = draw.choice((1.0, 1.0, 0.01, 0.0005))  # so slow that time limits pass, and days
    return generate(
        names,
        seed=draw.randrange(1 << 30),
        messages=draw.choice(messages),
        connections=1 if few else draw.choice((2, 3)),
        start_us=start_us,
        pace=pace,
        seconds=draw.choice((None, None, 10.0 / pace)),
        **{name: share for name, share in TRAFFIC_FAULTS.items() if name in faults},
    )


def _write(draw: Random, kind: str, place: Path, faults: frozenset[str]) -> tuple[Path, ...]:
    start_us = START_US + draw.randrange(24 * HOUR_US)
    traffic = _traffic(draw, kind, faults, start_us)
    if kind == "raw":
        return tuple(write_raw(traffic, place))
    if kind == "tap":
        return _rotated_tap(traffic, place)
    files = _write_packets(draw, kind, place, packets_of(traffic, is_websocket=kind == "websocket"), faults)
    if kind == "mixed":
        files += _rotated_tap(_traffic(draw, kind, faults, start_us), place)
    return tuple(sorted(files, key=lambda path: (peek(str(path)).first_us, path.name)))


def _rotated_tap(traffic: Traffic, place: Path) -> tuple[Path, ...]:
    (whole,) = write_tap(traffic, place / "whole.tap")
    size = whole.stat().st_size
    whole.unlink()
    paths: list[Path] = []
    while len(paths) < LEAST_FILES:
        for path in paths:
            path.unlink()
        size //= 3
        paths = write_tap(traffic, place, rotate_bytes=size)
    return tuple(paths)


# --- packets


def packets_of(traffic: Traffic, is_websocket: bool = False) -> list[Packet]:
    """Return the packets of a capture. A broker then listens on two ports, and every second client uses WebSocket."""
    found, dials = Packets(), traffic.dials
    line = Line(found, Random(f"{traffic.seed} line"), dials.disorder, dials.gaps, None)  # type: ignore[arg-type]
    tcp = TcpWriter(found, line)  # type: ignore[arg-type]
    keys = Random(f"{traffic.seed} masks")
    for item in traffic.timeline():
        key, wrapped = item.connection.number, is_websocket and item.connection.number % 2 == 1
        match item:
            case Opened():
                host, port = item.connection.server
                port = PORTS[item.connection.protocol.name] if wrapped else port
                tcp.open(key, item.connection.client, (host, port), item.ts_us)
                if wrapped:
                    tcp.send(key, True, request(), item.ts_us)
                    tcp.send(key, False, RESPONSE, item.ts_us)
            case Event():
                tcp.send(key, item.direction == "to_server", _framed(item, keys) if wrapped else item.frame, item.ts_us)
            case Closed():
                tcp.close(key, item.by == "client", item.how == "reset", item.ts_us)
    tcp.finish()
    line.finish()
    return found.listed


def _framed(event: Event, keys: Random) -> bytes:
    """Return a message as WebSocket carries it."""
    key = keys.randbytes(4) if event.direction == "to_server" else b""
    if event.connection.protocol.name == "mb":
        return frame(event.frame[4:], opcode=1, key=key)
    return frame(event.frame, key=key)


def _write_packets(draw: Random, kind: str, place: Path, packets: list[Packet], faults: frozenset[str]) -> list[Path]:
    if "time" in faults:
        which = draw.randrange(1, len(packets))
        packets[which] = packets[which]._replace(ts_us=YEAR_2106_US)
    count = draw.choice((3, 3, 3, 4)) + ("lost_file" in faults)
    suffix = "pcapng" if kind == "pcapng" else "pcap"
    edges = [len(packets) * number // count for number in range(count + 1)]
    shares = [packets[begin:end] for begin, end in pairwise(edges)]
    if "lost_file" in faults:
        del shares[draw.randrange(1, count - 1)]
    paths = [place / f"part-{number:04d}.{suffix}" for number in range(len(shares))]
    for path, share in zip(paths, shares, strict=True):
        _write_packets_to(path, kind, share)
    _spoil(draw, paths, faults)
    return paths


def _write_packets_to(path: Path, kind: str, packets: Iterable[Packet]) -> Path:
    with path.open("wb") as file:
        writer = WRITERS[kind](file)
        for packet in packets:
            writer.packet(*packet)
    return path


def _spoil(draw: Random, paths: list[Path], faults: Iterable[str]) -> None:
    if "torn" in faults:
        path = draw.choice(paths)
        path.write_bytes(path.read_bytes()[: -draw.randrange(1, 60)])
    if "junk" in faults:
        path = draw.choice(paths)
        path.write_bytes(path.read_bytes() + b"\xee" * draw.randrange(1, 90))
