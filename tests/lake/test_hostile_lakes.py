"""Lakes made to do harm: they are refused with one line, nothing outside them changes, and nothing of them runs."""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

import wirelake
from tests.report.made import account, message, write
from wirelake.cli import cli
from wirelake.errors import LakeError
from wirelake.lake import Lake
from wirelake.lake.layout import hidden
from wirelake.report import open_tables

Json = dict[str, Any]
PART = "part-00000001-t-0.parquet"
RECORD = "_commits/00000001.json"


class Hostile:
    """A lake beside a directory that is none of its business."""

    def __init__(self, home: Path) -> None:
        self.home, self.lake, self.outside = home, home / "lake", home / "outside"
        rows = {"silver/messages": [message(0), message(10)], "accounting": [account(2)]}
        lake = write(self.lake, rows)
        with lake.writing() as run:
            carry = run.staging.stage_bytes("driver", "state.bin", b"carried")
            run.commit(carry={"state": carry})
        self.outside.mkdir()
        (self.outside / "precious").write_text("precious")
        pq.write_table(pa.table({"secret": ["s3cret"]}), self.outside / PART)
        self.messages = next(self.lake.glob("silver/messages/date=*/*.parquet"))

    def edit(self, path: str, change: Callable[[Json], None]) -> None:
        record = json.loads((self.lake / path).read_text())
        change(record)
        (self.lake / path).write_text(json.dumps(record))

    def replace_by_link(self, path: str) -> None:
        """Move a part of the lake out of it, and leave a link."""
        target = self.outside / "moved"
        (self.lake / path).rename(target)
        (self.lake / path).symlink_to(target)

    def content(self) -> dict[str, bytes | str]:
        """Everything but the lock, which a writer signs, and the report."""
        found: dict[str, bytes | str] = {}
        for path in sorted(self.home.rglob("*")):
            name = str(path.relative_to(self.home))
            if path.is_symlink():
                found[name] = f"-> {os.readlink(path)}"
            elif path.is_file() and name not in ("lake/_lock", "report.html"):
                found[name] = path.read_bytes()
        return found

    def read(self) -> None:
        lake = Lake.open(self.lake, create=False)
        for table in lake.tables():
            lake.dataset(table).to_table()
        for path in lake.carry().values():
            lake.store.read(path, 1 << 20)

    def write(self) -> None:
        with Lake.open(self.lake, create=False).writing():
            pass

    def report(self) -> Result:
        return CliRunner().invoke(cli, ["report", str(self.lake), "-o", str(self.home / "report.html"), "--quiet"])


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hostile:
    monkeypatch.chdir(tmp_path)
    return Hostile(tmp_path)


def refused(hostile: Hostile, named: str) -> None:
    """Reading, writing and the report all refuse; each says why in one line that names the file."""
    before = hostile.content()
    for action in (hostile.read, hostile.write):
        with pytest.raises(LakeError) as error:
            action()
        assert named in str(error.value) and "\n" not in str(error.value) and "\x1b" not in str(error.value)
    result = hostile.report()
    assert result.exit_code == 1 and isinstance(result.exception, SystemExit)
    assert result.stderr.startswith("Error: ") and named in result.stderr and result.stderr.count("\n") == 1
    assert hostile.content() == before and not (hostile.home / "report.html").exists()


def test_the_lake_that_is_changed_below_is_fine_as_it_is(hostile: Hostile) -> None:
    hostile.read()
    hostile.write()
    assert hostile.report().exit_code == 0


# --- records

INJECTION = """silver/x" as select 1; copy (select 'evil') to 'outside' || chr(47) || 'evil'; create view "y"""
NAMES = {
    "sql": INJECTION,
    "above": "../outside",
    "inside and above": "silver/messages/../../../outside",
    "absolute": "/etc",
    "uri": "file:///etc",
    "drive": "C:\\x",
    "unknown": "gold/other",
    "upper case": "silver/Messages",
    "control characters": "silver/\x1b[2J\n",
    "commits": "_commits",
    "nothing": "",
}


