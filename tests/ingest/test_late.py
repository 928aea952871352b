"""Late captures: refused and left alone, rebuilt as if all had come in order, or taken as sensors of their own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.capture.packing import PACK
from tests.ingest.histories import LEAVE_OUT, feed
from tests.ingest.lakes import Content, table
from tests.ingest.ledger import check_ledger
from wirelake.cli import cli
from wirelake.generate import generate, write_pcap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.report import Report
from wirelake.ingest.runner import IngestError
from wirelake.ingest.step import KEPT
from wirelake.lake import Lake

PARTS = 6


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sensors with files that connections go on through, each with damage."""
    folder = tmp_path_factory.mktemp("captures")
    for number, sensor in enumerate(("eth0", "eth1")):
        (folder / sensor).mkdir()
        traffic = generate(
            ("casual", "mb"), seed=number, messages=240, connections=3, gaps=0.02, corrupt=0.02, disorder=0.05
        )
        write_pcap(traffic, folder / sensor / "part.pcap", files=PARTS)
    return folder


class Place:
    """Captures that come bit by bit, and the lake that follows them."""

    def __init__(self, originals: Path, folder: Path) -> None:
        self.originals, self.captures, self.lake = originals, folder / "captures", folder / "lake"
        for sensor in ("eth0", "eth1"):
            (self.captures / sensor).mkdir(parents=True)

    def path(self, part: int, sensor: str = "eth0") -> Path:
        return self.captures / sensor / f"part-{part:04d}.pcap"

    def come(self, *parts: int, sensor: str = "eth0") -> None:
        for part in parts:
            shutil.copy(self.originals / sensor / f"part-{part:04d}.pcap", self.path(part, sensor))

    def ingest(self, *, sensors: Sequence[str] = ("eth0",), failing: float = 0.0, **options: object) -> Report:
        paths = [str(self.captures / sensor) for sensor in sensors]
        return feed(InlineRunner(1, failing=failing, attempts=1), paths, self.lake, **options)

    def content(self) -> Content:
        lake = Lake.open(self.lake, create=False)
        names = {sensor: Path(sensor).name for sensor in {one.sensor for one in lake.inputs().values()}}
        return Content(lake, LEAVE_OUT, names)

    def state(self) -> object:
        lake = Lake.open(self.lake, create=False)
        return lake.number(), lake.inputs(), lake.carry(), lake.kept()


@pytest.fixture
def place(originals: Path, tmp_path: Path) -> Place:
    return Place(originals, tmp_path)


@pytest.fixture(scope="module")
def in_order(originals: Path, tmp_path_factory: pytest.TempPathFactory) -> Content:
    """What a lake has that saw all files of eth0 in order."""
    place = Place(originals, tmp_path_factory.mktemp("in_order"))
    place.come(*range(PARTS))
    place.ingest(final=True)
    return place.content()


# --- refused


def test_a_late_capture_is_refused_and_nothing_is_marked_as_done(place: Place) -> None:
    place.come(0, 2)
    place.ingest()
    before = place.state()
    place.come(1, 3)
    with pytest.raises(
        IngestError, match=r"part-0001.pcap belongs before captures .* --late rebuild .*Nothing was read"
    ):
        place.ingest()
    assert place.state() == before


def test_on_the_command_line_a_late_capture_is_one_sentence_and_status_1(place: Place) -> None:
    place.come(0, 2)
    command = ["ingest", str(place.captures / "eth0"), str(place.lake), "--engine", "inline"]
    assert CliRunner().invoke(cli, command).exit_code == 0
    place.come(1)
    refused = CliRunner().invoke(cli, command)
    assert refused.exit_code == 1
    assert "part-0001.pcap belongs before captures of the same sensor" in refused.stderr
    assert "--late rebuild" in refused.stderr and "Traceback" not in refused.output
    done = CliRunner().invoke(cli, [*command, "--late", "rebuild"])
    assert done.exit_code == 0
    assert json.loads(done.stdout)["rebuilt"] == [str(place.captures / "eth0")]


