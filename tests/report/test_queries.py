"""The queries of a report: one file each, complete, and counted where they are limited."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from wirelake.lake import Lake
from wirelake.report import open_tables
from wirelake.report.lifelines import CLIENT_NAMES
from wirelake.report.queries import NAMES, RECENT_NAMES, all_queries, read_sql


def test_every_file_is_a_query_or_a_part_of_one() -> None:
    names = {Path(file.name).stem for file in files("wirelake.report").joinpath("sql").iterdir()}
    queries = {name for name in names if not name.startswith("_")}
    assert queries == {*NAMES, *RECENT_NAMES, "traffic_messages", "traffic_requests"} - {"traffic"}
    assert all(read_sql(name) for name in names)


@pytest.mark.parametrize("traffic_of", ["messages", "requests"])
def test_every_query_runs_and_so_does_its_count(tmp_path: Path, traffic_of: str) -> None:
    with open_tables(Lake.open(tmp_path / "lake")) as tables:
        for query in all_queries(1_000_000, traffic_of, has_sensors=True).values():
            assert query.title and not query.title.startswith("--")
            tables.execute(query.sql).fetchall()
            assert len(tables.execute(query.total).fetchall()) == 1


def test_a_limit_can_be_another() -> None:
    query = all_queries(1, "requests", has_sensors=False)["violations"]
    assert query.sql.endswith("\nlimit 300") and query.up_to(7).sql.endswith("\nlimit 7")
    assert "limit" not in query.total


def test_clients_are_named_by_the_same_facts_everywhere() -> None:
    sql = all_queries(1, "requests", has_sensors=False)["topology"].sql
    places = [sql.index(f"facts['{name}']") for name in CLIENT_NAMES]
    assert places == sorted(places)
