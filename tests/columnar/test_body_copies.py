"""Bodies are left out of tables exactly where their cells, written again, are the same bytes."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake import encode
from wirelake.columnar import decode
from wirelake.columnar.body_copies import without_copies
from wirelake.columnar.row_to_message import message_of
from wirelake.generate import generate
from wirelake.generate.simulation import Event
from wirelake.protocols import BUILT_IN, ceda, load
from wirelake.spec import Cell
from wirelake.spec.resolve import layout

CEDA = load("ceda")
LAYOUT = layout(CEDA, dialect="ceda4")
HEAD, FLAG, FLOAT, NO_NUMBER = struct.Struct("<H"), 1, 4, 0x7FA00001


def publish(body: bytes) -> bytes:
    return encode(ceda.Publish(topic="T", body=body), dialect="ceda4")


def stored(frames: list[bytes], **options: Any) -> list[dict[str, Any]]:
    """The rows of a table, of frames that can all be read."""
    batch = decode(CEDA, b"".join(frames), dialect="ceda4", **options)
    assert len(batch.records) == len(frames)
    return list(without_copies(CEDA, batch.records, dialect="ceda4", **options).to_pylist())


def head(fid: int, kind: int, flag: int = 0) -> bytes:
    return HEAD.pack(fid << 4 | kind << 1 | flag)


def test_generated_messages_lose_their_bodies_and_can_be_written_again() -> None:
    events = [item for item in generate("ceda", seed=2, messages=800, dialect="ceda4") if isinstance(item, Event)]
    rows = stored([event.frame for event in events])
    assert {row["body_hex"] for row in rows} == {None} and any(row["record"] for row in rows)
    for row, event in zip(rows, events, strict=True):
        assert encode(message_of(LAYOUT, row)) == event.frame


cells = st.one_of(
    st.builds(lambda fid: head(fid, 0), st.integers(0, 4094)),
    st.builds(lambda fid, value: head(fid, 1) + value, st.integers(0, 4094), st.binary(min_size=4, max_size=4)),
    st.builds(lambda fid, value: head(fid, FLOAT) + value, st.integers(0, 4094), st.binary(min_size=4, max_size=4)),
    st.builds(lambda fid, value: head(fid, 5) + value, st.integers(0, 4094), st.binary(min_size=8, max_size=8)),
    st.builds(lambda fid, flag: head(fid, 3, flag) + b"ab", st.integers(0, 4094), st.integers(0, 1)),
    st.builds(
        lambda fid, value: head(fid, 7) + HEAD.pack(len(value)) + value, st.integers(0, 9), st.binary(max_size=9)
    ),
)


@given(st.lists(st.lists(cells, max_size=6).map(b"".join), min_size=1, max_size=5))
def test_whatever_is_left_out_comes_back_exactly(bodies: list[bytes]) -> None:
    frames = [publish(body) for body in bodies]
    for row, frame, body in zip(stored(frames), frames, bodies, strict=True):
        assert row["body_hex"] in (None, body)
        assert encode(message_of(LAYOUT, row)) == frame


@pytest.mark.parametrize(
    "body",
    [head(1, 3, FLAG) + b"ab", head(1, FLOAT) + struct.pack("<I", NO_NUMBER), head(1, 1) + bytes(4) + head(2, 0, FLAG)],
)
def test_what_the_cells_do_not_say_is_kept(body: bytes) -> None:
    assert stored([publish(body)])[0]["body_hex"] == body


def test_texts_in_another_charset_are_kept() -> None:
    frame = encode(ceda.Publish(topic="T", record=(Cell(1, "STRING", "größer"),)), dialect="ceda4", charset="latin-1")
    assert stored([frame], charset="latin-1")[0]["body_hex"] is not None


@pytest.mark.parametrize("name", sorted(set(BUILT_IN) - {"ceda"}))
def test_other_protocols_have_no_bodies_with_cells(name: str) -> None:
    frames = b"".join(item.frame for item in generate(name, seed=1, messages=50) if isinstance(item, Event))
    records: pa.RecordBatch = decode(name, frames).records
    assert without_copies(load(name), records) is records
