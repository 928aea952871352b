"""The broker's log, for services that read it: each says which levels, and which texts, it wants.

A service that reads everything costs a search and a message for each message of everybody else, so what all readers
together may cost in a while is bounded, and each has the same share; what goes beyond is not sent to it, and counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from .connection import Service
from .log_filter import MAX_TEXT, Filter
from .outbox import Outbox
from .wire import VERSION, Clock, write_json

LOG = "system.log"
LEVELS = ("debug", "info", "warn", "error")
_HEADER = f"response:{LOG}:{VERSION}".encode()
WHILES = 20
"""In a second."""
MAX_WORK = 2_500_000
"""What all readers may cost in a while: some 10 ms if every search takes as long as it can."""
SENDING = 500
"""What a record costs beside its search, which costs the size of the expression for each character."""


@dataclass(slots=True)
class Reading:
    """What one service wants to read, and what it has cost in this while."""

    levels: frozenset[str]
    pattern: Filter | None
    work: int = 0


@dataclass(slots=True, eq=False)
class Log:
    """``readers`` is asked before a record is made: mostly nobody reads."""

    clock: Clock
    counts: Counter[str]
    outbox: Outbox
    readers: dict[Service, Reading] = field(default_factory=dict)
    _while: int = -1

    def start(self, service: Service, levels: frozenset[str], pattern: Filter | None) -> None:
        """The share of a reader that changes its mind stays used."""
        before = self.readers.get(service)
        self.readers[service] = Reading(levels, pattern, before.work if before else 0)

    def stop(self, service: Service) -> None:
        self.readers.pop(service, None)

    def write(self, level: str, module: str, text: str, service: Service, **fields: Any) -> None:
        if not self.readers:
            return
        if self._while != (number := int(self.clock.now * WHILES)):
            self._while = number
            for reading in self.readers.values():
                reading.work = 0
        share = MAX_WORK // len(self.readers)
        record = {"level": level, "message": text, "timestamp": self.clock.stamp.decode(), "module": module}
        payload = b""
        for reader, reading in list(self.readers.items()):
            if level in reading.levels and self._wants(reading, text, share):
                payload = payload or write_json({**record, "serviceId": service.id, **fields})
                self.outbox.send(reader, _HEADER, payload)

    def _wants(self, reading: Reading, text: str, share: int) -> bool:
        if reading.work >= share:
            self.counts["log.skipped"] += 1
            return False
        reading.work += SENDING
        if reading.pattern is None:
            return True
        reading.work += reading.pattern.steps * min(len(text), MAX_TEXT)
        return reading.pattern.search(text)
