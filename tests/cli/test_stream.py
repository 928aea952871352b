"""``wirelake stream``: one line per batch, a JSON summary, a clean end at a signal, and the right lake after kills."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from tests.ingest.lakes import tables
from tests.live.tapping import small_disk
from tests.waiting import wait_until
from wirelake.generate import generate, write_tap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.lake import Lake

KILLS = int(os.environ.get("WIRELAKE_STREAM_KILLS", "10"))
"""`make soak` asks for 100."""


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("captures")
    write_tap(generate(["casual", "mb"], seed=5, messages=600), folder, rotate_bytes=60_000)
    return folder


@pytest.fixture(scope="module")
def expected(captures: Path, tmp_path_factory: pytest.TempPathFactory) -> object:
    place = tmp_path_factory.mktemp("batch") / "lake"
    ingest(InlineRunner(), [str(captures)], str(place), final=True)
    return tables(place)


RUN = "from wirelake.cli import main; main()"
MERGING = f"from wirelake.ingest import follow; follow.TIERS, follow.MIN_FILES = ((3, 1 << 20),), 2; {RUN}"
"""Files are merged all the time."""


def started(captures: Path, lake: Path, *options: str, run: str = RUN) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", run, "stream", str(captures), str(lake), "--engine", "inline", *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def commits(lake: Path) -> int:
    return len(list(lake.glob("_commits/*.json")))


def test_it_reads_what_is_there_in_steps_and_says_what_it_did(captures: Path, expected: object, tmp_path: Path) -> None:
    process = started(captures, tmp_path / "lake", "--available-now", "--final", "--max-bytes", "50k")
    out, err = process.communicate(timeout=120)
    summary = json.loads(out)
    lines = [line for line in err.splitlines() if line.startswith("batch ")]
    assert process.returncode == 0 and summary["batches"] == len(lines) > 2 and summary["lag_bytes"] == 0
    assert tables(tmp_path / "lake") == expected


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_after_the_step_that_runs(captures: Path, tmp_path: Path, number: signal.Signals) -> None:
    process = started(captures, tmp_path / "lake", "--trigger", "100ms")
    wait_until(lambda: commits(tmp_path / "lake") > 0, seconds=60)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and json.loads(out)["batches"] >= 1
    assert not list((tmp_path / "lake").glob("_staging/*"))


def test_kills_at_any_moment_change_nothing(captures: Path, expected: object, tmp_path: Path) -> None:
    draw, kills = Random(7), 0
    for attempt in range(KILLS):
        lake = tmp_path / f"lake-{attempt}"
        options = ("--available-now", "--max-bytes", "20k")
        while kills < KILLS and is_killed(started(captures, lake, *options, run=MERGING), lake, draw):
            kills += 1
            if draw.random() < 0.25:
                break
        last = started(captures, lake, "--available-now", "--final")
        _, err = last.communicate(timeout=120)
        assert last.returncode == 0, err
        assert tables(lake) == expected
        if kills >= KILLS:
            return
    assert kills >= KILLS


def is_killed(process: subprocess.Popen[str], lake: Path, draw: Random) -> bool:
    """Kill a process at a moment that matters; tell whether it had not ended by then."""
    known, staged = commits(lake), draw.randint(1, 40)
    moments = [
        lambda: commits(lake) > known,
        lambda: sum(1 for _ in lake.glob("_staging/**/*")) >= staged,
        lambda: any(lake.glob("_commits/*.tmp")) or commits(lake) > known + 1,
    ]
    moment = draw.choice(moments)
    wait_until(lambda: moment() or process.poll() is not None, seconds=60)
    is_running = process.poll() is None
    process.kill()
    process.communicate()
    return is_running


def test_a_signal_that_comes_while_the_event_is_in_use_ends_it() -> None:
    program = """
import signal
from wirelake.cli.stream import _stopping
with _stopping() as stop:
    with stop._cond:
        signal.raise_signal(signal.SIGTERM)
    assert stop.wait(60)
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "interrupted\n"


def test_final_needs_an_end(captures: Path, tmp_path: Path) -> None:
    process = started(captures, tmp_path / "lake", "--final")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 2 and "--available-now" in err


