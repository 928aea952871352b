"""The carry of one step: what the last commit handed on, and what the next one gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..capture.read.pcap import PacketMark
from ..capture.read.raw import RawMark
from ..capture.read.tap import TapMark
from ..capture.state import State
from ..lake import Lake, StagedFile, Staging
from .carry import pack, read

T = TypeVar("T")

POSITIONS = "positions"
STATE = "state"


@dataclass
class Positions:
    """Where each capture was left, by path."""

    packets: dict[str, PacketMark] = field(default_factory=dict)
    taps: dict[str, TapMark] = field(default_factory=dict)
    raw: dict[str, RawMark] = field(default_factory=dict)

    @classmethod
    def of(cls, positions: dict[str, Any]) -> Positions:
        def by(kind: type[T]) -> dict[str, T]:
            return {path: position for path, position in positions.items() if isinstance(position, kind)}

        return cls(by(PacketMark), by(TapMark), by(RawMark))

    def by_path(self) -> dict[str, Any]:
        return {**self.packets, **self.taps, **self.raw}


class StepCarry:
    """``next`` is what the commit records: staged files by name, None for what is dropped."""

    def __init__(self, lake: Lake, staging: Staging) -> None:
        self.next: dict[str, StagedFile | None] = {}
        self._lake = lake
        self._staging = staging
        self._known = lake.carry()

    @property
    def is_open(self) -> bool:
        """Whether anything is undecided."""
        return bool(self._known.keys() - {POSITIONS})

    def path(self, name: str) -> str | None:
        """Where a part of the carry lies in the lake."""
        return self._known.get(name)

    def hand_on(self, name: str, file: StagedFile | None) -> None:
        """A part that a task has written, or None if nothing is left of it."""
        self.next[name] = file

    def state(self) -> State:
        """What the captures read so far leave open."""
        path = self._known.get(STATE)
        return State.unpack(self._lake.read_bytes(path)) if path is not None else State()

    def put_state(self, state: State | None) -> None:
        staged = self._staging.stage_bytes("driver-state", STATE, state.pack()) if state is not None else None
        self.hand_on(STATE, staged)

    def take_state(self, file: StagedFile) -> State:
        """The state that a task has written; it is handed on as it is."""
        self.hand_on(STATE, file)
        return State.unpack(self._lake.read_bytes(file))

    def positions(self) -> dict[str, Any]:
        """Where each capture was left, by path."""
        return (self._read(POSITIONS, Positions) or Positions()).by_path()

    def put_positions(self, positions: dict[str, Any]) -> None:
        """Where the captures of this step were left; those of others stay."""
        self.hand_on(POSITIONS, self._stage(POSITIONS, Positions.of(self.positions() | positions)))

    def _read(self, name: str, kind: type[T]) -> T | None:
        path = self._known.get(name)
        return read(self._lake.store, path, kind) if path is not None else None

    def _stage(self, name: str, value: Any) -> StagedFile:
        return self._staging.stage_bytes(f"driver-{name}", name, pack(value))
