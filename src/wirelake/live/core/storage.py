"""What a session stores, as whoever drives it sees that: requests in, results out, and a disk behind it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from .effects import Done, Failed


class Storage(Protocol):
    """Keeps what the ``Store`` effects of sessions ask for. One thread at a time uses it."""

    def run(self, requests: Sequence[Any]) -> Sequence[Done | Failed]:
        """Carry out requests in their order, with one sync for all of them, and return how each ended.

        Each is atomic: one that Failed has changed nothing. All that is Done is durable when this returns. If the disk
        takes no more on the way, what came before is Done, and of the rest what needs no room. An exception means that
        nobody knows what is on the disk, as after a failed fsync: the process ends, and finds out when it starts again.
        """
        ...

    def close(self) -> None:
        """Let go of the disk."""
        ...
