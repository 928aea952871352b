"""What is undecided between two steps, as bytes in the lake."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from ..lake import LakeError, Staging
from ..lake.store import Store


def carried(staging: Staging, path: str | None) -> Any:
    return unpacked(staging.store, path) if path is not None else None


def unpacked(store: Store, path: str, unpack: Callable[[bytes], Any] = pickle.loads) -> Any:
    """What an earlier run has put away in the lake. Only lakes that this program wrote are read here."""
    data = store.read(path)
    try:
        if not data:
            raise EOFError("it is empty")
        return unpack(data)
    except Exception as error:  # bytes that are not what they were may raise anything
        reason = str(error) or type(error).__name__
        raise LakeError(store.show(path), f"is damaged, or of another version of wirelake: {reason}") from error
