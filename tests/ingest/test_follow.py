"""A lake that follows growing captures is the lake of one ingest, however they grow and wherever the loop is cut."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from tests.ingest.growth import differing_tiny_ways, differing_ways
from tests.ingest.histories import BUCKETS
from tests.ingest.lakes import tables
from wirelake.capture import decode as decoding
from wirelake.capture.read import Reader, open_capture
from wirelake.errors import CaptureError, OptionError
from wirelake.generate import generate, write_pcap, write_tap
from wirelake.ingest.follow import Batch, Followed, FollowSettings, Round, Watcher, follow
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.ingest.runner import IngestError
from wirelake.lake import Lake

WORLDS, WAYS = 2, 3
TINY_WORLDS, TINY_WAYS = 8, 25
"""``python -m benchmarks.streaming --part cuts`` tries thousands."""


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_lake_that_follows_growing_captures_equals_that_of_one_ingest(seed: int, tmp_path: Path) -> None:
    assert differing_ways(seed, WAYS, tmp_path) == []


@pytest.mark.parametrize("seed", range(TINY_WORLDS))
def test_captures_that_are_cut_anywhere_and_grow_anyhow_give_the_lake_of_one_ingest(seed: int, tmp_path: Path) -> None:
    assert differing_tiny_ways(seed, range(TINY_WAYS), tmp_path) == []


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


def test_a_lake_among_the_captures_is_refused(captures: Path, tmp_path: Path) -> None:
    for lake in (captures / "lake", captures):
        with pytest.raises(OptionError, match=r"lies in .*captures, which is followed; put it elsewhere"):
            follow(InlineRunner(), [str(captures)], str(lake), FollowSettings(available_now=True))
    assert [path.name for path in captures.iterdir()] == ["a.pcap"]


def test_a_note_comes_once_while_it_holds_and_again_when_it_does_so_again(captures: Path, tmp_path: Path) -> None:
    told, path = Told(), captures / "a.txt"
    whole = (captures / "a.pcap").read_bytes()

    class Writing(Told):
        """Changes the inputs before each round."""

        def round(self, seen: Round) -> None:
            super().round(seen)
            if self.rounds in (3, 6):
                path.unlink()
            elif self.rounds in (1, 4):
                path.write_text("no capture")
            (captures / "a.pcap").write_bytes(whole[: len(whole) // 2 + 10 * self.rounds])
            if self.rounds == 8:
                stop.set()

    stop, told = Event(), Writing()
    follow(InlineRunner(), [str(captures)], opened(tmp_path / "lake"), FollowSettings(trigger_seconds=0), stop=stop,
           watcher=told)  # fmt: skip
    assert len([note for note in told.notes if "a.txt" in note]) == 2


def test_a_capture_that_could_not_be_read_is_looked_at_again(
    captures: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from wirelake.capture.read import listing

    real, is_allowed, stop = listing.open_binary, Event(), Event()

    def open_or_refuse(path: str) -> Any:
        if not is_allowed.is_set():
            raise CaptureError("cannot be read: Permission denied", path=path)
        return real(path)

    class Allowing(Told):
        def round(self, seen: Round) -> None:
            super().round(seen)
            if self.rounds == 2:
                monkeypatch.setattr("wirelake.ingest.follow.LOOK_AGAIN_SECONDS", 0.0)
                is_allowed.set()
            assert self.rounds < 10

    monkeypatch.setattr(listing, "open_binary", open_or_refuse)
    told = Allowing(stop)
    settings = FollowSettings(trigger_seconds=0)
    total = follow(InlineRunner(), [str(captures)], opened(tmp_path / "lake"), settings, stop=stop, watcher=told)
    assert total.messages > 0 and len([note for note in told.notes if "Permission denied" in note]) == 1


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


def test_a_late_capture_of_one_sensor_fails_the_round_and_does_not_hold_back_others(tmp_path: Path) -> None:
    for seed, name in enumerate(("one", "other")):
        (tmp_path / "in" / name).mkdir(parents=True)
        write_pcap(generate(["casual"], seed=seed, messages=50), tmp_path / "in" / name / "a.pcap")
    now(tmp_path / "in", tmp_path / "lake")
    early = generate(["casual"], seed=9, messages=50, start_us=1_000_000_000_000_000)
    write_pcap(early, tmp_path / "in" / "one" / "b.pcap")
    write_pcap(
        generate(["casual"], seed=2, messages=70, start_us=1_800_000_000_000_000), tmp_path / "in" / "other" / "b.pcap"
    )
    told = Told()
    with pytest.raises(IngestError, match="belongs before"):
        now(tmp_path / "in", tmp_path / "lake", told, max_failures=2)
    assert len(told.failures) == 2 and len(told.batches) == 1
    assert sorted(Path(path).parts[-2:] for path in Lake.open(tmp_path / "lake").inputs()) == [
        ("one", "a.pcap"),
        ("other", "a.pcap"),
        ("other", "b.pcap"),
    ]


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


def test_steps_go_on_while_files_are_merged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A merging of many slices delays each step by one of them: rows that come meanwhile need not wait for all."""
    from wirelake.lake import compaction

    slices = 0

    def count(*given: Any) -> Iterator[Any]:
        nonlocal slices
        for rows in real(*given):
            slices += 1
            yield rows

    class Counting(Told):
        def batch(self, batch: Batch) -> None:
            super().batch(batch)
            between.append(slices)

    real, between = compaction._slices, list[int]()
    monkeypatch.setattr(compaction, "_slices", count)
    monkeypatch.setattr(compaction, "SLICE_BYTES", 4_000)
    monkeypatch.setattr("wirelake.ingest.follow.TIERS", ((10, 1 << 20),))
    monkeypatch.setattr("wirelake.ingest.follow.MERGE_SECONDS", 0.0, raising=False)
    folder = tmp_path / "captures"
    folder.mkdir()
    write_tap(generate(["casual", "dsa"], seed=4, messages=200), folder / "a.tap")
    size = (folder / "a.tap").stat().st_size
    total = now(folder, tmp_path / "lake", Counting(), max_bytes=size // 16, final=True)
    ingest(InlineRunner(), [str(folder)], str(tmp_path / "batch"), final=True)
    assert slices > 5 and max(after - before for before, after in pairwise(between)) <= 2
    assert total.compactions and tables(tmp_path / "lake") == tables(tmp_path / "batch")
