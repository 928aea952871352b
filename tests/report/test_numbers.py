"""Every number on the page is what its SQL gives on the Parquet files, in a DuckDB that knows nothing of the report.

All elements of the page that name a query, row and column are gathered in a browser. Each must have the value of the
query, and show it in the form that its kind of number has.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from tests.report.browser import launched, opened
from wirelake.gold.tables import TABLES, view_name, with_date
from wirelake.lake import Lake
from wirelake.report import collect
from wirelake.report.render import render

GATHER = """() => [...document.querySelectorAll('[data-query]')].map((one) => ({
    ...one.dataset, text: (one.querySelector('.whole') ?? one.querySelector('.open > :first-child') ?? one).textContent,
}))"""
TOTALS = (
    "() => [...document.querySelectorAll('[data-total-of]')].map((one) => ({...one.dataset, text: one.textContent}))"
)
LOOSE = """() => [...document.querySelectorAll('main :is(table, .tiles, .proportions, .legend) *')]
    .filter((one) => [...one.childNodes].some((node) => node.nodeType === 3 && /[0-9]/.test(node.data)))
    .filter((one) => !one.closest('[data-query], [data-total-of], thead, caption, .chart > .legend'))
    .map((one) => one.textContent).filter((text) => !/9[59]th percentile/.test(text))"""
LONGEST = 300
"""Longer texts are cut for the page."""
COUNTED_IN_THE_PAGE = {("held", "held")}


@pytest.fixture(scope="module")
def report(report_lake: Path) -> dict[str, Any]:
    return collect(Lake.open(report_lake, create=False))


@pytest.fixture(scope="module")
def shown(report: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What the page shows, with everything in it opened."""
    file = tmp_path_factory.mktemp("numbers") / "report.html"
    file.write_text(render(report), encoding="utf-8")
    with launched() as browser, opened(browser, file) as watched:
        watched.draw_everything()
        watched.show_everything()
        evaluate = watched.page.evaluate
        return {"cells": evaluate(GATHER), "totals": evaluate(TOTALS), "loose": evaluate(LOOSE)}


@pytest.fixture(scope="module")
def tables(report_lake: Path) -> Iterator[duckdb.DuckDBPyConnection]:
    """Views over the files that lie in the lake, as the documents tell people to make them."""
    made = duckdb.connect(":memory:")
    made.execute("set timezone = 'UTC'")
    for name in TABLES:
        folder, view = report_lake / name, view_name(name)
        files = "*.parquet" if any(folder.glob("*.parquet")) else "*/*.parquet"
        if any(folder.glob(files)):
            path = f"{folder}/{files}".replace("'", "''")
            made.execute(f"create view {view} as from read_parquet('{path}', hive_partitioning = true)")
        else:
            made.register(view, with_date(name, TABLES[name]).empty_table())
    yield made
    made.close()


@pytest.fixture(scope="module")
def answers(report: dict[str, Any], tables: duckdb.DuckDBPyConnection) -> dict[str, list[dict[str, Any]]]:
    found = {}
    for name, query in report["queries"].items():
        ran = tables.execute(query["sql"])
        columns = [column[0] for column in ran.description or ()]
        found[name] = [dict(zip(columns, row, strict=True)) for row in ran.fetchall()]
    return found


def test_every_cell_is_what_its_sql_gives(
    shown: dict[str, list[Any]], answers: dict[str, list[dict[str, Any]]]
) -> None:
    assert len(shown["cells"]) > 2000
    for cell in shown["cells"]:
        if (cell["query"], cell["column"]) not in COUNTED_IN_THE_PAGE:
            wanted = answers[cell["query"]][int(cell["row"])][cell["column"]]
            assert is_value(cell["value"], wanted), (cell, wanted)


def is_value(shown: str, wanted: Any) -> bool:
    if wanted is None:
        return shown == ""
    if isinstance(wanted, str):
        return shown == wanted or (len(wanted) > LONGEST and "…" in shown)
    return math.isclose(float(shown), wanted, rel_tol=1e-12)


