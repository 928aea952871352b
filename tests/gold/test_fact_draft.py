"""Conditions select messages by what their fields hold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from wirelake.gold.fact_draft import Draft
from wirelake.spec.conduct import STATUS, Selection, When

RECORDS = pa.record_batch(
    {
        "number": pa.array([0, None, 5, 12, -1], pa.int32()),
        "text": pa.array(["", None, "system.x", "other", "b"]),
        "data": pa.array([b"", None, b"\0", b"ab", b"c"]),
        "flag": pa.array([False, None, True, True, False]),
        "list": pa.array([[], None, [1], [1, 2], [3]], pa.list_(pa.int64())),
        "part": pa.array([{"n": 1}, None, {"n": 0}, {"n": 3}, {"n": None}], pa.struct([("n", pa.int16())])),
        "direction": pa.array(["to_server", "to_client"] * 2 + ["to_server"]).dictionary_encode(),
    }
)


def draft(**options: Any) -> Draft:
    rows = len(RECORDS)
    nothing: Any = np.zeros(rows, np.int64)
    which = np.array([0, 0, 1, 1, 1])
    status = pa.array([0, 1, 2, None, 4], pa.int64())
    return Draft(RECORDS, ("ask", "tell"), which, {}, status, *[nothing] * 6, options)


@pytest.mark.parametrize(
    ("when", "rows"),
    [
        (When("number"), [2, 3, 4]),
        (When("number", empty=True), [0, 1]),
        (When("number", one_of=(5, -1)), [2, 4]),
        (When("number", none_of=(0, 5)), [3, 4]),
        (When("number", least=5), [2, 3]),
        (When("number", least=1, most=5), [2]),
        (When("number", bits=4), [2, 3, 4]),
        (When("text"), [2, 3, 4]),
        (When("text", empty=True), [0, 1]),
        (When("text", prefix="system."), [2]),
        (When("text", one_of=("b", "other")), [3, 4]),
        (When("text", none_of=("b",)), [0, 1, 2, 3]),
        (When("data", one_of=(b"\0",)), [2]),
        (When("flag"), [2, 3]),
        (When("list"), [2, 3, 4]),
        (When("part"), [0, 2, 3, 4]),
        (When("part.n"), [0, 3]),
        (When("direction", one_of=("to_client",)), [1, 3]),
        (When(STATUS, least=2), [2, 4]),
    ],
    ids=str,
)
def test_a_condition_holds_where_the_field_says_so(when: When, rows: list[int]) -> None:
    assert np.flatnonzero(draft().select(Selection(when=when))).tolist() == rows


def test_names_conditions_and_options_must_all_hold() -> None:
    both = Selection(messages=("tell",), when=(When("number"), When("flag")), only=("mode", "new"))
    assert np.flatnonzero(draft(mode="new").select(both)).tolist() == [2, 3]
    assert not draft(mode="old").select(both).any()
    either = (Selection(messages=("ask",)), Selection(when=When("flag")))
    assert np.flatnonzero(draft().select_any(either)).tolist() == [0, 1, 2, 3]
