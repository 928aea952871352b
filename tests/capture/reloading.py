"""State as it comes back from bytes: decoded strictly by its types, by another process or another day."""

from __future__ import annotations

from typing import TypeVar

from wirelake.ingest.carry import pack, unpack

T = TypeVar("T")


def reloaded(value: T) -> T:
    return unpack(pack(value), type(value))
