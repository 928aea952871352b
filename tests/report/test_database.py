"""Tables of a lake as views of DuckDB: what they have, where they come from, and what DuckDB may not do."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from pyarrow import fs

from tests.report.made import account, message, write
from wirelake.gold.tables import TABLES
from wirelake.lake import Lake, LakeError
from wirelake.report import collect, open_tables
from wirelake.report.database import NUMBER, SPOT, TEXT, quoted, register, rows


def test_tables_of_protocols_that_are_unknown_here_are_views_too(tmp_path: Path) -> None:
    made = Lake.open(tmp_path / "a [lake]*")
    schema = pa.schema([("ts", pa.timestamp("us", "UTC")), ("text", pa.string())])
    with made.writing() as run:
        with run.staging.attempt("t") as attempt:
            attempt.table("silver/leaflet", schema).write(pa.RecordBatch.from_pylist([{"ts": 0, "text": "x"}], schema))
            staged = attempt.close()
        run.commit(staged)
    with open_tables(made) as tables:
        assert tables.execute("select text, date::varchar from silver_leaflet").fetchall() == [("x", "1970-01-01")]
        assert tables.execute("select count(*) from gold_exchanges").fetchall() == [(0,)]
        fetches = ("autoinstall_known_extensions", "autoload_known_extensions")
        asked = ", ".join(f"current_setting('{name}')" for name in fetches)
        assert tables.execute(f"select {asked}").fetchall() == [(False, False)]


def test_a_table_has_the_columns_that_its_files_lack_as_nulls(tmp_path: Path) -> None:
    schema = TABLES["silver/messages"]
    fewer = schema.remove(schema.get_field_index("address"))
    lake = write(tmp_path / "lake", {"silver/messages": [message(0)]}, {"silver/messages": fewer})
    with open_tables(lake) as tables:
        assert rows(tables, 'select address, "offset" from silver_messages') == [{"address": None, "offset": 0}]


def test_a_column_of_another_type_is_refused(tmp_path: Path) -> None:
    schema = TABLES["accounting"]
    at = schema.get_field_index("messages")
    other = schema.set(at, pa.field("messages", pa.string()))
    lake = write(tmp_path / "lake", {"accounting": [account(0) | {"messages": "three"}]}, {"accounting": other})
    with pytest.raises(LakeError, match="has a column 'messages' of type VARCHAR, not BIGINT"):
        open_tables(lake)


def test_no_query_reads_another_file_or_changes_that(tmp_path: Path) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with open_tables(write(tmp_path / "lake", {"accounting": [account(1)]})) as tables:
        for sql in (
            f"from read_csv('{tmp_path}/secret.csv')",
            f"copy (select 1) to '{tmp_path}/written.csv'",
            "set enable_external_access = true",
        ):
            with pytest.raises(duckdb.Error):
                tables.execute(sql)
    assert not (tmp_path / "written.csv").exists()


def test_rows_become_a_table_each_once(tmp_path: Path) -> None:
    with open_tables(Lake.open(tmp_path / "lake")) as tables:
        register(tables, "several", SPOT, [("s", "c", "to_server", at) for at in (2, 1, 2)])
        assert [row["offset"] for row in rows(tables, 'from several order by "offset"')] == [1, 2]
        register(tables, "nothing", {"name": TEXT, "number": NUMBER}, [])
        assert rows(tables, "select name || 'x', number + 1 from nothing") == []


def test_a_name_is_an_identifier_whatever_it_has() -> None:
    assert quoted('a "b"') == '"a ""b"""'


def test_a_lake_that_is_not_on_a_local_disk_gives_the_same_report(report_lake: Path) -> None:
    elsewhere = fs.SubTreeFileSystem(str(report_lake.parent), fs.LocalFileSystem())
    far, near = Lake.open(report_lake.name, create=False, filesystem=elsewhere), Lake.open(report_lake, create=False)
    assert not far.store.is_local and near.store.is_local
    assert collect(far, max_bytes=600_000)["data"] == collect(near, max_bytes=600_000)["data"]
