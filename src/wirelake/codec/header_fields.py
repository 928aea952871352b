"""Fields of the header that have no fixed size, or depend on others: read before the length of the frame is known.

The exact reader reads them where they are. Such a field may take ``MOST_BYTES``: one without an end is given up.
"""

from __future__ import annotations

from ..errors import BadValue, DecodeError, Incomplete, LimitExceeded, Truncated
from ..spec import nodes as n
from ..spec.resolve import Layout
from .frame import Buffer, Header
from .walk import Reader

MOST_BYTES = 4096
"""More bytes no field of the header has."""


def read_field(layout: Layout, part: n.Kept, data: Buffer, start: int, at: int, end: int, header: Header) -> int:
    """Note where a field is, if it is there; return the position behind it."""
    field, reach = layout.loose[part.name], start + _reach(layout, part, at, header)
    reader = Reader(layout)
    try:
        values = reader.look_at_header(layout.nodes[0], data, start, min(end, reach), header)
        reader.at, reader.open_end = start + at, min(end, reach) if reach > end else -1
        if not reader.header_field(field, values):
            header.sizes = (header.sizes or {}) | {field.name: 0}
            return at
    except Truncated as error:
        raise _cut(error.path, at, reach - start, end - start) from None
    except DecodeError as error:
        error.offset = (error.offset or 0) - start
        raise
    behind = reader.at - start
    header.kept = (header.kept or {}) | {field.name: at}
    header.sizes = (header.sizes or {}) | {field.name: behind - at}
    return behind


def read_length(layout: Layout, part: n.Size, data: Buffer, start: int, at: int, end: int, header: Header) -> int:
    """Return the length of the frame that fields of its header say."""
    by = n.By.of(part.wire)
    assert by is not None
    try:
        values = Reader(layout).look_at_header(layout.nodes[0], data, start, end, header)
    except DecodeError as error:
        error.offset = (error.offset or 0) - start
        raise
    number = by.number(values.get)
    if number is None:
        raise BadValue(f"{by.field} says no length", rule="field_missing", path=part.name, offset=at)
    return number


def _reach(layout: Layout, part: n.Kept, at: int, header: Header) -> int:
    """Return how far a field may reach: to the end of the frame, where that is known, and not too far."""
    before = layout.frame.parts[: layout.frame.parts.index(part)]
    if not any(isinstance(other, n.Size) for other in before):
        return at + MOST_BYTES
    return min(at + MOST_BYTES, header.length if header.stop is None else header.stop)


def _cut(path: str, at: int, reach: int, available: int) -> DecodeError:
    """Return what is wrong with a field whose end is not there."""
    if reach > available:
        detail = f"the header goes on behind byte {available}"
        needed = available + 1
        return Incomplete(
            detail, rule="frame_incomplete", path=path, offset=available, needed=needed, available=available
        )
    if reach == at + MOST_BYTES:
        detail = f"more than {MOST_BYTES} bytes"
        return LimitExceeded(detail, rule="frame_limit", path=path, offset=at, limit=MOST_BYTES, actual=available - at)
    return BadValue(f"the frame ends before its {path}", rule="frame_limit", path=path, offset=0)
