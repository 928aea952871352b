"""The facts of a few messages."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from wirelake.codec import encode
from wirelake.columnar import decode
from wirelake.columnar.schema import TIMESTAMP
from wirelake.gold.facts import CODED_FACTS, facts, needed_columns
from wirelake.protocols import load


def facts_of(protocol: str, *messages: Any, direction: str = "to_server", **options: Any) -> list[dict[str, Any]]:
    """Return the facts of these messages, read as captured traffic is."""
    framing = {"framing": "tcp"} if "framing" in load(protocol).options else {}
    reading = {**load(protocol).captured.options, **framing}
    data = b"".join(encode(message, **reading) for message in messages)
    batch = decode(protocol, data, ["offset", "length", "message", "code", *needed_columns(protocol)], **reading)
    assert len(batch.records) == len(messages)
    size = len(messages)
    records = pa.RecordBatch.from_arrays(
        [
            pa.array(["c"] * size),
            pa.array([direction] * size),
            pa.array(range(size), TIMESTAMP),
            *batch.records.columns,
        ],
        names=["connection", "direction", "ts", *batch.records.schema.names],
    )
    made = facts(protocol, records, **options)
    assert made.schema.equals(CODED_FACTS)
    return list(made.to_pylist())
