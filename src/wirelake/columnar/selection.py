"""A choice of columns: its schema, the kernel's program for it, and rows from what the kernel or the codec decoded."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..errors import DecodeError
from ..spec import nodes as n
from ..spec.columns import columns as table_columns
from ..spec.resolve import Layout
from .message_to_row import row_of
from .nulls import nulls
from .schema import default_columns, schema


@lru_cache(maxsize=1)
def load_kernel() -> Any:
    """Return the module of the kernel, or None without numba; warn about that once."""
    try:
        from . import run_kernel as fast  # numba takes a second to load, and may be missing
    except ImportError:
        warnings.warn(
            "numba is not installed: columns are decoded by the record codec, which is much slower; "
            "pip install 'wirelake[columnar]'",
            RuntimeWarning,
            stacklevel=3,
        )
        return None
    return fast


class Selection:
    """The columns of one protocol that are wanted."""

    def __init__(self, protocol: n.Protocol, columns: Sequence[str] | None) -> None:
        self.protocol = protocol
        self.names = tuple(columns) if columns is not None else default_columns(protocol)
        self.schema = schema(protocol, self.names)
        self.fields = tuple(name for name in table_columns(protocol) if name in self.names)
        self.wanted = frozenset(self.fields)

    def fast(self, layout: Layout, undecided: tuple[Layout, ...]) -> Any:
        """Return the kernel with its program for a layout; None without numba, and for what the kernel cannot read."""
        module = load_kernel()
        return module.fast_for(layout, self.fields, undecided) if module is not None else None

    def of_messages(self, messages: list[tuple[int, Any]]) -> pa.RecordBatch:
        """Return a batch of these messages, each with its offset."""
        rows = []
        # Which texts are not UTF-8 does not depend on which columns are wanted.
        wanted = None if "raw_text" in self.names else self.wanted
        for offset, message in messages:
            row = row_of(message, wanted)
            row["offset"] = offset
            rows.append(row)
        return pa.RecordBatch.from_pylist(rows, self.schema)

    def of_filled(self, filled: Any, offsets: NDArray[np.int64]) -> pa.RecordBatch:
        """Return a batch of what the kernel filled in."""
        program = filled.program
        which = filled.row_message[: filled.rows]
        arrays = []
        for kind in self.schema:
            match kind.name:
                case "offset":
                    arrays.append(pa.array(offsets))
                case "length":
                    arrays.append(pa.array(filled.lengths.astype(np.int32)))
                case "message":
                    arrays.append(filled.named_by_message(program.names))
                case "code":
                    arrays.append(pa.array(np.array(program.message_codes, np.int32)[which]))
                case "notes":
                    arrays.append(filled.notes())
                case "raw_text":
                    arrays.append(nulls(filled.rows, kind.type))
                case name:
                    arrays.append(filled.column(name))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


def concat(batches: list[pa.RecordBatch], kind: pa.Schema) -> pa.RecordBatch:
    """Return the batches as one. The list is empty afterwards: each column frees its pieces as soon as it is whole."""
    if len(batches) == 1:
        return batches.pop()
    rows = sum(batch.num_rows for batch in batches)
    columns = [[batch.column(i) for batch in batches] for i in range(len(kind))]
    batches.clear()
    arrays = []
    for pieces, declared in zip(columns, kind, strict=True):
        is_null = all(piece.null_count == len(piece) for piece in pieces)
        arrays.append(nulls(rows, declared.type) if is_null else pa.concat_arrays(pieces))
        pieces.clear()
    return pa.RecordBatch.from_arrays(arrays, schema=kind)


def quarantine_row(offset: int, length: int, error: DecodeError, data: bytes) -> dict[str, Any]:
    """Return a row of the quarantine: why these bytes are no message."""
    return {
        "offset": offset,
        "length": length,
        "verdict": "incomplete" if error.incomplete else "error",
        "rule": error.rule,
        "path": error.path,
        "error_offset": error.offset,
        "detail": error.detail,
        "bytes": data,
    }
