"""``wirelake ingest`` killed at any moment and started again; tasks that fail, and tasks that are done twice: the lake
is that of a clean run.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from tests.ingest.lakes import tables
from tests.lake.lakes import tree
from tests.needs import require
from tests.spark.processes import Ingest
from wirelake.generate import generate, write_pcap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="processes are found in /proc")

CLUSTER = Path(__file__).resolve().parents[2] / "examples" / "cluster" / "run.py"
KILLS, LAKES = int(os.environ.get("WIRELAKE_KILLS", "5")), 2
"""`make soak` asks for 25."""
PARTS = 4
TIMED, AIMED = 3, 5
"""Of every so many kills that many are at a random time; the others at a moment that matters."""


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A rotated capture of connections that go on from file to file, with damage and breaches."""
    folder = tmp_path_factory.mktemp("captures")
    traffic = generate(BUILT_IN, seed=21, messages=2400, connections=3, violations=0.05, corrupt=0.01)
    write_pcap(traffic, folder / "part.pcap", files=PARTS)
    return sorted(folder.glob("part-*.pcap"))


@pytest.fixture(scope="module")
def clean(parts: list[Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("clean") / "lake"
    for number, part in enumerate(parts):
        ingest(InlineRunner(), [str(part)], str(place), final=number == PARTS - 1)
    return contents(place)


def contents(place: Path) -> dict[str, Any]:
    """All rows of a lake; and its directories hold what they should, and nothing else."""
    lake = Lake.open(place, create=False)
    for table in lake.tables():
        listed = [path for path in tree(lake.store, table) if path.endswith(".parquet")]
        assert listed == sorted(file.path for file in lake.files(table)), table
    kept = {path for listed in lake.kept().values() for one in listed for path in one.carry.values()}
    assert sorted(tree(lake.store, "_carry")) == sorted({*lake.carry().values(), *kept})
    inputs = {path: (one.size, one.position) for path, one in lake.inputs().items()}
    return {"tables": tables(lake), "commits": lake.number(), "inputs": inputs, "carry": sorted(lake.carry())}


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


# --- the whole run is killed


def staged(place: Path) -> int:
    """How many files lie in staging."""
    return sum(len(files) for _, _, files in os.walk(place / "_staging"))


def moments(place: Path, rng: Random) -> list[Callable[[], bool]]:
    """What is worth waiting for: tasks that are writing, many files that wait for a commit, the commit itself."""
    commits = place / "_commits"
    known = len(list(commits.glob("*.json")))
    few, many = rng.randint(1, 8), rng.randint(20, 60)
    return [
        lambda: staged(place) >= few,
        lambda: staged(place) >= many,
        lambda: any(commits.glob("*.tmp")),
        lambda: len(list(commits.glob("*.json"))) > known,
    ]


def test_kills_at_any_moment_change_nothing(
    runs: Callable[..., Ingest], clean: dict[str, Any], parts: list[Path], tmp_path: Path
) -> None:
    rng = Random(25)
    usual = json.loads(runs(parts[0], tmp_path / "first", "--quiet").finish())["seconds"]
    kills, left = 0, LAKES * PARTS
    while left > 0 or kills < KILLS:
        place = tmp_path / f"lake-{left}"
        for number, part in enumerate(parts):
            arguments = (part, place, "--quiet", *(["--final"] if number == PARTS - 1 else []))
            for _ in range(-(-(KILLS - kills) // max(left, 1))):
                if not is_killed(runs(*arguments), place, kills, usual, rng):
                    break
                kills += 1
            done = json.loads(runs(*arguments).finish())
            usual = usual if done["commit"] is None else done["seconds"]
            left -= 1
        assert contents(place) == clean


def is_killed(run: Ingest, place: Path, number: int, usual: float, rng: Random) -> bool:
    """Kills a run at its moment, unless it ends before."""
    if number % AIMED < TIMED:
        is_over = run.wait(rng.uniform(0.0, usual))
    else:
        is_over = run.wait(until=rng.choice(moments(place, rng)))
    if is_over:
        return False
    run.kill()
    return True


# --- tasks fail


def test_workers_that_die_within_their_tasks_leave_no_row(
    runs: Callable[..., Ingest], parts: list[Path], tmp_path: Path
) -> None:
    ingest(InlineRunner(), [str(part) for part in parts], str(tmp_path / "clean"), final=True, partition_bytes=1 << 16)
    place = tmp_path / "lake"
    run = runs(*parts, place, "--final", "--quiet", "--partition-bytes", "64k", master="local[2,4]")
    died: set[int] = set()
    for files in (1, 15, 40):
        is_over = run.wait(until=lambda files=files: staged(place) >= files and run.python_workers() != [])
        assert not is_over, run.log.read_text()
        victim = run.python_workers()[-1]
        os.kill(victim, signal.SIGKILL)
        died.add(victim)
    printed = run.finish()
    assert json.loads(printed)["commit"] == 1
    assert len(died) == 3
    assert contents(place) == contents(tmp_path / "clean")


# --- tasks are done twice

SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "5ms",
    "spark.speculation.minTaskRuntime": "0ms",
    "spark.speculation.multiplier": "0",
    "spark.speculation.quantile": "0",
    "spark.speculation.task.duration.threshold": "5ms",
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "120s",
    "spark.cores.max": "2",
    "spark.executor.memory": "600m",
    "spark.driver.host": "127.0.0.1",
}
"""A copy of every task that runs while another machine has nothing to do."""


@contextmanager
def two_machines(place: Path) -> Iterator[str]:
    """A master and two workers, which take each other for different machines: only then Spark makes copies of tasks."""
    spec = importlib.util.spec_from_file_location("run_cluster", CLUSTER)
    assert spec is not None and spec.loader is not None
    cluster = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(cluster)
    with ExitStack() as services:
        started = cluster.service(place / "master", r"Starting Spark master at (spark://\S+)", "Master")
        master = services.enter_context(started)[1]
        for number in (1, 2):
            home = place / f"worker-{number}"
            options = ("--host", f"127.0.0.{number}", "--cores", "1", "--work-dir", str(home / "work"), master)
            services.enter_context(cluster.service(home, "Successfully registered with master", "Worker", *options))
        yield master


def copies(folder: Path) -> int:
    """How many tasks were done once more, by Spark's own log."""
    (log,) = folder.iterdir()
    events = [json.loads(line) for line in log.read_text().splitlines()]
    started = [event["Task Info"] for event in events if event["Event"] == "SparkListenerTaskStart"]
    return sum(task["Speculative"] for task in started)


def test_tasks_that_are_done_twice_leave_their_rows_once(
    runs: Callable[..., Ingest], parts: list[Path], tmp_path: Path
) -> None:
    ingest(InlineRunner(), [str(part) for part in parts], str(tmp_path / "clean"), final=True, partition_bytes=1 << 18)
    place, log = tmp_path / "lake", tmp_path / "events"
    log.mkdir()
    conf = SPECULATION | {"spark.eventLog.dir": log.as_uri()}
    settings = [word for name, value in conf.items() for word in ("--conf", f"{name}={value}")]
    with two_machines(tmp_path) as master:
        options = ("--final", "--quiet", "--partition-bytes", "256k", *settings)
        printed = runs(*parts, place, *options, master=master).finish()
    assert json.loads(printed)["commit"] == 1
    assert copies(log) > 0
    assert contents(place) == contents(tmp_path / "clean")
