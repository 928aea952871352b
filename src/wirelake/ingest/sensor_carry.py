"""The carry of a sensor: where its captures were left, and what is undecided, by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..capture.read import ResumePoint
from ..errors import LakeError
from ..lake import StagedFile, Staging
from ..lake.store import Store
from .carry import pack, read
from .sensors import sensor_key

STATE = "state"
SENSOR = "sensor"
MOST_POSITIONS = 64
"""Captures of a sensor that may still grow; of an older one that does, nobody knows any more where it was left."""


@dataclass
class Closing:
    """A place in the captures of a sensor behind which nothing more was to come."""

    first_us: int
    name: str
    position: int


@dataclass
class SensorCarry:
    """What is known of a sensor, whether anything of it is undecided or not."""

    name: str = ""
    positions: dict[str, ResumePoint] = field(default_factory=dict)
    """Where captures were left, by their origin; the newest last."""
    watermark_us: int | None = None
    """The latest time so far: whatever waited until then in vain is over."""
    closings: list[Closing] = field(default_factory=list)
    totals: dict[str, int] = field(default_factory=dict)
    """The facts of all its commits."""

    def left_at(self, points: dict[str, ResumePoint]) -> dict[str, ResumePoint]:
        """Return where captures were left now that these were read."""
        known = {origin: point for origin, point in self.positions.items() if origin not in points} | points
        return dict(list(known.items())[-MOST_POSITIONS:])


class CarryOf:
    """The carry of one sensor: what an earlier commit handed on (``known``: paths in the lake, by name), and what the
    next one records (``next``: staged files, None for what is dropped).
    """

    def __init__(self, store: Store, staging: Staging, sensor: str, known: Mapping[str, str]) -> None:
        """``known`` is the carry of all sensors, as a lake has it."""
        self._store, self._staging = store, staging
        self._prefix = f"{sensor_key(sensor)}."
        self.known = {
            name.removeprefix(self._prefix): path for name, path in known.items() if name.startswith(self._prefix)
        }
        self.next: dict[str, StagedFile | None] = {}
        self.staying: set[str] = set()
        """What is known and stays as it is."""
        self.sensor = self._sensor(sensor)

    def _sensor(self, name: str) -> SensorCarry:
        if SENSOR not in self.known:
            return SensorCarry(name)
        found = read(self._store, self.known[SENSOR], SensorCarry)
        if found.name != name:
            raise LakeError(self._store.show(self.known[SENSOR]), f"is of sensor {found.name!r}, not of {name!r}")
        return found

    @property
    def is_open(self) -> bool:
        """Whether anything is undecided."""
        return bool(self.known.keys() - {SENSOR})

    def put(self, name: str, value: Any) -> None:
        self.next[name] = self._staging.stage_bytes(f"{self._prefix}{name}", name, pack(value))

    def named(self, present: Iterable[str]) -> dict[str, StagedFile | None]:
        """Return what the next commit records, by its name in the lake, where the carry has these names at ``present``;
        what is not handed on is dropped.
        """
        staying = {f"{self._prefix}{name}" for name in self.staying}
        old = {name for name in present if name.startswith(self._prefix)} - staying
        return dict.fromkeys(old) | {f"{self._prefix}{name}": file for name, file in self.next.items() if file}
