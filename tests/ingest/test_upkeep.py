"""A lake that is compacted, expired and divided otherwise while captures come: its rows are those of a lake that is
not."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.invoked import objects, run
from tests.ingest.lakes import Content
from tests.ingest.ledger import check_ledger
from tests.ingest.test_late import PARTS, Place, in_order, originals, place
from wirelake.errors import LakeError
from wirelake.ingest.rebucket import rebucket
from wirelake.ingest.runner import IngestError
from wirelake.lake import Lake, compaction
from wirelake.lake.compaction import compact
from wirelake.lake.expiry import expire

__all__ = ["in_order", "originals", "place"]


@pytest.fixture(autouse=True)
def _all_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The traffic is of one day, whose minutes would be left alone."""
    monkeypatch.setattr(compaction, "NEWEST_DATES", -1_000)


def compacted(place: Place) -> int:
    with Lake.open(place.lake).writing() as writer:
        return compact(writer).files_before


@pytest.mark.parametrize("order", [(0, 1, 2, 3, 4, 5), (1, 0, 3, 2, 5, 4), (5, 4, 3, 2, 1, 0)])
def test_late_captures_find_their_place_in_a_lake_that_is_compacted_all_the_time(
    place: Place, in_order: Content, order: tuple[int, ...]
) -> None:
    merged = 0
    for part in order:
        place.come(part)
        place.ingest(late="rebuild")
        merged += compacted(place)
    place.ingest(final=True)
    merged += compacted(place)
    assert merged > 0
    assert place.content().differences(in_order) == []
    check_ledger(Lake.open(place.lake, create=False), is_final=True)


def test_a_sensor_without_kept_carry_is_merged_whole_and_still_rebuilt(place: Place, in_order: Content) -> None:
    place.come(*(part for part in range(PARTS) if part != 2))
    place.ingest()
    lake = Lake.open(place.lake)
    with lake.writing() as writer:
        writer.commit(kept={key: [] for key in lake.kept()})
        compact(writer)
    place.come(2)
    assert place.ingest(late="rebuild").rebuilt
    place.ingest(final=True)
    assert place.content().differences(in_order) == []


def last_day(place: Place) -> date:
    lake = Lake.open(place.lake)
    return max(date.fromisoformat(file.partition[5:]) for file in lake.files("silver/messages"))


def test_a_late_capture_of_expired_dates_is_refused(place: Place) -> None:
    place.come(0, 1, 3)
    place.ingest()
    after = last_day(place) + timedelta(days=1)
    with Lake.open(place.lake).writing() as writer:
        done = expire(writer, after)
    assert done.rows["silver/messages"] > 0
    before = place.state()
    place.come(2)
    with pytest.raises(
        IngestError, match=rf"cannot rebuild .*part-\S+, and rows before {after} are expired; --late sep"
    ):
        place.ingest(late="rebuild")
    assert place.state() == before
    assert place.ingest(late="separate").captures == 1


def test_what_expired_and_what_is_left_are_all_bytes_that_came(place: Place) -> None:
    place.come(*range(PARTS))
    place.ingest(final=True)
    lake = Lake.open(place.lake)
    came = lake.summary().facts
    with lake.writing() as writer:
        done = expire(writer, last_day(place) + timedelta(days=1))
    left = sum(lake.dataset("accounting").to_table().column("bytes_in").to_pylist()) if lake.files("accounting") else 0
    assert left + done.accounts["bytes_in"] == came["bytes_decoded"] + came["bytes_quarantined"] + came.get(
        "bytes_pending", 0
    )
    assert done.accounts["bytes_in"] > 0


def test_buckets_can_change_once_nothing_is_open(place: Place, in_order: Content) -> None:
    place.come(0, 1)
    place.ingest()
    with (
        Lake.open(place.lake).writing() as writer,
        pytest.raises(LakeError, match=r"cannot be divided otherwise while something is open at \S+eth0: close"),
    ):
        rebucket(writer, 5)
    place.ingest(final=True)
    with Lake.open(place.lake).writing() as writer:
        rebucket(writer, 5)
    assert Lake.open(place.lake).settings["buckets"] == 5
    place.come(*range(2, PARTS))
    place.ingest(final=True)
    again = Lake.open(place.lake, create=False)
    check_ledger(again, is_final=True)
    assert again.settings["buckets"] == 5


def test_the_verbs_do_it_and_say_what_they_did(place: Place) -> None:
    for part in range(3):
        place.come(part)
        place.ingest()
    place.ingest(final=True)
    lake = str(place.lake)
    (done,) = objects(result := run("lake", "compact", lake))
    assert done["files_after"] < done["files_before"] and "files became" in result.stderr
    (settings,) = objects(run("lake", "configure", lake, "--grace", "60", "--buckets", "3"))
    assert settings["settings"] == {"buckets": 3, "grace_seconds": 60.0}
    assert run("lake", "configure", lake).stdout == run("lake", "configure", lake).stdout
    (swept,) = objects(run("lake", "sweep", lake, "--grace", "0"))
    assert swept["deleted"] > 0
    tomorrow = (datetime.now(UTC) + timedelta(days=1)).strftime("%Y-%m-%d")
    (expired,) = objects(run("lake", "expire", lake, "--before", tomorrow, "--quiet"))
    assert expired["rows"]["silver/messages"] > 0
    (found,) = objects(run("lake", "status", lake))
    assert found["expired_before"] == tomorrow and "silver/messages" not in found["tables"]
    assert json.dumps(found["facts"]["expired_rows"])
    assert run("lake", "compact", lake, "--table", "x").exit_code == 2


def test_a_lake_without_anything_to_do_is_left_as_it_is(tmp_path: Path) -> None:
    Lake.open(tmp_path)
    assert objects(run("lake", "compact", str(tmp_path)))[0]["commits"] == []
    assert objects(run("lake", "sweep", str(tmp_path)))[0] == {"deleted": 0, "swept_to": 0}
