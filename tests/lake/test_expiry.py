"""Expiry: old dates go from every table, and what goes is counted."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

from tests.report.made import account, message, write
from wirelake.lake import Kept, Lake
from wirelake.lake.expiry import expire

DAY = 86_400_000_000
START = 19_700 * DAY  # 2023-12-09


def session(connection: str, first: int, last: int) -> dict[str, Any]:
    return {"connection": connection, "first_ts": START + first, "last_ts": START + last}


def made(place: Path) -> Lake:
    """Three days, two connections that ended, and one that goes on."""
    rows = {
        "silver/messages": [message(k, connection="abc"[k % 3], ts=START + k * DAY) for k in range(3)],
        "gold/sessions": [session("a", 0, 5), session("b", 0, DAY + 5)],
        "accounting": [account(2, connection="a"), account(3, connection="b"), account(5, connection="c")],
    }
    lake = write(place, rows)
    with lake.writing() as run:
        kept = [Kept(1, START, "x", {}), Kept(1, START + 2 * DAY, "y", {})]
        run.commit(facts={"bytes_in": 100}, kept={"k": kept})
    return lake


def test_rows_of_old_dates_go_and_are_counted(tmp_path: Path) -> None:
    lake = made(tmp_path)
    with lake.writing() as run:
        done = expire(run, date(2023, 12, 10))
    assert (done.commit, done.rows) == (3, {"gold/sessions": 2, "silver/messages": 1})
    assert lake.dataset("silver/messages").to_table().num_rows == 2
    assert "gold/sessions" not in lake.tables()
    accounts = lake.dataset("accounting").to_table()
    assert sorted(accounts.column("connection").to_pylist()) == ["b", "c"]  # b had not ended by then
    assert done.accounts["bytes_in"] == 20 and done.accounts["messages"] == 2
    facts = lake.summary().facts
    assert facts["expired_rows"] == done.rows and facts["expired_accounts"] == done.accounts
    assert sum(accounts.column("bytes_in").to_pylist()) + facts["expired_accounts"]["bytes_in"] == facts["bytes_in"]
    assert lake.labels()["expired_before"] == "2023-12-10"
    assert [kept.after for kept in lake.kept()["k"]] == ["y"]
    assert len(list((tmp_path / "silver" / "messages").rglob("*.parquet"))) == 2


def test_an_expiry_that_has_nothing_to_do_makes_no_commit(tmp_path: Path) -> None:
    lake = made(tmp_path)
    for expected in (3, None):
        with lake.writing() as run:
            assert expire(run, date(2023, 12, 10)).commit == expected
    with lake.writing() as run:
        assert expire(run, date(2023, 12, 1)).commit is None
    with lake.writing() as run:
        assert expire(run, date(2030, 1, 1)).rows == {"silver/messages": 2}
    assert lake.labels()["expired_before"] == "2030-01-01"
    assert lake.summary().facts["expired_rows"] == {"gold/sessions": 2, "silver/messages": 3}
