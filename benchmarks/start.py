"""``python -m benchmarks.start``: how long a small ingest takes, against the shortest script that uses Spark.

Each is a process of its own, from its start to its end, in turn with the others: most of what is measured is starting.
The script starts a session as users do and counts ten rows, without Python in any task.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from wirelake.generate import generate, write_pcap

MESSAGES = 6_000
"""Together some 2 MB."""
PROTOCOLS = ("casual", "mb")
COUNT = """
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("{master}").getOrCreate()
assert spark.range(10).count() == 10
spark.stop()
"""
INGEST = (sys.executable, "-c", "from wirelake.cli import main; main()", "ingest")
RATIO, SECONDS = 1.2, 3.0
"""What an ingest on Spark may take, in terms of the script; what one without Spark may take."""


def commands(capture: Path, folder: Path, number: int, master: str) -> dict[str, list[str]]:
    """Every ingest makes a lake of its own."""
    spark, inline = folder / f"spark-{number}", folder / f"inline-{number}"
    return {
        "spark.range(10).count()": [sys.executable, "-c", COUNT.format(master=master)],
        "ingest": [*INGEST, str(capture), str(spark), "--final", "--quiet", "--master", master],
        "ingest --engine inline": [*INGEST, str(capture), str(inline), "--final", "--quiet", "--engine", "inline"],
    }


def measure(rounds: int, master: str, folder: Path) -> dict[str, float]:
    """The best seconds of each; the first round, in which kernels may be compiled, does not count."""
    capture = folder / "small.pcap"
    write_pcap(generate(PROTOCOLS, seed=1, messages=MESSAGES, connections=4), capture)
    best: dict[str, float] = {}
    for number in range(rounds + 1):
        for name, command in commands(capture, folder, number, master).items():
            taken = seconds_of(command)
            print(f"{f'round {number}' if number else 'warming up'}: {name}: {taken:.2f} s", file=sys.stderr)
            if number:
                best[name] = min(best.get(name, taken), taken)
    return best


def seconds_of(command: Sequence[str]) -> float:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYSPARK", "SPARK"))}
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    taken = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return taken


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.start", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5, help="the best of so many counts (%(default)s)")
    parser.add_argument("--master", default="local[2]", help="where (%(default)s)")
    parser.add_argument("--check", action="store_true", help="fail if something takes longer than it may")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        best = measure(given.rounds, given.master, Path(folder))
    for name, seconds in best.items():
        print(f"{name:28}{seconds:8.2f} s")
    ratio, inline = best["ingest"] / best["spark.range(10).count()"], best["ingest --engine inline"]
    print(f"ingest / spark.range(10).count(): {ratio:.2f} x, at most {RATIO} x: {_verdict(ratio <= RATIO)}")
    print(f"ingest --engine inline: {inline:.2f} s, at most {SECONDS:g} s: {_verdict(inline <= SECONDS)}")
    return 1 if given.check and (ratio > RATIO or inline > SECONDS) else 0


def _verdict(is_kept: bool) -> str:
    return "ok" if is_kept else "MISSED"


if __name__ == "__main__":
    sys.exit(main())
