"""Declarations become programs: what is not wanted is checked all the same, and written nowhere."""

from __future__ import annotations

import pytest

from wirelake.columnar import decode_frames
from wirelake.columnar.kernel_program import Lowering
from wirelake.columnar.schema import FRONT_NAMES, default_columns
from wirelake.protocols import BUILT_IN, load
from wirelake.spec.resolve import candidates


def operations(protocol: str, wanted: tuple[str, ...]) -> int:
    return len(Lowering(candidates(load(protocol))[0], wanted).lower().prog)


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_every_message_has_a_program_and_fewer_columns_need_no_longer_one(protocol: str) -> None:
    everything = tuple(name for name in default_columns(load(protocol)) if name not in FRONT_NAMES)
    assert 0 < operations(protocol, ()) <= operations(protocol, everything)


def test_a_field_that_is_not_wanted_is_still_checked() -> None:
    frame = bytes.fromhex("0000000000001c200000000000000000000000000000000000000000000000ff")
    batch = decode_frames(load("casual"), [frame], ("message",))
    assert batch.records.num_rows == 0
    (row,) = batch.quarantined.to_pylist()
    assert row["rule"]
