"""Which hours have something new, what is carried of their minutes, and which rows are replaced."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from wirelake.errors import LakeError
from wirelake.gold.addresses import MINUTE_US, AddressCounts
from wirelake.gold.exchanges import EXCHANGES
from wirelake.gold.facts import MESSAGES
from wirelake.ingest.carry import pack
from wirelake.ingest.tasks import StepSettings, addresses
from wirelake.ingest.tasks.addresses import (
    HOUR_MINUTES,
    HOUR_US,
    AddressesResult,
    Open,
    Sources,
    carry_name,
    hours_of,
    kept_of,
    minute_of,
)
from wirelake.lake import Lake, Run, StagedFile
from wirelake.lake.compaction import compact

FIRST = 1_700_000_000_000_000 // HOUR_US * HOUR_MINUTES
"""The first minute."""
NOTHING_OPEN = Open(1 << 60)


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
    assert hours_of(files) == {3, 5, 6, 7}


def test_no_step_goes_through_all_hours_between_wild_clocks() -> None:
    assert hours_of([file("silver/messages", -(10**9), 10**9)]) == set()


def test_a_task_gets_the_files_of_its_hours_and_all_hours_of_a_file_of_minutes(tmp_path: Path) -> None:
    new = [file("silver/messages", 5, 8, "m"), file("gold/exchanges", 6, 6, "e")]
    kept = [file("silver/messages", 7, 9, "old"), file("gold/addresses", 7, 8, "am"), file("gold/addresses", 1, 1)]
    with Lake.open(tmp_path).writing() as run:
        settings = StepSettings(run.staging, "s", "k", 1)
        carried = {6 * HOUR_MINUTES: "a", 9 * HOUR_MINUTES: "b"}
        tasks = Sources(new, [file("gold/exchanges", 5, 5)], kept, carried).tasks(settings, NOTHING_OPEN, 4)
    hours = [[(one.hour, one.new, one.old, dict(one.carried), one.is_anew) for one in task.hours] for task in tasks]
    assert hours == [
        [(5, (new[0],), (), {}, True)],
        [(6, (new[0], new[1]), (), {6 * HOUR_MINUTES: "a"}, False)],
        [(7, (new[0],), (kept[0],), {}, False), (8, (new[0],), (kept[0],), {}, False)],
    ]
    assert [task.counted for task in tasks] == [(), (), (kept[1],)]
    assert pickle.loads(pickle.dumps(tasks)) == tasks, "they travel to workers"


def test_a_minute_is_open_until_it_is_over_and_all_its_requests_are_decided() -> None:
    now = Open(5 * MINUTE_US + 1, frozenset({1, 9}))
    assert [minute for minute in range(7) if now.has(minute)] == [1, 4, 5, 6]
    assert not any(Open(None, frozenset({1})).has(minute) for minute in range(7))


def test_only_the_newest_minutes_are_carried_within_the_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Lake.open(tmp_path).store
    for name in "ab":
        store.write(f"_carry/{name}", b"x" * 10)
    made = {carry_name(minute): StagedFile("", "", "s", "n", 0, 10) for minute in (3, 9)}
    carried = {1: "_carry/a", 5: "_carry/b"}
    assert kept_of(carried, made, store) == ({carry_name(1), carry_name(5)}, {carry_name(3), carry_name(9)})
    monkeypatch.setattr(addresses, "MOST_BYTES", 25)
    assert kept_of(carried, made, store) == ({carry_name(5)}, {carry_name(9)})
    monkeypatch.setattr(addresses, "MOST_MINUTES", 1)
    assert kept_of(carried, made, store) == (set(), {carry_name(9)})
    assert [minute_of(name) for name in (carry_name(3), "state", "addresses-x")] == [3, None, None]


class Steps:
    """A lake whose addresses are counted step by step, as a sensor does it."""

    def __init__(self, folder: Path) -> None:
        self.lake = Lake.open(folder)
        self.last = AddressesResult()

    def step(self, *rows: dict[str, Any], still_open: Open | None = None, final: bool = False) -> AddressesResult:
        """Commit messages (with ``ts``) and exchanges (with ``request_ts``), and the minutes that they change."""
        with self.lake.writing() as run:
            new = self._staged(run, rows)
            known = {name: path for name, path in self.lake.carry().items() if minute_of(name) is not None}
            carried = {minute_of(name): path for name, path in known.items()}
            kept = [file for table in self.lake.tables() for file in self.lake.files(table)]
            settings = StepSettings(run.staging, "here", "k", 1, final=final)
            tasks = Sources(new, (), kept, carried).tasks(settings, still_open or Open(0), 1)  # type: ignore[arg-type]
            result = AddressesResult()
            for task in tasks:
                done = task.run()
                for name, value in vars(done).items():
                    (getattr(result, name).extend if isinstance(value, list) else getattr(result, name).update)(value)
            run.commit([*new, *result.files], removed=result.removed, carry=dict.fromkeys(known) | result.carry)
        return result

    def _staged(self, run: Run, rows: tuple[dict[str, Any], ...]) -> list[StagedFile]:
        with run.staging.attempt("n", "here") as attempt:
            for table, schema, time in (
                ("silver/messages", MESSAGES, "ts"),
                ("gold/exchanges", EXCHANGES, "request_ts"),
            ):
                listed = [row for row in rows if time in row]
                if listed:
                    columns = [
                        pa.array([row.get(name) for row in listed], kind)
                        for name, kind in zip(schema.names, schema.types, strict=True)
                    ]
                    attempt.table(table, schema, dated_by=time).write(
                        pa.RecordBatch.from_arrays(columns, schema=schema)
                    )
            return attempt.close()

    def rows(self) -> list[dict[str, Any]]:
        found = self.lake.dataset("gold/addresses").to_table().drop_columns(["date", "sensor"])
        return sorted(found.to_pylist(), key=lambda row: (row["minute"], row["address"]))

    def expected(self) -> list[dict[str, Any]]:
        """All rows of the tables, counted at once."""
        counts = AddressCounts()
        for table, add in (("silver/messages", counts.add_messages), ("gold/exchanges", counts.add_exchanges)):
            if self.lake.files(table):
                for batch in self.lake.dataset(table).to_batches():
                    add(batch)
        return list(counts.rows().to_pylist())


def said(minute: int, address: str = "a", connection: str = "0" * 16) -> dict[str, Any]:
    place = {"protocol": "mb", "address": address, "connection": connection, "direction": "to_server"}
    return place | {"ts": (FIRST + minute) * MINUTE_US + 7, "kind": "event", "length": 10}


def asked(minute: int, latency_us: int | None, address: str = "a") -> dict[str, Any]:
    outcome = "timeout" if latency_us is None else "ok"
    place = {"protocol": "mb", "address": address, "outcome": outcome, "latency_us": latency_us}
    return place | {"request_ts": (FIRST + minute) * MINUTE_US + 7}


def test_a_step_adds_to_the_minutes_that_are_carried_without_reading_a_table(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    steps.step(said(0), said(0, "b"), asked(0, 30), asked(0, 10))
    for number in range(5):
        before = steps.lake.snapshot()
        for path in [*before.paths("silver/messages"), *before.paths("gold/exchanges")]:
            (tmp_path / path).write_bytes(b"nobody reads this")
            (tmp_path / path.removeprefix("_tables/")).write_bytes(b"nobody reads this")
        result = steps.step(said(0, connection=f"{number:016x}"), asked(0, 20 + number), asked(0, None))
        assert result.counted == {FIRST}
    [a, b] = steps.rows()
    assert (a["messages"], a["bytes"], a["requests"], a["timeouts"], a["fan_out"]) == (6, 60, 12, 5, 5)
    assert (a["p50_us"], a["max_us"], b["messages"], b["requests"]) == (22, 30, 1, 0)


def test_a_late_decision_replaces_its_minute_and_no_other_row(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    steps.step(*(said(minute) for minute in range(3)), asked(2, 5))
    files = {file.path for file in steps.lake.files("gold/addresses")}
    result = steps.step(asked(1, 8))
    assert [file.name for file in result.removed] == [f"part-00000001-k-m{FIRST + 1:010d}-0.parquet"]
    assert len(files & {file.path for file in steps.lake.files("gold/addresses")}) == 2
    assert steps.rows() == steps.expected()


def test_rows_of_a_merged_file_that_are_not_replaced_move_to_another(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    steps.step(*(said(minute) for minute in range(10)), said(300))
    for minute in range(10, 13):
        steps.step(said(minute))
    with steps.lake.writing() as run:
        assert compact(run, tables=["gold/addresses"]).files_before == 4
    steps.step(asked(4, 8), said(12))
    assert steps.rows() == steps.expected() and len(steps.rows()) == 14


def test_what_is_not_carried_is_counted_anew_from_the_tables(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    steps.step(said(0), said(0, "b"), asked(0, 30), said(1), still_open=NOTHING_OPEN)
    assert not any(minute_of(name) for name in steps.lake.carry())
    steps.step(asked(0, 10), said(2), still_open=NOTHING_OPEN)
    assert steps.rows() == steps.expected() and [row["requests"] for row in steps.rows()] == [2, 0, 0, 0]


def test_nothing_is_carried_when_nothing_more_comes(tmp_path: Path) -> None:
    steps = Steps(tmp_path)
    assert steps.step(said(0)).carry.keys() == {carry_name(FIRST)}
    assert not steps.step(said(0), final=True).carry
    assert steps.rows() == steps.expected()


def test_the_carry_of_another_minute_and_one_that_leads_nowhere_are_refused(tmp_path: Path) -> None:
    counts = AddressCounts()
    rows = pa.Table.from_pylist([said(0)], MESSAGES)
    for batch in rows.to_batches():
        counts.add_messages(batch)
    steps = Steps(tmp_path)
    steps.step(said(1))
    (path,) = steps.lake.carry().values()
    (tmp_path / path).write_bytes(pack(counts.carry(FIRST)))
    with pytest.raises(LakeError, match=f"is of minute {FIRST}, not of {FIRST + 1}"):
        steps.step(said(1))
    broken = counts.carry(FIRST)
    broken.connections = []
    (tmp_path / path).write_bytes(pack(broken))
    with pytest.raises(LakeError, match="its messages have a kind that is not there"):
        steps.step(said(1))
