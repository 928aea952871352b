"""Redaction: values that only the server should read never reach a table."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..spec.columns import columns as table_columns
from ..spec.nodes import Protocol
from ..spec.resolve import MessageNode
from .protocol_reader import ProtocolReader

REDACTED = "redacted"
"""The note of a message from which something was removed."""


def redacted(reader: ProtocolReader, records: pa.RecordBatch, to_server: NDArray[np.bool_]) -> pa.RecordBatch:
    """Return the records without what only the server should read."""
    table = table_columns(reader.protocol)
    for message, cells in reader.secrets.items():
        is_message = pc.equal(records.column("message"), message).to_numpy(zero_copy_only=False)
        rows = np.flatnonzero(is_message & to_server)
        if not len(rows):
            continue
        node = reader.readings.fallback.named(message)
        assert node is not None
        body = (node.body.column or node.body.key) if node.body is not None else None
        arrays = []
        for field, column in zip(records.schema, records.columns, strict=True):
            if field.name == body:
                column = _changed(column, rows, [None] * len(rows))
            elif field.name == "notes":
                before = column.take(pa.array(rows)).to_pylist()
                column = _changed(column, rows, [[*(notes or ()), REDACTED] for notes in before])
            elif field.name in table and table[field.name].kind == "cells":
                column = _changed(column, rows, _without(column.take(pa.array(rows)).to_pylist(), cells))
            arrays.append(column)
        records = pa.RecordBatch.from_arrays(arrays, schema=records.schema)
    return records


def _without(records: list[Any], cells: tuple[int, ...]) -> list[Any]:
    for record in records:
        for cell in record or ():
            if cell["fid"] in cells:
                cell.update({name: None for name in cell if name not in ("fid", "type")})
    return records


def filled(protocol: Protocol, node: MessageNode, row: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a row with this text in place of each that was removed from it."""
    table = table_columns(protocol)
    cells = {name: row[name] for name in row if name in table and table[name].kind == "cells" and row[name]}
    return row | {
        name: [cell | {"text": text} if cell["fid"] in node.secret_cells else cell for cell in record]
        for name, record in cells.items()
    }


def _changed(column: pa.Array, rows: NDArray[np.int64], values: list[Any]) -> pa.Array:
    """Return the column with other values in some rows."""
    order = np.arange(len(column))
    order[rows] = len(column) + np.arange(len(rows))
    return pa.concat_arrays([column, pa.array(values, column.type)]).take(pa.array(order))
