"""``python -m benchmarks.queues``: what durable queues and calls of a casual hub do, against what the machine can do.

The measure for queues is a bare loop that appends 512 bytes to a file and syncs it, on the same disk in the same run.
Producers are connections that send an enqueue of 512 bytes and wait for its reply, which is the proof that the message
is on the disk; ``transactions`` are enqueues in a branch, each with a prepare and a commit. Calls, 100 at a time on one
connection, are compared with the echo of ``benchmarks.live``. Every figure is the median of several rounds, and a ratio
is taken within its round.

Where a disk syncs thousands of times a second, the time of the hub's own work is what is measured. ``--sync-ms 1`` adds
a millisecond to each sync, of the bare loop and of the hub, so that machines can be compared by what sharing a sync
gains.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any

from .live import Place, measure, running
from .queues_load import run_load

APPENDED = 512
RUNS = {
    "1 producer": ("enqueue", 1, 0.4),
    "32 producers": ("enqueue", 32, 4.0),
    "256 producers": ("enqueue", 256, 7.0),
    "32 transactions": ("transaction", 32, 2.0),
}
"""What is done by how many at once, and the least multiple of the bare loop."""
SERVE = "from wirelake.cli import main; main()"
"""A hub that may use every core, as the bare loop may: its store writes in more than one thread."""
CALLS = 0.5
"""The least share of the echo's rate."""
CONFIG = """
[casual]
name = "bench"
storage = "bench.db"
services = "bench_services:domain"
queues = [{name = "bench"}]
"""
SERVICES = """
from wirelake.live.casual import Domain
domain = Domain()

@domain.service("echo", transaction="none")
async def echo(value):
    return value
"""


def slow_down(sync_ms: float) -> None:
    """Add so much to each sync of stores in this process."""
    from wirelake.live.storage.sqlite import SqliteDatabase

    begin, commit = SqliteDatabase.begin, SqliteDatabase.commit
    is_synced = False

    def begin_and_note(self: SqliteDatabase, *, is_durable: bool, is_new: bool = True) -> None:
        nonlocal is_synced
        is_synced = is_durable
        begin(self, is_durable=is_durable, is_new=is_new)

    def commit_slowly(self: SqliteDatabase) -> None:
        commit(self)
        if is_synced:
            time.sleep(sync_ms / 1e3)

    SqliteDatabase.begin, SqliteDatabase.commit = begin_and_note, commit_slowly  # type: ignore[method-assign]


def sync_loop(directory: Path, seconds: float, sync_ms: float = 0.0) -> float:
    """Return how often per second a file takes 512 bytes and a sync."""
    path = directory / "bare"
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    count, start = 0, time.perf_counter()
    try:
        while time.perf_counter() < start + seconds:
            os.write(number, bytes(APPENDED))
            os.fsync(number)
            if sync_ms:
                time.sleep(sync_ms / 1e3)
            count += 1
        return count / (time.perf_counter() - start)
    finally:
        os.close(number)
        path.unlink()


def rounds(
    directory: Path, hub: Place, echo: Place, count: int, seconds: float, sync_ms: float = 0.0
) -> Iterator[dict[str, float]]:
    """Yield the ratios of each round, and the rates that they are made of."""
    for number in range(count):
        print(f"round {number + 1} of {count}", file=sys.stderr)
        found: dict[str, float] = {}
        for name, (kind, many, _) in RUNS.items():
            bare = sync_loop(directory, seconds / 2, sync_ms)
            found[f"{name} rate"] = run_load(hub.port, kind, many, seconds)
            bare = (bare + sync_loop(directory, seconds / 2, sync_ms)) / 2
            found["bare"] = bare
            found[name] = found[f"{name} rate"] / bare
        found["calls rate"] = run_load(hub.port, "call", 100, seconds)
        found["calls"] = found["calls rate"] / measure("echo", "window-100", seconds, echo)["rate"]
        yield found


def judged(found: Sequence[dict[str, float]]) -> list[dict[str, Any]]:
    demands = {**{name: least for name, (_, _, least) in RUNS.items()}, "calls": CALLS}
    return [
        {
            "run": name,
            "rate": median(one[f"{name} rate"] for one in found),
            "ratio": median(one[name] for one in found),
            "demanded": least,
            "passed": median(one[name] for one in found) >= least,
        }
        for name, least in demands.items()
    ]


def table(rows: Sequence[dict[str, Any]], bare: float) -> str:
    lines = [f"{'':18}{'per second':>12}{'ratio':>10}{'demanded':>10}", f"{'bare loop':18}{bare:>12,.0f}"]
    for row in rows:
        missed = "" if row["passed"] else "  MISSED"
        lines.append(f"{row['run']:18}{row['rate']:>12,.0f}{row['ratio']:>10.2f}{row['demanded']:>10.2f}{missed}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.directory) as folder, ExitStack() as servers:
        directory = Path(folder)
        (directory / "hub.toml").write_text(CONFIG)
        (directory / "bench_services.py").write_text(SERVICES)
        config = str(directory / "hub.toml")
        run = (
            f"from benchmarks.queues import slow_down; slow_down({given.sync_ms}); {SERVE}" if given.sync_ms else SERVE
        )
        hub = servers.enter_context(running("-c", run, "serve", "--casual", "127.0.0.1:0", "--config", config))
        echo = servers.enter_context(running("-m", "benchmarks.live", "--echo"))
        measure("echo", "1-1", 0.1, echo["echo"])
        found = list(rounds(directory, hub["casual"], echo["echo"], given.rounds, given.seconds, given.sync_ms))
    rows = judged(found)
    print(json.dumps(rows, indent=2) if given.json else table(rows, median(one["bare"] for one in found)))
    return 1 if given.check and not all(row["passed"] for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queues", description="Durable queues and calls.")
    parser.add_argument("--rounds", type=int, default=5, help="the median of so many counts (%(default)s)")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run (%(default)s)")
    parser.add_argument("--directory", help="where the disk is that is measured; a temporary directory by default")
    parser.add_argument("--sync-ms", type=float, default=0.0, help="added to each sync of both (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--check", action="store_true", help="fail if less than demanded is reached")
    return parser


if __name__ == "__main__":
    sys.exit(main())