def test_a_round_that_keeps_failing_ends_it_with_status_1(captures: Path, tmp_path: Path) -> None:
    Lake.open(tmp_path / "lake", settings={"buckets": 2})
    (tmp_path / "lake" / "_lock").mkdir()
    process = started(captures, tmp_path / "lake", "--max-failures", "2", "--trigger", "0")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "failed (2 in a row)" in err and "gave up" in err


# --- for weeks


def page(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


def test_it_serves_metrics_and_says_when_an_input_stalls(captures: Path, tmp_path: Path) -> None:
    options = ("--metrics", "127.0.0.1:0", "--trigger", "50ms", "--stalled-after", "500ms")
    process = started(captures, tmp_path / "lake", *options)
    assert process.stderr is not None
    told = process.stderr.readline()
    assert told.startswith("metrics: http://127.0.0.1:")
    url = told.split()[1]
    health = url.replace("/metrics", "/health")
    wait_until(lambda: json.loads(page(health)[1])["stalled"] and "stream_batches_total 0.0" not in page(url)[1], 60)
    status, found = page(health)
    shown = page(url)[1]
    assert (status, json.loads(found)["status"]) == (503, "stalled")
    for name in ("lag_bytes 0.0", "stalled 1.0", "failures_in_a_row 0.0", 'last_batch_seconds{stage="decode"}'):
        assert f"wirelake_stream_{name}" in shown
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0 and f"{captures}: stalled" in err


@pytest.mark.skipif(sys.platform != "linux", reason="Arrow has jemalloc on Linux")
def test_it_gives_memory_back_that_a_merge_of_files_has_used(captures: Path, tmp_path: Path) -> None:
    program = """
import atexit, sys
from wirelake.cli import main
atexit.register(lambda: print(sys.modules["pyarrow"].default_memory_pool().backend_name, file=sys.stderr))
main()
"""
    options = ["--available-now", "--engine", "inline", "--quiet"]
    command = [sys.executable, "-c", program, "stream", str(captures), str(tmp_path / "lake"), *options]
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=True)
    assert done.stderr.split()[-1] == "jemalloc"


def test_an_address_for_metrics_that_is_taken_is_an_error(captures: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = started(captures, tmp_path / "lake", "--metrics", f"127.0.0.1:{taken.getsockname()[1]}")
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1 and "--metrics" in err and not (tmp_path / "lake").exists()


def test_a_full_disk_is_told_and_the_stream_goes_on_when_there_is_room(
    captures: Path, expected: object, tmp_path: Path
) -> None:
    with small_disk(tmp_path / "disk", "12m") as is_there:
        if not is_there:
            pytest.skip("a small disk can be mounted by root only")
        lake, filler = tmp_path / "disk" / "lake", tmp_path / "disk" / "filler"
        process = started(captures, lake, "--max-bytes", "20k", "--trigger", "100ms", "--max-failures", "50")
        wait_until(lambda: commits(lake) > 2, seconds=60)
        fill(filler)
        assert process.stderr is not None
        failed = next(line for line in process.stderr if line.startswith("failed"))
        assert "No space left on device" in failed and "next try" in failed
        known = commits(lake)
        filler.unlink()
        wait_until(lambda: commits(lake) > known, seconds=60)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)
        assert process.returncode == 0
        last = started(captures, lake, "--available-now", "--final")
        _, err = last.communicate(timeout=120)
        assert last.returncode == 0 and tables(lake) == expected, err


def test_a_disk_that_stays_full_ends_it_with_status_1(captures: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "12m") as is_there:
        if not is_there:
            pytest.skip("a small disk can be mounted by root only")
        lake = tmp_path / "disk" / "lake"
        Lake.open(lake, settings={"buckets": 2})
        fill(tmp_path / "disk" / "filler")
        process = started(captures, lake, "--trigger", "10ms", "--max-failures", "3")
        _, err = process.communicate(timeout=60)
        assert process.returncode == 1 and err.count("No space left on device") >= 3 and "gave up" in err


def fill(filler: Path) -> None:
    """Take all the room that a disk has."""
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
