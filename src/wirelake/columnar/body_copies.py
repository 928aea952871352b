"""Bodies whose decoded cells say the same: a table that has the cells need not keep the bytes too.

A body that is null is made from its cells again (``row_to_message``), so it may be left out where this gives the same
bytes: not of cells with a flag that no column has, nor of values that are no numbers, nor of texts in another charset.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..spec import nodes as n
from ..spec.resolve import candidates


def without_copies(protocol: n.Protocol, records: pa.RecordBatch, **options: Any) -> pa.RecordBatch:
    """Return the records with null in place of each body that their cells give exactly. ``options`` are those with
    which they were read."""
    for body, cells, wire in _bodies(protocol, tuple(sorted(options.items()))):
        place = records.schema.get_field_index(body)
        column = records.column(place)
        copied = _is_plain(column, wire) & _valid(column) & _valid(records.column(cells))
        if copied.any():
            kept = pc.if_else(pa.array(copied), pa.scalar(None, column.type), column)
            records = records.set_column(place, records.schema.field(place), kept)
    return records


@lru_cache(maxsize=64)
def _bodies(protocol: n.Protocol, options: tuple[tuple[str, Any], ...]) -> tuple[tuple[str, str, n.Cells[Any]], ...]:
    """Return the columns of bodies, those of their cells, and how these are written, if all messages agree."""
    found: dict[str, set[tuple[str, n.Cells[Any] | None]]] = {}
    for body, cells, wire in _views(protocol, dict(options)):
        found.setdefault(body, set()).add((cells, wire))
    agreed = {body: next(iter(views)) for body, views in found.items() if len(views) == 1}
    return tuple((body, cells, wire) for body, (cells, wire) in agreed.items() if wire is not None and _is_exact(wire))


def _views(protocol: n.Protocol, options: dict[str, Any]) -> Iterator[tuple[str, str, n.Cells[Any] | None]]:
    for layout in candidates(protocol, **options):
        for node in layout.messages.values():
            if node.body is not None:
                views = [view for view in node.views if isinstance(view.wire, n.Cells)]
                body = node.body.column or node.body.key
                yield body, *((views[0].column or views[0].key, views[0].wire) if views else ("", None))


def _is_exact(wire: n.Cells[Any]) -> bool:
    texts = [kind.wire for kind in wire.types if isinstance(kind.wire, n.Run) and kind.wire.content != "bytes"]
    return all((text.charset, text.errors) == ("utf-8", "strict") for text in texts)


def _is_plain(column: pa.Array, wire: n.Cells[Any]) -> NDArray[np.bool_]:
    from ..kernels.cells import find_plain  # numba takes a second to load

    _, offsets, data = column.buffers()
    plain = np.zeros(len(column), np.bool_)
    if not len(column) or offsets is None:
        return plain
    spans = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    given = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    find_plain(given, spans, *_program(wire), plain)
    return plain


def _program(wire: n.Cells[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    head = (wire.head.size, wire.head.little, wire.type_shift, wire.type_mask, wire.flag_mask)
    return np.array(head, np.int64), np.array([_type(kind.wire) for kind in wire.types], np.int64)


def _type(wire: Any) -> tuple[int, int, bool]:
    from ..kernels import cells

    match wire:
        case None:
            return cells.NO_VALUE, 0, True
        case n.Run(length=n.Int() as length):
            return cells.RUN, length.size, length.little
        case n.Float():
            return cells.FLOAT, wire.size, wire.little
        case _:
            return cells.NUMBER, wire.size, wire.little


def _valid(column: pa.Array) -> NDArray[np.bool_]:
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)
