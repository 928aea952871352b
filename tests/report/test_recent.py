"""The last minutes of a lake: what they count, and which files they read."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.report.made import message, write
from wirelake.lake import Lake
from wirelake.report.database import open_recent
from wirelake.report.recent import MINUTE_US, SPAN_US, STEP_US, collect_recent

NOW = 1_700_000_000_000_000


def test_a_lake_without_rows_has_no_last_minutes(tmp_path: Path) -> None:
    recent = collect_recent(Lake.open(tmp_path / "lake"))
    assert (recent["commit"], recent["until_us"], recent["behind"]) == (0, None, [])
    assert recent["data"]["recent_traffic"]["rows"] == []


def test_figures_are_of_the_last_minute_and_bars_of_the_last_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = [NOW, NOW - MINUTE_US, NOW - MINUTE_US - 1, NOW - SPAN_US, NOW - SPAN_US - STEP_US]
    lake = write(tmp_path / "lake", {"silver/messages": [message(i, ts=ts) for i, ts in enumerate(times)]})
    monkeypatch.setattr(Lake, "labels", lambda _: {"watermark_us": {"west": NOW, "east": NOW - 2 * MINUTE_US}})
    recent = collect_recent(lake)
    assert (recent["until_us"], recent["behind"]) == (NOW, ["east"])
    figures = dict(zip(recent["data"]["recent"]["columns"], recent["data"]["recent"]["rows"][0], strict=True))
    assert (figures["messages"], figures["message_bytes"], figures["requests"]) == (2, 20, 0)
    assert sum(row[2] for row in recent["data"]["recent_traffic"]["rows"]) == 4


def test_only_files_that_reach_into_the_last_minutes_are_opened(tmp_path: Path) -> None:
    write(tmp_path / "lake", {"silver/messages": [message(0, ts=NOW - 2 * SPAN_US)]})
    lake = write(tmp_path / "lake", {"silver/messages": [message(1, ts=NOW)]})
    assert len(lake.places("silver/messages")) == 2 and len(lake.places("silver/messages", NOW - SPAN_US)) == 1
    with open_recent(lake, ["silver/messages"], NOW - SPAN_US) as tables:
        assert tables.execute("select count(*) from silver_messages").fetchall() == [(1,)]


def test_open_requests_count_however_old_they_are(tmp_path: Path) -> None:
    rows = {
        "silver/messages": [message(0, ts=NOW)],
        "gold/open": [{"kind": "request", "protocol": "mb", "since_ts": NOW - 2 * SPAN_US}],
    }
    recent = collect_recent(write(tmp_path / "lake", rows))
    figures = dict(zip(recent["data"]["recent"]["columns"], recent["data"]["recent"]["rows"][0], strict=True))
    assert figures["open_requests"] == 1
