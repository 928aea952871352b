"""What the parts of a broker share: time, options, counters, what is to be flushed, what is to be kept."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .connection import Connection
from .options import BrokerOptions

Then = Callable[[], None]


class Keep(Protocol):
    """Has a request stored, and calls ``then`` once that is durable. A request that failed is tried again, unless it is
    no longer wanted by then.
    """

    def __call__(self, request: Any, then: Then | None, is_wanted: Callable[[], bool] | None = None, /) -> None: ...


def _keep_nothing(request: Any, then: Then | None, is_wanted: Callable[[], bool] | None = None, /) -> None:
    if then is not None:
        then()


@dataclass(slots=True, eq=False)
class Desk:
    """``touched`` are connections that have something to write, or to acknowledge."""

    options: BrokerOptions
    counts: Counter[str]
    keep: Keep = _keep_nothing
    note: Callable[..., None] = lambda *_, **__: None
    now: float = 0.0
    epoch: float = 0.0
    touched: dict[Connection, None] = field(default_factory=dict)

    def touch(self, connection: Connection) -> None:
        self.touched[connection] = None

    def flush(self) -> None:
        while self.touched:
            connection = next(iter(self.touched))
            del self.touched[connection]
            connection.flush(self.now)
