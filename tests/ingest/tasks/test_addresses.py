"""Which hours are counted anew, from which files, and which files that replaces."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from wirelake.gold.facts import MESSAGES
from wirelake.ingest.tasks import StepSettings
from wirelake.ingest.tasks.addresses import HOUR_US, AddressesTask, address_tasks, counted_anew, hours_of
from wirelake.lake import Lake, StagedFile

FIRST = 1_700_000_000_000_000 // HOUR_US


def file(table: str, first: int | None, last: int | None, name: str = "x") -> StagedFile:
    times = (None if at is None else at * HOUR_US for at in (first, last))
    return StagedFile(table, "", f"_staging/{name}", name, 1, 1, *times)


def test_the_hours_of_messages_and_exchanges_count() -> None:
    files = [
        file("silver/messages", 5, 7),
        file("gold/exchanges", 3, 3),
        file("gold/sessions", 9, 9),
        file("silver/messages", None, None),
    ]
    assert hours_of(files) == [3, 5, 6, 7]


def test_a_task_gets_the_files_of_its_hours(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    new = [file("silver/messages", 5, 7, "m"), file("gold/exchanges", 6, 6, "e")]
    kept = [file("silver/messages", 7, 9, "old")]
    with lake.writing() as run:
        tasks = address_tasks(StepSettings(run.staging, "s", "k", 1), kept, new, hours_of(new), parallelism=4)
    assert [task.hours for task in tasks] == [
        ((5, ("_staging/m",), ()),),
        ((6, ("_staging/m",), ("_staging/e",)),),
        ((7, ("silver/messages/old", "_staging/m"), ()),),
    ]


def test_no_step_goes_through_all_hours_between_wild_clocks() -> None:
    assert hours_of([file("silver/messages", -(10**9), 10**9)]) == []


def test_only_the_minutes_of_the_hour_are_counted_and_replace_those_before(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    times = [FIRST * HOUR_US, FIRST * HOUR_US + 1, (FIRST + 1) * HOUR_US]
    columns = {
        "ts": times,
        "protocol": ["mb"] * 3,
        "address": ["a"] * 3,
        "kind": ["event"] * 3,
        "connection": ["0" * 16] * 3,
        "direction": ["to_server"] * 3,
        "length": [10] * 3,
    }
    arrays = [pa.array(columns.get(field.name, [None] * 3), field.type) for field in MESSAGES]
    with lake.writing() as run:
        for _ in range(2):
            with run.staging.attempt("m") as attempt:
                attempt.table("silver/messages", MESSAGES).write(pa.RecordBatch.from_arrays(arrays, schema=MESSAGES))
                messages = attempt.close()
            settings = StepSettings(run.staging, "here", "k", 1)
            (counted,) = AddressesTask(settings, ((FIRST, (messages[0].staged,), ()),)).run().files
            rows = pq.ParquetFile(lake.store.full(counted.staged)).read().to_pylist()
            assert [(row["sensor"], row["minute"], row["messages"]) for row in rows] == [
                ("here", datetime.fromtimestamp(FIRST * 3600, UTC), 2)
            ]
            _, before = counted_anew([FIRST], lake.files("gold/addresses"))
            run.commit([counted], removed=before)
    assert [file.name for file in before] == [f"part-00000001-k-a{FIRST:08d}-0.parquet"]
    assert len(lake.files("gold/addresses")) == 1
    assert counted_anew([FIRST + 1], lake.files("gold/addresses")) == ([FIRST + 1], [])


def test_a_file_of_a_whole_date_is_counted_anew_hour_by_hour() -> None:
    def file(first: int, last: int) -> StagedFile:
        times = first * HOUR_US, last * HOUR_US + 5
        return StagedFile("gold/addresses", "date=2024-01-01", "", f"part-00000001-x{first}-0.parquet", 1, 1, *times)

    day, next_day, hour = file(0, 23), file(24, 24), file(30, 30)
    assert counted_anew([3], [day, next_day, hour]) == (list(range(24)), [day])
    assert counted_anew([24, 30], [day, next_day, hour]) == ([24, 30], [next_day, hour])
