"""How the tables of this room describe their columns."""

from __future__ import annotations

import pyarrow as pa


def column(name: str, type_: pa.DataType, doc: str) -> pa.Field:
    """Return a column with the sentence that documents it."""
    return pa.field(name, type_, metadata={"doc": doc})
