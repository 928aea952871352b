"""Captures into the tables of a lake, in one commit.

    ingest(InlineRunner(), ["captures/"], "lake")

Nothing is visible before the commit, everything after it. What is undecided is the carry of the next ingest, so
captures may come one by one or all at once, with the same result.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ..capture.settings import ReadSettings
from ..errors import LakeError, OptionError
from ..lake import Lake, Run
from ..lake.places import plain_place
from .admission import admit, bytes_ahead
from .known import Known, is_still_there, recognise
from .plan import Choice, Found, Late, check_sensors, find_captures, records_beside, refuse_shrunk, stamp
from .report import Report
from .runner import CaptureFailed, IngestError, Runner
from .sensor_carry import CarryOf
from .stages import NoProgress, Progress
from .step import Step
from .tasks.has_more import HasMoreTask

BUCKETS = 8
SET_ASIDE = "set_aside"
"""The label of captures that could not be decoded."""
MOST_ASIDE = 1000
"""How many of them a lake remembers."""


def ingest(
    runner: Runner,
    inputs: Iterable[str],
    lake: str | Lake,
    *,
    reading: ReadSettings | None = None,
    kind: str | None = None,
    sensor: str | None = None,
    late: Late = "refuse",
    final: bool = False,
    keep_bytes: bool = False,
    buckets: int | None = None,
    partition_bytes: int | None = None,
    progress: Progress | None = None,
) -> Report:
    """Read captures (files, directories, patterns, URIs) that the lake does not have yet, and commit their tables.

    ``sensor`` is the place where they were captured; by default the directory of each. ``late`` says what to do with
    a capture that belongs before others that were read already. ``final`` says that nothing more comes: whatever is
    open is decided. ``kind`` is that of captures whose bytes do not tell it (``raw``).
    """
    began = time.monotonic()
    inputs = [plain_input(path) for path in inputs]
    refuse_nameless(sensor)
    existing = existing_lake(lake)
    known = existing.inputs() if existing is not None else {}
    # Before there is a lake: a refused input leaves none.
    captures, notes = find_captures(inputs, kind, known, lake=_place_of(lake))
    lake = opened(existing or lake, buckets)
    with lake.writing() as run:
        found = recognise(captures, lake.inputs())
        refuse_shrunk(found, inputs)
        wanted = Ingest(run, runner, reading or ReadSettings(), sensor, late, final, keep_bytes, partition_bytes)
        report = wanted.run(found, progress or NoProgress())
        if wanted.moved and not report.captures:
            raise IngestError(next(iter(wanted.moved.values())))
    report.notes = [*notes, *(one.note for one in found if one.note), *report.notes]
    report.seconds = time.monotonic() - began
    return report


def plain_input(path: str) -> str:
    try:
        path.encode()
        return plain_place(path)
    except UnicodeEncodeError:
        shown = path.encode(errors="surrogateescape").decode(errors="backslashreplace")
        raise OptionError(f"{shown} cannot be read: its name is not UTF-8; rename it") from None
    except ValueError as error:
        raise OptionError(f"{path} cannot be read: {error}") from None


def refuse_nameless(sensor: str | None) -> None:
    """Refuse an empty name: what a script has put there was not set."""
    if sensor is not None and not sensor.strip():
        raise OptionError("the name of a sensor cannot be empty")


def _place_of(lake: str | Lake) -> str | None:
    """Return where a lake is; None for a place that cannot be: to open it is refused."""
    try:
        return plain_place(lake.path if isinstance(lake, Lake) else lake)
    except ValueError:
        return None


def existing_lake(lake: str | Lake) -> Lake | None:
    """Return the lake, if there is one."""
    if isinstance(lake, Lake):
        return lake
    try:
        return Lake.open(lake, create=False)
    except LakeError:
        return None


def opened(lake: str | Lake, buckets: int | None) -> Lake:
    lake = lake if isinstance(lake, Lake) else Lake.open(lake, settings={"buckets": buckets or BUCKETS})
    has = int(lake.settings["buckets"])
    if buckets is not None and buckets != has:
        raise OptionError(f"{lake.path} has {has} buckets since it was made, not {buckets}")
    return lake


@dataclass
class Ingest:
    """One ingest: again without a capture that turns out not to be decodable."""

    lake_run: Run
    runner: Runner
    reading: ReadSettings
    sensor: str | None
    late: Late
    final: bool
    keep_bytes: bool
    partition_bytes: int | None = None
    max_bytes: int | None = None
    """How much is read at most, about; what is left is for the next ingest."""
    set_aside: dict[str, str] = field(default_factory=dict)
    moved: dict[str, str] = field(default_factory=dict)
    """Captures that were renamed, compressed or overwritten before they were read: their sensors wait for the next
    ingest, which finds them under another name. Else what belongs behind them would be read first.
    """

    def run(self, found: Sequence[Known], progress: Progress) -> Report:
        waiting: list[Found] = []
        while True:
            left = {one.now.path: one for one in found if one.now.path not in self.set_aside}
            try:
                report = self._attempt(found, progress)
            except CaptureFailed as error:
                failed = left.get(error.capture)
                if failed is None:
                    raise
                if not is_still_there(failed.now):
                    self.moved[error.capture] = str(error)
                    sensor = self._found(failed).now.sensor
                    waiting += [each for one in found if (each := self._found(one)).now.sensor == sensor]
                    found = [one for one in found if self._found(one).now.sensor != sensor]
                elif len(left) == 1:
                    raise
                else:
                    self.set_aside[error.capture] = str(error)
                continue
            report.set_aside |= self.moved
            report.bytes_left += sum(map(bytes_ahead, waiting))
            return report

    def _found(self, one: Known) -> Found:
        return Found.of(one, self.sensor)

    def _attempt(self, everything: Sequence[Known], progress: Progress) -> Report:
        run, lake = self.lake_run, self.lake_run.lake
        found = [one for one in everything if one.now.path not in self.set_aside]

        def carry_of(sensor: str, known: Mapping[str, str]) -> CarryOf:
            return CarryOf(lake.store, run.staging, sensor, known)

        notes = check_sensors(found, self.sensor, lake.inputs().values())
        captures = list(map(self._found, found))
        admitted = admit(captures, self.max_bytes)
        final = self.final and not admitted.bytes_left
        label = lake.labels().get(SET_ASIDE)
        before: dict[str, str] = label if isinstance(label, dict) else {}
        choice = Choice(lake, carry_of, self._have_more, self.late, final, admitted.stops, before)
        plans = choice.plans(admitted.captures)
        beside = [*records_beside(found), *(one.now for one in choice.unchanged)]
        aside = self.set_aside | choice.left_aside
        stamps = {one.now.path: stamp(one.now) for one in everything if one.now.path in aside}
        others = {path: text for path, text in before.items() if path not in {one.now.path for one in everything}}
        labels = {SET_ASIDE: dict(list((others | stamps).items())[-MOST_ASIDE:])} if before or stamps else {}
        step = Step(run, self.runner, self.reading, self.keep_bytes, progress, labels)
        report = step.run(plans, beside, self.partition_bytes) if plans or choice.unchanged else Report()
        report.set_aside = aside
        report.notes += [*notes, *choice.notes]
        report.bytes_left = admitted.bytes_left
        report.skipped = sum(not one.is_news for one in captures) + len(choice.unchanged)
        return report

    def _have_more(self, lengths: Sequence[tuple[str, int]]) -> list[bool]:
        futures = [self.runner.submit(HasMoreTask(path, length)) for path, length in lengths]
        return [future.result() for future in futures]
