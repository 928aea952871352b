"""Rows of columns print as the messages of the record codec do."""

from __future__ import annotations

import random

import pytest

from tests.differential import valid_frames
from wirelake.codec import decode
from wirelake.columnar import decode_frames
from wirelake.columnar.schema import FRONT_NAMES
from wirelake.columnar.to_json import all_columns, show_rows
from wirelake.protocols import BUILT_IN, load
from wirelake.spec.resolve import layout

OPTIONS: dict[str, dict[str, str]] = {"ceda": {"dialect": "ceda4"}}


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_a_row_prints_as_its_message(protocol: str) -> None:
    options = OPTIONS.get(protocol, {})
    declared = load(protocol)
    frames = valid_frames(protocol, 120, random.Random(protocol), **options)
    batch = decode_frames(declared, frames, all_columns(declared), **options)
    nodes = {node.name: node for node in layout(declared, **options).messages.values()}
    shown = dict(zip(batch.row_frames.tolist(), show_rows(declared, nodes, batch), strict=True))
    assert len(shown) == len(frames)
    for number, frame in enumerate(frames):
        assert shown[number] == decode(protocol, frame, **options).to_json()


@pytest.mark.parametrize("protocol", BUILT_IN)
def test_all_columns_are_those_of_the_envelope_and_every_field(protocol: str) -> None:
    names = all_columns(load(protocol))
    assert names[: len(FRONT_NAMES)] == FRONT_NAMES
    assert len(set(names)) == len(names)
