"""Rows of the quarantine: ranges of bytes that could not be decoded, and gaps."""

from __future__ import annotations

import pyarrow as pa

from ..columnar.schema import TIMESTAMP

_QUARANTINE = (
    ("capture", pa.string(), "the file or tap it came from"),
    ("connection", pa.string(), "the connection, the same in every run"),
    ("direction", pa.string(), "to_server or to_client"),
    ("offset", pa.int64(), "first byte of the range in its stream"),
    ("length", pa.int64(), "bytes of the range; of a gap, how many were never captured"),
    ("ts", TIMESTAMP, "when the last byte of the range was there"),
    ("rule", pa.string(), "the broken rule; `gap` stands for bytes that were never captured"),
    ("path", pa.string(), "the field in which it was broken, if it was one"),
    ("detail", pa.string(), "what is wrong, in a sentence"),
    ("bytes", pa.binary(), "the bytes; null for a gap, and only the first ones of a range that is encrypted"),
    ("protocol", pa.string(), "the protocol of the connection; null if that is not known"),
)
QUARANTINE = pa.schema([pa.field(name, kind, metadata={"doc": doc}) for name, kind, doc in _QUARANTINE])
