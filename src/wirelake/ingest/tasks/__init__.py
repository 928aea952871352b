"""What runners run: one kind of task per file. A task writes files on the side and returns what the driver needs."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...capture.settings import ReadSettings
from ...gold.declarations import Declarations
from ...lake import Attempt, Staging
from ..declared import Declared


@dataclass(frozen=True)
class StepSettings:
    """What all tasks of a sensor share."""

    staging: Staging
    sensor: str
    prefix: str
    """Begins the names of their attempts: those of other sensors differ."""
    buckets: int
    """Into how many parts connections, and transactions, are divided."""
    reading: ReadSettings = field(default_factory=ReadSettings)
    declared: tuple[Declared, ...] = ()
    """Users' protocols, which workers cannot load by themselves."""
    final: bool = False
    keep_bytes: bool = False

    def attempt(self, task: str) -> Attempt:
        """Begin an attempt at a task; its rows are those of the sensor."""
        return self.staging.attempt(f"{self.prefix}-{task}", self.sensor)

    def load_protocols(self) -> Declarations:
        """Load users' protocols, so that this process knows them by name."""
        return Declarations({protocol.name: protocol for protocol in map(Declared.load, self.declared)})
