"""The carry of one step: what the last commit handed on, and what the next one gets."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar

from ..capture.read.resume import ResumePoint
from ..capture.state import State
from ..lake import Lake, StagedFile, Staging
from .carry import pack, read, unpack

T = TypeVar("T")

POSITIONS = "positions"
STATE = "state"


@dataclass
class Positions:
    """Where each capture was left, by path."""

    by_path: dict[str, ResumePoint] = field(default_factory=dict)


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
        return self._read(STATE, State) or State()

    def put_state(self, state: State | None) -> None:
        self.hand_on(STATE, self._stage(STATE, state) if state is not None else None)

    def take_state(self, file: StagedFile) -> State:
        """The state that a task has written; it is handed on as it is."""
        self.hand_on(STATE, file)
        return unpack(self._lake.read_bytes(file), State)

    def positions(self) -> dict[str, ResumePoint]:
        """Where each capture was left, by path."""
        return (self._read(POSITIONS, Positions) or Positions()).by_path

    def put_positions(self, positions: dict[str, ResumePoint]) -> None:
        """Where the captures of this step were left; those of others stay."""
        self.hand_on(POSITIONS, self._stage(POSITIONS, Positions(self.positions() | positions)))

    def _read(self, name: str, kind: type[T]) -> T | None:
        path = self._known.get(name)
        return read(self._lake.store, path, kind) if path is not None else None

    def _stage(self, name: str, value: Any) -> StagedFile:
        return self._staging.stage_bytes(f"driver-{name}", name, pack(value))
