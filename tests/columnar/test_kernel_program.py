"""Declarations become programs: what is not wanted is checked all the same, and written nowhere."""

from __future__ import annotations

import pytest

from wirelake.codec import encode
from wirelake.columnar import decode_frames
from wirelake.columnar.kernel_program import Lowering
from wirelake.columnar.schema import FRONT_NAMES, default_columns
from wirelake.protocols import BUILT_IN, ceda, load
from wirelake.spec import Cell
from wirelake.spec.resolve import candidates


def operations(protocol: str, wanted: tuple[str, ...]) -> int:
    return len(Lowering(candidates(load(protocol))[0], wanted).lower().prog)


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_every_message_has_a_program_and_fewer_columns_need_no_longer_one(protocol: str) -> None:
    everything = tuple(name for name in default_columns(load(protocol)) if name not in FRONT_NAMES)
    assert 0 < operations(protocol, ()) <= operations(protocol, everything)


@pytest.mark.parametrize("wanted", [("message",), ("message", "record")])
def test_a_field_is_checked_whether_it_is_wanted_or_not(wanted: tuple[str, ...]) -> None:
    good = encode(ceda.Publish(topic="T", record=(Cell(1, "STRING", "ab"),)), dialect="ceda4")
    bad = good.replace(b"ab", b"\xff\xfe")
    batch = decode_frames(ceda.PROTOCOL, [good, bad], wanted, dialect="ceda4")
    assert batch.row_frames.tolist() == [0]
    (row,) = batch.quarantined.to_pylist()
    assert row["rule"] == "cell_utf8"
