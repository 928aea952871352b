"""What the parts of a broker share: time, options, counters, what is to be flushed, what is to be kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .connection import Connection
from .options import BrokerOptions

Then = Callable[[], None]


def _keep_nothing(request: Any, then: Then | None) -> None:
    if then is not None:
        then()


@dataclass(slots=True, eq=False)
class Desk:
    """``keep`` has a request stored, and calls what is to be done once that is durable."""

    options: BrokerOptions
    counts: Counter[str]
    keep: Callable[[Any, Then | None], None] = _keep_nothing
    note: Callable[..., None] = lambda *_, **__: None
    now: float = 0.0
    epoch: float = 0.0
    touched: dict[Connection, None] = field(default_factory=dict)
    """Connections that have something to write, or to acknowledge."""

    def touch(self, connection: Connection) -> None:
        self.touched[connection] = None

    def flush(self) -> None:
        while self.touched:
            connection = next(iter(self.touched))
            del self.touched[connection]
            connection.flush(self.now)
