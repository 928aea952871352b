"""``python -m benchmarks.spark``: the formats against Spark's own JSON reader, on the same messages.

Both read one file and write to a sink that takes everything and keeps nothing: all that is measured is reading. The
lines are those of ``wirelake generate``: connection, direction, time and the message. JSON is told its schema, so that
nothing has to be inferred: that of all messages of the protocol, as the format has it too, and for comparison that of
the one message that occurs. The format reads as if for the first time, and again with what it has kept of that.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wirelake import decode, encode, load
from wirelake.generate import random_message
from wirelake.spark.session import session
from wirelake.spec.resolve import layout

from .traffic import make_frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DISTINCT = 20_000
"""Messages that differ; they are repeated until there are enough."""
TWO = "fields struct<`service.name`:string,flags:bigint>"
TWO_COLUMNS = "service struct<name:string>, flags bigint"
DEMANDS = (("casual, all columns", "json, all columns", 1.8), ("casual, two columns", "json, two columns", 3.0))


@dataclass(frozen=True)
class Inputs:
    """The messages as a raw stream and as JSON Lines; one line of every message that the protocol has."""

    raw: Path
    lines: Path
    samples: Path


def write_inputs(folder: Path, messages: int) -> Inputs:
    made = Inputs(folder / "calls.bin", folder / "calls.jsonl", folder / "samples.jsonl")
    frames = make_frames("casual", min(messages, DISTINCT))
    stream, lines = b"".join(frames), b"".join(map(_line, frames))
    with made.raw.open("wb") as raw, made.lines.open("wb") as text:
        for _ in range(-(-messages // len(frames))):
            raw.write(stream)
            text.write(lines)
    rng, declared = random.Random(1), layout(load("casual"))
    samples = [encode(random_message(declared, node, rng)) for node in declared.messages.values() for _ in range(20)]
    made.samples.write_bytes(b"".join(map(_line, samples)))
    return made


def _line(frame: bytes) -> bytes:
    about = {"ts": 1_704_067_200_000_000, "connection": "10.0.1.1:40001>10.0.1.2:7771", "direction": "to_server"}
    return (json.dumps(about | decode("casual", frame).to_json(), separators=(",", ":")) + "\n").encode()


def runners(spark: SparkSession, inputs: Inputs) -> dict[str, Callable[[], Any]]:
    def casual(columns: str | None, keeps: bool = False) -> Any:
        reader = spark.read.format("casual").option("indexCache", keeps)
        return (reader.schema(columns) if columns else reader).load(str(inputs.raw))

    def lines(schema: Any) -> Any:
        return spark.read.schema(schema).json(str(inputs.lines))

    everything = spark.read.json(str(inputs.samples)).schema
    with inputs.lines.open(encoding="utf-8") as file:
        calls = spark.read.json(spark.sparkContext.parallelize([file.readline()])).schema
    frames = {
        "json, all columns": lambda: lines(everything),
        "casual, all columns": lambda: casual(None),
        "json, two columns": lambda: lines(TWO),
        "casual, two columns": lambda: casual(TWO_COLUMNS),
        "casual, all, again": lambda: casual(None, keeps=True),
        "casual, two, again": lambda: casual(TWO_COLUMNS, keeps=True),
        "json, columns of a call": lambda: lines(calls),
    }

    def drain(make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: make().write.format("noop").mode("overwrite").save()

    return {name: drain(make) for name, make in frames.items()}


def measure(spark: SparkSession, messages: int, rounds: int, folder: Path) -> dict[str, float]:
    """The best seconds of each."""
    _say(f"making {messages} messages")
    inputs = write_inputs(folder, messages)
    work = runners(spark, inputs)
    best = dict.fromkeys(work, float("inf"))
    for number in range(rounds + 1):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            taken = time.perf_counter() - start
            _say(f"{'warming up' if number == 0 else f'round {number}'}: {name}: {taken:.2f} s")
            if number:
                best[name] = min(best[name], taken)
    return best | {"bytes": inputs.raw.stat().st_size}


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts (%(default)s)")
    parser.add_argument("--master", default="local[2]", help="where (%(default)s)")
    parser.add_argument("--check", action="store_true", help="fail if a ratio is not reached")
    given = parser.parse_args(arguments)
    spark = session(given.master, "wirelake-bench")
    try:
        with tempfile.TemporaryDirectory() as folder:
            best = measure(spark, given.messages, given.rounds, Path(folder))
    finally:
        spark.stop()
    size = best.pop("bytes")
    for name, seconds in best.items():
        rates = f"{given.messages / seconds:14,.0f} messages/s{size / seconds / 1e6:8.0f} MB/s of frames"
        print(f"{name:24}{seconds:8.2f} s{rates}")
    missed = 0
    for faster, slower, demanded in DEMANDS:
        ratio = best[slower] / best[faster]
        missed += ratio < demanded
        print(f"{faster} / {slower}: {ratio:.2f} x, at least {demanded} x: {'ok' if ratio >= demanded else 'MISSED'}")
    return 1 if missed and given.check else 0


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