@pytest.mark.parametrize("table", NAMES.values(), ids=NAMES.keys())
def test_a_table_that_no_lake_has_is_refused(hostile: Hostile, table: str) -> None:
    def change(record: Json) -> None:
        file = dict(record["files"][0], table=table)
        record["files"].append(file)

    hostile.edit(RECORD, change)
    refused(hostile, RECORD)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("partition", ".."),
        ("partition", "date=2024-01-01/../../../../outside"),
        ("partition", "date=x' or 1"),
        ("name", f"../../../../outside/{PART}"),
        ("name", f"/etc/{PART}"),
        ("name", "../../../_lake.json"),
        ("name", "*.parquet"),
        ("name", "part-00000001-t-0.parquet\0"),
        ("name", "x"),
        ("staged", f"../outside/{PART}"),
        ("staged", f"_staging/../../outside/{PART}"),
        ("staged", "/etc/passwd"),
        ("staged", "_lake.json"),
        ("staged", "_commits/00000001.json"),
        ("staged", ""),
    ],
)
@pytest.mark.parametrize("which", ["files", "carry"])
def test_a_file_that_lies_elsewhere_is_refused(hostile: Hostile, field: str, value: str, which: str) -> None:
    def change(record: Json) -> None:
        file = record["files"][0] if which == "files" else record["carry"]["state"]
        file[field] = value

    path = RECORD if which == "files" else "_commits/00000002.json"
    hostile.edit(path, change)
    refused(hostile, path)


@pytest.mark.parametrize("key", ["removed", "superseded"])
@pytest.mark.parametrize(
    "path",
    [
        "../outside/precious",
        "/etc/passwd",
        "_lake.json",
        RECORD,
        "_carry/../../outside/precious",
        "outside",
        "..",
        "\0",
    ],
)
def test_nothing_that_is_no_file_of_a_table_is_deleted(hostile: Hostile, key: str, path: str) -> None:
    last = "_commits/00000002.json"
    hostile.edit(last, lambda record: record[key].append(path))
    refused(hostile, last)


