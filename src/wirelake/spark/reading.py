"""What the formats do in planners and workers: captures -> partitions -> Arrow batches in Spark's own form."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from ..capture.partitions import Partition, Piece, Seen, decode, plan
from ..capture.streams import Reading
from ..errors import CaptureError, DecodeError
from ..gold.facts import MESSAGES, facts, needed_columns
from ..spec.nodes import Protocol
from . import schema as s
from .files import Found, find
from .filters import Filters
from .options import OptionError, ReadOptions

OPEN_COST_BYTES = 4 << 20
"""What opening one more file costs, in bytes that could be read instead (as for Spark's own files)."""
MOST_ROWS = 100_000
_QUARANTINED = ("capture", "connection", "direction", "offset", "length", "ts")


@dataclass
class Table:
    """What is read and how its rows look. Made by the planner, sent to the workers."""

    options: ReadOptions
    available: pa.Schema
    schema: StructType | None = None
    target: pa.Schema | None = None
    filters: Filters | None = None

    @classmethod
    def of(cls, options: ReadOptions, schema: StructType | None = None) -> Table:
        """The table; with ``schema``, what a user or ``default_schema`` wants of it."""
        made = cls(options, _available(options))
        if schema is not None:
            s.check(schema, made.available, options.what)
            made.schema, made.target = schema, s.in_arrow(schema)
            made.filters = Filters(made.target)
        return made
