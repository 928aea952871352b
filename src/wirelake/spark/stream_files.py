"""The captures of a stream: which there are, how far a batch goes, and what is known where it begins.

The captures of a sensor are read one after the other as one, in the order of their first packets. So a position is, for
each sensor, the capture that is being read, how many there were up to it, and the bytes of its content that were read.
A capture is finished as soon as a later one of its sensor was begun.

What a batch holds is a function of its two positions and the captures alone. The state at a position (incomplete
frames, TCP, protocols) is kept beside; where it is missing, the captures are read again up to there, without columns.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from ..capture.decode import CaptureRange
from ..capture.magic import HEAD_BYTES
from ..capture.partitions import Partition, index
from ..capture.read import RAW_NAMES, ResumePoint
from ..capture.read.files import CaptureFile, open_binary
from ..capture.read.listing import NO_FILE, ListedFile, Peek, find, peek
from ..capture.read.unpack import without_suffix
from ..capture.state import State
from ..errors import CaptureError, LakeError, OptionError
from ..ingest import carry
from ..ingest.sensors import default_sensor
from . import index_cache
from .reading import Share, Table, is_gone
from .stream_shares import Head, StreamShare, head_of, place_now

Offset = dict[str, dict[str, Any]]
"""By sensor: ``capture`` (its path without the suffix of compression), ``first_us``, ``files`` and ``position``."""
KEPT_STATES = 4
"""Of a stream, in its directory. Spark repeats at most the last batch."""
_BLOCK = 1 << 20
_LOOKS = 3
"""Captures that are compressed between a look and the next step are looked for again, so often at most."""
_log = logging.getLogger("wirelake")
T = TypeVar("T")


@dataclass(frozen=True)
class StreamFile:
    """A capture as it is now; ``length`` is that of its unpacked content."""

    sensor: str
    name: str
    path: str
    kind: str
    first_us: int | None
    length: int
    head: Head

    @property
    def place(self) -> tuple[bool, int, str]:
        return self.first_us is None, self.first_us or 0, self.name


BySensor = dict[str, list[StreamFile]]


def place_at(position: Mapping[str, Any]) -> tuple[bool, int, str]:
    """Return the place, in the order of its sensor, of the capture that a position names."""
    first_us = position["first_us"]
    return first_us is None, first_us or 0, position["capture"]


@dataclass
class SensorState:
    """What is known of a sensor at a position: state, where its last capture was left, how long finished ones were."""

    state: State = field(default_factory=State)
    resume: ResumePoint | None = None
    lengths: dict[str, int] = field(default_factory=dict)


@dataclass
class StreamState:
    sensors: dict[str, SensorState] = field(default_factory=dict)


class StreamFiles:
    """Lists captures, and remembers what it knows about those that do not change."""

    def __init__(self, table: Table) -> None:
        self._options = table.options
        self._looks: dict[tuple[str, int, int | None], StreamFile | None] = {}

    def list(self) -> BySensor:
        """Return the captures of each sensor in order. Those that hold no packet yet are left out."""
        return again_if_gone(self._list)

    def _list(self) -> BySensor:
        found: dict[str, StreamFile] = {}
        looks = {}
        for file in find(self._options):
            key = file.path, file.size, file.mtime_us
            made = looks[key] = self._looks[key] if key in self._looks else self._look(file)
            if made is not None:
                other = found.get(made.name)
                if other is None or other.path != made.name:  # while a capture is compressed, both are there
                    found[made.name] = made
        self._looks = looks
        sensors: BySensor = {}
        for made in sorted(found.values(), key=lambda file: file.place):
            sensors.setdefault(made.sensor, []).append(made)
        return sensors

    def _look(self, file: ListedFile) -> StreamFile | None:
        try:
            if not file.is_file:
                raise CaptureError(NO_FILE, path=file.path)
            is_raw = self._options.kind == "raw" or without_suffix(file.path).endswith(RAW_NAMES)
            if file.size < (1 if is_raw else HEAD_BYTES):
                return None
            seen = peek(file.path, self._options.kind)
            if seen.is_bare:
                return None
            length = _unpacked_length(file.path) if seen.compression else file.size
            return _stream_file(seen, length, head_of(file.path))
        except CaptureError as error:
            if is_gone(file.path):
                raise
            if self._options.skip_corrupt:
                return None
            error.detail = f"{error.detail}; the option ignoreCorruptFiles skips such files"
            raise


def again_if_gone(look: Callable[[], T]) -> T:
    """Look again where a capture went meanwhile: most likely, it was compressed."""
    for _ in range(_LOOKS - 1):
        try:
            return look()
        except CaptureError as error:
            if not error.path or not is_gone(error.path):
                raise
    return look()


def _stream_file(seen: Peek, length: int, head: Head) -> StreamFile:
    name = without_suffix(seen.path)
    sensor = name if seen.kind == "raw" else default_sensor(seen.path, seen.kind)
    return StreamFile(sensor, name, seen.path, seen.kind, seen.first_us, length, head)


def _unpacked_length(path: str) -> int:
    with open_binary(path) as file:
        source = CaptureFile(file, path, window=_BLOCK)
        while not source.is_over:
            source.more()
        return source.position


# --- how far


def advance(
    start: Offset, sensors: Mapping[str, list[StreamFile]], most_bytes: int | None = None, most_files: int | None = None
) -> Offset:
    """Return the position behind all that there is, or behind as much as the limits allow.

    Bytes are shared out between sensors; files go to those first of which most waits. So none waits for ever.
    """
    ahead = {sensor: _ahead(start.get(sensor), files) for sensor, files in sensors.items()}
    waiting = {sensor: sum(file.length - begin for file, begin in parts) for sensor, parts in ahead.items()}
    end = dict(start)
    order = sorted((sensor for sensor in ahead if waiting[sensor] > 0), key=lambda sensor: (waiting[sensor], sensor))
    if most_files is not None:
        order.reverse()
    for number, sensor in enumerate(order):
        count = 0 if (before := start.get(sensor)) is None else before["files"]
        share = None if most_bytes is None else -(-most_bytes // (len(order) - number))
        for file, begin in ahead[sensor]:
            if share == 0 or most_files == 0:
                break
            taken = file.length - begin if share is None else min(file.length - begin, share)
            if before is None or place_at(before) != file.place:
                count += 1
            end[sensor] = {"capture": file.name, "first_us": file.first_us, "files": count, "position": begin + taken}
            if share is not None and most_bytes is not None:
                share, most_bytes = share - taken, most_bytes - taken
            if most_files is not None and taken:
                most_files -= 1
            if begin + taken < file.length:
                break
    return dict(sorted(end.items()))


def _ahead(before: Mapping[str, Any] | None, files: list[StreamFile]) -> list[tuple[StreamFile, int]]:
    """Return the captures that are not finished, each with the position where it goes on."""
    if before is None:
        return [(file, 0) for file in files]
    at = place_at(before)
    return [(file, before["position"] if file.place == at else 0) for file in files if file.place >= at]


# --- batches


class StreamPlanner:
    """Plans batches, and keeps the state behind each."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.files = StreamFiles(table)
        self._kept: dict[str, StreamState] = {}
        stream = table.options.stream
        self._folder = Path(stream.state_location) if stream.state_location else index_cache.place()
        reading = [replace(table.reading(kind), columns={}) for kind in ("tap", "raw")]
        depends = (table.options.paths, reading, table.options.kind, carry.VERSION)
        self._identity = hashlib.sha256(repr(depends).encode()).hexdigest()[:24]

    def plan(self, start: Offset, end: Offset) -> list[StreamShare]:
        """Return what the tasks of a batch read; the same for the same positions."""
        return again_if_gone(lambda: self._plan(start, end)) if start != end else []

    def _plan(self, start: Offset, end: Offset) -> list[StreamShare]:
        sensors = self.files.list()
        before = self._state_at(start, sensors)
        shares, after = self._walk(before, start, end, sensors, self.table.options.partition_bytes)
        heads = {file.path: file.head for files in sensors.values() for file in files}
        made = [StreamShare(share, {path: heads[path] for path in _paths(share)}) for share in shares]
        for path, head in {path: head for share in made for path, head in share.heads.items()}.items():
            if place_now(path, head) is None:
                raise CaptureError("another capture took its name while the batch was planned", path=path)
        self._keep(end, after)
        return made

    def _walk(
        self,
        before: StreamState,
        start: Offset,
        end: Offset,
        sensors: Mapping[str, list[StreamFile]],
        partition_bytes: int,
    ) -> tuple[list[Share], StreamState]:
        after = StreamState(dict(before.sensors))
        shares: list[Share] = []
        for sensor, goal in end.items():
            begun = start.get(sensor)
            if begun == goal:
                continue
            known, files = before.sensors.get(sensor, SensorState()), sensors.get(sensor, [])
            self._check(sensor, begun, goal, files, known)
            ranges = list(_ranges(known, begun, goal, files))
            if not ranges:
                continue
            kind = ranges[-1].kind or ""
            planned = index(ranges, self.table.reading(kind), known.state, partition_bytes)
            assert planned.after is not None
            listed = {file.name for file in files}
            lengths = {name: length for name, length in known.lengths.items() if name in listed}
            lengths |= {captured.capture: captured.stop or 0 for captured in ranges}
            after.sensors[sensor] = SensorState(planned.after, planned.resume_points.get(ranges[-1].path), lengths)
            shares += [((partition, kind),) for partition in planned.partitions]
        return shares, after

    def _check(
        self, sensor: str, begun: Mapping[str, Any] | None, goal: Mapping[str, Any], files: list[StreamFile],
        known: SensorState,
    ) -> None:  # fmt: skip
        """Refuse to go on where bytes would be lost."""
        if begun is not None and all(file.place != place_at(begun) for file in files):
            self._lose(begun["capture"], f"read up to byte {begun['position']}, it is not there any more")
        at = place_at(begun) if begun is not None else None
        between = [file for file in files if (at is None or file.place > at) and file.place <= place_at(goal)]
        wanted = goal["files"] - (begun["files"] if begun is not None else 0)
        if goal["files"] >= 0 and len(between) != wanted:
            self._lose(sensor, f"the batch has {wanted} captures, but {len(between)} are there")
        for file in files:
            if begun is None or file.place >= place_at(begun):
                continue
            length = known.lengths.get(file.name)
            if length is None:
                self._lose(file.path, f"it came after {begun['capture']} was begun, but its first packet is older")
            elif file.length > length:
                self._lose(
                    file.path,
                    f"it grew from {length} to {file.length} bytes after {begun['capture']} was begun; captures"
                    " that grow side by side need directories of their own",
                )

    def _lose(self, path: str, what: str) -> None:
        if self.table.options.stream.fail_on_data_loss:
            raise CaptureError(f"{what}; failOnDataLoss=false goes on without it", path=path)
        _log.warning("%s: %s; the stream goes on without it", path, what)

    # --- state

    def _state_at(self, start: Offset, sensors: Mapping[str, list[StreamFile]]) -> StreamState:
        if not start:
            return StreamState()
        name = self._name(start)
        if name in self._kept:
            return self._kept[name]
        if self._folder is not None:
            path = self._folder / name
            with suppress(OSError):
                try:
                    return carry.unpack(path.read_bytes(), StreamState, str(path))
                except LakeError:
                    path.unlink(missing_ok=True)
        try:
            return self._walk(StreamState(), {}, start, sensors, 1 << 62)[1]
        except CaptureError as error:
            raise CaptureError(
                f"{error.detail}; the state of the stream is not kept, and needs all captures that it has read: keep "
                "them, or name a lasting directory with the option stateLocation from the beginning",
                path=error.path,
            ) from None

    def _name(self, offset: Offset) -> str:
        text = json.dumps(offset, sort_keys=True)
        return f"stream-{self._identity}-{hashlib.sha256(text.encode()).hexdigest()[:24]}"

    def _keep(self, end: Offset, after: StreamState) -> None:
        name = self._name(end)
        self._kept = {**dict(list(self._kept.items())[-1:]), name: after}
        if self._folder is None:
            return
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            index_cache.write(self._folder, name, carry.pack(after))
            kept = sorted(self._folder.glob(f"stream-{self._identity}-*"), key=lambda path: path.stat().st_mtime_ns)
            for path in kept[:-KEPT_STATES]:
                path.unlink(missing_ok=True)
        except OSError as error:
            if self.table.options.stream.state_location:
                raise OptionError(f"the state of the stream cannot be kept in {self._folder}: {error}") from None


def _paths(share: Share) -> Iterator[str]:
    for part, _ in share:
        if isinstance(part, Partition):
            yield from (captured.path for captured in part.ranges)


def _ranges(
    known: SensorState, begun: Mapping[str, Any] | None, goal: Mapping[str, Any], files: list[StreamFile]
) -> Iterator[CaptureRange]:
    last = place_at(goal)
    for file in files:
        if file.place > last or (begun is not None and file.place < place_at(begun)):
            continue
        is_begun = begun is not None and file.place == place_at(begun)
        start = known.resume if is_begun and known.resume is not None and known.resume.position else None
        is_last = file.place == last
        stop = goal["position"] if is_last else file.length
        left = begun["position"] if is_begun and begun is not None else 0
        yield CaptureRange(file.path, file.name, file.kind, start, stop, is_growing=is_last, size=max(0, stop - left))