def test_every_row_and_every_number_of_each_answer_is_on_the_page(
    report: dict[str, Any], shown: dict[str, list[Any]], answers: dict[str, list[dict[str, Any]]]
) -> None:
    seen = {(cell["query"], int(cell["row"]), cell["column"]) for cell in shown["cells"]}
    for name, rows in answers.items():
        assert len(rows) == len(report["data"][name]["rows"])
        for at, row in enumerate(rows):
            numbers = {column for column, value in row.items() if isinstance(value, int | float)} - {"event"}
            assert {column for column in numbers if (name, at, column) not in seen} == set(), (name, at)


def test_totals_are_counted_by_their_own_sql(
    report: dict[str, Any], shown: dict[str, list[Any]], tables: duckdb.DuckDBPyConnection
) -> None:
    assert any("total" in report["queries"][total["totalOf"]] for total in shown["totals"])
    for total in shown["totals"]:
        query = report["queries"][total["totalOf"]]
        counting = query.get("total", f"select count(*) from ({query['sql']})")
        (wanted,) = tables.execute(counting).fetchone() or (None,)
        assert (int(total["value"]), total["text"]) == (wanted, f"{wanted:,}")


def test_there_is_no_number_in_a_table_or_figure_that_names_no_query(shown: dict[str, list[Any]]) -> None:
    assert shown["loose"] == []


def test_what_is_seen_is_the_value_in_the_form_of_its_kind(report: dict[str, Any], shown: dict[str, list[Any]]) -> None:
    kinds = set()
    for cell in shown["cells"]:
        kinds.add(cell["format"])
        assert cell["text"] == FORMS[cell["format"]](cell["value"]) if cell["value"] else True, cell
        assert cell["value"] or cell["text"] in ("–", "unknown"), cell
    assert kinds >= {"count", "bytes", "duration", "clock", "percent", "text", "words", "protocol", "facts"}


# --- the forms, written down a second time


def three_digits(value: float) -> str:
    return f"{value:.{0 if value >= 99.95 else 1 if value >= 9.995 else 2}f}"


def as_bytes(value: float) -> str:
    if value < 1000:
        return f"{value:.0f} B"
    for unit in ("kB", "MB", "GB", "TB"):
        value /= 1000
        if value < 999.5:
            return f"{three_digits(value)} {unit}"
    raise AssertionError(value)


def as_duration(us: int) -> str:
    if us < 1000:
        return f"{us} µs"
    if us < 999_500:
        return f"{three_digits(us / 1000)} ms"
    if us < 59_950_000:
        return f"{three_digits(us / 1_000_000)} s"
    minutes, seconds = divmod(math.floor(us / 1_000_000 + 0.5), 60)
    assert minutes < 60, "the traffic of tests is shorter"
    return f"{minutes} min {seconds:02} s"


def as_time(us: int) -> str:
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=us // 1000)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03}"


def as_percent(value: float) -> str:
    percent = value * 100
    if percent == 0 or percent >= 9.995:
        return f"{percent:.0f} %"
    return "< 0.01 %" if percent < 0.01 else f"{percent:.{2 if percent < 1 else 1}f} %"


def as_facts(text: str) -> str:
    return " · ".join(f"{visible(name)}: {visible(value)}" for name, value in json.loads(text).items())


def visible(text: str) -> str:
    text = re.sub(r"[\x00-\x1f]", lambda found: chr(0x2400 + ord(found[0])), text)
    return re.sub("[\x7f-\x9f\u200b-\u200f\u2028-\u202e]", lambda found: f"‹U+{ord(found[0]):04X}›", text)


WORDS = {
    "in_doubt": "in doubt",
    "rolled_back": "rolled back",
    "read_only": "read only",
    "timeout": "timeout",
    "to_server": "to server",
    "to_client": "to client",
    "bytes": "undecodable",
    "state": "out of sequence",
}
FORMS: dict[str, Callable[[str], str]] = {
    "count": lambda value: f"{int(value):,}",
    "bytes": lambda value: as_bytes(int(value)),
    "duration": lambda value: as_duration(int(value)),
    "time": lambda value: as_time(int(value)),
    "clock": lambda value: as_time(int(value))[11:],
    "percent": lambda value: as_percent(float(value)),
    "facts": as_facts,
    "words": lambda value: WORDS.get(value, visible(value)),
    "protocol": visible,
    "text": visible,
}
