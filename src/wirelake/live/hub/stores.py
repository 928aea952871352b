"""What the stores of a hub hold, for its metrics."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from ..storage.database import StorageError

log = logging.getLogger("wirelake.live")
FIGURES_SECONDS = 5.0
"""How often a store is asked."""

Family = tuple[str, str, list[tuple[Mapping[str, str], float]]]
"""A name, its meaning, and values by labels."""
ReadFigures = Callable[[], Iterable[Family]]


class StoreMeter:
    """Asks a store every few seconds, in a thread, because to count takes its time. ``families`` is the last reply."""

    def __init__(self, read: ReadFigures) -> None:
        self.families: list[Family] = []
        self._read = read
        self._task = asyncio.create_task(self._look())

    async def _look(self) -> None:
        while True:
            try:
                self.families = list(await asyncio.to_thread(self._read))
            except StorageError as error:
                self.families = []
                log.warning("no figures of the store", extra={"fields": {"reason": str(error)}})
            await asyncio.sleep(FIGURES_SECONDS)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task])
