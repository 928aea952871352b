"""What a task of a stream reads. Between the plan and the task, captures may be compressed, moved or overwritten: how
each begins says where it is now, or that it is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from ..capture.partitions import Partition
from ..capture.read.files import CaptureFile, open_binary
from ..capture.read.unpack import SUFFIXES, without_suffix
from ..errors import CaptureError
from ..lake.inputs import head_hash
from .reading import Share, Table, rows

_HEAD_BYTES = 1 << 12
"""More than two captures have in common: the head of a file and the time of the first packet are among them."""


class Head(NamedTuple):
    """The first bytes of the content of a capture."""

    size: int
    hash: str


@dataclass(frozen=True)
class StreamShare:
    """``heads`` are those of its captures, by path."""

    share: Share
    heads: dict[str, Head]


def head_of(path: str, size: int = _HEAD_BYTES) -> Head:
    with open_binary(path) as file:
        content = CaptureFile(file, path).head(size)
    return Head(len(content), head_hash(content))


def place_now(path: str, head: Head) -> str | None:
    """Return where a capture is now, compressed or not; None if it is not there any more."""
    if "://" in path:  # objects in a store are not renamed
        return path
    plain = without_suffix(path)
    for name in dict.fromkeys((path, plain, *(plain + suffix for suffix in SUFFIXES))):
        try:
            if head_of(name, head.size) == head:
                return name
        except CaptureError:  # it has gone, or is not complete yet
            continue
    return None


def stream_rows(table: Table, planned: StreamShare) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a share. Raise CaptureError if they may be those of another capture."""
    places = {path: _must_be_there(path, head) for path, head in planned.heads.items()}
    yield from rows(table, tuple((_moved(part, places), kind) for part, kind in planned.share))
    for path, head in planned.heads.items():
        _must_be_there(path, head)


def _must_be_there(path: str, head: Head) -> str:
    place = place_now(path, head)
    if place is None:
        raise CaptureError("it was moved, or another capture took its name, before it was read", path=path)
    return place


def _moved(part: Partition | CaptureError, places: dict[str, str]) -> Partition | CaptureError:
    if isinstance(part, CaptureError):
        return part
    ranges = tuple(replace(captured, path=places.get(captured.path, captured.path)) for captured in part.ranges)
    return replace(part, ranges=ranges)
