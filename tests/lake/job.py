"""A small pipeline over a lake, to be killed: every commit adds to some tables, replaces one, and hands on a carry.

What it ends in depends only on how many inputs there are. Each step takes what the lake says, does one input, commits.
"""

from __future__ import annotations

import os
import random
import select
import shutil
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa

from tests.lake.flat import flat
from tests.lake.lakes import tree
from wirelake.lake import Input, Lake, StagedFile, Staging, commits, read_ipc, stage_ipc
from wirelake.lake.history import Listing, read_records
from wirelake.lake.layout import hidden
from wirelake.lake.store import Store
from wirelake.lake.validation import SNAPSHOTS

DAY = 86_400_000_000
START = 1_700_000_000_000_000
MESSAGES = pa.schema(
    [("ts", pa.timestamp("us", "UTC")), ("input", pa.int64()), ("row", pa.int64()), ("text", pa.string())]
)
SEEN = pa.schema([("input", pa.int64()), ("rows", pa.int64())])
ROWS = 60
TASKS = 2


def messages(number: int, task: int) -> pa.RecordBatch:
    rows = [
        {"ts": START + number * DAY // 2 + i * DAY // ROWS, "input": number, "row": task * ROWS + i, "text": f"no. {i}"}
        for i in range(ROWS)
    ]
    return pa.RecordBatch.from_pylist(rows, schema=MESSAGES)


def one_task(staging: Staging, number: int, task: int, fails: bool) -> list[StagedFile]:
    with staging.attempt(task) as attempt:
        batch = messages(number, task)
        attempt.table("silver/casual", MESSAGES, row_group_rows=20).write(batch)
        if fails:
            return []
        attempt.table("bronze/chunks", MESSAGES).write(batch.slice(0, 3))
        return attempt.close()


def one_step(lake: Lake, run: Any, number: int) -> None:
    seen = pa.RecordBatch.from_pydict({"input": [number], "rows": [ROWS * TASKS]}, schema=SEEN)
    before = [batch for name in lake.carry().values() for batch in read_ipc(lake.store, name)]
    files: list[StagedFile] = []
    one_task(run.staging, number, 0, fails=True)
    for task in range(TASKS):
        files += one_task(run.staging, number, task, fails=False)
    with run.staging.attempt("driver") as attempt:
        carry = stage_ipc(attempt, "seen", SEEN, [*before, seen])
        rows = pa.Table.from_batches([*before, seen])
        attempt.table("gold/open", SEEN, dated_by=None).write(rows)
        files += attempt.close()
        run.commit(
            files,
            removed=lake.files("gold/open"),
            inputs=[Input(f"in-{number}", number, None, "", 0, number)],
            carry={"seen": carry},
            facts={"rows": ROWS * TASKS},
        )


def opened(directory: Path | str) -> Lake:
    """A directory called so is an object store with a lake in it, any other is a lake itself; a text is a URI."""
    if isinstance(directory, str):
        return Lake.open(directory, settings={"buckets": 2})
    if "objects" in directory.parts:
        return Lake.open("bucket/lake", settings={"buckets": 2}, filesystem=flat(directory))
    return Lake.open(directory, settings={"buckets": 2})


def whole_job(directory: Path | str, inputs: int) -> None:
    """Every commit writes a checkpoint, so that kills meet it too."""
    lake = opened(directory)
    with patch.object(commits, "CHECKPOINT_EVERY", 1), lake.writing() as run:
        for number in range(inputs):
            if f"in-{number}" not in lake.inputs():
                one_step(lake, run, number)


def contents(lake: Lake) -> dict[str, Any]:
    """All that counts of a lake, and that the directories hold just that."""
    tables = {}
    for table in lake.tables():
        listed = [path for path in tree(lake.store, table) if path.endswith(".parquet")]
        assert listed == sorted(file.path for file in lake.files(table)), table
        rows = lake.dataset(table).to_table()
        tables[table] = rows.sort_by([(name, "ascending") for name in rows.column_names]).to_pylist()
    carried = {
        name: [row for b in read_ipc(lake.store, path) for row in b.to_pylist()] for name, path in lake.carry().items()
    }
    assert sorted(tree(lake.store, "_carry")) == sorted(lake.carry().values())
    assert not tree(lake.store, "_staging")
    assert not Listing.of(lake.store).temporary
    removed = {path for record in read_records(lake.store, Listing.of(lake.store).records) for path in record.removed}
    committed = {file.path for table in lake.tables() for file in lake.files(table)} if lake.store.links else set()
    assert tree(lake.store, SNAPSHOTS) == sorted(map(hidden, removed | committed))
    return {
        "tables": tables,
        "files": {table: sorted(file.path for file in lake.files(table)) for table in lake.tables()},
        "carry": carried,
        "inputs": lake.inputs(),
        "commits": lake.number(),
        "facts": lake.summary().facts,
    }


# --- in a process of its own: forks, and kills what it forked


STEPS = ("write", "open_output", "move", "link", "delete", "delete_tree", "make_directory", "_fsync")
"""Whatever changes something on the disk goes through one of these."""


def die_at(step: int) -> None:
    """This process is killed, not asked, before the given step."""
    done = 0

    def counted(method: Any) -> Any:
        def call(*arguments: Any) -> Any:
            nonlocal done
            done += 1
            if done == step:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*arguments)

        return call

    for name in STEPS:
        setattr(Store, name, counted(getattr(Store, name)))


PATIENCE = 120.0


def forked(place: Path, inputs: int, *, step: int = 0, seconds: float = PATIENCE) -> bool:
    """Runs the job in a child; whether it was killed, before that step or after that time."""
    child = os.fork()
    if child == 0:
        try:
            die_at(step)
            whole_job(place, inputs)
            os._exit(0)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr, flush=True)
            os._exit(1)
    waiting = os.pidfd_open(child)
    is_late = not select.select([waiting], [], [], seconds)[0]
    os.close(waiting)
    if is_late:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if is_late and seconds == PATIENCE:
        raise SystemExit(f"{place}, step {step}: the job hangs")
    if os.WIFEXITED(status) and os.WEXITSTATUS(status):
        raise SystemExit(1)
    return os.WIFSIGNALED(status)


def at_every_step(base: Path, work: Path, inputs: int, most: int) -> int:
    """For each step a copy of ``base`` where the job was killed at that step and started again. How many there were."""
    for step in range(1, most + 1):
        copy = work / f"step-{step}"
        shutil.copytree(base, copy)
        was_killed = forked(copy, inputs, step=step)
        forked(copy, inputs)
        if not was_killed:
            shutil.rmtree(copy)
            return step - 1
    return most


def at_random_moments(place: Path, inputs: int, kills: int, seed: int) -> int:
    """One lake, killed and started again; if it is done before it was killed so often, another one follows.

    Every start of a lake is given a little more time than the one before: a slow machine gets through as well.
    """
    source = random.Random(seed)
    lakes, killed = 0, 0
    while killed < kills:
        lakes += 1
        patience = 0.08
        while forked(place / f"lake-{lakes}", inputs, seconds=source.uniform(0.0, patience)):
            killed += 1
            patience *= 1.1
    return lakes


if __name__ == "__main__":
    if sys.argv[1] == "every":
        print(at_every_step(Path(sys.argv[2]), Path(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])))
    else:
        print(at_random_moments(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5])))
