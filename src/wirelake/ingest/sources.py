"""The inputs of a stream: what is there, and how long each of them has stood still."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..capture.read.listing import ListedFile, Listing, find


@dataclass
class _Source:
    path: str
    changed_at: float
    is_stalled: bool = False
    files: list[ListedFile] = field(default_factory=list)


class Sources:
    """Lists inputs. One is stalled when nothing in it has changed for ``stalled_seconds`` (None: never)."""

    def __init__(
        self, paths: Iterable[str], stalled_seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stalled_seconds, self._clock = stalled_seconds, clock
        self._sources = [_Source(path, clock()) for path in paths]

    def look(self) -> list[ListedFile]:
        """Return all files, in the order of their paths, each once; raise OptionError if an input is not there."""
        now = self._clock()
        for source in self._sources:
            files = find(Listing(paths=(source.path,), what="stream", recursive=True))
            if files != source.files:
                source.files, source.changed_at = files, now
        found = {file.path: file for source in self._sources for file in source.files}
        return sorted(found.values(), key=lambda file: file.path)

    def silent_seconds(self) -> dict[str, float]:
        """Return how long each input has stood still."""
        now = self._clock()
        return {source.path: now - source.changed_at for source in self._sources}

    def news(self) -> list[str]:
        """Return a sentence for each input that has stalled since the last call, or goes on again."""
        if self._stalled_seconds is None:
            return []
        now, told = self._clock(), []
        for source in self._sources:
            is_stalled = now - source.changed_at >= self._stalled_seconds
            if is_stalled != source.is_stalled:
                source.is_stalled = is_stalled
                told.append(_stalled(source, now) if is_stalled else f"{source.path}: it grows again")
        return told

    @property
    def stalled(self) -> list[str]:
        return [source.path for source in self._sources if source.is_stalled]


def _stalled(source: _Source, now: float) -> str:
    return (
        f"{source.path}: stalled, nothing was written to it for {now - source.changed_at:.0f} s; see whether what "
        "captures there still runs"
    )
