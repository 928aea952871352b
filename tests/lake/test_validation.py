"""What may stand in a lake: everything that wirelake writes, and nothing else."""

from __future__ import annotations

import pytest

from wirelake.gold.tables import TABLES
from wirelake.lake import validation as allowed
from wirelake.protocols import BUILT_IN

PART = "part-00000001-00000-0.parquet"


def test_the_allowed_tables_are_those_that_gold_declares() -> None:
    assert set(TABLES) == allowed.TABLES
    assert all(allowed.is_table(f"silver/{name}") for name in (*BUILT_IN, "my-own_2"))


@pytest.mark.parametrize(
    "name",
    [
        "",
        "silver",
        "silver/",
        "silver/X",
        "silver/a/b",
        "silver/..",
        "gold/other",
        "_carry",
        "accounting/",
        "silver/a\n",
        "bronze/../gold/open",
        "/accounting",
        'silver/x"',
        "silver/x;",
        "silver/ü",
        "silver/" + "x" * 101,
    ],
)
def test_other_names_are_no_tables(name: str) -> None:
    assert not allowed.is_table(name)


@pytest.mark.parametrize(
    "path",
    [
        f"gold/open/{PART}",
        f"silver/my-own/date=2024-05-01/{PART}",
        f"accounting/{PART}",
        f"gold/sessions/date=__HIVE_DEFAULT_PARTITION__/{PART}",
        "accounting/part-00000012-open-gold-3.parquet",
    ],
)
def test_paths_of_table_files_are_accepted(path: str) -> None:
    assert allowed.is_table_path(path) and allowed.is_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        PART,
        "_lake.json",
        "_commits/00000001.json",
        f"../gold/open/{PART}",
        f"/gold/open/{PART}",
        f"gold/open/../{PART}",
        f"gold/open/date=2024-05-01/../{PART}",
        f"gold/open/date=x/{PART}",
        f"gold/x/{PART}",
        "gold/open/part-1.parquet",
        f"gold/open/{PART}\n",
        "gold/open/x.parquet",
        f"gold/open//{PART}",
    ],
)
def test_other_paths_are_not(path: str) -> None:
    assert not allowed.is_table_path(path)


@pytest.mark.parametrize(
    "path",
    ["..", ".", "a/../b", "/etc", "a//b", "a/", "", "a\\b", "C:/x", "s3://b", "a\0", "a\n", "a b", "a*", "é", "~"],
)
def test_a_path_that_could_lead_elsewhere_is_none(path: str) -> None:
    assert not allowed.is_path(path)


def test_a_staged_path_belongs_to_an_attempt_of_its_run() -> None:
    run = "00000001-0123456789ab"
    staged = f"_staging/{run}/00000-ba9876543210/gold/open/{PART}"
    assert allowed.is_run(run) and allowed.is_staged_path(staged, run)
    for path in (staged.replace(run, "00000001-0123456789ac"), f"_staging/{run}/{PART}", f"_staging/{run}/../x/{PART}"):
        assert not allowed.is_staged_path(path, run)
    assert not allowed.is_staged_path(staged.replace("gold", ".."), run)


def test_carry_lies_in_its_directory() -> None:
    assert allowed.is_carry_path("_carry/00000001-gold-003.arrow")
    for path in ("_carry/x", "_carry/../00000001-x", "_carry/00000001-x/y", "x/00000001-x", "_carry/00000001-"):
        assert not allowed.is_carry_path(path)


def test_a_text_from_a_lake_is_printed_without_control_characters_and_cut() -> None:
    assert allowed.shown("\x1b[31mred\n") == r"'\x1b[31mred\n'"
    assert len(allowed.shown("x" * 10_000)) < 120
