"""Histories: how a world reaches a lake. Any history of one world ends in the same lake.

Files come in any order, are read while they grow, move, are copied and compressed; ingests are given up and begun
again, of one sensor or of all at once; gold is divided into other buckets. In an orderly history files come one after
the other, nothing is ever late, and what was read may be deleted or overwritten.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any

from tests.capture.packing import PACK
from tests.ingest.lakes import Content
from tests.ingest.ledger import check_ledger
from tests.ingest.worlds import Sensor, TinyWorld, World
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.rebucket import rebucket
from wirelake.ingest.report import Report
from wirelake.ingest.run import ingest
from wirelake.ingest.runner import IngestError, Runner
from wirelake.lake import Lake

BUCKETS = 2
LEAVE_OUT = {"date", "capture"}
"""A capture has another path once it is compressed or moved."""
CHECKED = 0.4
"""Share of the commits at which the ledger is looked at, beside the last."""
REBUCKETED = 0.2
"""Share of the ingests behind which the number of buckets changes."""
CUTS = (None, None, 1 << 12, 1 << 14)
SMALLEST = 24
"""Less is no capture yet."""


def feed(runner: Runner, paths: list[str], place: Path, **options: Any) -> Report:
    """Ingest captures. A loss of power is not tested here, so the lake need not wait for the disk."""
    lake = Lake.open(place, settings={"buckets": BUCKETS}, durable=False)
    return ingest(runner, paths, lake, keep_bytes=True, **options)


def reference(world: World | TinyWorld, place: Path, leave_out: set[str] = LEAVE_OUT) -> Content:
    """Return the rows of lakes that saw one sensor each, everything at once and in order."""
    found = [_alone(sensor, place / name, leave_out) for name, sensor in world.sensors.items()]
    return reduce(Content.joined, found)


def _alone(sensor: Sensor, place: Path, leave_out: set[str]) -> Content:
    for part, paths in sensor.parts.items():
        files = [str(path) for path in paths]
        if sensor.closed_behind is not None:
            feed(InlineRunner(), files[: sensor.closed_behind + 1], place, sensor=part, final=True)
        feed(InlineRunner(), files, place, sensor=part, final=True)
    lake = Lake.open(place, create=False)
    check_ledger(lake, is_final=True)
    return Content(lake, leave_out, dict.fromkeys(sensor.parts, sensor.name))


@dataclass
class Copies:
    """Where a file of a sensor lies now; the first one is the newest."""

    paths: list[Path] = field(default_factory=list)
    is_whole: bool = False
    is_known: bool = False
    """An ingest has seen it: from then on it keeps its sensor wherever it lies."""


class History:
    """One way in which a world reaches a lake, drawn from a seed."""

    def __init__(self, world: World, seed: int, place: Path, runner: Callable[..., Runner] = InlineRunner) -> None:
        self.world, self.seed, self.lake, self.runner = world, seed, place, runner
        self.draw = draw = Random(f"{world.seed} {seed} history")
        self.folder = place.with_name(f"{place.name}-captures")
        self.dividing = Random(f"{world.seed} {seed} buckets")
        self.is_orderly = draw.random() < 0.35
        self.tidying = draw.choice(("", "", "delete", "ring")) if self.is_orderly else ""
        self.is_named = not world.is_mixed and draw.random() < 0.5
        self.eagerness = draw.choice((0.05, 0.1, 0.2, 0.2, 0.4, 0.8))
        self.copies: dict[Path, Copies] = {}
        self.held: dict[str, int | None] = dict.fromkeys(world.sensors, 0)
        self.told = [f"world {world.seed}, history {seed}"]
        """What was done, for whoever has to find out what went wrong."""

    def run(self) -> Content:
        """Let everything happen; then nothing more comes."""
        playing = {name: self._play(sensor) for name, sensor in self.world.sensors.items()}
        while playing:
            name = self.draw.choice(list(playing))
            if next(playing[name], None) is None:
                del playing[name]
        self._end()
        lake = Lake.open(self.lake, create=False)
        check_ledger(lake, is_final=True)
        return Content(lake, LEAVE_OUT, {one: self._plain(one) for one in self._sensors_of(lake)})

    def _end(self) -> None:
        names = list(self.world.sensors)
        self.draw.shuffle(names)
        if not self.is_named and self.draw.random() < 0.5:
            self._ingest(names, final=True)
            return
        for name in names:
            self._ingest([name], final=True)

    # --- what happens at one sensor

    def _play(self, sensor: Sensor) -> Iterator[str]:
        """Let the files of a sensor come; yield behind each event."""
        files = list(sensor.files)
        if sensor.is_raw:
            self._lay_down(sensor)
            return
        (self.folder / sensor.name).mkdir(parents=True, exist_ok=True)
        if sensor.closed_behind is not None:
            early, files = files[: sensor.closed_behind + 1], files[sensor.closed_behind + 1 :]
            if len(early) > 1 and not self.is_orderly and self.draw.random() < 0.5:
                files.append(early.pop(self.draw.randrange(len(early) - 1)))
            yield from self._come(sensor, early)
            self._ingest([sensor.name], final=True)
            yield "closed"
        yield from self._come(sensor, files)

    def _lay_down(self, sensor: Sensor) -> None:
        """Let all files of a sensor come at once: without times, it takes both directions to put them in order."""
        shutil.copytree(sensor.files[0].parent, self.folder / sensor.name)
        self.told.append(f"{sensor.name}: all is there")
        if self.draw.random() < self.eagerness:
            self._ingest([sensor.name])

    def _come(self, sensor: Sensor, files: list[Path]) -> Iterator[str]:
        """Let files come and grow until they are whole: one after the other, or in any order."""
        growing = [[path, *self._parts()] for path in files]
        while growing:
            chosen = growing[0] if self.is_orderly else self.draw.choice(growing)
            path, part = chosen[0], chosen.pop(1)
            self._grow(sensor, path, part)
            if len(chosen) == 1:
                growing.remove(chosen)
            yield "grown"
            if self.draw.random() < 0.3:
                self._disturb(sensor)

    def _parts(self) -> list[float]:
        return [1.0] if self.draw.random() < 0.6 else [self.draw.random(), 1.0]

    def _grow(self, sensor: Sensor, path: Path, part: float) -> None:
        copies = self.copies.setdefault(path, Copies())
        for old in copies.paths:
            old.unlink()
        whole = path.read_bytes()
        data = whole[: max(SMALLEST, int(len(whole) * part))]
        copies.is_whole = len(data) == len(whole)
        target = self.folder / sensor.name / self._name(sensor, path)
        suffix = self.draw.choice(["", "", *PACK]) if self._may_pack(copies) else ""
        copies.paths = [_written(target.with_name(f"{target.name}{suffix}"), PACK[suffix](data) if suffix else data)]
        self.told.append(f"{sensor.name}: {copies.paths[0].name} has {len(data)} of {len(whole)} bytes")
        if self.draw.random() < self.eagerness or (self.tidying and copies.is_whole):
            self._ingest(self._some(sensor))
        may_delete = "torn" not in sensor.faults  # else the rest of a packet goes with it
        if copies.is_whole and self.tidying == "delete" and may_delete and not self._is_last(sensor, path):
            self._delete(path)

    def _is_last(self, sensor: Sensor, path: Path) -> bool:
        """Tell whether a file is the last of its sensor: without any, nobody could say that nothing more comes."""
        is_closing = sensor.closed_behind is not None and path == sensor.files[sensor.closed_behind]
        return is_closing or any(path == paths[-1] for paths in sensor.parts.values())

    def _may_pack(self, copies: Copies) -> bool:
        return copies.is_whole and self.tidying != "ring"

    def _name(self, sensor: Sensor, path: Path) -> str:
        """Return what a file is called: in a ring, its name is that of the last but one."""
        if self.tidying != "ring" or sensor.kind in ("tap", "mixed"):
            return path.name
        number = sensor.files.index(path)
        for older in sensor.files[: max(0, number - 1)]:
            self.copies[older].paths.clear()  # these names are others' now
        return f"ring{number % 2}{path.suffix}"

    def _delete(self, path: Path) -> None:
        for old in self.copies[path].paths:
            old.unlink()
        self.copies[path].paths.clear()
        self.told.append(f"{path.name} is deleted")

    def _some(self, sensor: Sensor) -> list[str]:
        """Return which sensors are ingested: this one, or all that there are."""
        there = [name for name in self.world.sensors if any((self.folder / name).glob("**/*.*"))]
        return there if not self.is_named and self.draw.random() < 0.4 else [sensor.name]

    # --- what is done to files that are there

    def _disturb(self, sensor: Sensor) -> None:
        """Move, copy, pack, unpack or touch a whole file."""
        there = [path for path in sensor.files if path in self.copies and self.copies[path].paths]
        whole = [path for path in there if self.copies[path].is_whole]
        if not whole or self.tidying == "ring":
            return
        path = self.draw.choice(whole)
        copies = self.copies[path]
        what = self.draw.choice(("move", "copy", "pack", "unpack", "touch"))
        if what in ("move", "copy") and not (copies.is_known or self.is_named):
            return
        {"move": self._move, "copy": self._copy, "pack": self._pack, "unpack": self._unpack, "touch": self._touch}[
            what
        ](copies)
        self.told.append(f"{sensor.name}: {what} {path.name}, now {[str(one) for one in copies.paths]}")

    def _move(self, copies: Copies) -> None:
        source = copies.paths[0]
        home = next(place for place in source.parents if place.parent == self.folder)
        archive = home / "archive"
        archive.mkdir(exist_ok=True)
        copies.paths[0] = source.replace((home if source.parent == archive else archive) / source.name)
        copies.paths = list(dict.fromkeys(copies.paths))

    def _copy(self, copies: Copies) -> None:
        source = copies.paths[0]
        target = source.with_name(f"copy-{source.name}")
        shutil.copy(source, target)
        copies.paths = list(dict.fromkeys([*copies.paths, target]))

    def _pack(self, copies: Copies) -> None:
        source = copies.paths[0]
        if source.suffix in PACK:
            return
        suffix = self.draw.choice(list(PACK))
        target = _written(source.with_name(f"{source.name}{suffix}"), PACK[suffix](source.read_bytes()))
        source.unlink()
        copies.paths = list(dict.fromkeys([target, *copies.paths[1:]]))

    def _unpack(self, copies: Copies) -> None:
        source = copies.paths[0]
        origin = next(path for path, other in self.copies.items() if other is copies)
        if source.suffix not in PACK:
            return
        target = _written(source.with_suffix(""), origin.read_bytes())
        source.unlink()
        copies.paths = list(dict.fromkeys([target, *copies.paths[1:]]))

    def _touch(self, copies: Copies) -> None:
        seconds = self.draw.randrange(1, 1 << 30)
        os.utime(copies.paths[0], (seconds, seconds))

    # --- ingest

    def _ingest(self, names: list[str], *, final: bool = False) -> None:
        """Ingest, perhaps given up some times before it succeeds."""
        options: dict[str, Any] = {"final": final, "late": "refuse" if self.is_orderly else "rebuild"}
        if self.is_named:
            options["sensor"] = names[0]
        while True:
            seed, failing = self.draw.randrange(1 << 30), self.draw.choice((0.0, 0.0, 0.0, 0.08))
            has_raw = any(self.world.sensors[name].is_raw for name in names)
            options["partition_bytes"] = None if has_raw else self.draw.choice(CUTS)
            self.told.append(f"ingest {' '.join(names)} (seed {seed}, failing {failing}, {options})")
            try:
                paths = [str(self.folder / name) for name in names]
                report = feed(self.runner(seed, failing=failing, attempts=1), paths, self.lake, **options)
                break
            except IngestError as error:
                if not failing or "a task failed" not in str(error):
                    raise
        self._check(names, report)
        if self.dividing.random() < REBUCKETED:
            self._rebucket(self.dividing.choice((1, 2, 3, 5, 8)))

    def _rebucket(self, buckets: int) -> None:
        """Divide gold otherwise, whatever is open."""
        with Lake.open(self.lake, create=False, durable=False).writing() as writer:
            rebucket(writer, buckets)
        self.told.append(f"{buckets} buckets")

    def _check(self, names: list[str], report: Report) -> None:
        assert not report.set_aside, report.set_aside
        assert report.bytes_in == report.bytes_decoded + report.bytes_quarantined + report.bytes_pending
        for copies in self.copies.values():
            copies.is_known |= copies.is_whole and any(
                path.parts[len(self.folder.parts)] in names for path in copies.paths
            )
        if report.commit is None or not report.sensors:
            return
        self._look_at_lake(names, report)

    def _look_at_lake(self, names: list[str], report: Report) -> None:
        lake = Lake.open(self.lake, create=False, durable=False)
        is_all = report.sensors == sum(len(self.world.sensors[name].parts) for name in names)
        is_told = is_all and (len(names) == 1 or not report.bytes_held)
        self.held |= dict.fromkeys(names, report.bytes_held if is_told else None)
        held = list(self.held.values())
        if self.draw.random() < CHECKED:
            assert not is_all or report.bytes_pending == self._pending(lake, names)
            check_ledger(lake, is_final=False, held=None if None in held else sum(filter(None, held)))

    def _pending(self, lake: Lake, names: list[str]) -> int:
        if not lake.files("accounting"):
            return 0
        rows = lake.dataset("accounting").to_table(columns=["sensor", "bytes_pending"]).to_pylist()
        return sum(row["bytes_pending"] for row in rows if self._plain(row["sensor"]) in names)

    def _sensors_of(self, lake: Lake) -> set[str]:
        return {one.sensor for one in lake.inputs().values()}

    def _plain(self, sensor: str) -> str:
        """Return the name of a sensor of the world for one of the lake, which may be that of its directory."""
        return sensor.removeprefix(f"{self.folder}/").partition("/")[0]


def _written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path
