"""Everything that is remembered between windows, partitions, files and runs."""

from __future__ import annotations

import pickle
import zlib
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class State:
    """Everything that is remembered between windows, partitions, files and runs."""

    tracker: Any = None
    streams: Any = None

    def only(self, ids: set[str]) -> State:
        return State(
            self.tracker and self.tracker.only(ids),
            self.streams and self.streams.only(ids),
        )

    def pack(self) -> bytes:
        return zlib.compress(pickle.dumps((self.tracker, self.streams), protocol=5), 1)

    @classmethod
    def unpack(cls, packed: bytes) -> State:
        # Only what this program packed itself comes here: partitions of its own jobs, carries of its own lakes.
        return cls(*pickle.loads(zlib.decompress(packed))) if packed else cls()
