"""Parquet encodings of a table, chosen by a sample of its first rows.

Casual calls on one core: 200 MB/s of wire bytes with zstd and dictionaries for every column, 330 MB/s with these, for a
file of the same size. Payloads and identifiers do not compress, and a dictionary of values that do not repeat is built
to be thrown away: both cost more than everything else.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

COMPRESSION, LEVEL = "zstd", 1
FOR_REPEATED = "snappy"
"""For dictionaries and for columns without a value, which zstd makes hardly smaller, but takes longer to begin with."""
SAMPLE_ROWS, SAMPLE_RUN = 2048, 128
SAMPLE_BYTES = 1 << 16
MIN_REPEATS = 4
"""A dictionary pays if a value occurs this often on average."""
MAX_COMPRESSED, MAX_COMPRESSED_ONCE = 0.9, 0.5
"""Compression pays if it leaves less than this share, or this one where files are written that may be merged later: ids
in hex leave half, and to compress them takes half of the time of writing gold/exchanges.
"""
DELTA_BITS, DELTA_RUN = 24, 32
"""Numbers whose steps differ by no more bits than this are packed as steps: smaller than zstd makes them, in a third of
the time. Steps are packed in runs of so many.
"""
BATCH_ROWS = 1 << 16
"""Rows that the writer takes at once; with the usual 1024, a table of casual calls takes 8 % longer."""


REUSES = 31
"""Files that are written with the encodings of an earlier one: to choose them takes a tenth of the time of a file."""
MAX_KNOWN = 64


@dataclass
class _Known:
    chosen: dict[str, Any]
    reuses: int = 0


_known: dict[Hashable, _Known] = {}


def known_encodings(key: Hashable, table: pa.Table, *, lasting: bool = False) -> dict[str, Any]:
    """Return the encodings of a file, chosen by its rows or by those of a file with the same key before it.

    What was chosen for other rows is good for any of the same columns: it may only make a larger file.
    """
    key = key, lasting
    known = _known.get(key)
    if known is not None and known.reuses < REUSES:
        known.reuses += 1
        return known.chosen
    chosen = encodings(table, lasting=lasting)
    if table.num_rows >= SAMPLE_ROWS:
        if len(_known) >= MAX_KNOWN:
            _known.clear()
        _known[key] = _Known(chosen)
    return chosen


def encodings(table: pa.Table, *, lasting: bool = False) -> dict[str, Any]:
    """Return the arguments of a ``ParquetWriter`` for rows like these. ``lasting``: the file is not soon merged with
    others, so that more time is taken to make it small.
    """
    most = MAX_COMPRESSED if lasting else MAX_COMPRESSED_ONCE
    codecs: dict[str, str] = {}
    dictionaries: list[str] = []
    steps: list[str] = []
    statistics: list[str] = []
    for path, values in leaves(_sample(table)):
        repeats = _repeats(values)
        is_stepwise = not repeats and _is_stepwise(values)
        if repeats:
            codecs[path] = FOR_REPEATED
        else:
            codecs[path] = COMPRESSION if not is_stepwise and _compresses(values, most) else "none"
        if repeats:
            dictionaries.append(path)
        if is_stepwise:
            steps.append(path)
        if repeats or not _is_text(values.type):
            statistics.append(path)
    return {
        "compression": codecs,
        "compression_level": {path: LEVEL for path, codec in codecs.items() if codec == COMPRESSION},
        "use_dictionary": dictionaries or False,
        "column_encoding": dict.fromkeys(steps, "DELTA_BINARY_PACKED") or None,
        "write_statistics": statistics or False,
        "write_batch_size": BATCH_ROWS,
        "store_schema": False,  # readers take dictionaries for the texts that they are
    }


def leaves(table: pa.Table) -> Iterator[tuple[str, pa.Array]]:
    """Yield the columns as Parquet knows them: nested ones taken apart, each part with its dotted path."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        yield from _parts(name, column.combine_chunks())


def _parts(path: str, array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.nulls(0, array.type)
    kind = array.type
    if pa.types.is_struct(kind):
        for field, part in zip(kind, array.flatten(), strict=True):
            yield from _parts(f"{path}.{field.name}", part)
    elif pa.types.is_map(kind):
        yield from _parts(f"{path}.key_value.key", array.keys)
        yield from _parts(f"{path}.key_value.value", array.items)
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        yield from _parts(f"{path}.list.element", array.flatten())
    else:
        yield path, array


def _sample(table: pa.Table) -> pa.Table:
    """Return runs of rows from all over the table."""
    if table.num_rows <= SAMPLE_ROWS:
        return table
    starts = np.linspace(0, table.num_rows - SAMPLE_RUN, SAMPLE_ROWS // SAMPLE_RUN).astype(np.int64)
    return pa.concat_tables([table.slice(start, SAMPLE_RUN) for start in starts.tolist()])


def _repeats(values: pa.Array) -> bool:
    """Tell whether values repeat. A column of nulls tells nothing yet, and a dictionary costs nothing."""
    valid = len(values) - int(values.null_count)
    if valid == 0 or pa.types.is_dictionary(values.type):
        return True
    if pa.types.is_boolean(values.type):
        return False
    distinct = int(pc.count_distinct(values, mode="only_valid").as_py())
    return distinct * MIN_REPEATS <= valid


def _is_stepwise(values: pa.Array) -> bool:
    """Tell whether numbers follow one another in even steps, as offsets and times do."""
    if not (pa.types.is_int64(values.type) or pa.types.is_timestamp(values.type)):
        return False
    steps = np.diff(values.drop_null().view(pa.int64()).to_numpy())
    runs = steps[: len(steps) // DELTA_RUN * DELTA_RUN].reshape(-1, DELTA_RUN)
    spreads = runs.max(axis=1).astype(np.float64) - runs.min(axis=1)
    return len(spreads) > 0 and float(np.median(spreads)) < 1 << DELTA_BITS


def _compresses(values: pa.Array, most: float) -> bool:
    data = _bytes(values)
    if len(data) < 1024:
        return True
    return len(pa.compress(data, codec=COMPRESSION, asbytes=True)) < most * len(data)


def _bytes(values: pa.Array) -> bytes:
    if _is_text(values.type):
        return b"".join(pc.cast(values.drop_null(), pa.large_binary()).to_pylist())[:SAMPLE_BYTES]
    buffer = values.buffers()[1]
    return bytes(buffer[:SAMPLE_BYTES]) if buffer is not None else b""


def _is_text(kind: pa.DataType) -> bool:
    return kind in (pa.string(), pa.binary(), pa.large_string(), pa.large_binary())
