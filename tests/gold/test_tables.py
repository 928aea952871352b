"""The tables of a lake: documented, named for SQL, dated or not."""

from __future__ import annotations

import pyarrow as pa
import pytest

from wirelake.gold.tables import DATE, TABLES, UNDATED, view_name, with_date


@pytest.mark.parametrize("table", TABLES)
def test_every_column_is_documented(table: str) -> None:
    assert all((field.metadata or {}).get(b"doc") for field in TABLES[table])


@pytest.mark.parametrize("table", TABLES)
def test_readers_see_the_date_of_the_directory_except_where_there_is_none(table: str) -> None:
    assert (DATE.name in with_date(table, TABLES[table]).names) == (table not in UNDATED)


def test_a_table_that_has_a_date_gets_no_second_one() -> None:
    schema = pa.schema([DATE])
    assert with_date("silver/messages", schema) == schema


def test_a_view_is_called_as_sql_can_say_it() -> None:
    assert [view_name(table) for table in ("gold/open", "silver/casual", "accounting")] == [
        "gold_open",
        "silver_casual",
        "accounting",
    ]
