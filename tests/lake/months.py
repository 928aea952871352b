"""A lake over months, in small: commits, compaction, expiry, publication and sweeps in one process that is killed again
and again, and readers beside it that may never miss a file nor see half a commit.

    python -m tests.lake.months PLACE COMMITS KILLS SEED

Commit by commit ``silver/x`` gains a row with the next number, ``gold/open`` has that number alone, and ``accounting``
one row each. So every snapshot must hold one unbroken range of numbers up to that of ``gold/open``.
"""

from __future__ import annotations

import json
import os
import random
import select
import signal
import statistics
import sys
import time
import traceback
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.lake.lakes import SCHEMA, rows
from wirelake.errors import LakeError
from wirelake.lake import Input, Lake, Run
from wirelake.lake.compaction import compact
from wirelake.lake.expiry import expire

DAY = 86_400_000_000
PER_DAY = 250
"""Commits in what the rows take for a day."""
KEPT_DAYS = 3
COMPACT_EVERY, EXPIRE_EVERY, PUBLISH_EVERY = 100, 250, 100
TIMED = 40
"""Commits that are measured, before each look at what the lake costs."""
GRACE = 4.0
TABLES = ("silver/x", "gold/open", "accounting")


def time_of(number: int) -> int:
    return number * (DAY // PER_DAY)


def day_of(number: int) -> date:
    return date(1970, 1, 1) + timedelta(days=number // PER_DAY)


# --- the writer


def write(place: Path, until: int) -> None:
    """Go on where the lake is, up to a number."""
    lake = Lake.open(place, settings={"grace_seconds": GRACE}, durable=False)
    with lake.writing() as run:
        for number in range(_number(lake) + 1, until + 1):
            add(lake, run, number)
            maintain(lake, run, number)


def add(lake: Lake, run: Run, number: int) -> None:
    """Commit a number."""
    with run.staging.attempt("t", "s") as attempt:
        attempt.table("silver/x", SCHEMA).write(rows(number, ts=time_of(number)))
        attempt.table("gold/open", SCHEMA, dated_by=None).write(rows(number))
        attempt.table("accounting", SCHEMA, dated_by=None).write(rows(number))
        carry = attempt.stage_bytes("state", b"%d" % number)
        files = attempt.close()
    run.commit(
        files,
        removed=lake.files("gold/open"),
        inputs=[Input(f"capture-{number // 50}", number, None, "", 0, number)],
        carry={"state": carry},
        facts={"rows": 1},
        labels={"number": number},
    )


def maintain(lake: Lake, run: Any, number: int) -> None:
    if number % COMPACT_EVERY == 0:
        compact(run, min_files=4)
    if number % EXPIRE_EVERY == 0:
        expire(run, day_of(number) - timedelta(days=KEPT_DAYS))
    if number % PUBLISH_EVERY == 0:
        from wirelake.lake.delta import publish

        publish(Lake.open(lake.path, create=False))


def _number(lake: Lake) -> int:
    return int(lake.labels().get("number") or 0)


# --- the readers


def check(lake: Lake) -> int:
    """Check a snapshot; return its number."""
    lake = lake.snapshot()
    number = _number(lake)
    if number:
        (is_open,) = _numbers(lake.dataset("gold/open").to_table())
        _check_range(_numbers(lake.dataset("silver/x").to_table()), is_open)
        assert is_open == number, (is_open, number)
        assert _numbers(lake.dataset("accounting").to_table()) == list(range(1, number + 1))
        assert lake.summary().facts["rows"] == number
    return number


def check_delta(place: Path) -> None:
    from deltalake import DeltaTable

    table = f"{place}/_tables/silver/x"
    if DeltaTable.is_deltatable(table):
        found = _numbers(DeltaTable(table).to_pyarrow_table())
        assert found == list(range(found[0], found[-1] + 1)), (found[0], found[-1], len(found))


def _numbers(table: pa.Table) -> list[int]:
    return sorted(table.column("n").to_pylist())


def _check_range(numbers: list[int], last: int) -> None:
    assert numbers == list(range(numbers[0], last + 1)), (numbers[0], numbers[-1], len(numbers), last)


def read(place: Path, stop: int, stopping: int) -> None:
    """Read until the pipe is closed. A reader that itself was too slow for the grace period may miss files."""
    os.close(stopping)
    lake, looks = Lake.open(place, create=False), 0
    while not select.select([stop], [], [], 0.02)[0]:
        began = time.monotonic()
        try:
            if looks % 10 == 9:
                lake = Lake.open(place, create=False)
            check(lake)
            if looks % 4 == 3:
                check_delta(place)
            looks += 1
        except Exception:
            if time.monotonic() - began < GRACE / 2:
                raise
    print(json.dumps({"looks": looks}), flush=True)


# --- who starts and kills them


def forked(action: Any, *arguments: Any) -> int:
    child = os.fork()
    if child == 0:
        try:
            action(*arguments)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def ended(child: int, seconds: float | None) -> bool:
    """Wait for a child, and kill it if that takes too long; whether it ended by itself."""
    waiting = os.pidfd_open(child)
    is_over = bool(select.select([waiting], [], [], seconds)[0])
    os.close(waiting)
    if not is_over:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(1)
    return not os.WIFSIGNALED(status)


def live(place: Path, commits: int, kills: int, seed: int) -> dict[str, Any]:
    """Let a lake live; return what was measured at a quarter and at the end."""
    source = random.Random(seed)
    Lake.open(place, settings={"grace_seconds": GRACE}, durable=False)
    stop, stopping = os.pipe()
    reader = forked(read, place, stop, stopping)
    measured, killed, share = {}, 0, 0.25
    try:
        for until in (commits // 4, commits):
            left = round(kills * share)
            wanted = until - TIMED
            while not ended(forked(write, place, wanted), source.uniform(0.05, 1.0) if left > 0 else None):
                killed, left = killed + 1, left - 1
            commits_cost = answered(_measure_commits, place, until)
            measured[str(until)] = answered(_measure, place) | commits_cost
            share = 1 - share
    finally:
        os.close(stopping)
    if not ended(reader, 120):
        raise SystemExit("the reader hangs")
    assert check(Lake.open(place, create=False)) == commits
    return {"kills": killed, **measured}


def answered(action: Any, *arguments: Any) -> dict[str, Any]:
    """Measure in a process of its own; return what it found."""
    out, into = os.pipe()
    child = forked(lambda: os.write(into, json.dumps(action(*arguments)).encode()))
    os.close(into)
    with os.fdopen(out) as answer:
        text = answer.read()
    ended(child, 60)
    found: dict[str, Any] = json.loads(text)
    return found


def _measure_commits(place: Path, until: int) -> dict[str, Any]:
    """Commit up to a number, and return the processor time of one commit with its files; upkeep is not in it."""
    lake, times = Lake.open(place, create=False, durable=False), []
    with lake.writing() as run:
        for number in range(_number(lake) + 1, until + 1):
            began = time.process_time()
            add(lake, run, number)
            times.append(time.process_time() - began)
            maintain(lake, run, number)
    return {"commit_milliseconds": round(1000 * statistics.median(times), 2)}


def _measure(place: Path) -> dict[str, Any]:
    """Open the lake; return what that costs, and how many files there are."""
    before, began = _resident(), time.process_time()
    lake = Lake.open(place, create=False)
    lake.number()
    opened, since = time.process_time() - began, time.process_time()
    lake.number()
    return {
        "open_seconds": round(opened, 4),
        "refresh_seconds": round(time.process_time() - since, 5),
        "open_megabytes": round(_resident() - before, 1),
        "records": len(lake.store.names("_commits")),
        "files": sum(len(lake.files(table)) for table in lake.tables()),
        "hidden": _count(place / "_tables"),
    }


def _count(place: Path) -> int:
    return sum(path.suffix == ".parquet" and "_delta_log" not in path.parts for path in place.rglob("*"))


def _resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    try:
        print(json.dumps(live(Path(sys.argv[1]), *map(int, sys.argv[2:5]))))
    except LakeError as error:
        raise SystemExit(str(error)) from error
