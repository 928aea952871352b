"""The envelope of messages: names by number, times that may be unknown, columns in the order that is asked for."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from wirelake.capture.envelope import ENVELOPE_TYPES, Envelope, message_batch


def envelope(captures: list[int], times: list[int]) -> Envelope:
    zeros = np.zeros(len(captures), np.int64)
    return Envelope(
        pa.array(["a", "b"]), zeros + 1, zeros, ["", "one.pcap", "two.pcap"], np.array(captures), np.array(times), zeros
    )


@pytest.mark.parametrize("captures", [[1, 1], [1, 2]])
def test_a_batch_has_the_columns_that_are_asked_for(captures: list[int]) -> None:
    records = pa.RecordBatch.from_pydict({"message": ["x", "y"], "unused": [1, 2]})
    columns = ("ts", "message", "capture", "connection", "direction", "order")
    schema = pa.schema([pa.field(name, ENVELOPE_TYPES.get(name, pa.string())) for name in columns])
    batch = message_batch(records, envelope(captures, [-1, 5]), columns, schema)
    assert batch.schema == schema
    assert batch.column("ts").cast(pa.int64()).to_pylist() == [None, 5]
    assert batch.column("capture").to_pylist() == [["", "one.pcap", "two.pcap"][number] for number in captures]
    assert batch.drop_columns(["ts", "capture"]).to_pylist()[1] == {
        "message": "y", "connection": "b", "direction": "to_server", "order": 0,
    }  # fmt: skip
