"""Follow captures while they grow: a plain loop of steps, each with one commit.

    follow(InlineRunner(), ["captures/"], "lake", stop=stop, on_batch=print)

Each round lists the inputs, reads a bounded part of what is new, and commits. The lake says how far each capture of
each sensor was read, so there is no other checkpoint: whatever ends this process, the next one goes on from the last
commit. While it runs it holds the lake's lock, and looks after the lake: it merges small files, and sweeps.

A round that fails is tried again, a little later each time; after ``max_failures`` in a row it gives up.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from ..capture.read.listing import ListedFile
from ..capture.settings import ReadSettings
from ..errors import CaptureError, LakeError, OptionError, WireError
from ..lake import Lake, Run
from ..lake.compaction import Compacted, compacting
from .admission import bytes_ahead
from .known import Known, recognise
from .plan import Found, Late, find_captures
from .report import Report
from .run import Ingest, existing_lake, opened, plain_input, refuse_nameless
from .runner import IngestError, LateCaptures, Runner, RunnerEnded
from .sources import Sources
from .stages import NoProgress

MAX_BYTES = 64 << 20
TRIGGER_SECONDS = 1.0
MAX_FAILURES = 5
BUCKETS = 2
"""Of a lake that a stream makes."""
LONGEST_PAUSE_SECONDS = 60.0
LOOK_AGAIN_SECONDS = 60.0
"""So often all files are looked at although their sizes and times have not changed: one that could not be read may be
readable now."""
TIERS = ((64, 1 << 20), (512, 16 << 20), (4096, 128 << 20))
"""Every so many commits, files become about so large. A row is written again once per tier, not at every merge."""
MIN_FILES = 8
MERGE_SECONDS = 0.25
"""How long a step may merge files at most, even where the next step is due already."""
FAILURES = (IngestError, LakeError, CaptureError, WireError, OptionError, OSError)
"""What may pass, or what an operator can mend."""


@dataclass(frozen=True)
class FollowSettings:
    """What to follow, and how. See ``ingest`` for those that it has too."""

    reading: ReadSettings = field(default_factory=ReadSettings)
    kind: str | None = None
    sensor: str | None = None
    late: Late = "refuse"
    final: bool = False
    """When it ends because there is nothing more, decide what is open."""
    keep_bytes: bool = False
    buckets: int | None = None
    partition_bytes: int | None = None
    max_bytes: int = MAX_BYTES
    """About how many bytes of captures a step reads."""
    trigger_seconds: float = TRIGGER_SECONDS
    """From the beginning of a round to that of the next; a step that takes longer is followed by the next at once."""
    available_now: bool = False
    """End when all that is there was read."""
    max_failures: int = MAX_FAILURES
    """So many rounds that fail in a row end it."""
    stalled_seconds: float | None = None
    """Say so when nothing was written to an input for so long."""
    compacts: bool = True


@dataclass(frozen=True)
class Round:
    """What is known after a look at the inputs."""

    lag_bytes: int = 0
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    """Until when each sensor is known, in microseconds."""
    silent_seconds: Mapping[str, float] = field(default_factory=dict)
    """How long nothing was written to each input."""
    stalled: Sequence[str] = ()
    """Inputs that were silent for longer than they may be."""


@dataclass
class Batch:
    """One step that made a commit."""

    number: int
    report: Report
    lag_bytes: int
    """Bytes of captures that were there when it began and that it has not read."""
    lag_seconds: float | None
    """From the newest time that the lake knows of the sensors that this step read, to now."""
    carry_bytes: int
    seconds: float


@dataclass
class Followed:
    """What following captures came to."""

    batches: int = 0
    rounds: int = 0
    failures: int = 0
    compactions: int = 0
    messages: int = 0
    bytes_decoded: int = 0
    bytes_quarantined: int = 0
    lag_bytes: int = 0
    carry_bytes: int = 0
    commit: int | None = None
    seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        return vars(self) | {"seconds": round(self.seconds, 3)}


class Watcher:
    """Is told what happens; by default nothing is shown."""

    def batch(self, batch: Batch) -> None:
        """A step was committed."""

    def failed(self, error: Exception, in_a_row: int, pause: float) -> None:
        """A round failed; it is tried again after a pause, unless that is 0."""

    def note(self, text: str) -> None:
        """Something about a capture that a person should know; not repeated while it holds."""

    def round(self, told: Round) -> None:
        """A round is over, whether there was something to read or not."""

    def stalled(self, text: str) -> None:
        """An input has stalled, or goes on."""


class Watchers(Watcher):
    """Several of them."""

    def __init__(self, *watchers: Watcher) -> None:
        self._watchers = watchers

    def batch(self, batch: Batch) -> None:
        for each in self._watchers:
            each.batch(batch)

    def failed(self, error: Exception, in_a_row: int, pause: float) -> None:
        for each in self._watchers:
            each.failed(error, in_a_row, pause)

    def note(self, text: str) -> None:
        for each in self._watchers:
            each.note(text)

    def round(self, told: Round) -> None:
        for each in self._watchers:
            each.round(told)

    def stalled(self, text: str) -> None:
        for each in self._watchers:
            each.stalled(text)


def follow(
    runner: Runner,
    inputs: Iterable[str],
    lake: str | Lake,
    settings: FollowSettings | None = None,
    *,
    stop: Event | None = None,
    watcher: Watcher | None = None,
) -> Followed:
    """Keep a lake current until ``stop`` is set, or, with ``available_now``, until all that is there was read.

    A step that has begun is finished. Raise the last error when too many rounds in a row have failed.
    """
    settings, inputs = settings or FollowSettings(), [plain_input(path) for path in inputs]
    refuse_nameless(settings.sensor)
    following = _Following(runner, inputs, settings, watcher or Watcher())
    following.check_inputs()
    _refuse_lake_among(inputs, lake)
    existing = existing_lake(lake)
    began = time.monotonic()
    try:
        # A small step costs more with each bucket that it touches.
        buckets = settings.buckets or (None if existing is not None else BUCKETS)
        following.run(opened(existing or lake, buckets), stop or Event())
    finally:
        following.close()
        following.total.seconds = time.monotonic() - began
    return following.total


class _Following:
    def __init__(self, runner: Runner, inputs: list[str], settings: FollowSettings, watcher: Watcher) -> None:
        self.total = Followed()
        self._runner, self._inputs, self._settings, self._watcher = runner, inputs, settings, watcher
        self._sources = Sources(inputs, settings.stalled_seconds)
        self._writing: ExitStack | None = None
        self._run: Run | None = None
        self._upkeep: Generator[bool, None, None] | None = None
        self._listed: list[ListedFile] = []
        """What the last complete round has seen: if nothing changes, there is nothing to do."""
        self._looked_at = 0.0
        self._notes: set[str] = set()
        """What was told: those of the last complete round, so that a note is not repeated; and of this one."""
        self._new_notes: set[str] = set()
        self._failures = 0
        self._lag_bytes, self._has_read = 0, False
        self._max_bytes, self._read_to = settings.max_bytes, -1
        self._merged_at: dict[int, int] = {}

    def check_inputs(self) -> None:
        """Refuse inputs that do not exist, before there is a lake."""
        self._sources.check()

    def run(self, lake: Lake, stop: Event) -> None:
        while not stop.is_set():
            began = time.monotonic()
            pause = self._settings.trigger_seconds
            try:
                is_done = self._round(lake)
                self._look_after(began + pause)
                self._failures = 0
            except FAILURES as error:
                is_done, pause = False, self._after(error)
            if self._settings.available_now and is_done and self._lag_bytes == 0:
                self._finish(lake)
                return
            if self._lag_bytes and self._has_read and not self._failures:
                continue
            stop.wait(max(0.0, pause - (time.monotonic() - began)))

    def close(self) -> None:
        """Leave the lake, with nothing staged."""
        if self._writing is not None:
            writing, self._writing, self._run, self._upkeep = self._writing, None, None, None
            writing.close()

    # --- one round

    def _round(self, lake: Lake) -> bool:
        """Read what is new, up to the limit of a step. Return whether nothing was new."""
        self.total.rounds += 1
        listed = self._sources.look()
        now = time.monotonic()
        if listed == self._listed and now - self._looked_at < LOOK_AGAIN_SECONDS:
            self._tell_round(lake)
            return True
        self._looked_at = now
        run = self._writer(lake)
        found, notes = self._find(lake, listed)
        self._note(notes)
        report = self._step(run, found)
        # What was set aside cannot be waited for: it may never be readable.
        waited_for = [one for one in found if one.now.path not in report.set_aside]
        ahead = sum(bytes_ahead(Found.of(one, self._settings.sensor)) for one in waited_for)
        self._lag_bytes, self._has_read = report.bytes_left, report.commit is not None
        self._widen(lake, report)
        # Until all is read, and while captures are set aside, every round looks again.
        self._listed = [] if report.bytes_left or report.set_aside else listed
        self._notes, self._new_notes = self._new_notes, set()
        self._tell_round(lake)
        return report.commit is None and ahead == 0

    def _widen(self, lake: Lake, report: Report) -> None:
        """Let the next step read more if this one got nowhere: a packet may be larger than the limit."""
        if not report.bytes_left:
            self._read_to, self._max_bytes = -1, self._settings.max_bytes
            return
        read_to = sum(one.position for one in lake.inputs().values())
        self._max_bytes = 2 * self._max_bytes if read_to == self._read_to else self._settings.max_bytes
        self._read_to = read_to

    def _find(self, lake: Lake, listed: list[ListedFile]) -> tuple[list[Known], list[str]]:
        """Look at what is there. A new capture says that those before it are complete, so they are listed again: else
        what was written to them between two looks at the directory would be late.
        """
        known = lake.inputs()
        if any(file.path not in known for file in listed):
            again = {file.path: file for file in self._sources.look()}
            listed = [again.get(file.path, file) for file in listed]
        captures, notes = find_captures(self._inputs, self._settings.kind, known, listed)
        found = recognise(captures, known)
        return found, [*notes, *(one.note for one in found if one.note)]

    def _step(self, run: Run, found: Sequence[Known], final: bool = False) -> Report:
        wanted = self._settings
        began = time.monotonic()
        step = Ingest(
            run,
            self._runner,
            wanted.reading,
            wanted.sensor,
            wanted.late,
            final,
            wanted.keep_bytes,
            wanted.partition_bytes,
            self._max_bytes,
        )
        try:
            report = step.run(found, NoProgress())
        except LateCaptures as error:
            others = [one for one in found if Found.of(one, wanted.sensor).now.sensor not in error.sensors]
            if others:  # they need not wait until somebody has decided what is to become of these
                self._step(run, others, final)
            raise
        report.seconds = time.monotonic() - began
        self._note([*report.notes, *(f"set aside: {reason}" for reason in report.set_aside.values())])
        if report.commit is not None:
            self._count(run.lake, report)
        return report

    def _finish(self, lake: Lake) -> None:
        if self._settings.final:
            found, _ = self._find(lake, self._sources.look())
            self._step(self._writer(lake), found, final=True)
        self._look_after(math.inf)

    def _writer(self, lake: Lake) -> Run:
        """Return the run that writes; after a failure it is another one, which finishes what that one left."""
        if self._run is None:
            self._writing = ExitStack()
            self._run = self._writing.enter_context(lake.writing())
            self._upkeep = self._writing.enter_context(closing(self._upkeep_of(self._run)))
        return self._run

    def _after(self, error: Exception) -> float:
        """Count a failure; return how long to wait, or give up."""
        self._failures += 1
        self.total.failures += 1
        self._listed = []
        self.close()
        gives_up = self._failures >= self._settings.max_failures or isinstance(error, RunnerEnded)
        pause: float = min(self._settings.trigger_seconds * 2**self._failures, LONGEST_PAUSE_SECONDS)
        self._watcher.failed(error, self._failures, 0.0 if gives_up else pause)
        if gives_up:
            raise error
        return pause

    # --- what is told

    def _note(self, notes: Iterable[str]) -> None:
        for note in notes:
            if note not in self._notes | self._new_notes:
                self._watcher.note(note)
            self._new_notes.add(note)

    def _count(self, lake: Lake, report: Report) -> None:
        total = self.total
        total.batches += 1
        total.messages += sum(report.messages.values())
        total.bytes_decoded += report.bytes_decoded
        total.bytes_quarantined += report.bytes_quarantined
        total.lag_bytes, total.commit = report.bytes_left, report.commit
        total.carry_bytes = sum(lake.store.sizes(lake.carry().values()).values())
        lag = _lag_seconds(_watermarks(lake).values())
        self._watcher.batch(Batch(total.batches, report, report.bytes_left, lag, total.carry_bytes, report.seconds))

    def _tell_round(self, lake: Lake) -> None:
        for text in self._sources.news():
            self._watcher.stalled(text)
        silent, stalled = self._sources.silent_seconds(), self._sources.stalled
        self._watcher.round(Round(self._lag_bytes, _watermarks(lake), silent, stalled))

    # --- what a lake needs over weeks

    def _look_after(self, until: float) -> None:
        """Merge small files until it is time for the next round, and a little even if that is now. Sweeps come with
        commits.
        """
        until = max(until, time.monotonic() + MERGE_SECONDS)
        while self._upkeep is not None and next(self._upkeep, False) and time.monotonic() < until:
            pass

    def _upkeep_of(self, run: Run) -> Generator[bool, None, None]:
        """Merge small files when it is time, slice by slice, so that the next step need not wait for all of it. Yield
        whether anything was done.
        """
        while self._settings.compacts:
            for every, target in TIERS:
                number = run.lake.number()
                if number - self._merged_at.setdefault(every, number - number % every) < every:
                    continue
                self._merged_at[every] = number
                done = Compacted()
                for _ in compacting(run, done, target_bytes=target, min_files=MIN_FILES):
                    yield True
                self.total.compactions += len(done.commits)
            yield False


def _refuse_lake_among(inputs: Iterable[str], lake: str | Lake) -> None:
    """Refuse a lake within an input: each commit would look like new captures."""
    place = lake.path if isinstance(lake, Lake) else lake
    for path in inputs:
        if f"{_full(place)}/".startswith(f"{_full(path)}/"):
            raise OptionError(f"the lake {place} lies in {path}, which is followed; put it elsewhere")


def _full(place: str) -> str:
    return place.rstrip("/") if "://" in place else os.path.abspath(os.path.expanduser(place))


def _watermarks(lake: Lake) -> dict[str, int | None]:
    found = lake.labels().get("watermark_us")
    return dict(found) if isinstance(found, dict) else {}


def _lag_seconds(watermarks: Iterable[int | None]) -> float | None:
    """Return how far the most current sensor is behind now: one that went away says nothing about the others."""
    newest = max((time_us for time_us in watermarks if time_us is not None), default=None)
    return None if newest is None else round(time.time() - newest / 1e6, 3)
