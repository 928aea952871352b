"""Waiting for events without falling asleep at once.

Where a peer answers within some microseconds, most of a round trip is the time that a sleeping process takes to wake
up. So right after work the loop looks again for a moment before it sleeps, as long as that is worth it: a look that
finds nothing too often is given up for a while. An idle server never looks; it sleeps.
"""

from __future__ import annotations

import asyncio
import selectors
import time

LOOK_SECONDS = 50e-6
MOST_IN_VAIN = 8
"""So many looks in a row that find nothing, and there are none for the next ``REST`` times."""
REST = 256


class PatientSelector(selectors.DefaultSelector):
    def __init__(self) -> None:
        super().__init__()
        self._in_vain = 0
        self._rest = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout <= 0:
            return super().select(0)
        if self._rest:
            self._rest -= 1
            return super().select(timeout)
        until = time.perf_counter() + LOOK_SECONDS
        while True:
            found = super().select(0)
            if found:
                self._in_vain = 0
                return found
            if time.perf_counter() > until:
                break
        self._in_vain += 1
        if self._in_vain >= MOST_IN_VAIN:
            self._in_vain, self._rest = 0, REST
        return super().select(timeout)


def new_event_loop() -> asyncio.AbstractEventLoop:
    return asyncio.SelectorEventLoop(PatientSelector())
