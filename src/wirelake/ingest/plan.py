"""Which captures are new, in which order they are read, and how large the partitions are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..capture.decode import CaptureRange
from ..capture.partitions import PARTITION_BYTES
from ..capture.read.listing import Listing, Peek, find, in_order, peek
from ..errors import CaptureError
from ..lake import Input, examine

SMALLEST_PARTITION = 16 << 20


@dataclass(frozen=True)
class NewCapture:
    """A capture to read, from its beginning or from where it was left."""

    piece: CaptureRange
    input: Input


def find_captures(inputs: Sequence[str], kind: str | None) -> tuple[list[Peek], list[str]]:
    """Return the captures among the inputs, and notes on other files in directories and patterns."""
    named = {path if "://" in path else os.path.abspath(path) for path in inputs}
    captures: list[Peek] = []
    notes: list[str] = []
    for file in find(Listing(paths=tuple(inputs), recursive=True)):
        try:
            if not file.is_file:
                raise CaptureError("it is not a file", path=file.path)
            captures.append(peek(file.path, kind))
        except CaptureError as error:
            if file.path in named:
                raise
            notes.append(f"{error}; left out")
    return captures, notes


def choose_new(
    captures: list[Peek], known: Mapping[str, Input], positions: Mapping[str, Any], final: bool
) -> list[NewCapture]:
    """Return the captures that are new or have grown, in the order in which they were taken.

    ``known`` are the captures that the lake has, ``positions`` says where each of them was left.
    """
    by_content = {one.identity: one for one in known.values()}
    chosen = []
    for capture in in_order(captures):
        path = capture.path
        before = known.get(path)
        now, change = examine(path, before)
        if change == "new" and capture.kind != "raw" and now.identity in by_content:
            before = by_content[now.identity]
            change = "grown" if now.size > before.size else "same"
        position, size = None, now.size
        if before is not None and change == "grown":
            position, size = positions.get(before.path), now.size - before.size
        if change == "same" or (change == "grown" and position is None):
            continue
        piece = CaptureRange(path, path, capture.kind, position, is_growing=not final, size=size)
        chosen.append(NewCapture(piece, now))
    return chosen


def partition_bytes(total: int) -> int:
    """Large enough that a task is worth its cost, small enough that every core gets some."""
    return min(PARTITION_BYTES, max(SMALLEST_PARTITION, total // 16))