def test_a_late_capture_of_one_sensor_keeps_nothing_of_another_from_waiting(place: Place) -> None:
    place.come(0, 2)
    place.ingest()
    place.come(1)
    place.come(0, 1, sensor="eth1")
    with pytest.raises(IngestError, match=r"eth0/part-0001.pcap belongs"):
        place.ingest(sensors=("eth0", "eth1"))
    assert place.ingest(sensors=("eth1",)).captures == 2


# --- rebuilt


@pytest.mark.parametrize("order", [(1, 0, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (0, 2, 4, 1, 3, 5), (3, 0, 5, 1, 4, 2)])
def test_files_in_any_order_are_rebuilt_to_the_lake_in_order(
    place: Place, in_order: Content, order: tuple[int, ...]
) -> None:
    for part in order:
        place.come(part)
        place.ingest(late="rebuild")
    place.ingest(final=True)
    assert place.content().differences(in_order) == []
    check_ledger(Lake.open(place.lake, create=False), is_final=True)


def test_a_capture_that_was_only_a_head_when_later_ones_were_read_is_late_and_rebuilt(
    place: Place, in_order: Content
) -> None:
    place.come(*range(PARTS))
    whole = place.path(1).read_bytes()
    place.path(1).write_bytes(whole[:24])
    place.ingest()
    place.path(1).write_bytes(whole)
    with pytest.raises(IngestError, match=r"part-0001.pcap belongs before"):
        place.ingest()
    place.ingest(late="rebuild", final=True)
    assert place.content().differences(in_order) == []


def test_a_rebuild_reads_a_late_capture_once_if_there_is_a_copy_of_it(place: Place, in_order: Content) -> None:
    place.come(0, 2, 3, 4, 5)
    place.ingest()
    place.come(1)
    shutil.copy(place.path(1), place.captures / "eth0" / "copy.pcap")
    place.ingest(late="rebuild", final=True)
    assert place.content().differences(in_order) == []


def test_a_rebuild_goes_back_across_final(place: Place, originals: Path, tmp_path: Path) -> None:
    ordered = Place(originals, tmp_path / "ordered")
    ordered.come(0, 1, 2)
    ordered.ingest(final=True)
    ordered.come(3, 4, 5)
    ordered.ingest(final=True)
    place.come(0, 2)
    place.ingest(final=True)
    place.come(4, 5)
    place.ingest()
    place.come(1)
    place.ingest(late="rebuild")
    place.come(3)
    place.ingest(late="rebuild", final=True)
    assert place.content().differences(ordered.content()) == []


def test_a_rebuild_across_more_boundaries_than_are_kept_begins_at_the_first_capture(tmp_path: Path) -> None:
    (tmp_path / "all").mkdir()
    write_pcap(generate("casual", seed=3, messages=200, gaps=0.02), tmp_path / "all" / "part.pcap", files=KEPT + 4)
    files = sorted((tmp_path / "all").iterdir())
    feed(InlineRunner(), [str(path) for path in files], tmp_path / "once", sensor="eth0", final=True)
    for path in (*files[:1], *files[2:]):
        feed(InlineRunner(), [str(path)], tmp_path / "late", sensor="eth0")
    kept = Lake.open(tmp_path / "late", create=False).kept()
    assert [len(listed) for listed in kept.values()] == [KEPT]
    report = feed(InlineRunner(), [str(files[1])], tmp_path / "late", sensor="eth0", late="rebuild", final=True)
    assert report.captures == len(files) > KEPT + 2
    once, late = (Content(Lake.open(tmp_path / name, create=False), LEAVE_OUT) for name in ("once", "late"))
    assert late.differences(once) == []


def test_late_captures_of_two_sensors_are_rebuilt_in_one_commit(place: Place, originals: Path, tmp_path: Path) -> None:
    both = ("eth0", "eth1")
    ordered = Place(originals, tmp_path / "ordered")
    for sensor in both:
        ordered.come(*range(PARTS), sensor=sensor)
        place.come(0, 3, 4, 5, sensor=sensor)
    ordered.ingest(sensors=both, final=True)
    place.ingest(sensors=both)
    for sensor in both:
        place.come(1, 2, sensor=sensor)
    report = place.ingest(sensors=both, late="rebuild")
    assert (report.commit, sorted(Path(sensor).name for sensor in report.rebuilt)) == (2, ["eth0", "eth1"])
    place.ingest(sensors=both, final=True)
    assert place.content().differences(ordered.content()) == []


def test_a_rebuild_that_is_given_up_leaves_the_lake_as_it_was(place: Place, in_order: Content) -> None:
    place.come(0, 2, 3, 4, 5)
    place.ingest()
    before, content = place.state(), place.content()
    place.come(1)
    with pytest.raises(IngestError, match="a task failed"):
        place.ingest(late="rebuild", failing=1.0)
    assert place.state() == before and place.content().differences(content) == []
    place.ingest(late="rebuild", final=True)
    assert place.content().differences(in_order) == []


@pytest.mark.parametrize("suffix", PACK)
def test_a_rebuild_finds_captures_that_were_compressed_meanwhile(place: Place, in_order: Content, suffix: str) -> None:
    place.come(0, 2, 3, 4, 5)
    place.ingest()
    for part in (0, 2, 3, 4, 5):
        path = place.path(part)
        path.with_name(f"{path.name}{suffix}").write_bytes(PACK[suffix](path.read_bytes()))
        path.unlink()
    place.come(1)
    report = feed(InlineRunner(), [str(place.path(1))], place.lake, late="rebuild", final=True)
    assert report.rebuilt
    assert place.content().differences(in_order) == []


def test_a_rebuild_finds_captures_that_were_moved_where_it_is_told_of_them(place: Place, in_order: Content) -> None:
    place.come(0, 2, 3, 4, 5)
    place.ingest()
    archive = place.captures / "eth0" / "archive"
    archive.mkdir()
    for part in (2, 3):
        place.path(part).rename(archive / f"part-{part:04d}.pcap")
    place.come(1)
    with pytest.raises(IngestError, match=r"cannot rebuild .*eth0: its capture .*part-0002.pcap is gone"):
        feed(InlineRunner(), [str(place.path(1))], place.lake, late="rebuild")
    place.ingest(late="rebuild", final=True)
    assert place.content().differences(in_order) == []


def test_a_rebuild_without_its_captures_is_refused_by_name_and_changes_nothing(place: Place) -> None:
    place.come(0, 2, 3)
    place.ingest()
    place.path(3).unlink()
    place.come(1)
    before = place.state()
    with pytest.raises(IngestError, match=r"cannot rebuild .*eth0: its capture .*part-0003.pcap is gone"):
        place.ingest(late="rebuild")
    assert place.state() == before


# --- separate


def test_a_late_capture_taken_separately_is_a_sensor_of_its_own_and_changes_no_other(place: Place) -> None:
    place.come(0, 2, 3, 4, 5)
    place.ingest(final=True)
    before = {row["sensor"] for row in table(place.lake, "silver/messages")}
    rows = len(table(place.lake, "silver/messages"))
    place.come(1)
    place.ingest(late="separate", final=True)
    own = f"{place.captures / 'eth0'}#part-0001.pcap"
    found = table(place.lake, "silver/messages")
    assert {row["sensor"] for row in found} == {*before, own}
    assert sum(row["sensor"] != own for row in found) == rows
    assert place.ingest(late="separate").commit is None
    check_ledger(Lake.open(place.lake, create=False), is_final=True)


def test_what_an_earlier_capture_has_more_can_be_taken_separately(place: Place) -> None:
    place.come(0, 1)
    whole = place.path(0).read_bytes()
    place.path(0).write_bytes(whole[: len(whole) // 2])
    place.ingest()
    messages = len(table(place.lake, "silver/messages"))
    place.path(0).write_bytes(whole)
    report = place.ingest(late="separate", final=True)
    own = f"{place.captures / 'eth0'}#part-0000.pcap"
    found = table(place.lake, "silver/messages")
    assert report.captures == 1 and len(found) > messages
    positions = [row["position"] for row in table(place.lake, "bronze/chunks") if row["sensor"] == own]
    assert positions and min(positions) > 24
    assert place.ingest(late="separate").commit is None
    check_ledger(Lake.open(place.lake, create=False), is_final=True)
