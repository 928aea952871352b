"""``python -m benchmarks.streaming``: a hub under load that records, and a stream that keeps a lake current with it.

Parts: ``live`` prints how long a message takes from the hub's socket to a row that can be queried, and what the stream
holds (memory, carry, files) while it runs, and fails if a long run is slow or grows; ``catch-up`` how much faster than
real time a stream reads what was recorded, ``cpu`` what a message costs at 5 s triggers against one ingest, ``step``
what a step over 1 MB of growth takes, ``settings`` what settings of Spark do to a query of your own, and ``cuts``
compares lakes that followed captures cut at any byte with those of one ingest. ``--part`` names those to run; without
it all but ``cuts`` do.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import psutil
import pyarrow.dataset as ds
import pyarrow.parquet as pq

import wirelake
from wirelake.errors import LakeError
from wirelake.ingest.follow import Batch, FollowSettings, Watcher, follow
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.lake import Lake

RATE, SECONDS = 5000, 60
PARTS = ("live", "catch-up", "cpu", "step", "settings", "cuts")
ADDRESS = "plant.boiler"
WAYS = 10
"""In which captures of one world grow."""
HELD_SECONDS = 5.0
LONGEST_STOP_SECONDS = 300.0
LONG_SECONDS = 1500.0
"""A run that is as long is judged: from the first third on, removed files are swept as often as others come."""
MOST_P50, MOST_P99 = 1.5, 3.0
MOST_GROWTH = {"memory": 1.1, "carry": 3.0, "files in tables": 1.5, "files on disk": 1.1}
"""From the second third of a long run to the last."""
BURSTS = 50
"""A second."""
POLL_SECONDS = 0.01
ROUNDS = 3
FILE_MANAGER = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
SETTINGS = {
    "as wirelake starts it": {},
    "FileSystemBasedCheckpointFileManager": {"spark.sql.streaming.checkpointFileManagerClass": FILE_MANAGER},
    "without unix socket": {"spark.python.unix.domain.socket.enabled": "false"},
}
MICRO_BATCHES, WARM_BATCHES = 60, 10
PAYLOAD = {"celsius": 81.5, "sensor": "boiler-7", "note": "x" * 120}
WIRELAKE = [sys.executable, "-c", "from wirelake.cli import main; main()"]


# --- load


async def load(address: str, rate: int, seconds: float) -> int:
    """Publish for so long, to one subscriber; ``rate`` counts what the hub receives and what it sends."""
    url, published = f"mb://{address}", 0
    async with (
        wirelake.connect(url, name="display") as display,
        wirelake.connect(url, name="plant") as plant,
        display.subscribe("plant.#") as messages,
    ):
        wanted = int(seconds * rate / 2)
        reading = asyncio.create_task(_read(messages, wanted))
        began = time.monotonic()
        for burst in range(int(seconds * BURSTS)):
            while published < min(wanted, (burst + 1) * rate / 2 / BURSTS):
                await plant.publish(ADDRESS, PAYLOAD)
                published += 1
            await asyncio.sleep(max(0.0, began + (burst + 1) / BURSTS - time.monotonic()))
        await reading
    return published


async def _read(messages: Any, count: int) -> None:
    for _ in range(count):
        await messages.get(timeout=60)


# --- what becomes visible, and when


@dataclass
class Seen:
    """Rows of a lake as they appear: ``latencies`` in seconds from the time of a message to that of its row."""

    lake: Path
    rows: int = 0
    latencies: list[np.ndarray] = field(default_factory=list)
    newest_us: int = 0

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set() and not (self.lake / "_lake.json").exists():
            stop.wait(POLL_SECONDS)
        if stop.is_set():
            return
        lake = Lake.open(self.lake, create=False)
        number, known = lake.number(), self._look(lake.snapshot(), set(), time.time())
        self.rows, self.latencies, is_over = 0, [], False  # what was there before
        while not is_over:
            is_over = stop.wait(POLL_SECONDS)
            if lake.number() != number:
                number, known = lake.number(), self._look(lake.snapshot(), known, time.time())

    def _look(self, lake: Lake, known: set[str], now: float) -> set[str]:
        """Rows of merged files were seen before: only newer ones count."""
        places = set(lake.places("silver/messages"))
        newest = self.newest_us
        for place in places - known:
            ts = pq.read_table(place, columns=["ts"]).column("ts").cast("int64").to_numpy()
            new = ts[ts > self.newest_us]
            if len(new):
                self.rows += len(new)
                self.latencies.append(now - new / 1e6)
                newest = max(newest, int(new.max()))
        self.newest_us = newest
        return places


@dataclass
class Held:
    """What a stream holds at one moment."""

    seconds: float
    memory: dict[str, int]
    """Of its processes, in bytes: what each has for itself, and its share of what several have."""
    carry: int
    """Bytes of state that the last commit has left to the next."""
    files: int
    """Of the tables, as the last commit names them."""
    on_disk: int
    """Files of the lake, those included that only snapshots still find."""
    commits: int

    @classmethod
    def now(cls, pid: int, lake: Path, began: float) -> Held:
        opened = Lake.open(lake, create=False)
        carry = sum(opened.store.sizes(opened.carry().values()).values())
        files = sum(len(opened.files(table)) for table in opened.tables())
        on_disk = sum(name.endswith(".parquet") for _, _, names in os.walk(lake / "_tables") for name in names)
        return cls(time.monotonic() - began, _memory(pid), carry, files, on_disk, opened.number())


@dataclass
class Lived:
    published: int
    rows: int
    messages: int
    """In the lake at the end."""
    p50: float
    p99: float
    most: float
    batches: int
    batches_behind: int
    """Commits from the end of the load to the one with the last message, unless files were merged meanwhile."""
    carry_bytes: int
    cpu_seconds: float
    """Of the stream, with its children."""
    held: list[Held]
    """Once every ``HELD_SECONDS``."""


def live(folder: Path, rate: int, seconds: float, trigger: str, engine: str) -> Lived:
    """Run hub, load and stream as processes of their own."""
    captures, lake = folder / "captures", folder / "lake"
    captures.mkdir(parents=True)
    hub = subprocess.Popen(
        [*WIRELAKE, "serve", "--mb", "127.0.0.1:0", "--tap", str(captures), "--log-level", "error"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    stream: subprocess.Popen[str] | None = None
    stop, seen = threading.Event(), Seen(lake)
    watching = threading.Thread(target=seen.run, args=(stop,))
    try:
        assert hub.stdout is not None
        address = json.loads(hub.stdout.readline())["listening"]["mb"]
        warm = _load(address, 50, 0.2)  # there is a capture, and the stream is warm before anything is measured
        command = ["stream", str(captures), str(lake), "--trigger", trigger, "--engine", engine, "--quiet"]
        stream = subprocess.Popen([*WIRELAKE, *command], stdout=subprocess.PIPE, text=True)
        while not (lake / "_lake.json").exists() or Lake.open(lake, create=False).number() == 0:
            time.sleep(POLL_SECONDS)
        watching.start()
        held: list[Held] = []
        measuring = threading.Thread(target=_measure, args=(stream.pid, lake, stop, held))
        measuring.start()
        published = _load(address, rate, seconds)
        number = Lake.open(lake, create=False).number()
        wanted = 2 * (published + warm)
        while _published(lake) < wanted:
            time.sleep(0.1)
        cpu = _cpu(stream.pid)
        stop.set()
        measuring.join()
        stream.send_signal(signal.SIGTERM)
        out, _ = stream.communicate(timeout=120)
    finally:
        stop.set()
        for process in (stream, hub):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait()
        for process in (stream, hub):
            if process is not None and process.stdout is not None:
                process.stdout.close()
        if watching.is_alive():
            watching.join()
    total = json.loads(out)
    latencies = np.concatenate(seen.latencies)
    files = Lake.open(lake, create=False).files("silver/messages")
    messages, behind = sum(file.rows for file in files), max(file.commit for file in files) - number
    p50, p99, most = (float(np.percentile(latencies, share)) for share in (50, 99, 100))
    carry = total["carry_bytes"]
    return Lived(published, seen.rows, messages, p50, p99, most, total["batches"], behind, carry, cpu, held)


def _load(address: str, rate: int, seconds: float) -> int:
    command = [sys.executable, "-m", "benchmarks.streaming", "--load", address, str(rate), str(seconds)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def _published(lake: Path) -> int:
    """Count the rows of published messages: each comes in once and goes out once."""
    counted = Lake.open(lake, create=False).dataset("silver/messages")
    return int(counted.count_rows(filter=ds.field("address") == ADDRESS))


def _family(pid: int) -> list[psutil.Process]:
    try:
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    except psutil.Error:
        return []


def _cpu(pid: int) -> float:
    times = [process.cpu_times() for process in _family(pid)]
    return sum(one.user + one.system + one.children_user + one.children_system for one in times)


def _memory(pid: int) -> dict[str, int]:
    sizes = dict.fromkeys(("driver", "java", "workers"), 0)
    for process in _family(pid):
        with suppress(psutil.Error):
            part = "driver" if process.pid == pid else "java" if process.name() == "java" else "workers"
            sizes[part] += process.memory_full_info().pss
    return sizes


def _measure(pid: int, lake: Path, stop: threading.Event, held: list[Held]) -> None:
    began = time.monotonic()
    while not stop.wait(HELD_SECONDS):
        with suppress(LakeError):  # a checkpoint may take a record away that was just listed
            held.append(Held.now(pid, lake, began))


# --- what was recorded, read again


class _Told(Watcher):
    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.cpu: list[float] = []
        self._last = time.process_time()

    def batch(self, batch: Batch) -> None:
        now = time.process_time()
        self.batches.append(batch)
        self.cpu.append(now - self._last)
        self._last = now


def read_again(captures: Path, lake: Path, max_bytes: int) -> tuple[_Told, float, float]:
    """Follow what is there in steps; return the batches, and the seconds and processor time of all of it."""
    told, began, cpu = _Told(), time.monotonic(), time.process_time()
    settings = FollowSettings(available_now=True, trigger_seconds=0, max_bytes=max_bytes)
    follow(InlineRunner(), [str(captures)], str(lake), settings, watcher=told)
    return told, time.monotonic() - began, time.process_time() - cpu


def at_once(captures: Path, lake: Path) -> tuple[int, float]:
    """Ingest all of it; return the messages and the processor time."""
    cpu = time.process_time()
    report = ingest(InlineRunner(), [str(captures)], str(lake))
    return sum(report.messages.values()), time.process_time() - cpu


def recorded(folder: Path, seconds: float, rate: int) -> Path:
    """Captures of so many seconds of traffic, generated."""
    from wirelake.generate import generate, write_tap

    folder.mkdir(parents=True)
    write_tap(generate(["mb", "casual"], seed=1, messages=int(seconds * rate), connections=50), folder / "a.tap")
    return folder


# --- the parts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", action="append", choices=PARTS)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of load; 1800 for the long run")
    parser.add_argument("--rate", type=int, default=RATE, help="messages per second")
    parser.add_argument("--trigger", default="1s")
    parser.add_argument("--engine", choices=("inline", "spark"), default="spark")
    parser.add_argument("--cuts", type=int, default=2000, help="ways in which captures grow")
    parser.add_argument("--micro-batches", choices=SETTINGS, help=argparse.SUPPRESS)
    parser.add_argument("--load", nargs=3, metavar=("ADDRESS", "RATE", "SECONDS"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.load:
        address, rate, seconds = options.load
        print(asyncio.run(load(address, int(rate), float(seconds))))
        return 0
    if options.micro_batches:
        print(json.dumps(micro_batches(options.micro_batches)))
        return 0
    parts = options.part or PARTS[:-1]
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if "live" in parts:
            lived = live(folder / "live", options.rate, options.seconds, options.trigger, options.engine)
            _show_live(lived, options)
            faults = too_much(lived) if options.seconds >= LONG_SECONDS else []
            print("".join(f"too much: {fault}\n" for fault in faults), end="")
        if {"catch-up", "cpu", "step"} & set(parts):
            seconds = min(options.seconds, LONGEST_STOP_SECONDS)
            _read_again(recorded(folder / "recorded", seconds, options.rate), folder, parts, seconds)
    if "settings" in parts:
        _settings()
    wrong = _cuts(options.cuts) if "cuts" in parts else 0
    return 1 if wrong or faults else 0


def _show_live(found: Lived, options: argparse.Namespace) -> None:
    per_message = 1e6 * found.cpu_seconds / max(found.messages, 1)
    print(
        f"live, {options.rate} messages/s for {options.seconds:.0f} s, trigger {options.trigger}, {options.engine}: "
        f"{found.messages:,} messages in {found.batches} batches; socket to row p50 {found.p50:.2f} s, "
        f"p99 {found.p99:.2f} s, at most {found.most:.2f} s; {per_message:.0f} us of processor a message; "
        f"carry {found.carry_bytes / 1e6:.2f} MB"
    )
    every = max(1, len(found.held) // 10)
    for one in found.held[every - 1 :: every]:
        print(
            f"  after {one.seconds / 60:4.1f} min: {_shown(one.memory)}, carry {one.carry / 1e6:.2f} MB, "
            f"{one.files} files in tables, {one.on_disk} on disk, {one.commits} commits"
        )


def too_much(found: Lived) -> list[str]:
    """Say what of a long run is slower, or grows more, than a stream that runs for weeks may."""
    third = len(found.held) // 3
    slow = [
        f"{name} is {seconds:.2f} s, and {most} s is the limit"
        for name, seconds, most in (("p50", found.p50, MOST_P50), ("p99", found.p99, MOST_P99))
        if seconds > most
    ]
    grown = []
    for name, most in MOST_GROWTH.items():
        before, after = (
            median(_measures(one)[name] for one in part) for part in (found.held[third:-third], found.held[-third:])
        )
        if after > most * before:
            grown.append(f"{name}: {before:,.0f}, later {after:,.0f}, more than {most} times as much")
    return [*slow, *grown]


def _measures(one: Held) -> dict[str, int]:
    sizes = (sum(one.memory.values()), one.carry, one.files, one.on_disk)
    return dict(zip(MOST_GROWTH, sizes, strict=True))


def _shown(memory: dict[str, int]) -> str:
    parts = ", ".join(f"{name} {size >> 20}" for name, size in memory.items())
    return f"{sum(memory.values()) >> 20} MiB of memory ({parts})"


def _read_again(captures: Path, folder: Path, parts: tuple[str, ...], seconds: float) -> None:
    size = sum(path.stat().st_size for path in captures.glob("*.tap"))
    messages, _ = at_once(captures, folder / "warm")
    if "catch-up" in parts:
        _, took, _ = read_again(captures, folder / "catch-up", 64 << 20)
        print(
            f"catch-up: {seconds:.0f} s of {messages / seconds:,.0f} messages/s in {took:.1f} s: {seconds / took:.1f} x"
        )
    if "cpu" in parts:
        batch, stream, batches = [], [], 0
        for number in range(ROUNDS):
            batch.append(at_once(captures, folder / f"batch-{number}")[1])
            told, _, cpu = read_again(captures, folder / f"cpu-{number}", int(size / seconds * 5))
            stream.append(cpu)
            batches = len(told.batches)
        each, once = (1e6 * median(one) / messages for one in (stream, batch))
        print(
            f"cpu at 5 s triggers: {each:.1f} us a message in {batches} batches, one ingest {once:.1f} us: "
            f"{each / once:.2f} x (medians of {ROUNDS})"
        )
    if "step" in parts:
        told, _, _ = read_again(captures, folder / "step", 1 << 20)
        wall, cpu = median(one.seconds for one in told.batches), median(told.cpu)
        print(f"step over 1 MB: {1e3 * wall:.0f} ms, {1e3 * cpu:.0f} ms of processor (median of {len(told.batches)})")


def micro_batches(name: str) -> dict[str, float]:
    """Run a query of one row a batch, through Python, on a session of its own; return medians in milliseconds."""
    from wirelake.spark.session import session

    spark = session("local[2]", **SETTINGS[name], **{"spark.sql.streaming.numRecentProgressUpdates": "200"})
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).load()
    with tempfile.TemporaryDirectory() as checkpoint:
        passed = rows.mapInArrow(lambda batches: batches, rows.schema)
        query = passed.writeStream.format("noop").option("checkpointLocation", checkpoint).start()
        while query.lastProgress is None or query.lastProgress["batchId"] < MICRO_BATCHES:
            time.sleep(POLL_SECONDS)
        spent = [progress["durationMs"] for progress in query.recentProgress][WARM_BATCHES:]
        query.stop()
    spark.stop()
    return {
        "batch": median(one["triggerExecution"] for one in spent),
        "log": median(one["walCommit"] + one["commitOffsets"] for one in spent),
        "work": median(one["addBatch"] for one in spent),
    }


def _settings() -> None:
    for name in SETTINGS:
        command = [sys.executable, "-m", "benchmarks.streaming", "--micro-batches", name]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        shown = ", ".join(f"{what} {number:.0f} ms" for what, number in found.items())
        print(f"a batch of one row, {name}: {shown} (medians)")


def _cuts(count: int) -> int:
    """Compare lakes that followed captures as they grew with those of one ingest: of large worlds some, of tiny ones
    all others.
    """
    from tests.ingest.growth import differing_tiny_ways, differing_ways

    wrong = 0
    for seed in range(-(-count // WAYS)):
        with tempfile.TemporaryDirectory() as place:
            if seed % 10 == 0:
                found = differing_ways(seed, WAYS, Path(place))
            else:
                found = differing_tiny_ways(seed, range(WAYS), Path(place))
        for text in found:
            print(text, flush=True)
        wrong += len(found)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{count} ways to grow, {wrong} rows differ; {peak} MiB")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
