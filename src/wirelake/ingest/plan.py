"""Which captures are read, sensor by sensor: new ones in their order, and what to do with late ones."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Literal

import msgspec

from ..capture.decode import CaptureRange
from ..capture.partitions import PARTITION_BYTES
from ..capture.read.listing import NO_FILE, ListedFile, Listing, Peek, find, full_path
from ..errors import CaptureError, OptionError
from ..lake import Input, Lake
from ..lake.expiry import EXPIRED, date_us
from .known import Known, Seen, look, recognise
from .runner import IngestError, LateCaptures
from .sensor_carry import CarryOf, Closing
from .sensors import COMPRESSED, Place, base_name, default_sensor, place_of, sensor_key, separate_sensor

Late = Literal["refuse", "rebuild", "separate"]
SMALLEST_PARTITION = 16 << 20


@dataclass(frozen=True)
class NewCapture:
    """A capture to read, from its beginning or from where it was left."""

    piece: CaptureRange
    input: Input


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


def find_captures(
    inputs: Sequence[str],
    kind: str | None,
    known: Mapping[str, Input],
    listed: Iterable[ListedFile] | None = None,
    lake: str | None = None,
) -> tuple[list[Seen], list[str]]:
    """Return the captures among the inputs, and notes on other files in directories and patterns.

    ``known`` spares opening files that did not change. ``listed``: the files, if somebody has listed them; a file that
    was named may then be one that becomes a capture later. ``lake``: its place, whose files are no captures.
    """
    captures: list[Seen] = []
    notes: list[str] = []
    own = f"{full_path(lake)}/" if lake is not None else None
    for file in find(Listing(paths=tuple(inputs), recursive=True)) if listed is None else listed:
        if own is not None and file.path.startswith(own):
            continue
        try:
            if not file.is_file:
                raise CaptureError(NO_FILE, path=file.path)
            captures.append(look(file, known.get(file.path), kind))
        except CaptureError as error:
            if listed is None and file.path in _named(inputs):
                raise
            notes.append(f"{error}; left out")
    return captures, notes


def _named(inputs: Sequence[str]) -> set[str]:
    return {path if "://" in path else os.path.abspath(path) for path in inputs}


def refuse_shrunk(found: Sequence[Known], inputs: Sequence[str]) -> None:
    """Refuse a capture that has fewer bytes than were read of it, if it was named; others are left out with a note."""
    for one in found:
        if one.change == "shrunk" and one.now.path in _named(inputs):
            raise CaptureError(one.note.removeprefix(f"{one.now.path}: "), path=one.now.path)


@dataclass(frozen=True)
class Found:
    """A capture of a sensor, as it is now and as the lake knows it."""

    capture: Peek
    now: Input
    before: Input | None
    is_news: bool
    """There is, or may be, something to read."""

    @classmethod
    def of(cls, one: Known, sensor: str | None) -> Found:
        """A capture that is known keeps its sensor, wherever it lies now; ``sensor`` is that of new ones."""
        before, now = one.before, one.now
        if before is None:
            name = sensor or default_sensor(now.path, one.capture.kind)
            now = msgspec.structs.replace(now, sensor=name, name=base_name(now.path))
        else:
            now = msgspec.structs.replace(now, sensor=before.sensor, name=before.name, part=before.part)
        return cls(one.capture, now, before, one.change in ("new", "grown", "changed"))

    @property
    def place(self) -> Place | None:
        return place_of(self.now)


def check_sensors(found: Sequence[Known], sensor: str | None, known: Collection[Input]) -> list[str]:
    """Refuse new captures that would begin a sensor beside captures of another one, unless somebody named it: their
    connections would be cut without a word. Return a note on captures that keep their sensor.
    """
    new = [one.now for one in found if one.change in ("new", "changed")]
    if not new:
        return []
    if sensor is not None:
        others = {one.before.sensor for one in found if one.before is not None} - {sensor}
        return [f"captures of {named(others)} keep their sensor; new ones are of {sensor}"] if others else []
    sensors = {one.sensor for one in known}
    new = [one for one in new if default_sensor(one.path, one.kind) not in sensors]
    if new:
        before = [(one.path, one) for one in known]
        before += [(one.now.path, one.before) for one in found if one.before is not None]
        beside = defaultdict(set)
        for path, one in before:
            beside[_real(default_sensor(path, one.kind))].add(one.sensor)
        unclear = [one for one in new if beside[_real(default_sensor(one.path, one.kind))]]
        if unclear:
            usual = default_sensor(unclear[0].path, unclear[0].kind)
            raise IngestError(_unclear([one.path for one in unclear], usual, beside[_real(usual)]))
    return []


@lru_cache(maxsize=1 << 10)
def _real(place: str) -> str:
    """Return a directory without links; what is not local stays."""
    return place if "://" in place else os.path.realpath(place)


def records_beside(found: Iterable[Known]) -> Iterator[Input]:
    """Yield what a commit records beside the captures that it reads: other names of known ones, and those whose name
    another capture took.
    """
    for one in found:
        if one.change == "same" and one.is_recorded and one.before is not None:
            yield Found.of(one, None).now
        if one.displaced is not None:
            yield one.displaced


# --- what to do with it


@dataclass
class Choice:
    """Decides what is read, sensor by sensor."""

    lake: Lake
    carry_of: Callable[[str, Mapping[str, str]], CarryOf]
    """Makes the carry of a sensor out of that of all sensors."""
    have_more: Callable[[Sequence[tuple[str, int]]], Sequence[bool]]
    """Says of compressed files whether their content has more than so many bytes."""
    late: Late = "refuse"
    final: bool = False
    stops: Mapping[str, int] = field(default_factory=dict)
    """Where to stop in captures that are not read to their end, by path."""
    set_aside: Mapping[str, str] = field(default_factory=dict)
    """Captures that could not be decoded by an earlier ingest, by path, each with its ``stamp`` at that time."""

    unchanged: list[Found] = field(default_factory=list)
    """Captures that turned out to hold nothing new."""
    left_aside: dict[str, str] = field(default_factory=dict)
    """Captures that were set aside, and are late since then, each with the reason: they keep no others waiting."""
    notes: list[str] = field(default_factory=list)
    _by_sensor: dict[str, dict[str, Input]] | None = None
    """What the lake has read, by sensor and origin: there may be very much of it."""
    _last: dict[str, Input | None] = field(default_factory=dict)

    def plans(self, found: Sequence[Found]) -> list[SensorPlan]:
        """Return what to do with each sensor to which these captures belong, if there is anything to do."""
        by_sensor: dict[str, list[Found]] = {}
        for one in found:
            by_sensor.setdefault(one.now.sensor, []).append(one)
        late = {name: self._late(name, captures) for name, captures in by_sensor.items()}
        if any(late.values()) and self.late == "refuse":
            paths = [one.capture.path for captures in late.values() for one in captures]
            raise LateCaptures(_refusal(paths), [name for name, captures in late.items() if captures])
        plans = [plan for name, captures in by_sensor.items() for plan in self._plans(name, captures, late[name])]
        return [plan for plan in plans if plan.segments]

    def _late(self, name: str, found: Sequence[Found]) -> list[Found]:
        last = self._newest(name)
        newest = place_of(last) if last is not None else None
        placed = [(one, place) for one in found if one.is_news and (place := one.place) is not None]
        late = self._with_more([one for one, place in placed if newest is not None and place < newest])
        aside = [one for one in late if self.late == "refuse" and self.set_aside.get(one.now.path) == stamp(one.now)]
        self.left_aside |= {one.now.path: _LEFT_ASIDE.format(one.now.path) for one in aside}
        return [one for one in late if one not in aside]

    def _with_more(self, late: Sequence[Found]) -> list[Found]:
        """Leave out captures that were only compressed since they were read: how much they hold shows when unpacked."""
        packed = [(one, one.before) for one in late if one.capture.compression and one.before is not None]
        if not packed:
            return list(late)
        more = self.have_more([(one.capture.path, max(before.position, before.length)) for one, before in packed])
        without = [one for (one, _), has_more in zip(packed, more, strict=True) if not has_more]
        self.unchanged += without
        return [one for one in late if one not in without]

    def _read(self, name: str) -> Collection[Input]:
        """Return the captures that were read of a sensor, each once: with the record that says the most."""
        if self._by_sensor is None:
            self._by_sensor = {}
            for one in self.lake.inputs().values():
                by_origin = self._by_sensor.setdefault(one.sensor, {})
                known = by_origin.get(one.origin)
                if one.origin and (known is None or one.position >= known.position):
                    by_origin[one.origin] = one
        return self._by_sensor.get(name, {}).values()

    def _newest(self, name: str) -> Input | None:
        """Return the last capture, in the order of the sensor, that was read of it."""
        if name not in self._last:
            placed = (one for one in self._read(name) if one.first_us is not None)
            self._last[name] = max(placed, key=lambda one: (one.first_us, one.name), default=None)
        return self._last[name]

    def _plans(self, name: str, found: list[Found], late: list[Found]) -> list[SensorPlan]:
        if late and self.late == "rebuild":
            return [self._rebuilt(name, found, late)]
        plan = self._continued(name)
        news = sorted(
            (one for one in found if one.is_news and one not in [*late, *self.unchanged]), key=in_sensor_order
        )
        news = [one for one in news if one.now.path not in self.left_aside]
        if news or (self.final and plan.carry.is_open):
            read = (*self._torn(name, found, news), *map(self._bounded, news))
            captures = [self._capture(one, plan.carry, self.stops.get(one.capture.path)) for one in read]
            plan.segments = [Segment(self._complete(captures), self.final)]
        return [plan, *(self._separated(one, plan.carry) for one in late)]

    def _torn(self, name: str, found: Sequence[Found], news: Sequence[Found]) -> Iterator[Found]:
        """Yield the newest capture that was read, if its last packet waits for a rest that does not come any more."""
        newest = self._newest(name)
        is_over = self.final or any(one.place is not None for one in news)
        if newest is None or not is_over or newest.length <= newest.position:
            return
        given = {one.now.origin: one for one in found if one.before is not None}
        try:
            torn = given.get(newest.origin) or self._known(newest)
        except IngestError:
            self.notes.append(f"{newest.path}: it is gone, and with it what there was of its last packet")
            return
        if torn not in news:
            yield torn

    def _complete(self, captures: list[NewCapture]) -> list[NewCapture]:
        """Say that all captures but the last one are complete: if one of them grows, it is late."""
        placed = [capture for capture in captures if place_of(capture.input) is not None][:-1]
        return [replace(one, piece=replace(one.piece, is_growing=False)) if one in placed else one for one in captures]

    def _continued(self, name: str) -> SensorPlan:
        """Return a plan without captures that goes on from the last commit."""
        carry = self.carry_of(name, self.lake.carry())
        return SensorPlan(name, carry, [], totals_before=carry.sensor.totals)

    def _capture(self, one: Found, carry: CarryOf, stop: int | None = None) -> NewCapture:
        """Return a capture to read, from its beginning or from where this carry says that it was left."""
        start = carry.sensor.positions.get(one.now.origin) if one.before is not None else None
        size, path = one.now.size, one.capture.path
        if start is not None and not one.capture.compression:
            size = max(0, size - start.position)
        return NewCapture(CaptureRange(path, path, one.capture.kind, start, stop, not self.final, size), one.now)

    def _bounded(self, one: Found) -> Found:
        """Record a capture that is not read to its end as shorter than it is: the next step sees that it has more."""
        stop = self.stops.get(one.capture.path)
        return one if stop is None else replace(one, now=msgspec.structs.replace(one.now, size=stop))

    def _separated(self, one: Found, carry: CarryOf) -> SensorPlan:
        """Return the plan for a late capture, or for what is new in it, as a sensor of its own."""
        made = self._capture(one, carry)
        start = made.piece.start
        if one.before is not None and start is None:
            reason = "the lake does not know any more where it was left"
            raise IngestError(f"{one.capture.path} has grown, and {reason}; --late rebuild reads it again")
        plan = self._continued(separate_sensor(one.now.sensor, one.capture.path))
        part = str(start.position) if start is not None else ""
        made = replace(made, input=msgspec.structs.replace(made.input, sensor=plan.name, part=part))
        plan.segments = [Segment([made], self.final)]
        return plan

    # --- late captures: begin again before them

    def _rebuilt(self, name: str, found: list[Found], late: list[Found]) -> SensorPlan:
        """Go back to the last kept carry before the late captures, and read everything behind it."""
        newest = self.carry_of(name, self.lake.carry())
        first = min(place for one in late if (place := one.place) is not None)
        kept = [one for one in self.lake.kept().get(sensor_key(name), []) if Place(one.after_us, one.after) <= first]
        after = Place(kept[-1].after_us, kept[-1].after) if kept else None
        carry = self.carry_of(name, kept[-1].carry if kept else {})
        listed = sorted(self._later_than(after, name, found), key=in_sensor_order)
        self._refuse_expired(name, min([first, *(place for one in listed if (place := one.place) is not None)]))
        made = self._complete([self._capture(one, carry, self._end_of(one.now)) for one in listed])
        captures = list(zip(listed, made, strict=True))
        carry.sensor.closings = newest.sensor.closings
        segments = _segments(captures, carry.sensor.closings, self.final)
        return SensorPlan(name, carry, segments, kept[-1].commit if kept else 0, newest.sensor.totals)

    def _refuse_expired(self, name: str, first: Place) -> None:
        """Refuse to read captures again whose rows were removed: those of other dates would come with them."""
        expired = self.lake.labels().get(EXPIRED)
        if isinstance(expired, str) and first.first_us < date_us(expired):
            raise IngestError(
                f"cannot rebuild {name}: it would begin with {first.name}, and rows before {expired} are expired; "
                "--late separate takes a late capture as a sensor of its own"
            )

    def _later_than(self, after: Place | None, name: str, found: list[Found]) -> Iterator[Found]:
        """Yield the captures of a sensor that were not read to their end when the newest was that ``after`` this."""
        given = {one.now.origin: one for one in found if one.before is not None}
        read = self._read(name)
        origins = {one.origin for one in read}
        yield from (one for one in found if one.is_news and one.now.origin not in origins)
        for known in read:
            place = place_of(known)
            if after is None or place is None or place >= after:
                yield given.get(known.origin) or self._known(known)

    def _known(self, known: Input) -> Found:
        """Find a capture of the lake again; refuse if it is gone."""
        names = [one.path for one in self.lake.inputs().values() if one.origin == known.origin][::-1]
        unpacked = {name.removesuffix(suffix) for name in names for suffix in COMPRESSED}
        others = [f"{name}{suffix}" for name in unpacked for suffix in ("", *COMPRESSED)]
        for path in dict.fromkeys([*names, *others]):
            if (there := self._at(path, known)) is not None:
                return there
        raise IngestError(f"cannot rebuild {known.sensor}: its capture {known.path} is gone")

    def _at(self, path: str, known: Input) -> Found | None:
        """Return what lies at a path, if it has the content of a known capture."""
        try:
            (file,) = find(Listing(paths=(path,)))
            (one,) = recognise([look(file, None, known.kind or None)], {known.key: known})
        except (CaptureError, OptionError, ValueError):
            return None
        return Found.of(one, None) if one.before is not None and one.change != "shrunk" else None

    def _end_of(self, capture: Input) -> int | None:
        """Return where the part of a capture ends that is its sensor's: the rest may be another's."""
        others = [one for one in self.lake.inputs().values() if one.origin == capture.origin and one.part]
        return min((int(one.part) for one in others if one.sensor != capture.sensor), default=None)


def in_sensor_order(one: Found) -> tuple[bool, Place | None, str]:
    return one.place is None, one.place, one.capture.path


def _segments(captures: list[tuple[Found, NewCapture]], closings: list[Closing], final: bool) -> list[Segment]:
    """Divide captures where nothing more was to come."""
    segments = [Segment([])]
    for one, capture in captures:
        ends = sorted(closing.position for closing in closings if Place(closing.first_us, closing.name) == one.place)
        for position in ends:
            piece = replace(capture.piece, stop=position, is_growing=False)
            segments[-1].captures.append(replace(capture, piece=piece))
            segments[-1].final = True
            segments.append(Segment([]))
        segments[-1].captures.append(capture)
    segments[-1].final = final
    return segments


def stamp(capture: Input) -> str:
    """Return what changes when somebody repairs a file."""
    return f"{capture.size}:{capture.mtime_us}"


_LEFT_ASIDE = (
    "{0}: it could not be decoded, is as it was, and belongs before captures that were read since; repair or remove "
    "it, or try it again with --late rebuild"
)


def named(names: Iterable[str]) -> str:
    """Return the first names, and how many more there are."""
    listed = sorted(names)
    return ", ".join(listed[:3]) + (f" and {len(listed) - 3} more" if len(listed) > 3 else "")


def _unclear(paths: list[str], usual: str, sensors: Iterable[str]) -> str:
    be = "is" if len(paths) == 1 else "are"
    return (
        f"{named(paths)} {be} new, and other captures of {usual} are of sensor {named(sensors)}: --sensor "
        f"{min(sensors)} goes on with it, --sensor {usual} begins another. Nothing was read"
    )


def _refusal(paths: list[str]) -> str:
    be = "belongs" if len(paths) == 1 else "belong"
    return (
        f"{named(paths)} {be} before captures of the same sensor that the lake has read already; --late rebuild puts "
        "them in order, --late separate takes each as a sensor of its own. Nothing was read"
    )


def partition_bytes(total: int) -> int:
    """Large enough that a task is worth its cost, small enough that every core gets some."""
    return min(PARTITION_BYTES, max(SMALLEST_PARTITION, total // 16))
