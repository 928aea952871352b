"""Which captures are new, whose they are, and which come late."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from wirelake.generate import generate, write_pcap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.known import recognise
from wirelake.ingest.plan import Choice, Found, Late, SensorPlan, find_captures, partition_bytes
from wirelake.ingest.run import ingest
from wirelake.ingest.runner import IngestError
from wirelake.ingest.sensor_carry import CarryOf
from wirelake.lake import Lake


@pytest.fixture
def captures(tmp_path: Path) -> list[Path]:
    (tmp_path / "here").mkdir()
    write_pcap(generate("mb", seed=2, messages=200), tmp_path / "here" / "part.pcap", files=3)
    return sorted((tmp_path / "here").glob("part-*.pcap"))


def lake_of(paths: list[Path], place: Path, **options: bool) -> Lake:
    lake = Lake.open(place, settings={"buckets": 1}, durable=False)
    for path in paths:
        ingest(InlineRunner(), [str(path)], lake, **options)
    return lake


def plans(paths: list[Path], lake: Lake, late: Late = "refuse", final: bool = False) -> list[SensorPlan]:
    seen, notes = find_captures([str(path) for path in paths], None, lake.inputs())
    assert notes == []
    found = [Found.of(one, None) for one in recognise(seen, lake.inputs())]
    with lake.writing() as run:

        def carry_of(sensor: str, known: Mapping[str, str]) -> CarryOf:
            return CarryOf(lake.store, run.staging, sensor, known)

        return Choice(lake, carry_of, lambda lengths: [True] * len(lengths), late, final).plans(found)


def chosen(plan: SensorPlan) -> list[tuple[str, int]]:
    """The captures that are read, each with the position from which."""
    pieces = [capture.piece for capture in plan.captures]
    return [(Path(piece.path).name, piece.start.position if piece.start else 0) for piece in pieces]


def test_captures_of_a_sensor_are_read_in_the_order_in_which_they_were_taken(
    captures: list[Path], tmp_path: Path
) -> None:
    (plan,) = plans(captures[::-1], lake_of([], tmp_path / "lake"))
    assert plan.name == str(tmp_path / "here")
    assert chosen(plan) == [("part-0000.pcap", 0), ("part-0001.pcap", 0), ("part-0002.pcap", 0)]


def test_a_known_capture_is_left_out_and_keeps_its_sensor_under_another_name(
    captures: list[Path], tmp_path: Path
) -> None:
    lake = lake_of(captures[:1], tmp_path / "lake")
    (tmp_path / "there").mkdir()
    moved = captures[0].rename(tmp_path / "there" / "moved.pcap")
    assert plans([moved], lake) == []
    (plan,) = plans([moved, captures[1]], lake)
    assert (plan.name, chosen(plan)) == (str(tmp_path / "here"), [("part-0001.pcap", 0)])


def test_new_captures_beside_those_of_another_sensor_are_refused_until_somebody_names_theirs(
    captures: list[Path], tmp_path: Path
) -> None:
    lake = tmp_path / "lake"
    ingest(InlineRunner(), [str(captures[0])], str(lake), sensor="eth0")
    here = str(tmp_path / "here")
    said = (
        rf"part-0001.pcap, .*part-0002.pcap are new, .*of sensor eth0: --sensor eth0 .* --sensor {here} begins another"
    )
    for paths in ([here], [*map(str, captures[1:])]):
        with pytest.raises(IngestError, match=said):
            ingest(InlineRunner(), paths, str(lake))
    report = ingest(InlineRunner(), [here], str(lake), sensor="eth0")
    assert (report.captures, report.skipped, report.notes) == (2, 1, [])
    assert {one.sensor for one in Lake.open(lake, create=False).inputs().values()} == {"eth0"}


@pytest.mark.parametrize("is_link", [False, True])
def test_a_directory_that_was_moved_or_linked_does_not_silently_become_another_sensor(
    captures: list[Path], tmp_path: Path, is_link: bool
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    ingest(InlineRunner(), [str(captures[0])], str(tmp_path / "lake"))
    if is_link:
        there.symlink_to(here)
    else:
        here.rename(there)
    given = [str(there / captures[1].name)] if is_link else [str(there)]
    with pytest.raises(IngestError, match=rf"--sensor {here} goes on with it, --sensor {there} begins another"):
        ingest(InlineRunner(), given, str(tmp_path / "lake"))
    ingest(InlineRunner(), given, str(tmp_path / "lake"), sensor=str(there))
    report = ingest(InlineRunner(), [str(there)], str(tmp_path / "lake"))
    assert (report.captures, report.sensors) == (1 if is_link else 0, 1 if is_link else 0)


def test_captures_that_keep_their_sensor_although_another_is_named_are_noted(
    captures: list[Path], tmp_path: Path
) -> None:
    ingest(InlineRunner(), [str(captures[0])], str(tmp_path / "lake"), sensor="eth0")
    report = ingest(InlineRunner(), [str(tmp_path / "here")], str(tmp_path / "lake"), sensor="eth1")
    assert report.notes == ["captures of eth0 keep their sensor; new ones are of eth1"]
    assert ingest(InlineRunner(), [str(tmp_path / "here")], str(tmp_path / "lake"), sensor="eth1").notes == []


def test_a_capture_that_grew_is_read_on_where_it_was_left(captures: list[Path], tmp_path: Path) -> None:
    whole = captures[0].read_bytes()
    captures[0].write_bytes(whole[: len(whole) // 2])
    lake = lake_of(captures[:1], tmp_path / "lake")
    captures[0].write_bytes(whole)
    (plan,) = plans(captures[:1], lake)
    ((name, position),) = chosen(plan)
    assert name == "part-0000.pcap" and 0 < position <= len(whole) // 2


def test_a_late_capture_is_refused_with_what_to_do(captures: list[Path], tmp_path: Path) -> None:
    lake = lake_of([captures[0], captures[2]], tmp_path / "lake")
    with pytest.raises(IngestError, match=r"part-0001.pcap belongs before .* --late rebuild .* --late separate"):
        plans([captures[1]], lake)


def test_a_capture_that_grows_after_a_later_one_was_begun_is_late(captures: list[Path], tmp_path: Path) -> None:
    whole = captures[0].read_bytes()
    captures[0].write_bytes(whole[: len(whole) // 2])
    lake = lake_of(captures[:2], tmp_path / "lake")
    captures[0].write_bytes(whole)
    with pytest.raises(IngestError, match=r"part-0000.pcap belongs before"):
        plans(captures[:1], lake)


def test_to_rebuild_reads_again_what_lies_behind_the_late_capture(captures: list[Path], tmp_path: Path) -> None:
    lake = lake_of([captures[0], captures[2]], tmp_path / "lake")
    (plan,) = plans([captures[1]], lake, "rebuild")
    assert plan.since == 1
    before = captures[0].stat().st_size
    assert chosen(plan) == [("part-0000.pcap", before), ("part-0001.pcap", 0), ("part-0002.pcap", 0)]


def test_to_rebuild_without_the_captures_is_refused_by_name(captures: list[Path], tmp_path: Path) -> None:
    lake = lake_of([captures[0], captures[2]], tmp_path / "lake")
    captures[2].unlink()
    with pytest.raises(IngestError, match=r"cannot rebuild .*/here: its capture .*part-0002.pcap is gone"):
        plans([captures[1]], lake, "rebuild")


def test_a_late_capture_can_be_a_sensor_of_its_own(captures: list[Path], tmp_path: Path) -> None:
    lake = lake_of([captures[0], captures[2]], tmp_path / "lake")
    (plan,) = plans([captures[1]], lake, "separate")
    assert plan.name == f"{tmp_path / 'here'}#part-0001.pcap"
    assert chosen(plan) == [("part-0001.pcap", 0)] and plan.since is None


def test_final_closes_the_sensors_of_its_inputs_also_if_they_bring_nothing(
    captures: list[Path], tmp_path: Path
) -> None:
    lake = lake_of(captures, tmp_path / "lake")
    (plan,) = plans([captures[0]], lake, final=True)
    assert [(segment.captures, segment.final) for segment in plan.segments] == [([], True)]
    closed = lake_of(captures, tmp_path / "closed", final=True)
    assert plans(captures, closed, final=True) == []


def test_partitions_grow_with_the_captures_within_limits() -> None:
    assert [partition_bytes(total >> 20 << 20) >> 20 for total in (0, 512 << 20, 100 << 30)] == [16, 32, 64]
