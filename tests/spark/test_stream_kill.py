"""Streams on Spark that are killed at any moment (driver, workers or both) and started again: no row is lost, and none
comes twice.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.ingest.lakes import tables
from tests.needs import require
from tests.spark.captured import read
from tests.spark.processes import Ingest
from wirelake.generate import generate, write_pcap, write_tap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

KILLS = int(os.environ.get("WIRELAKE_STREAM_KILLS", "10"))
"""`make soak` asks for 100. Here the verb and a query have three tenths of them each; `tests/cli` has them all."""
SHARE = max(3, KILLS * 3 // 10)
VICTIMS = ("worker", "driver", "both")
JOB = (sys.executable, str(Path(__file__).with_name("stream_job.py")))


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Callable[..., Ingest]]:
    """Starts runs; whatever is left of them at the end is ended."""
    require("java")
    started: list[Ingest] = []

    def start(*arguments: object, **how: Any) -> Ingest:
        started.append(Ingest(*arguments, log=tmp_path / f"run-{len(started)}.log", **how))
        return started[-1]

    yield start
    for one in started:
        one.clean_up()


def is_killed(run: Ingest, victim: str, moment: Callable[[], bool]) -> bool:
    """Kill a part of a run at a moment, unless the run ends before."""
    if run.wait(until=lambda: moment() and (victim == "driver" or bool(run.python_workers()))):
        return False
    if victim == "worker":
        with suppress(IndexError, ProcessLookupError):
            os.kill(run.python_workers()[-1], signal.SIGKILL)
    elif victim == "driver":
        run.kill()
    else:
        run.kill_all()
    return True


# --- the verb


def test_the_verb_loses_nothing_whatever_of_it_is_killed(runs: Callable[..., Ingest], tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    write_tap(generate(["casual", "mb"], seed=5, messages=600), captures, rotate_bytes=60_000)
    ingest(InlineRunner(), [str(captures)], str(tmp_path / "clean"), final=True)
    expected, draw, kills, attempt = tables(tmp_path / "clean"), Random(3), 0, 0
    while kills < SHARE:
        lake, run = tmp_path / f"lake-{(attempt := attempt + 1)}", None
        while kills < SHARE:
            if run is None:
                run = started(runs, captures, lake, "--max-bytes", "20k")
            victim = VICTIMS[kills % len(VICTIMS)]
            if not is_killed(run, victim, moment_of_lake(lake, draw)):
                break
            kills += 1
            run = run if victim == "worker" else None
        if run is not None:
            run.finish()
        done = json.loads(started(runs, captures, lake, "--final").finish().splitlines()[-1])
        assert done["lag_bytes"] == 0
        assert tables(lake) == expected


def test_without_its_jvm_the_verb_ends_at_once_and_says_why(runs: Callable[..., Ingest], tmp_path: Path) -> None:
    captures, lake = tmp_path / "captures", tmp_path / "lake"
    captures.mkdir()
    write_tap(generate(["mb"], seed=5, messages=50), captures / "a.tap")
    run = runs(captures, lake, "--trigger", "100ms", verb="stream", master="local[1]")
    assert not run.wait(until=lambda: commits(lake) > 0)
    (java,) = (number for number, (_, command) in run.members().items() if command.split("\0")[0].endswith("java"))
    os.kill(java, signal.SIGKILL)
    write_tap(generate(["mb"], seed=6, messages=50), captures / "b.tap")
    assert run.wait() and run.process.wait() == 1
    assert "failed (1 in a row): the Java process of Spark is gone" in run.log.read_text()


def started(runs: Callable[..., Ingest], captures: Path, lake: Path, *options: str) -> Ingest:
    return runs(captures, lake, "--available-now", "--quiet", *options, verb="stream", master="local[2,4]")


def moment_of_lake(lake: Path, draw: Random) -> Callable[[], bool]:
    """Return a moment to wait for: some more commits, or some files that are staged."""
    known, more, few = commits(lake), draw.randint(1, 2), draw.randint(1, 15)
    moments = (lambda: commits(lake) >= known + more, lambda: staged(lake) >= few)
    return draw.choice(moments)


def commits(lake: Path) -> int:
    return len(list(lake.glob("_commits/*.json")))


def staged(lake: Path) -> int:
    return sum(len(files) for _, _, files in os.walk(lake / "_staging"))


# --- a query of a user


def test_a_query_loses_nothing_whatever_of_it_is_killed(
    spark: SparkSession, runs: Callable[..., Ingest], tmp_path: Path
) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    write_pcap(generate(["casual", "mb"], seed=4, messages=300, connections=4), captures / "part.pcap", files=3)
    expected = sorted(
        (row["connection"], row["direction"], row["offset"]) for row in read("wire", captures, rotated="true")
    )
    state, checkpoint, out = (tmp_path / name for name in ("state", "checkpoint", "out"))
    places, draw, kills, starts, run = (captures, state, checkpoint, out), Random(5), 0, 0, None
    while kills < SHARE:
        run = run or runs(*places, command=JOB)
        victim = VICTIMS[kills % len(VICTIMS)]
        if is_killed(run, victim, moment_of_query(checkpoint, draw)):
            kills += 1
            if victim == "worker":
                continue
        elif run.process.wait():
            assert kills, run.log.read_text()  # a worker that plans was killed: the query fails, and is started again
        else:
            check(spark, out, expected)
            shutil.rmtree(out)
            shutil.rmtree(checkpoint)
        run, starts = None, starts + 1
        begin_anew(starts, draw, state, checkpoint, out)
    if run is None or (run.wait() and run.process.wait()):
        runs(*places, command=JOB).finish()
    check(spark, out, expected)


def begin_anew(number: int, draw: Random, state: Path, checkpoint: Path, out: Path) -> None:
    """Delete what the stream keeps: Spark's checkpoint the first time, the reader's state the second time, and then by
    chance. A lost checkpoint means to begin with empty tables.
    """
    if number == 1 or (number > 2 and draw.random() < 0.3):
        shutil.rmtree(checkpoint, ignore_errors=True)
        shutil.rmtree(out, ignore_errors=True)
    if number == 2 or (number > 2 and draw.random() < 0.4):
        shutil.rmtree(state, ignore_errors=True)


def moment_of_query(checkpoint: Path, draw: Random) -> Callable[[], bool]:
    """Return a moment to wait for: some more batches that are planned, or done."""
    log = draw.choice(("offsets", "commits"))
    wanted = batches(checkpoint, log) + draw.randint(1, 3)
    return lambda: batches(checkpoint, log) >= wanted


def batches(checkpoint: Path, log: str) -> int:
    return sum(path.name.isdigit() for path in (checkpoint / log).glob("*"))


def check(spark: SparkSession, out: Path, expected: list[Any]) -> None:
    found = spark.read.parquet(str(out)).select("connection", "direction", "offset").collect()
    assert sorted(map(tuple, found)) == expected
