"""``python -m benchmarks.spark``: the formats against Spark's own JSON reader, on the same messages.

Both read one file and write to a sink that takes everything and keeps nothing: all that is measured is reading. JSON
has the advantage of a schema with just the columns that the messages have, so nothing has to be inferred.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wirelake import decode
from wirelake.spark.session import session

from .traffic import make_frames

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DISTINCT = 20_000
"""Messages that differ; they are repeated until there are enough."""
WHOLE = "ok boolean, protocol string, message string, code int, length int, fields struct<{fields}>"
TWO = "fields struct<`service.name`:string,flags:bigint>"
DEMANDS = (("casual, all columns", "json, all columns", 1.3), ("casual, two columns", "json, two columns", 2.0))


def write_inputs(folder: Path, messages: int) -> tuple[Path, Path, str]:
    """The messages as a raw stream and as JSON Lines, and the schema of the latter."""
    frames = make_frames("casual", min(messages, DISTINCT))
    shown = [decode("casual", frame).to_json() for frame in frames]
    lines = "".join(json.dumps(one, separators=(",", ":")) + "\n" for one in shown).encode()
    stream = b"".join(frames)
    raw, text = folder / "calls.bin", folder / "calls.jsonl"
    with raw.open("wb") as binary, text.open("wb") as readable:
        for _ in range(-(-messages // len(frames))):
            binary.write(stream)
            readable.write(lines)
    kinds = {name: "bigint" if isinstance(value, int) else "string" for name, value in shown[0]["fields"].items()}
    return raw, text, WHOLE.format(fields=",".join(f"`{name}`:{kind}" for name, kind in kinds.items()))


def runners(spark: SparkSession, raw: Path, text: Path, schema: str) -> dict[str, Callable[[], Any]]:
    def casual(columns: str | None) -> Any:
        reader = spark.read.format("casual")
        return (reader.schema(columns) if columns else reader).load(str(raw))

    two = "service struct<name:string>, flags bigint"
    frames = {
        "json, all columns": lambda: spark.read.schema(schema).json(str(text)),
        "casual, all columns": lambda: casual(None),
        "json, two columns": lambda: spark.read.schema(TWO).json(str(text)),
        "casual, two columns": lambda: casual(two),
    }

    def drain(make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: make().write.format("noop").mode("overwrite").save()

    return {name: drain(make) for name, make in frames.items()}


def measure(spark: SparkSession, messages: int, rounds: int, folder: Path) -> dict[str, float]:
    """The best seconds of each."""
    _say(f"making {messages} messages")
    raw, text, schema = write_inputs(folder, messages)
    work = runners(spark, raw, text, schema)
    best = dict.fromkeys(work, float("inf"))
    for number in range(rounds + 1):
        for name, run in work.items():
            start = time.perf_counter()
            run()
            taken = time.perf_counter() - start
            _say(f"{'warming up' if number == 0 else f'round {number}'}: {name}: {taken:.2f} s")
            if number:
                best[name] = min(best[name], taken)
    return best | {"bytes": raw.stat().st_size}


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
