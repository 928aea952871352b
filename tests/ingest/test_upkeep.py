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
from wirelake.gold.sessions import Session, SessionsCarry
from wirelake.gold.steps import GoldCarry
from wirelake.ingest.carry import pack
from wirelake.ingest.rebucket import rebucket
from wirelake.ingest.runner import IngestError
from wirelake.lake import Lake, compaction
from wirelake.lake.compaction import compact
from wirelake.lake.expiry import expire

BULLETIN = Path(__file__).parents[2] / "examples/bulletin.py"

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


@pytest.mark.parametrize("buckets", [(5, 1, 8, 3, 2), (1, 1, 64, 1, 7)])
def test_buckets_change_while_anything_is_open(place: Place, in_order: Content, buckets: tuple[int, ...]) -> None:
    for part in range(PARTS):
        place.come(part)
        place.ingest()
        before = open_things(place)
        assert before
        if part < len(buckets):
            with Lake.open(place.lake).writing() as writer:
                rebucket(writer, buckets[part])
            assert Lake.open(place.lake).settings["buckets"] == buckets[part]
            names = {name.partition(".")[2] for name in Lake.open(place.lake).carry()}
            assert not {f"gold-{number:03d}" for number in range(buckets[part], 100)} & names
        assert open_things(place) == before
    place.ingest(final=True)
    assert place.content().differences(in_order) == []
    check_ledger(Lake.open(place.lake, create=False), is_final=True)


def open_things(place: Place) -> int:
    return int(Lake.open(place.lake, create=False).dataset("gold/open").count_rows())


def test_a_late_capture_is_rebuilt_from_the_first_one_after_buckets_changed(place: Place, in_order: Content) -> None:
    place.come(*(part for part in range(PARTS) if part != 3))
    place.ingest()
    with Lake.open(place.lake).writing() as writer:
        rebucket(writer, 3)
    place.come(3)
    assert place.ingest(late="rebuild").captures == PARTS
    place.ingest(final=True)
    assert place.content().differences(in_order) == []


def test_a_protocol_of_ones_own_with_open_connections_has_to_be_named(place: Place) -> None:
    name = f"{BULLETIN}:PROTOCOL"
    capture = place.captures / "eth0" / "own.pcap"
    assert run("generate", "-p", name, "-n", "40", "-o", str(capture)).exit_code == 0
    capture.write_bytes(capture.read_bytes()[: capture.stat().st_size // 2])
    lake = str(place.lake)
    own = ["-p", name]
    assert run("ingest", str(place.captures / "eth0"), lake, "--engine", "inline", *own).exit_code == 0
    assert open_things(place)
    refused = run("lake", "configure", lake, "--buckets", "3")
    assert refused.exit_code == 1 and "open connections of the protocol 'bulletin'" in refused.stderr
    assert run("lake", "configure", lake, "--buckets", "3", *own).exit_code == 0
    assert Lake.open(lake).settings["buckets"] == 3


def test_carry_that_nobody_can_divide_is_refused_in_one_line(place: Place) -> None:
    place.come(0)
    place.ingest()
    lake = Lake.open(place.lake)
    name = next(name for name in lake.carry() if ".gold-" in name)
    odd = pack(GoldCarry(sessions=SessionsCarry({"nonsense": Session(protocol="casual")})))
    with lake.writing() as writer:
        writer.commit(carry={name: writer.staging.stage_bytes(name, name.partition(".")[2], odd)})
        with pytest.raises(LakeError, match="has carry that wirelake did not write: invalid literal"):
            rebucket(writer, 3)
    assert Lake.open(place.lake).settings["buckets"] == 2


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
