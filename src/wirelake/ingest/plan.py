"""Which captures are new, to which sensor each belongs, in which order they are read, and what to do with late ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from ..capture.decode import CaptureRange
from ..capture.partitions import PARTITION_BYTES
from ..capture.read.listing import Listing, Peek, find, peek
from ..errors import CaptureError
from ..lake import Input, Kept, Lake, examine
from .runner import IngestError
from .sensor_carry import CarryOf, Closing
from .sensors import Place, base_name, default_sensor, place_of, sensor_key, separate_sensor

Late = Literal["refuse", "rebuild", "separate"]
SMALLEST_PARTITION = 16 << 20


@dataclass(frozen=True)
class NewCapture:
    """A capture to read, from its beginning or from where it was left."""

    piece: CaptureRange
    input: Input

    @property
    def place(self) -> Place | None:
        return place_of(self.input)


@dataclass
class Segment:
    """Captures of a sensor that are read one after the other. ``final``: nothing comes behind them."""

    captures: list[NewCapture]
    final: bool = False


@dataclass
class SensorPlan:
    """What one step does with a sensor."""

    name: str
    carry: CarryOf
    segments: list[Segment]
    since: int | None = None
    """The commit to go back to: what later ones have of this sensor is replaced. None: it goes on from the last one."""
    totals_before: dict[str, int] = field(default_factory=dict)
    """The facts of the sensor as the lake has them now."""

    @property
    def captures(self) -> list[NewCapture]:
        return [capture for segment in self.segments for capture in segment.captures]


# --- what there is


def find_captures(inputs: Sequence[str], kind: str | None) -> tuple[list[Peek], list[str]]:
    """Return the captures among the inputs, and notes on other files in directories and patterns."""
    named = {path if "://" in path else os.path.abspath(path) for path in inputs}
    captures: list[Peek] = []
    notes: list[str] = []
    for file in find(Listing(paths=tuple(inputs), recursive=True)):
        try:
            if not file.is_file:
                raise CaptureError("it is not a file", path=file.path)
            captures.append(peek(file.path, kind))
        except CaptureError as error:
            if file.path in named:
                raise
            notes.append(f"{error}; left out")
    return captures, notes


@dataclass(frozen=True)
class Found:
    """A capture, as it is now and as the lake knows it."""

    capture: Peek
    now: Input
    before: Input | None
    is_news: bool
    """There is something to read."""


def recognise(captures: Iterable[Peek], known: Mapping[str, Input], sensor: str | None = None) -> list[Found]:
    """Look captures up among those that the lake knows. A known one keeps its sensor, wherever it lies now."""
    by_content = {capture.identity: capture for capture in known.values()}
    by_path = {capture.path: capture for capture in known.values()}
    found = []
    for capture in captures:
        before = by_path.get(capture.path)
        now, change = examine(capture.path, before)
        if change == "new" and capture.kind != "raw" and now.identity in by_content:
            before = by_content[now.identity]
            change = "grown" if now.size > before.size else "same"
        if change in ("new", "changed"):
            before = None
        name = before.sensor if before is not None else sensor or default_sensor(capture.path, capture.kind)
        now = msgspec.structs.replace(now, sensor=name, first_us=capture.first_us)
        found.append(Found(capture, now, before, change != "same"))
    return found


# --- what to do with it


@dataclass
class Choice:
    """Decides what is read, sensor by sensor."""

    lake: Lake
    carry_of: Callable[[str, Mapping[str, str]], CarryOf]
    """Makes the carry of a sensor out of that of all sensors."""
    late: Late = "refuse"
    final: bool = False
    refused: list[str] = field(default_factory=list)

    def plans(self, found: Sequence[Found]) -> list[SensorPlan]:
        """Return what to do with each sensor to which these captures belong, if there is anything to do."""
        by_sensor: dict[str, list[Found]] = {}
        for one in found:
            by_sensor.setdefault(one.now.sensor, []).append(one)
        plans = [plan for name, captures in by_sensor.items() for plan in self._plans(name, captures)]
        if self.refused:
            raise IngestError(_refusal(self.refused))
        return [plan for plan in plans if plan.captures or any(segment.final for segment in plan.segments)]

    def _plans(self, name: str, found: list[Found]) -> list[SensorPlan]:
        plan = self._continued(name)
        news = sorted((one for one in found if one.is_news), key=_order)
        late = self._late(name, news)
        on_time = [one for one in news if one not in late]
        if late and self.late == "rebuild":
            return [self._rebuilt(name, found, late)]
        if late and self.late == "refuse":
            self.refused += [one.capture.path for one in late]
        plan.segments = [Segment([self._capture(one, plan.carry) for one in on_time], self.final)]
        if self.final and not on_time and not plan.carry.is_open:
            plan.segments = []
        return [plan, *(self._separated(one, plan.carry) for one in late if self.late == "separate")]

    def _continued(self, name: str) -> SensorPlan:
        """Return a plan without captures that goes on from the last commit."""
        carry = self.carry_of(name, self.lake.carry())
        return SensorPlan(name, carry, [], totals_before=carry.sensor.totals)

    def _late(self, name: str, news: list[Found]) -> list[Found]:
        places = [place for one in self.lake.inputs().values() if one.sensor == name and (place := place_of(one))]
        newest = max(places, default=None)
        return [one for one in news if newest is not None and (place := place_of(one.now)) and place < newest]

    def _capture(self, one: Found, carry: CarryOf) -> NewCapture:
        """Return a capture to read, from its beginning or from where it was left."""
        start, size = None, one.now.size
        if one.before is not None:
            start = carry.sensor.positions.get(one.before.path)
            size = max(0, size - one.before.size)
        piece = CaptureRange(
            one.capture.path, one.capture.path, one.capture.kind, start, is_growing=not self.final, size=size
        )
        return NewCapture(piece, one.now)

    def _separated(self, one: Found, carry: CarryOf) -> SensorPlan:
        """Return the plan for a late capture as a sensor of its own."""
        made = self._capture(one, carry)
        if one.before is not None and made.piece.start is None:
            reason = "nobody knows any more where it was left, so that it cannot be a sensor of its own"
            raise IngestError(f"{one.capture.path} has grown, but {reason}; --late rebuild reads it again")
        plan = self._continued(separate_sensor(one.now.sensor, one.capture.path))
        part = f"{made.piece.start.position}" if made.piece.start is not None else one.now.part
        made = replace(made, input=msgspec.structs.replace(made.input, sensor=plan.name, part=part))
        plan.segments = [Segment([made], self.final)]
        return plan

    # --- late captures: begin again before them

    def _rebuilt(self, name: str, found: list[Found], late: list[Found]) -> SensorPlan:
        """Go back to the last kept carry before the late captures, and read everything behind it."""
        first = min(place for one in late if (place := place_of(one.now)))
        kept = [one for one in self.lake.kept().get(sensor_key(name), []) if Place(one.after_us, one.after) <= first]
        back: Kept | None = kept[-1] if kept else None
        newest = self.carry_of(name, self.lake.carry())
        carry = self.carry_of(name, back.carry if back is not None else {})
        after = Place(back.after_us, back.after) if back is not None else None
        captures = self._later_than(after, name, found, carry)
        segments = _segments(captures, newest.sensor.closings, self.final)
        carry.sensor.closings = newest.sensor.closings
        since = back.commit if back is not None else 0
        return SensorPlan(name, carry, segments, since, newest.sensor.totals)

    def _later_than(
        self, after: Place | None, name: str, found: list[Found], carry: CarryOf
    ) -> list[tuple[Place, NewCapture]]:
        """Return the captures of a sensor that were not read to their end when this carry was left, in order."""
        given = {one.before.key: one for one in found if one.before is not None}
        chosen = [one for one in found if one.before is None]
        for key, known in self.lake.inputs().items():
            place = place_of(known)
            if known.sensor == name and (after is None or place is None or place >= after):
                chosen.append(given.get(key) or self._known(known))
        made = []
        for one in chosen:
            start = carry.sensor.positions.get(one.before.path) if one.before is not None else None
            size = max(0, one.now.size - (start.position if start is not None else 0))
            piece = CaptureRange(
                one.capture.path, one.capture.path, one.capture.kind, start, self._end_of(one.now),
                is_growing=not self.final, size=size,
            )  # fmt: skip
            last = Place(1 << 62, base_name(one.capture.path))
            made.append((place_of(one.now) or last, NewCapture(piece, one.now)))
        return sorted(made, key=lambda pair: pair[0])

    def _end_of(self, capture: Input) -> int | None:
        """Return where the part of a capture ends that is its sensor's: another part may be another's."""
        inputs = self.lake.inputs().values()
        later = [one for one in inputs if one.path == capture.path and one.head == capture.head and one.part.isdigit()]
        begins = [int(one.part) for one in later if one.sensor != capture.sensor]
        return min(begins, default=None)

    def _known(self, known: Input) -> Found:
        """Find a capture of the lake again; refuse if it is gone."""
        try:
            capture = peek(known.path)
            now, change = examine(known.path, known)
        except (CaptureError, OSError) as error:
            raise IngestError(f"cannot rebuild: {known.path} is gone ({error})") from None
        if change == "changed":
            raise IngestError(f"cannot rebuild: {known.path} is not the capture any more that the lake has read")
        now = msgspec.structs.replace(now, sensor=known.sensor, first_us=known.first_us)
        return Found(capture, now, known, True)


def _order(one: Found) -> tuple[bool, Place | None, str]:
    place = place_of(one.now)
    return place is None, place, one.capture.path


def _segments(captures: list[tuple[Place, NewCapture]], closings: list[Closing], final: bool) -> list[Segment]:
    """Divide captures where nothing more was to come."""
    ends = sorted((Place(one.first_us, one.name), one.position) for one in closings)
    segments = [Segment([], False)]
    for place, capture in captures:
        for position in [position for where, position in ends if where == place]:
            segments[-1].captures.append(replace(capture, piece=replace(capture.piece, stop=position)))
            segments[-1].final = True
            segments.append(Segment([]))
        segments[-1].captures.append(capture)
    segments[-1].final = final
    return segments


def _refusal(paths: list[str]) -> str:
    named = ", ".join(paths[:3]) + (f" and {len(paths) - 3} more" if len(paths) > 3 else "")
    be = "belongs" if len(paths) == 1 else "belong"
    return (
        f"{named} {be} before captures of the same sensor that the lake has read already; --late rebuild puts things in"
        " order, --late separate takes a late capture as a sensor of its own. Nothing was read"
    )


def partition_bytes(total: int) -> int:
    """Large enough that a task is worth its cost, small enough that every core gets some."""
    return min(PARTITION_BYTES, max(SMALLEST_PARTITION, total // 16))
