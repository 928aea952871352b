"""The report of a real lake through the verb: what is written, and what is served while the lake is written."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from click.testing import CliRunner, Result

from tests.report.processes import ANY, SECONDS, Start, starting
from tests.report.served import HOSTILE
from tests.waiting import wait_until
from wirelake.cli import cli
from wirelake.lake import Lake

SESSIONS, EXCHANGES, MESSAGES = "gold/sessions", "gold/exchanges", "silver/messages"
DATED_BY = {SESSIONS: "first_ts", EXCHANGES: "request_ts", MESSAGES: "ts"}


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["report", *arguments])


def commit_again(lake: Path, table: str = SESSIONS, *, is_replaced: bool = False) -> int:
    """One more commit: the rows of a table once more, beside the old ones or in their place."""
    opened = Lake.open(lake, create=False)
    rows = opened.dataset(table).to_table().drop_columns(["date"]).combine_chunks()
    with opened.writing() as writing, writing.staging.attempt(0) as attempt:
        writer = attempt.table(table, rows.schema, dated_by=DATED_BY[table])
        for batch in rows.to_batches():
            writer.write(batch)
        return writing.commit(attempt.close(), removed=opened.files(table) if is_replaced else ())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starting(tmp_path) as begin:
        yield begin


@pytest.fixture
def lake(report_lake: Path, tmp_path: Path) -> Path:
    """One that may be written."""
    return Path(shutil.copytree(report_lake, tmp_path / "lake"))


def test_a_page_is_written_and_the_line_says_what_it_holds(report_lake: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    result = run(str(report_lake), "-o", str(path))
    assert result.exit_code == 0, result.stderr
    assert path.read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]
    said = json.loads(result.stdout)
    assert result.stdout.count("\n") == 1
    assert said["report"] == str(path) and said["conversations"] > 0
    assert said["bytes"] == path.stat().st_size < 10_000_000
    held = {one["why"]: f"{one['held']:,} of {one['of']:,}" for one in said["held"]}
    (line,) = [line for line in result.stderr.splitlines() if line.startswith(f"{path}: ")]
    assert f"{held['violation']} with violations" in line


def test_a_lake_with_a_file_missing_or_damaged_is_told_in_one_line(lake: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.html"
    file = next((lake / "gold" / "exchanges").rglob("*.parquet"))
    names = [file, lake / "_tables" / file.relative_to(lake)]  # one to be listed, one for snapshots
    for spoil in (lambda name: name.write_bytes(b"PAR1 this is none"), Path.unlink):
        for name in names:
            spoil(name)
        for more in (["-o", str(output)], ["--serve", "--listen", ANY]):
            result = run(str(lake), *more)
            assert isinstance(result.exception, SystemExit) and (result.exit_code, result.stdout) == (1, "")
            assert file.name in result.stderr.splitlines()[-1]
    assert not output.exists()


def test_it_follows_a_lake_that_is_written(start: Start, lake: Path) -> None:
    served = start(str(lake), "--listen", ANY)
    assert served.ask("/state")[1]["commit"] == 1
    _, before = served.ask("/report.json")
    assert commit_again(lake) == 2
    wait_until(lambda: served.ask("/state")[1]["commit"] == 2, SECONDS)
    _, after = served.ask("/report.json")
    assert sessions(after) == 2 * sessions(before) > 0
    assert served.end() == 0


def sessions(report: dict[str, Any]) -> int:
    overview = report["data"]["overview"]
    found: int = overview["rows"][0][overview["columns"].index("sessions")]
    return found


def ids_of(report: dict[str, Any], name: str) -> list[str]:
    found = report["data"][name]
    return [row[found["columns"].index("conversation")] for row in found["rows"]]


def test_any_conversation_of_the_lake_is_fetched(start: Start, lake: Path) -> None:
    """Those that the page has, and others."""
    served = start(str(lake), "--listen", ANY)
    _, report = served.ask("/report.json")
    held = {one["id"] for one in report["conversations"]}
    columns = ["connection", "direction", "request_offset"]
    rows = Lake.open(lake, create=False).dataset("gold/exchanges").to_table(columns=columns).to_pylist()
    exchanges = [f"x:{row['connection']}:{row['direction'][3]}:{row['request_offset']}" for row in rows]
    others = [id for id in exchanges if id not in held]
    assert held and len(others) > 100
    for id in (*sorted(held)[::60], *others[::300]):
        status, found = served.ask(f"/conversation?id={quote(id)}")
        assert (status, found["id"]) == (200, id) and found["events"]
    assert served.end() == 0


def test_ids_of_nobody_are_not_found(start: Start, lake: Path) -> None:
    served = start(str(lake), "--listen", ANY)
    good = ids_of(served.ask("/report.json")[1], "sessions")[0]
    for id in (*HOSTILE, good[:-1], f"{good}x", f"{good}'", f"{good}:0", good[:2]):
        status, text = served.ask(f"/conversation?id={quote(id, safe='%')}")
        assert (status, text) == (404, "there is no such conversation\n"), id[:80]
    assert served.ask(f"/conversation?id={quote(good)}")[0] == 200
    assert served.end() == 0
    assert "cannot" not in served.told and "Traceback" not in served.told


def test_many_readers_while_files_are_replaced(start: Start, lake: Path) -> None:
    served = start(str(lake), "--listen", ANY)
    ids = ids_of(served.ask("/report.json")[1], "sessions")[:6]
    wrong: list[Any] = []
    ended = threading.Event()

    def read(id: str) -> None:
        while not ended.is_set():
            status, found = served.ask(f"/conversation?id={quote(id)}")
            if status != 200 or found["id"] != id:
                wrong.append((status, found))

    readers = [threading.Thread(target=read, args=(id,)) for id in ids]
    for reader in readers:
        reader.start()
    try:
        for _ in range(3):
            for table in DATED_BY:
                number = commit_again(lake, table, is_replaced=True)
            wait_until(lambda number=number: served.ask("/state")[1]["commit"] == number, SECONDS)  # type: ignore[misc]
    finally:
        ended.set()
        for reader in readers:
            reader.join(SECONDS)
    assert wrong == [] and served.end() == 0
    assert "Traceback" not in served.told
