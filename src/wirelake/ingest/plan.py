"""Which captures are new, in which order they are read, and how large the partitions are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..capture.decode import CaptureRange
from ..capture.partitions import PARTITION_BYTES
from ..capture.read import ResumePoint
from ..capture.read.listing import Listing, find
from ..errors import CaptureError
from ..lake import Input
from .known import Known, Seen, look

SMALLEST_PARTITION = 16 << 20


@dataclass(frozen=True)
class NewCapture:
    """A capture to read, from its beginning or from where it was left."""

    piece: CaptureRange
    input: Input


def find_captures(inputs: Sequence[str], kind: str | None, known: Mapping[str, Input]) -> tuple[list[Seen], list[str]]:
    """Return the captures among the inputs, and notes on other files in directories and patterns.

    ``known`` spares opening files that did not change.
    """
    captures: list[Seen] = []
    notes: list[str] = []
    for file in find(Listing(paths=tuple(inputs), recursive=True)):
        try:
            if not file.is_file:
                raise CaptureError("it is not a file", path=file.path)
            captures.append(look(file, known.get(file.path), kind))
        except CaptureError as error:
            if file.path in _named(inputs):
                raise
            notes.append(f"{error}; left out")
    return captures, notes


def _named(inputs: Sequence[str]) -> set[str]:
    return {path if "://" in path else os.path.abspath(path) for path in inputs}


def refuse_shrunk(found: Sequence[Known], inputs: Sequence[str]) -> None:
    """Refuse a capture that has fewer bytes than were read of it, if it was named; others are left out with a note."""
    for one in found:
        if one.change == "shrunk" and one.now.path in _named(inputs):
            raise CaptureError(one.note.removeprefix(f"{one.now.path}: "), path=one.now.path)


def choose_new(found: Sequence[Known], positions: Mapping[str, ResumePoint], final: bool) -> list[NewCapture]:
    """Return what is to be read of the captures that are new or have grown; ``positions`` says where each was left."""
    return [_new_capture(one, positions, final) for one in found if one.change in ("new", "grown", "changed")]


def _new_capture(one: Known, positions: Mapping[str, ResumePoint], final: bool) -> NewCapture:
    start, size = None, one.now.size
    if one.before is not None:
        start = positions[one.before.path]
        size = size if one.capture.compression else size - one.before.position
    path = one.now.path
    return NewCapture(CaptureRange(path, path, one.capture.kind, start, is_growing=not final, size=size), one.now)


def partition_bytes(total: int) -> int:
    """Large enough that a task is worth its cost, small enough that every core gets some."""
    return min(PARTITION_BYTES, max(SMALLEST_PARTITION, total // 16))
