"""Times at which something is due. Putting one off, as every message does for its sender, costs next to nothing."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
_SLACK = 64


class Timers(Generic[Key]):
    """One time for each key. A time that is put off stays where it is until it comes up."""

    def __init__(self) -> None:
        self._times: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._times)

    def set(self, key: Key, when: float) -> None:
        before = self._times.get(key)
        self._times[key] = when
        if before is None or when < before:
            self._push(key, when)

    def drop(self, key: Key) -> None:
        self._times.pop(key, None)

    @property
    def deadline(self) -> float | None:
        """When to look next; it may be that nothing is due then."""
        self._settle()
        return self._heap[0][0] if self._heap else None

    def due(self, now: float) -> list[Key]:
        """The keys whose time has come, earliest first; they are dropped."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            when, _, key = heapq.heappop(self._heap)
            wanted = self._times.get(key)
            if wanted == when:
                del self._times[key]
                found.append(key)
            elif wanted is not None and wanted > when:
                self._push(key, wanted)
        return found

    def _push(self, key: Key, when: float) -> None:
        self._count += 1
        heapq.heappush(self._heap, (when, self._count, key))
        if len(self._heap) > _SLACK + 4 * len(self._times):
            self._clean()

    def _clean(self) -> None:
        """Keeps only what is wanted: keys that came and were dropped long before their time would pile up."""
        wanted = enumerate(self._times.items())
        self._heap = [(when, number, key) for number, (key, when) in wanted]
        heapq.heapify(self._heap)

    def _settle(self) -> None:
        """Drops what is at the front and was dropped since."""
        while self._heap and self._heap[0][2] not in self._times:
            heapq.heappop(self._heap)
