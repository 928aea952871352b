"""The inputs of a stream: what is there, and how long each of them has stood still."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ..capture.read.listing import ListedFile, Listing, find
from ..errors import OptionError


@dataclass
class _Source:
    path: str
    changed_at: float
    is_stalled: bool = False
    fault: str = ""
    """Why it cannot be listed."""
    files: list[ListedFile] = field(default_factory=list)


class Sources:
    """Lists inputs. One is stalled when it is gone, or nothing in it has changed for ``stalled_seconds`` (None: never
    mind).
    """

    def __init__(
        self, paths: Iterable[str], stalled_seconds: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stalled_seconds, self._clock = stalled_seconds, clock
        self._sources = [_Source(path, clock()) for path in paths]

    def look(self) -> list[ListedFile]:
        """Return all files, in the order of their paths, each once; raise OptionError if no input is there. Where some
        are gone, the others are followed.
        """
        now = self._clock()
        for source in self._sources:
            try:
                files, source.fault = self._list(source), ""
            except OptionError as error:
                files, source.fault = [], str(error)
                if all(each.fault for each in self._sources):
                    raise
            if files != source.files:
                source.files, source.changed_at = files, now
        found = {file.path: file for source in self._sources for file in source.files}
        return sorted(found.values(), key=lambda file: file.path)

    def check(self) -> None:
        """Raise OptionError if any input is not there."""
        for source in self._sources:
            self._list(source)

    def _list(self, source: _Source) -> list[ListedFile]:
        return find(Listing(paths=(source.path,), what="stream", recursive=True))

    def silent_seconds(self) -> dict[str, float]:
        """Return how long each input has stood still."""
        now = self._clock()
        return {source.path: now - source.changed_at for source in self._sources}

    def news(self) -> list[str]:
        """Return a sentence for each input that has stalled or is gone since the last call, or goes on again."""
        now, told = self._clock(), []
        for source in self._sources:
            why = self._why_stalled(source, now)
            if bool(why) != source.is_stalled:
                source.is_stalled = bool(why)
                told.append(why or f"{source.path}: it grows again")
        return told

    def _why_stalled(self, source: _Source, now: float) -> str:
        seconds = now - source.changed_at
        if source.fault:
            return f"{source.path}: stalled, {source.fault}; other inputs are followed"
        if self._stalled_seconds is None or seconds < self._stalled_seconds:
            return ""
        return (
            f"{source.path}: stalled, nothing was written to it for {seconds:.0f} s; see whether what captures there "
            "still runs"
        )

    @property
    def stalled(self) -> list[str]:
        return [source.path for source in self._sources if source.is_stalled]
