"""``python -m benchmarks.ingest``: a capture to all tables of a lake, against Spark copying the same messages from JSON
Lines to one Parquet table; whether a large capture costs more per byte than a small one, and what workers need; and how
fast the index reads a capture on one core.

The messages are casual calls of about 440 bytes, no two with the same correlation, over a few connections that begin as
such connections do. MB/s are always those of the frames, so that both sides are measured by the same yardstick.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wirelake import decode, encode
from wirelake.capture.decode import CaptureRange
from wirelake.capture.partitions import PARTITION_BYTES, index
from wirelake.capture.settings import ReadSettings
from wirelake.capture.state import State
from wirelake.capture.write.pcap import PcapWriter
from wirelake.capture.write.tcp import TcpWriter
from wirelake.protocols import casual
from wirelake.spark.pipeline import ingest
from wirelake.spark.session import session

from .traffic import make_frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MESSAGES = 4_000_000
SMALL_MB, LARGE_MB = 200, 2000
COPY_RATIO, SCALE_RATIO, MEMORY_RATIO = 1.0, 1.2, 1.5
PARTS = ("copy", "scale", "index")
INDEX_MB = 500
INDEX_SPEED = 944
"""MB of a capture that the index should read in a second of one core."""
DISTINCT = 20_000
"""Messages that differ in more than their correlation; they come again and again."""
CONNECTIONS = 4
START_US, STEP_US = 1_718_000_000_000_000, 10
SERVER = ("10.0.0.2", 7771)
HEADS, SEQUENCE = 16 + 14 + 20 + 20, 16 + 14 + 20 + 4
"""Of a packet in its file: the bytes before its data, and the place of its sequence number."""
CORRELATION = 8
"""Place of the correlation in a frame: behind its type."""
NO_REPLY = 4
"""Flag of a call that asks for no answer."""

Bytes = NDArray[np.uint8]


# --- the same messages twice


class Calls:
    """Blocks of calls, as packets and as JSON Lines; another one differs in times, numbers and correlations only.

    ``answered``: behind each call there is its reply.
    """

    def __init__(self, distinct: int, answered: bool = False) -> None:
        frames = make_frames("casual", distinct)
        if answered:
            frames = [frame for frame in frames if decode("casual", frame).flags != NO_REPLY]
        self.messages = len(frames) * (2 if answered else 1)
        self.from_client = np.arange(self.messages) % 2 == 0 if answered else np.ones(self.messages, np.bool_)
        sent = [one for frame in frames for one in (frame, _reply_to(frame))] if answered else frames
        self.lengths = np.array([len(frame) for frame in sent], np.int64)
        self.frame_bytes = int(self.lengths.sum())
        self.offsets = np.zeros(self.messages, np.int64)
        for side in (True, False):
            own = self.lengths[self.from_client == side]
            self.offsets[self.from_client == side] = np.cumsum(own) - own
        packets = [_packet_of(frame, bool(side)) for frame, side in zip(sent, self.from_client, strict=True)]
        self.packets = np.frombuffer(b"".join(packets), np.uint8).copy()
        self.starts = _starts(packets)
        shown = [decode("casual", frame).to_json() for frame in frames]
        lines = [json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in shown]
        self.lines = np.frombuffer(b"".join(lines), np.uint8).copy()
        words = [frame[CORRELATION : CORRELATION + 4].hex().encode() for frame in frames]
        places = [line.index(word) for line, word in zip(lines, words, strict=True)]
        self.line_places = _starts(lines) + np.array(places)
        kinds = {name: "bigint" if isinstance(value, int) else "string" for name, value in shown[0]["fields"].items()}
        fields = ",".join(f"`{name}`:{kind}" for name, kind in kinds.items())
        self.json_schema = f"message string, code int, fields struct<{fields}>"

    def __len__(self) -> int:
        return self.messages

    def bytes_of(self, from_client: bool) -> int:
        return int(self.lengths[self.from_client == from_client].sum())

    def as_packets(self, block: int, client_port: int, sequences: tuple[int, int], ts_us: int) -> bytes:
        """``sequences`` are those of client and server."""
        ts = ts_us + STEP_US * np.arange(len(self))
        sequence = np.where(self.from_client, *sequences) + self.offsets
        port = self.starts + SEQUENCE - np.where(self.from_client, 4, 2)
        _put(self.packets, self.starts, (ts // 1_000_000).astype("<u4"))
        _put(self.packets, self.starts + 4, (ts % 1_000_000).astype("<u4"))
        _put(self.packets, self.starts + SEQUENCE, (sequence & 0xFFFFFFFF).astype(">u4"))
        _put(self.packets, port, np.full(len(self), client_port, ">u2"))
        _put(self.packets, self.starts + HEADS + CORRELATION, np.full(len(self), block, ">u4"))
        return self.packets.tobytes()

    def as_lines(self, block: int) -> bytes:
        _put(
            self.lines, self.line_places, np.full(len(self.line_places), int.from_bytes(b"%08x" % block, "big"), ">u8")
        )
        return self.lines.tobytes()


def _put(target: Bytes, places: NDArray[np.int64], values: NDArray[Any]) -> None:
    """Writes values over the bytes at some places."""
    width = values.dtype.itemsize
    target[places[:, None] + np.arange(width)] = values.view(np.uint8).reshape(-1, width)


def _starts(parts: Sequence[bytes]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum([len(part) for part in parts])[:-1]]).astype(np.int64)


def _reply_to(frame: bytes) -> bytes:
    call = decode("casual", frame)
    return encode(
        casual.ServiceCallReply(
            correlation=call.correlation,
            execution=call.execution,
            call=casual.Call(0, 0),
            xid=casual.NULL_XID,
            transaction=casual.TransactionState(0),
            buffer=call.buffer,
        )
    )


def _packet_of(frame: bytes, from_client: bool) -> bytes:
    """A packet with this frame, as the writer of captures makes it, and its head in the file."""
    out = io.BytesIO()
    tcp = TcpWriter(PcapWriter(out))
    tcp.open(0, ("10.0.0.1", 40000), SERVER, START_US)
    tcp.send(0, from_client, frame, START_US + 1000)
    before = out.tell()
    tcp._advance(START_US + 1001)
    return out.getvalue()[before:]


def write_pcap(path: Path, calls: Calls, blocks: int) -> None:
    """Every connection begins with the agreement of both domains; blocks of calls follow in turn."""
    ports = [40_000 + number for number in range(CONNECTIONS)]
    with path.open("wb") as out:
        tcp = TcpWriter(PcapWriter(out))
        for number, port in enumerate(ports):
            at = START_US + number * 10_000
            tcp.open(number, ("10.0.0.1", port), SERVER, at)
            for step, (from_client, frame) in enumerate(_agreement(number), 1):
                tcp.send(number, from_client, frame, at + step * 1000)
        tcp.finish()
        flows = [tcp._flows[number] for number in range(CONNECTIONS)]
        sequences = [(flow.client.next, flow.server.next) for flow in flows]
        ts_us = START_US + 1_000_000
        for block in range(blocks):
            number = block % CONNECTIONS
            client, server = sequences[number]
            out.write(calls.as_packets(block + 1, ports[number], (client, server), ts_us))
            sequences[number] = (client + calls.bytes_of(True), server + calls.bytes_of(False))
            ts_us += STEP_US * len(calls)


def _agreement(number: int) -> list[tuple[bool, bytes]]:
    name = number.to_bytes(16, "big")
    ours, theirs = casual.Domain(name, "front"), casual.Domain(name[::-1], "back")
    known = {"correlation": name, "execution": name}
    return [
        (True, encode(casual.DomainConnectRequest(**known, domain=ours, protocol=casual.Offer((1000,))))),
        (False, encode(casual.DomainConnectReply(**known, domain=theirs, protocol=casual.Chosen(1000)))),
    ]


def write_jsonl(path: Path, calls: Calls, blocks: int) -> None:
    with path.open("wb") as out:
        for block in range(blocks):
            out.write(calls.as_lines(block + 1))


# --- memory of workers


@dataclass
class Peaks:
    """The most that any Python worker of this Spark had at once, in bytes."""

    workers: dict[int, int] = field(default_factory=dict)

    @property
    def most(self) -> int:
        return max(self.workers.values(), default=0)


@contextmanager
def watched(spark: SparkSession) -> Iterator[Peaks]:
    """Looks at the workers until the end. Their peaks begin anew where that is possible."""
    peaks, over = Peaks(), threading.Event()
    java = spark.sparkContext._gateway.proc.pid  # type: ignore[union-attr]
    for worker in _below(java):
        with suppress(OSError):
            Path(f"/proc/{worker}/clear_refs").write_text("5")

    def watch() -> None:
        while not over.wait(0.25):
            for worker in _below(java):
                with suppress(OSError, StopIteration):
                    peaks.workers[worker] = max(peaks.workers.get(worker, 0), _peak(worker))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peaks
    finally:
        over.set()
        thread.join()


def _below(process: int) -> list[int]:
    """The processes that this one has started, and those that they have."""
    found = []
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in map(int, children.read_text().split()):
                found += [child, *_below(child)]
    return found


def _peak(process: int) -> int:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])


# --- measurements


@dataclass
class Bench:
    spark: SparkSession
    folder: Path
    rounds: int
    calls: Calls
    misses: int = 0

    def blocks_of(self, messages: int) -> int:
        return max(1, round(messages / len(self.calls)))

    def best(self, name: str, size: int, run: Callable[[], Any]) -> float:
        """The best seconds of some rounds."""
        seconds = []
        for number in range(self.rounds):
            start = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - start)
            _say(f"{name}, round {number + 1}: {seconds[-1]:.2f} s, {size / seconds[-1] / 1e6:.0f} MB/s of frames")
        return min(seconds)

    def ingest(self, pcap: Path, expected: int, partition_bytes: int | None = None) -> None:
        lake = self.folder / "lake"
        shutil.rmtree(lake, ignore_errors=True)
        report = ingest(self.spark, [str(pcap)], str(lake), final=True, partition_bytes=partition_bytes)
        found = (sum(report.messages.values()), report.violations, report.bytes_quarantined)
        if found != (expected, 0, 0):
            raise SystemExit(f"ingest found {found} messages, violations and bad bytes in {expected} good messages")

    def copy(self, lines: Path) -> None:
        table = self.spark.read.schema(self.calls.json_schema).json(str(lines))
        table.write.mode("overwrite").parquet(str(self.folder / "copy"))

    def expect(self, what: str, found: float, limit: float, at_least: bool) -> None:
        is_reached = found >= limit if at_least else found <= limit
        self.misses += not is_reached
        word = "at least" if at_least else "at most"
        print(f"{what}: {found:.2f} x, {word} {limit} x: {'ok' if is_reached else 'MISSED'}", flush=True)

    def warm_up(self) -> None:
        pcap, lines = self.folder / "warm.pcap", self.folder / "warm.jsonl"
        write_pcap(pcap, self.calls, 2)
        write_jsonl(lines, self.calls, 2)
        for _ in range(2):
            self.ingest(pcap, self.messages(2))
            self.copy(lines)

    def messages(self, blocks: int) -> int:
        return blocks * len(self.calls) + 2 * CONNECTIONS

    # --- the parts

    def compare_with_copy(self, messages: int) -> None:
        blocks = self.blocks_of(messages)
        size = blocks * self.calls.frame_bytes
        pcap, lines = self.folder / "calls.pcap", self.folder / "calls.jsonl"
        _say(f"making {blocks * len(self.calls):,} messages, {size / 1e6:.0f} MB")
        write_jsonl(lines, self.calls, blocks)
        copied = self.best("JSON Lines to Parquet", size, lambda: self.copy(lines))
        lines.unlink()
        write_pcap(pcap, self.calls, blocks)
        with watched(self.spark) as peaks:
            taken = self.best("pcap to all tables", size, lambda: self.ingest(pcap, self.messages(blocks)))
        pcap.unlink()
        for name, seconds in (("JSON Lines to one Parquet table", copied), ("ingest, pcap to all tables", taken)):
            print(f"{name:34}{seconds:8.2f} s{size / seconds / 1e6:8.0f} MB/s of frames")
        print(f"{'largest Python worker':34}{peaks.most / 1e6:8.0f} MB")
        self.expect("ingest / copy", copied / taken, COPY_RATIO, at_least=True)

    def compare_sizes(self, small_mb: int, large_mb: int) -> None:
        small, small_peak = self.sized(small_mb)
        large, large_peak = self.sized(large_mb)
        name = f"{large_mb} MB / {small_mb} MB"
        self.expect(f"{name}, time per byte", large / small, SCALE_RATIO, at_least=False)
        self.expect(f"{name}, memory of a worker", large_peak / small_peak, MEMORY_RATIO, at_least=False)

    def sized(self, megabytes: int) -> tuple[float, int]:
        """Seconds per byte for a capture of that many, and the peak of a worker.

        Partitions have the size that large captures get: what a worker needs goes by that, and a small capture is
        else cut finer. Calls are answered: those that never are would be remembered until the end.
        """
        calls = Calls(DISTINCT // 2, answered=True)
        blocks = max(1, round(megabytes * 1e6 / calls.frame_bytes))
        size = blocks * calls.frame_bytes
        pcap = self.folder / "calls.pcap"
        write_pcap(pcap, calls, blocks)
        with watched(self.spark) as peaks:
            messages = blocks * len(calls) + 2 * CONNECTIONS
            seconds = self.best(f"{megabytes} MB", size, lambda: self.ingest(pcap, messages, PARTITION_BYTES))
        pcap.unlink()
        print(
            f"{f'ingest of {size / 1e6:.0f} MB':34}{seconds:8.2f} s{1e9 * seconds / size:8.2f} ms per MB, "
            f"largest Python worker {peaks.most / 1e6:.0f} MB"
        )
        return seconds / size, peaks.most

    def index_speed(self, megabytes: int) -> None:
        """Read a capture as index tasks do, in this process; processor time counts, not that of others."""
        pcap = self.folder / "calls.pcap"
        write_pcap(pcap, self.calls, max(1, round(megabytes * 1e6 / self.calls.frame_bytes)))
        size, seconds = pcap.stat().st_size, []
        settings = ReadSettings(protocols=("casual",))
        for _ in range(self.rounds + 1):  # the first may have to compile kernels
            start = time.process_time()
            index([CaptureRange(str(pcap), pcap.name, "pcap")], settings, State(), PARTITION_BYTES)
            seconds.append(time.process_time() - start)
        pcap.unlink()
        speed = size / min(seconds) / 1e6
        self.misses += speed < INDEX_SPEED
        shown = "ok" if speed >= INDEX_SPEED else "MISSED"
        print(
            f"index of {size / 1e6:.0f} MB: {speed:.0f} MB/s on one core, at least {INDEX_SPEED}: {shown}", flush=True
        )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=(__doc__ or "").split(": ", 1)[1])
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be repeated")
    parser.add_argument("--messages", type=int, default=MESSAGES, help="for the part copy (%(default)s)")
    parser.add_argument("--small-mb", type=int, default=SMALL_MB, help="for the part scale (%(default)s)")
    parser.add_argument("--large-mb", type=int, default=LARGE_MB, help="for the part scale (%(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="the best of so many counts (%(default)s)")
    parser.add_argument("--master", default="local[2]", help="where (%(default)s)")
    parser.add_argument("--folder", type=Path, help="where files are made; several GB (that for temporary files)")
    parser.add_argument("--check", action="store_true", help="fail if a ratio is not reached")
    given = parser.parse_args(arguments)
    spark = session(given.master, "wirelake-bench")
    try:
        with tempfile.TemporaryDirectory(dir=given.folder) as folder:
            bench = Bench(spark, Path(folder), given.rounds, Calls(DISTINCT))
            _say(f"warming up; the load is {os.getloadavg()[0]:.1f}")
            bench.warm_up()
            if "copy" in (given.part or PARTS):
                bench.compare_with_copy(given.messages)
            if "scale" in (given.part or PARTS):
                bench.compare_sizes(given.small_mb, given.large_mb)
            if "index" in (given.part or PARTS):
                bench.index_speed(INDEX_MB)
    finally:
        spark.stop()
    return 1 if bench.misses and given.check else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
