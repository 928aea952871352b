"""Times at which something is due, and requests that wait until then. Putting a time off costs next to nothing."""

from __future__ import annotations

import heapq
from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
What = TypeVar("What")
_SLACK = 64


def earliest(*times: float | None) -> float | None:
    return min((when for when in times if when is not None), default=None)


class Timers(Generic[Key]):
    """One time for each key. A time that is put off stays where it is until it comes up."""

    def __init__(self) -> None:
        self._times: dict[Key, float] = {}
        self._heap: list[tuple[float, int, Key]] = []
        self._count = 0

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
        while self._heap and self._heap[0][2] not in self._times:
            heapq.heappop(self._heap)
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
        if len(self._heap) > _SLACK + 4 * len(self._times):  # keys that are dropped long before their time pile up
            self._heap = [(wanted, number, one) for number, (one, wanted) in enumerate(self._times.items())]
            heapq.heapify(self._heap)


class Requests(Generic[Key, What]):
    """Requests of ours that wait, the oldest first. Each is closed once: by its reply, by time, or given up."""

    def __init__(self) -> None:
        self.open: dict[Key, What] = {}
        self._timers: Timers[Key] = Timers()

    def __len__(self) -> int:
        return len(self.open)

    def __contains__(self, key: object) -> bool:
        return key in self.open

    @property
    def deadline(self) -> float | None:
        return self._timers.deadline

    def begin(self, key: Key, what: What, until: float | None) -> None:
        """A request goes out, and waits for its reply until then, or for ever."""
        self.open[key] = what
        if until is not None:
            self._timers.set(key, until)

    def close(self, key: Key) -> What | None:
        """Return what is known of the request that this closes; None if there is none."""
        self._timers.drop(key)
        return self.open.pop(key, None)

    def due(self, now: float) -> list[Key]:
        """Return those that have waited too long; they are still open."""
        return [key for key in self._timers.due(now) if key in self.open]
