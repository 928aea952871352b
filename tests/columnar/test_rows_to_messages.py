"""Rows of one message are read as one by one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.spark.frames import PROTOCOLS, frames_of, options_of
from wirelake.codec.encoder import encode_frame
from wirelake.columnar import decode_frames
from wirelake.columnar.row_to_message import message_of, node_of
from wirelake.columnar.rows_to_messages import message_reader, needed_columns
from wirelake.errors import EncodeError
from wirelake.protocols import load
from wirelake.spec.resolve import layout


@pytest.mark.parametrize("name", PROTOCOLS)
def test_messages_are_those_of_the_exact_reader(name: str) -> None:
    chosen = layout(load(name), **options_of(name))
    rows = decode_frames(name, pa.array(frames_of(name), pa.binary()), **options_of(name)).records.to_pylist()
    for row in rows:
        node = node_of(chosen, row)
        needed = {column: row[column] for column in needed_columns(chosen, node, list(row))}
        made = message_reader(chosen, node)(needed)
        assert encode_frame(chosen, made) == encode_frame(chosen, message_of(chosen, row))
    assert len(rows) > 100


def test_what_is_wrong_is_named_by_the_exact_reader() -> None:
    chosen = layout(load("casual"))
    node = node_of(chosen, {"message": "service_call_request"})
    with pytest.raises(EncodeError, match="is missing"):
        message_reader(chosen, node)({"message": "service_call_request"})