CHANGES: dict[str, Callable[[Json], Any]] = {
    "another number": lambda record: record.update(number=7),
    "number as text": lambda record: record.update(number="1"),
    "negative rows": lambda record: record["files"][0].update(rows=-1),
    "rows with a fraction": lambda record: record["files"][0].update(rows=1.5),
    "rows beyond 64 bits": lambda record: record["files"][0].update(rows=1 << 63),
    "time as text": lambda record: record["files"][0].update(min_ts="yesterday"),
    "a file that is a list": lambda record: record.update(files=[[]]),
    "an unknown field": lambda record: record.update(command="rm"),
    "an unknown field of a file": lambda record: record["files"][0].update(mode=0o777),
    "no labels": lambda record: record.pop("labels"),
    "facts in lists": lambda record: record.update(facts={"x": [1]}),
    "facts three deep": lambda record: record.update(facts={"x": {"y": {"z": 1}}}),
    "a long text": lambda record: record.update(wirelake="x" * 100_000),
    "a run elsewhere": lambda record: record.update(run="../../outside"),
    "carry elsewhere": lambda record: record.update(carry={"../x": None}),
    "an input without a path": lambda record: record.update(inputs=[{}]),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_record_of_another_shape_is_refused(hostile: Hostile, change: Callable[[Json], Any]) -> None:
    hostile.edit(RECORD, change)
    refused(hostile, RECORD)


DEEP = "[" * 200_000
TEXTS = {
    "nothing": "",
    "deep": DEEP,
    "deep in a field": f'{{"format":1,"wirelake":"x","facts":{DEEP}',
    "deep in an unknown field": f'{{"format":1,"wirelake":"x","extra":{DEEP}',
    "not text": "\udcff\udcfe",
    "a number of 10,000 digits": f'{{"format":1,"wirelake":"x","number":{"9" * 10_000}}}',
    "a list": "[]",
    "pickle": "\x80\x05.",
}


@pytest.mark.parametrize("path", [RECORD, "_lake.json"])
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_json_that_makes_no_sense_is_refused(hostile: Hostile, path: str, text: str) -> None:
    (hostile.lake / path).write_bytes(text.encode("utf-8", "surrogateescape"))
    refused(hostile, path)


@pytest.mark.parametrize("path", [RECORD, "_lake.json"])
def test_a_file_that_is_far_too_long_is_not_read(hostile: Hostile, path: str) -> None:
    os.truncate(hostile.lake / path, 1 << 33)  # a hole: it takes no room
    with pytest.raises(LakeError, match=r"has 8,589,934,592 bytes, and [0-9,]+ is the limit"):
        hostile.read()
    assert hostile.report().exit_code == 1


@pytest.mark.parametrize("settings", [[], {"x": [1]}, {"x": {"y": {"z": 1}}}, "x"])
def test_settings_of_another_shape_are_refused(hostile: Hostile, settings: Any) -> None:
    hostile.edit("_lake.json", lambda about: about.update(settings=settings))
    refused(hostile, "_lake.json")


# --- links


@pytest.mark.parametrize(
    "path",
    ["_lake.json", "_commits", RECORD, "_tables", "_tables/silver", "the date", "the file", "_carry", "the carry"],
)
def test_nothing_is_read_moved_or_deleted_behind_a_link(hostile: Hostile, path: str) -> None:
    messages = hostile.lake / hidden(str(hostile.messages.relative_to(hostile.lake)))
    places = {"the date": messages.parent, "the file": messages}
    places["the carry"] = next((hostile.lake / "_carry").iterdir())
    if path in places:
        path = str(places[path].relative_to(hostile.lake))
    hostile.replace_by_link(path)
    before = hostile.content()
    with pytest.raises(LakeError, match=r"is a link or a device, and no part of a lake; remove it$"):
        hostile.read()
    if "_carry" not in path:  # which a report does not read
        result = hostile.report()
        assert result.exit_code == 1 and f"{path}: is a link" in result.stderr
    if "_tables" not in path:  # the last commit has nothing to move there
        with pytest.raises(LakeError, match="is a link or a device"):
            hostile.write()
    assert hostile.content() == before


def test_staged_files_behind_a_link_are_neither_moved_nor_deleted(hostile: Hostile) -> None:
    (hostile.lake / "_staging").symlink_to(hostile.outside)
    before = hostile.content()
    with pytest.raises(LakeError, match=r"_staging: is a link or a device"):
        hostile.write()
    assert hostile.content() == before


def test_links_in_the_staging_directory_are_removed_and_not_followed(hostile: Hostile) -> None:
    staging = hostile.lake / "_staging"
    staging.mkdir(exist_ok=True)
    (staging / "link").symlink_to(hostile.outside)
    hostile.write()
    assert not (staging / "link").is_symlink()
    assert (hostile.outside / "precious").read_text() == "precious"


def test_moves_are_not_done_again_into_a_directory_behind_a_link(hostile: Hostile) -> None:
    lake = Lake.open(hostile.lake)
    with lake.writing() as run, run.staging.attempt("t") as attempt:
        schema = pa.schema([("ts", pa.timestamp("us", "UTC"))])
        attempt.table("silver/toy", schema).write(pa.record_batch([pa.array([0], schema.field("ts").type)], schema))
        files = attempt.close()
        run.commit(files)
    placed, staged = hostile.lake / files[0].path, hostile.lake / files[0].staged
    staged.parent.mkdir(parents=True)
    placed.rename(staged)  # as a kill before the moves leaves it
    placed.parent.rmdir()
    placed.parent.symlink_to(hostile.outside)
    before = hostile.content()
    with pytest.raises(LakeError, match="is a link or a device"):
        hostile.write()
    assert hostile.content() == before


@pytest.mark.parametrize("kind", ["link", "hard link", "pipe", "link to nothing"])
def test_the_lock_overwrites_nothing_but_a_lock(hostile: Hostile, kind: str) -> None:
    lock, precious = hostile.lake / "_lock", hostile.outside / "precious"
    lock.unlink()
    if kind == "link":
        lock.symlink_to(precious)
    elif kind == "hard link":
        lock.hardlink_to(precious)
    elif kind == "link to nothing":
        lock.symlink_to(hostile.outside / "new")
    else:
        os.mkfifo(lock)
    with pytest.raises(LakeError, match=r"_lock: is (a link or a device|not a lock of wirelake)"):
        hostile.write()
    assert precious.read_text() == "precious" and not (hostile.outside / "new").exists()


def test_a_lake_may_itself_lie_behind_a_link(hostile: Hostile) -> None:
    link = hostile.home / "link"
    link.symlink_to(hostile.lake)
    hostile.lake = link
    hostile.read()
    hostile.write()
    assert hostile.report().exit_code == 0


# --- Parquet files and their rows


def commit(hostile: Hostile, table: str, rows: pa.Table) -> None:
    """Put a file with these columns into a table, as a hostile writer would."""
    with Lake.open(hostile.lake).writing() as run, run.staging.attempt("h") as attempt:
        attempt.table(table, rows.schema, dated_by=None).write(rows)
        run.commit(attempt.close())


@pytest.mark.parametrize("table", ["silver/messages", "gold/exchanges", "silver/casual", "silver/toy", "gold/open"])
def test_columns_named_like_sql_do_nothing(hostile: Hostile, table: str) -> None:
    names = ["x\"; copy (select 1) to 'outside/evil'; --", "';drop view accounting;--", "", "\0", "a.b", "é"]
    commit(hostile, table, pa.table({name: [1] for name in names}))
    before = hostile.content()
    result = hostile.report()
    assert result.exit_code in (0, 1) and not isinstance(result.exception, (duckdb.Error, KeyError))
    assert hostile.content() == before


@pytest.mark.parametrize(
    ("table", "column", "values"),
    [
        ("silver/messages", "ts", ["yesterday"]),
        ("silver/messages", "offset", ["x"]),
        ("gold/exchanges", "latency_us", [["x"]]),
        ("gold/sessions", "facts", ["{}"]),
        ("gold/transactions", "branches", [[{"evil": 1}]]),
        ("silver/casual", "connection", [1]),
        ("accounting", "bytes_in", [b"x"]),
    ],
)
def test_a_column_of_another_type_is_refused(hostile: Hostile, table: str, column: str, values: list[Any]) -> None:
    commit(hostile, table, pa.table({column: values}))
    result = hostile.report()
    assert result.exit_code == 1
    assert result.stderr.startswith(f"Error: {hostile.lake}") and result.stderr.count("\n") == 1


@pytest.mark.parametrize("missing", ["connection", "direction", "offset", "length", "protocol", "message"])
def test_rows_with_nulls_where_wirelake_writes_none_are_no_traceback(hostile: Hostile, missing: str) -> None:
    broken = {"connection": "c1", "direction": "to_server", "offset": 3, "length": 1, "rule": "r", "bytes": b"x"}
    rows = {"silver/messages": message(1), "accounting": account(1), "silver/quarantine": broken}
    write(hostile.lake, {table: [row | ({missing: None} if missing in row else {})] for table, row in rows.items()})
    result = hostile.report()
    assert result.exit_code == 0 or (result.exit_code == 1 and result.stderr.startswith("Error: "))


def test_a_file_that_is_no_parquet_is_one_line(hostile: Hostile) -> None:
    hostile.messages.write_bytes(b"PAR1" + os.urandom(1000) + b"PAR1")
    with pytest.raises(LakeError, match="silver/messages: cannot be read: "):
        hostile.read()
    result = hostile.report()
    assert result.exit_code == 1 and result.stderr.startswith(f"Error: {hostile.lake}")


def test_a_protocol_named_like_a_declaration_is_not_loaded(hostile: Hostile) -> None:
    """``-p file.py:NAME`` runs the file; a name that stands in a row does not."""
    (hostile.lake / "evil.py").write_text("open('outside/evil', 'w').write('it ran')\n")
    broken = {"connection": "c1", "direction": "to_server", "offset": 20, "length": 1, "rule": "r", "bytes": b"x"}
    names = ["lake/evil.py:PROTOCOL", str(hostile.lake / "evil.py:PROTOCOL")]
    rows = [broken | {"offset": 20 + at, "protocol": name, "ts": 1} for at, name in enumerate(names)]
    said = [message(40 + at, protocol=name) for at, name in enumerate(names)]
    write(hostile.lake, {"silver/quarantine": rows, "silver/messages": said})
    assert hostile.report().exit_code == 0
    assert not (hostile.outside / "evil").exists()


# --- queries


@pytest.mark.parametrize(
    "sql",
    [
        "copy (select 1) to 'outside/evil'",
        "copy (select 1) to '{lake}/evil'",
        "from read_text('{outside}/precious')",
        "from read_blob('/etc/hostname')",
        "from read_parquet('{outside}/*.parquet')",
        "from glob('{outside}/*')",
        "from '{outside}/part-00000001-t-0.parquet'",
        "attach '{outside}/evil.db'",
        "export database '{outside}/evil'",
        "install httpfs",
        "load httpfs",
        "set enable_external_access = true",
        "set allowed_directories = ['/']",
        "reset lock_configuration",
    ],
)
def test_no_query_reaches_anything_but_the_tables(hostile: Hostile, sql: str) -> None:
    before = hostile.content()
    with open_tables(Lake.open(hostile.lake)) as tables, pytest.raises(duckdb.Error):
        tables.execute(sql.format(lake=hostile.lake, outside=hostile.outside))
    assert hostile.content() == before


@pytest.mark.parametrize("name", ["it's", 'a "lake"', "a [1] *", "é ?", "100%"])
def test_a_lake_may_lie_in_a_directory_of_any_name(tmp_path: Path, name: str) -> None:
    lake = write(tmp_path / name, {"silver/messages": [message(0)], "accounting": [account(1)]})
    with open_tables(lake) as tables:
        assert tables.execute("select count(*) from silver_messages").fetchall() == [(1,)]


# --- code


def test_nothing_that_reads_a_lake_unpickles() -> None:
    source = Path(wirelake.__file__).parent
    for path in [*(source / "lake").rglob("*.py"), *(source / "report").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, (ast.Import, ast.ImportFrom)) else []
            assert not {"pickle", "marshal", "shelve", "dill", "cloudpickle"} & set(names), path
