"""``python -m benchmarks.floods``: captures made to cost much cost time in proportion to their size, and little memory.

Each kind of capture is made small and ten times as large, and read in a process of its own. The large one may take at
most ``RATIO`` times as long: what does not fit into the caches of a processor takes longer, what is quadratic takes a
hundred times. No process may need more than a gigabyte; a million connections that are all remembered may need half as
much again.
"""

from __future__ import annotations

import argparse
import json
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .memory import peak

TIMES = 10
RATIO = 15
ATTEMPTS, ENOUGH_SECONDS = 3, 5
"""The best of some readings counts; after ENOUGH_SECONDS there is no other."""
MOST_BYTES = 1 << 30
MOST_BYTES_OF_CONNECTIONS = 3 << 29
SYN, PSH, ACK, FIN = 0x02, 0x08, 0x10, 0x01
START_US = 1_700_000_000_000_000
CLIENT, SERVER = 0x0A000001, 0x0A000002
HEAD, IP = 16, 40
RAW_IP = 101

Ints = NDArray[np.int64]


@dataclass
class Segments:
    """TCP segments as columns; a number stands for all of them."""

    count: int
    ts_us: Ints | int = START_US
    source: Ints | int = CLIENT
    target: Ints | int = SERVER
    source_port: Ints | int = 40000
    target_port: Ints | int = 7771
    sequence: Ints | int = 0
    acknowledged: Ints | int = 0
    flags: Ints | int = PSH | ACK
    payload: int = 0
    cut: Ints | int = 0
    """The field of IPv4 that fragments have."""

    def pcap(self) -> bytes:
        """The packets of a pcap file of raw IP."""
        size = IP + self.payload
        rows = np.zeros((self.count, HEAD + size), np.uint8)
        rows[:, HEAD + IP :] = 0x61
        ts_us = np.broadcast_to(np.asarray(self.ts_us, np.int64), self.count)
        for place, value in ((0, ts_us // 1_000_000), (4, ts_us % 1_000_000), (8, size), (12, size)):
            _put(rows, place, value, 4, is_big=False)
        fields = (
            (0, 0x45, 1), (2, size, 2), (4, np.arange(self.count) & 0xFFFF, 2), (6, self.cut, 2), (8, 64, 1), (9, 6, 1),
            (12, self.source, 4), (16, self.target, 4), (20, self.source_port, 2), (22, self.target_port, 2),
            (24, self.sequence, 4), (28, self.acknowledged, 4), (32, 0x50, 1), (33, self.flags, 1), (34, 64000, 2),
        )  # fmt: skip
        for place, value, width in fields:
            _put(rows, HEAD + place, value, width, is_big=True)
        return rows.tobytes()


def _put(rows: NDArray[np.uint8], place: int, value: Ints | int, width: int, is_big: bool) -> None:
    numbers = np.asarray(value, np.int64)
    for k in range(width):
        rows[:, place + k] = numbers >> 8 * (width - 1 - k if is_big else k) & 0xFF


def pcap(*parts: Segments) -> bytes:
    head = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 1 << 18, RAW_IP)
    return head + b"".join(part.pcap() for part in parts)


# --- floods


def out_of_order(count: int) -> bytes:
    """One direction whose segments come in any order."""
    order = np.random.default_rng(1).permutation(count)
    return pcap(Segments(1, flags=SYN), Segments(count, START_US + np.arange(count), sequence=1 + order * 8, payload=8))


def nearly_in_order(count: int) -> bytes:
    """One direction whose segments come up to 3000 places too late."""
    order = np.argsort(np.arange(count) + np.random.default_rng(1).integers(0, 3000, count), kind="stable")
    return pcap(Segments(1, flags=SYN), Segments(count, START_US + np.arange(count), sequence=1 + order * 8, payload=8))


def holes(count: int) -> bytes:
    """A thousand connections in turn, each byte behind a hole; the peers acknowledge every one."""
    number = np.arange(count)
    client, turn = 0x0A010000 + number % 1000, number // 1000
    ts_us = START_US + 200 * np.arange(2 * count)
    sent = Segments(count, ts_us[::2], client, sequence=100 + turn * 20, payload=10)
    seen = Segments(count, ts_us[1::2], SERVER, client, 7771, 40000, 1, 110 + turn * 20, ACK)
    rows = np.concatenate([_rows(sent), np.pad(_rows(seen), ((0, 0), (0, 10)))])
    order = np.argsort(np.concatenate([number * 2, number * 2 + 1]), kind="stable")
    both = [row[: HEAD + IP + 10 * (which < count)].tobytes() for which, row in zip(order, rows[order], strict=True)]
    return pcap(Segments(1000, START_US - 1, 0x0A010000 + np.arange(1000), sequence=98, flags=SYN)) + b"".join(both)


def _rows(part: Segments) -> NDArray[np.uint8]:
    return np.frombuffer(part.pcap(), np.uint8).reshape(part.count, -1)


def held_everywhere(count: int) -> bytes:
    """A thousand connections in turn that lack their first byte, and nobody acknowledges anything."""
    number = np.arange(count)
    client = 0x0A010000 + number % 1000
    beginnings = Segments(1000, START_US, 0x0A010000 + np.arange(1000), sequence=98, flags=SYN)
    sent = Segments(count, START_US + number, client, sequence=100 + number // 1000 * 1400, payload=1400)
    return pcap(beginnings, sent)


def connections(count: int) -> bytes:
    """Connections of one packet."""
    number = np.arange(count)
    return pcap(Segments(count, START_US + number, 0x0A000000 + number, sequence=number * 977, payload=10))


def beginnings(count: int) -> bytes:
    """Connections that were tried, and nothing more."""
    number = np.arange(count)
    return pcap(Segments(count, START_US + number, 0x0A000000 + number, sequence=number * 977, flags=SYN))


def fragments(count: int) -> bytes:
    """Fragments that never become a packet."""
    return pcap(Segments(count, START_US + np.arange(count), payload=64, cut=0x2000 + np.arange(count) % 5))


def strange_times(count: int) -> bytes:
    """Every other packet claims to be of the year 2106."""
    number = np.arange(count)
    ts_us = np.where(number % 2, 4_294_967_295_000_000, START_US + number)
    return pcap(Segments(1, flags=SYN), Segments(count, ts_us, sequence=1 + number * 8, payload=8))


def interfaces(count: int) -> bytes:
    """A pcapng file of nothing but interfaces."""
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    return section + struct.pack("<IIHHII", 1, 20, 1, 0, 0, 20) * count


def sections(count: int) -> bytes:
    """A pcapng file of nothing but sections with an interface each."""
    return interfaces(1) * count


FLOODS: dict[str, tuple[Callable[[int], bytes], int, int]] = {
    "out of order": (out_of_order, 1_000_000, MOST_BYTES),
    "nearly in order": (nearly_in_order, 1_000_000, MOST_BYTES),
    "holes": (holes, 1_000_000, MOST_BYTES),
    "held everywhere": (held_everywhere, 1_000_000, MOST_BYTES),
    "connections": (connections, 1_000_000, MOST_BYTES_OF_CONNECTIONS),
    "beginnings": (beginnings, 1_000_000, MOST_BYTES_OF_CONNECTIONS),
    "fragments": (fragments, 1_000_000, MOST_BYTES),
    "strange times": (strange_times, 1_000_000, MOST_BYTES),
    "interfaces": (interfaces, 10_000_000, MOST_BYTES),
    "sections": (sections, 5_000_000, MOST_BYTES),
}
"""What makes each kind, how large the large one is, and how much memory it may take."""


# --- reading


@dataclass(frozen=True)
class Outcome:
    packets: int
    peak_bytes: int
    seconds: float


def read(path: str) -> Outcome:
    """Reads a capture in this process, as an index pass does."""
    from wirelake.capture.read import open_capture
    from wirelake.capture.tcp import Tracker

    start = time.perf_counter()
    tracker = Tracker()
    reader = open_capture(path, tracker)
    for _ in reader:
        pass
    tracker.state()
    tracker.finish()
    return Outcome(reader.counts.packets, peak(), time.perf_counter() - start)


def read_well(path: str) -> Outcome:
    """The best of some readings: the machine may have been busy with something else."""
    outcomes = [read(path)]
    while len(outcomes) < ATTEMPTS and sum(one.seconds for one in outcomes) < ENOUGH_SECONDS:
        outcomes.append(read(path))
    return Outcome(outcomes[0].packets, peak(), min(one.seconds for one in outcomes))


def read_apart(path: Path) -> Outcome:
    """``read_well`` in a process of its own."""
    command = [sys.executable, "-m", f"{__package__}.floods", "--read", str(path)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return Outcome(*json.loads(done.stdout))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.floods", description="Shows that floods do no harm.")
    parser.add_argument("--flood", action="append", choices=FLOODS, help="only this one; may be repeated")
    parser.add_argument("--read", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.read:
        open_and_warm()
        outcome = read_well(given.read)
        print(json.dumps([outcome.packets, outcome.peak_bytes, outcome.seconds]))
        return 0
    print(f"{'':18}{'MB':>8}{'peak MiB':>10}{'seconds':>10}")
    missed = sum(not _compare(name) for name in given.flood or FLOODS)
    return 1 if missed else 0


def open_and_warm() -> None:
    """Compiles what reading needs: that takes longer than a small flood."""
    with tempfile.TemporaryDirectory() as directory:
        for name, (make, *_) in FLOODS.items():
            path = Path(directory) / name
            path.write_bytes(make(1))
            read(str(path))


def _compare(name: str) -> bool:
    make, count, most_bytes = FLOODS[name]
    outcomes = []
    with tempfile.TemporaryDirectory() as directory:
        for size in (count // TIMES, count):
            path = Path(directory) / f"{size}.pcap"
            path.write_bytes(make(size))
            outcomes.append(read_apart(path))
            shown = f"{path.stat().st_size / 1e6:8.0f}{outcomes[-1].peak_bytes / (1 << 20):10.0f}"
            print(f"{name:18}{shown}{outcomes[-1].seconds:10.2f}", flush=True)
    small, large = outcomes
    ratio = large.seconds / small.seconds
    is_ok = ratio <= RATIO and small.peak_bytes <= MOST_BYTES and large.peak_bytes <= most_bytes
    limits = f"at most {RATIO} x and {most_bytes >> 20} MiB"
    print(f"{'':18}{ratio:.1f} x the time, {limits}   {'ok' if is_ok else 'MISSED'}", flush=True)
    return is_ok


if __name__ == "__main__":
    sys.exit(main())
