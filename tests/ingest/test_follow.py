"""A lake that follows growing captures is the lake of one ingest, however they grow and wherever the loop is cut."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from tests.capture.packing import PACK
from tests.ingest.histories import BUCKETS, LEAVE_OUT, reference
from tests.ingest.lakes import Content, tables
from tests.ingest.ledger import check_ledger
from tests.ingest.worlds import Sensor, World
from wirelake.capture import decode as decoding
from wirelake.capture.read import Reader, open_capture
from wirelake.errors import OptionError
from wirelake.generate import generate, write_pcap, write_tap
from wirelake.ingest.follow import Batch, Followed, FollowSettings, Round, Watcher, follow
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.ingest.runner import IngestError
from wirelake.lake import Lake

WORLDS, CUTS = 8, 3
"""Cases: their product; ``python -m benchmarks.streaming --cuts`` tries thousands."""
SMALLEST = 24
"""Less is no capture yet."""


# --- equality


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_lake_that_follows_growing_captures_equals_that_of_one_ingest(seed: int, tmp_path: Path) -> None:
    world = World(seed, tmp_path / "world", kinds=("pcap", "pcap", "pcapng", "tap", "websocket"))
    expected = reference(world, tmp_path / "reference")
    for number in range(CUTS):
        followed = Growth(world, number, tmp_path / f"lake-{number}").run()
        assert followed.differences(expected) == [], (seed, number)


class Growth:
    """One way in which captures grow while a lake follows them, drawn from a seed: at any byte, in steps of any size,
    with a process that ends and begins again.
    """

    def __init__(self, world: World, seed: int, place: Path) -> None:
        self.world, self.place = world, place
        self.draw = Random(f"{world.seed} {seed} growth")
        self.folder = place.with_name(f"{place.name}-captures")
        self.lake = Lake.open(place, settings={"buckets": BUCKETS}, durable=False)

    def run(self) -> Content:
        growing = {name: self._grow(sensor) for name, sensor in self.world.sensors.items()}
        for name in growing:
            (self.folder / name).mkdir(parents=True)
        while growing:
            name = self.draw.choice(list(growing))
            if next(growing[name], None) is None:
                del growing[name]
            if self.draw.random() < 0.3:
                self._follow()
        self._follow(final=True)
        check_ledger(self.lake, is_final=True)
        names = {f"{self.folder / name}": name for name in self.world.sensors}
        sensors = {one.sensor for one in self.lake.inputs().values()}
        plain = {one: next(name for path, name in names.items() if one.startswith(path)) for one in sensors}
        return Content(self.lake, LEAVE_OUT, plain)

    def _grow(self, sensor: Sensor) -> Iterator[str]:
        for number, source in enumerate(sensor.files):
            data, target = source.read_bytes(), self.folder / sensor.name / source.name
            cuts = sorted(self.draw.randrange(SMALLEST, len(data)) for _ in range(self.draw.randrange(4)))
            for cut in (*cuts, len(data)):
                target.write_bytes(data[:cut])
                yield "grown"
            if number == sensor.closed_behind:
                self._follow(final=True, only=sensor.name)
            if self.draw.random() < 0.2:
                self._follow()
                self._pack(target)

    def _pack(self, path: Path) -> None:
        suffix = self.draw.choice(list(PACK))
        path.with_name(path.name + suffix).write_bytes(PACK[suffix](path.read_bytes()))
        path.unlink()

    def _follow(self, final: bool = False, only: str = "") -> None:
        size = self.draw.choice((5000, 20_000, 1 << 20))
        settings = FollowSettings(
            final=final, available_now=True, keep_bytes=True, max_bytes=size, max_failures=1, trigger_seconds=0
        )
        follow(InlineRunner(), [str(self.folder / only)], self.lake, settings)


# --- the loop


class Told(Watcher):
    def __init__(self, stop: Event | None = None, after: int = 1) -> None:
        self.batches: list[Batch] = []
        self.failures: list[str] = []
        self.notes: list[str] = []
        self.rounds = 0
        self.stop, self.after = stop, after

    def batch(self, batch: Batch) -> None:
        self.batches.append(batch)
        if self.stop is not None and len(self.batches) >= self.after:
            self.stop.set()

    def failed(self, error: Exception, in_a_row: int, pause: float) -> None:
        self.failures.append(str(error))

    def note(self, text: str) -> None:
        self.notes.append(text)

    def round(self, told: Round) -> None:
        self.rounds += 1


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    folder = tmp_path / "captures"
    folder.mkdir()
    write_pcap(generate(["casual", "mb"], seed=3, messages=150), folder / "a.pcap")
    return folder


def now(folder: Path, lake: Path, watcher: Watcher | None = None, **options: object) -> Followed:
    settings = FollowSettings(available_now=True, trigger_seconds=0, **options)  # type: ignore[arg-type]
    return follow(
        InlineRunner(), [str(folder)], opened(lake) if folder.exists() else str(lake), settings, watcher=watcher
    )


def opened(place: Path) -> Lake:
    """A loss of power is not tested here, so the lake need not wait for the disk."""
    return Lake.open(place, settings={"buckets": BUCKETS}, durable=False)


def test_each_step_reads_about_as_much_as_it_may(captures: Path, tmp_path: Path) -> None:
    told = Told()
    size = (captures / "a.pcap").stat().st_size
    total = now(captures, tmp_path / "lake", told, max_bytes=size // 5)
    assert 5 <= total.batches <= 7 and total.lag_bytes == 0
    lags = [batch.lag_bytes for batch in told.batches]
    assert lags == sorted(lags, reverse=True) and lags[-1] == 0


def test_it_stops_when_it_is_asked_to_and_goes_on_later(captures: Path, tmp_path: Path) -> None:
    stop = Event()
    settings = FollowSettings(max_bytes=5_000)
    first = follow(
        InlineRunner(), [str(captures)], opened(tmp_path / "lake"), settings, stop=stop, watcher=Told(stop, after=2)
    )
    assert first.batches == 2 and first.lag_bytes > 0
    second = now(captures, tmp_path / "lake", final=True)
    ingest(InlineRunner(), [str(captures)], str(tmp_path / "batch"), final=True)
    assert first.messages + second.messages > 150
    assert tables(tmp_path / "lake") == tables(tmp_path / "batch")


def test_a_round_without_news_makes_no_commit(captures: Path, tmp_path: Path) -> None:
    now(captures, tmp_path / "lake")
    commit = Lake.open(tmp_path / "lake").number()
    total = now(captures, tmp_path / "lake")
    assert total.batches == 0 and Lake.open(tmp_path / "lake").number() == commit


def test_a_sensor_that_is_far_behind_does_not_keep_others_waiting(tmp_path: Path) -> None:
    for name, count in (("large", 500), ("small", 30)):
        (tmp_path / "in" / name).mkdir(parents=True)
        write_pcap(generate(["ceda"], seed=1, messages=count), tmp_path / "in" / name / "a.pcap")
    told = Told()
    now(tmp_path / "in", tmp_path / "lake", told, max_bytes=20_000)
    assert len(told.batches) > 2 and told.batches[0].report.sensors == 2


def test_a_packet_larger_than_a_step_may_read_is_read_all_the_same(tmp_path: Path) -> None:
    captures = tmp_path / "captures"
    captures.mkdir()
    write_pcap(generate(["ceda"], seed=3, messages=5, connections=1), captures / "a.pcap")
    now(captures, tmp_path / "lake", max_bytes=90, final=True)
    ingest(InlineRunner(), [str(captures)], str(tmp_path / "batch"), final=True)
    assert tables(tmp_path / "lake") == tables(tmp_path / "batch")


def test_inputs_that_do_not_exist_are_refused_and_leave_no_lake(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="does not exist"):
        now(tmp_path / "nowhere", tmp_path / "lake")
    assert not (tmp_path / "lake").exists()


def test_a_file_that_is_no_capture_yet_is_waited_for(captures: Path, tmp_path: Path) -> None:
    path = captures / "a.pcap"
    whole = path.read_bytes()
    path.write_bytes(b"")
    told = Told()
    assert now(path, tmp_path / "lake", told).batches == 0
    assert any("empty" in note for note in told.notes)
    path.write_bytes(whole)
    assert now(path, tmp_path / "lake").messages > 0


def test_it_ends_although_a_capture_can_never_be_read(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_or_fail(path: str, *given: Any, **options: Any) -> Reader:
        if Path(path).name == "poison.pcap":
            raise ZeroDivisionError("division by zero")
        return open_capture(path, *given, **options)

    class Impatient(Told):
        def round(self, told: Round) -> None:
            super().round(told)
            assert self.rounds < 10

    monkeypatch.setattr(decoding, "open_capture", open_or_fail)
    write_pcap(generate(["mb"], seed=9, messages=50), captures / "poison.pcap")
    told = Impatient()
    assert now(captures, tmp_path / "lake", told, final=True).messages > 0
    assert any("set aside" in note and "poison.pcap" in note for note in told.notes)
    assert [Path(path).name for path in Lake.open(tmp_path / "lake").inputs()] == ["a.pcap"]


def test_rounds_that_fail_in_a_row_end_it_with_their_error(captures: Path, tmp_path: Path) -> None:
    now(captures, tmp_path / "lake")
    early = generate(["casual"], seed=9, messages=50, start_us=1_000_000_000_000_000)
    write_pcap(early, captures / "b.pcap")
    told = Told()
    with pytest.raises(IngestError, match="belongs before"):
        now(captures, tmp_path / "lake", told, max_failures=3)
    assert len(told.failures) == 3


def test_a_lake_that_somebody_else_writes_to_is_tried_again(captures: Path, tmp_path: Path) -> None:
    lake = Lake.open(tmp_path / "lake", settings={"buckets": 2})
    writing = lake.writing()
    writing.__enter__()

    class Freed(Told):
        def failed(self, error: Exception, in_a_row: int, pause: float) -> None:
            super().failed(error, in_a_row, pause)
            writing.__exit__(None, None, None)

    told = Freed()
    assert now(captures, tmp_path / "lake", told).messages > 0
    assert ["writing to this lake" in failure for failure in told.failures] == [True]


def test_small_files_are_merged_while_it_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirelake.ingest.follow.TIERS", ((6, 1 << 20),))
    folder = tmp_path / "captures"
    folder.mkdir()
    write_tap(generate(["casual", "dsa"], seed=4, messages=200), folder / "a.tap")
    size = (folder / "a.tap").stat().st_size
    total = now(folder, tmp_path / "lake", max_bytes=size // 16, final=True)
    plain = now(folder, tmp_path / "plain", max_bytes=size // 16, final=True, compacts=False)
    lake, many = Lake.open(tmp_path / "lake"), Lake.open(tmp_path / "plain")
    assert total.compactions >= 2 and total.batches == plain.batches
    assert len(lake.files("silver/messages")) < len(many.files("silver/messages")) / 2
    assert tables(lake) == tables(many)
