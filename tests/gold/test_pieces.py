"""The one assembler: messages are whole with their last piece; pieces at the wrong moment are told, however cut."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from wirelake.gold.fact_groups import by_protocol
from wirelake.gold.facts import FACTS
from wirelake.gold.pieces import Assembler
from wirelake.protocols import load

from .test_exchanges import B, Row, fact

FIRST: dict[str, Any] = {"piece": 0, "pieces": 3}


def piece(at: float, number: int, protocol: str, key: str = "k", **more: Any) -> Row:
    count = {"pieces": 3} if number == 0 else {}
    lane = {"lane": 0, "ends": False, "piece_key": "7"} if protocol == "dsa" else {"piece_key": key}
    return fact(at, 2, B, key, protocol=protocol, piece=number, **(count | lane | more))


def assembled(rows: list[Row], cuts: tuple[int, ...] = ()) -> tuple[list[bool], list[int], list[tuple[int, str]]]:
    """Which rows complete a message, its bytes, and the faults by row."""
    step = Assembler()
    whole: list[bool] = []
    sizes: list[int] = []
    faults: list[tuple[int, str]] = []
    edges = [0, *cuts, len(rows)]
    for start, stop in pairwise(edges):
        table = pa.Table.from_pylist([row | {"order": i} for i, row in enumerate(rows)][start:stop], FACTS)
        (facts,) = by_protocol(table)
        found = step.feed(facts, np.zeros(len(facts), np.int32), load(facts.protocol).conduct.pieces)
        whole += found.whole.tolist()
        sizes += found.bytes.tolist()
        if found.faults is not None:
            faults += zip((found.faults.rows + start).tolist(), found.faults.sentences(), strict=True)
        step = Assembler(step.carry())
    return whole, sizes, faults


@pytest.mark.parametrize("protocol", ["ceda", "dsa"])
@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2)])
def test_a_message_is_whole_with_its_last_piece(protocol: str, cuts: tuple[int, ...]) -> None:
    rows = [piece(1 + i, i, protocol) for i in range(3)]
    assert assembled(rows, cuts) == ([False, False, True], [10, 10, 30], [])


@pytest.mark.parametrize(("protocol", "word"), [("ceda", "piece"), ("dsa", "page")])
@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2, 3)])
def test_a_piece_that_is_not_the_next_one_breaks_its_group_once(
    protocol: str, word: str, cuts: tuple[int, ...]
) -> None:
    rows = [piece(1, 0, protocol), piece(2, 2, protocol), piece(3, 1, protocol), piece(4, 2, protocol)]
    whole, _, faults = assembled(rows, cuts)
    assert not any(whole)
    assert faults == [(1, f"{word} 2 where {word} 1 of 3 must come")]


def test_groups_with_different_keys_do_not_disturb_each_other() -> None:
    rows = [piece(1 + i / 10, i // 2, "ceda", "kl"[i % 2]) for i in range(6)]
    assert assembled(rows) == ([False] * 4 + [True] * 2, [10] * 4 + [30] * 2, [])


def test_a_group_that_falls_silent_is_forgotten() -> None:
    rows = [piece(1, 0, "ceda"), piece(61.001, 1, "ceda")]
    assert assembled(rows)[2] == [(1, "piece 1 of a message whose first piece did not come")]


def test_a_stream_sends_nothing_else_between_its_pages_and_a_close_ends_them() -> None:
    plain = fact(2, 2, B, "k", protocol="dsa", lane=0, ends=False)
    assert assembled([piece(1, 0, "dsa"), plain])[2] == [(1, "another message where page 1 of 3 must come")]
    close = fact(2, 3, B, "k", protocol="dsa", lane=0, ends=False)
    assert assembled([piece(1, 0, "dsa"), close, piece(3, 0, "dsa")])[2] == []


def test_a_request_with_the_number_of_a_stream_is_not_a_part_of_it() -> None:
    asks = fact(2, 1, B, "k", protocol="dsa", lane=0)
    rows = [piece(1, 0, "dsa"), asks, piece(3, 1, "dsa"), piece(4, 2, "dsa")]
    whole, _, faults = assembled(rows)
    assert (whole, faults) == ([False, True, False, True], [])
