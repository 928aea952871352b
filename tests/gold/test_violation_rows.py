"""Violations that wait, and the sentences about them."""

from __future__ import annotations

import pickle
from random import Random

import numpy as np
import pyarrow as pa

from wirelake.gold.losses import Excuse
from wirelake.gold.violation_rows import DUPLICATE_REQUEST, RULES, UNEXPECTED_REPLY, Found, Waiting

NAMES = ("number", "connection", "direction", "rule", "ts")
Row = tuple[int, str, str, str, int]


def table(rows: list[Row]) -> pa.Table:
    columns = [pa.array(list(column)) for column in zip(*rows, strict=True)]
    return pa.table([one.dictionary_encode() if one.type == pa.string() else one for one in columns], NAMES)


def some_rows(source: Random, first: int, size: int) -> list[Row]:
    return [
        (
            first + i,
            source.choice("abc"),
            source.choice(("to_server", "to_client")),
            source.choice(("state", RULES[UNEXPECTED_REPLY])),
            source.randrange(100),
        )
        for i in range(size)
    ]


def is_excused(row: Row, one: Excuse) -> bool:
    _, connection, direction, rule, ts = row
    if connection != one.connection or ts < one.start:
        return False
    answers_it = rule == RULES[UNEXPECTED_REPLY] and direction == ("to_client", "to_server")[one.side]
    return ts <= one.end or answers_it


def left_in(waiting: Waiting) -> list[int]:
    found = waiting.take_all()
    return [] if found is None else sorted(found.column("number").to_pylist())


def test_what_was_found_while_something_was_lost_is_excused_and_so_are_answers_to_what_was_lost() -> None:
    for seed in range(60):
        source = Random(seed)
        parts = [some_rows(source, 0, 20), some_rows(source, 20, 20)]
        waiting = Waiting()
        for part in parts:
            waiting.add(table(part))
        excuses = [
            Excuse(source.choice("abcd"), source.randrange(2), start, start + source.randrange(-5, 20))
            for start in source.sample(range(100), source.randrange(5))
        ]
        waiting.excuse(excuses)
        expected = [row[0] for row in (*parts[0], *parts[1]) if not any(is_excused(row, one) for one in excuses)]
        assert left_in(waiting) == expected, seed


def test_what_waits_survives_a_carry_and_is_given_out_once() -> None:
    rows = some_rows(Random(1), 0, 50)
    waiting = Waiting()
    for row in rows:
        waiting.add(table([row]))
    waiting.drop(np.array([3, 4, 99], np.int64))
    waiting = Waiting(pickle.loads(pickle.dumps(waiting.table)))
    ended, early = waiting.take_of(["a"]), waiting.take_before(50, {}, 0)
    assert ended is not None and early is not None
    kept = [row for row in rows if row[0] not in (3, 4)]
    assert ended.column("number").to_pylist() == [row[0] for row in kept if row[1] == "a"]
    assert early.column("number").to_pylist() == [row[0] for row in kept if row[1] != "a" and row[4] < 50]
    assert waiting.take_of(["a"]) is None and waiting.take_of([]) is None
    assert left_in(waiting) == [row[0] for row in kept if row[1] != "a" and row[4] >= 50]
    assert not len(waiting) and waiting.table is None


def test_times_in_sentences_are_seconds_with_six_digits() -> None:
    times = [0, 1, 999_999, 1_000_000, 61_000_007, 4_000_000_000_000_001, -1_500_000]
    found = Found.nothing(len(times))
    found.add(np.arange(len(times)), DUPLICATE_REQUEST, np.array(times, np.int64))
    said = found.details(found.rows, None, np.zeros(len(times), np.int8)).to_pylist()
    assert said == [f"a request with this correlation has been open for {us / 1e6:.6f} s" for us in times]


def test_a_row_waits_while_something_may_be_lost_that_nobody_knows_of_yet() -> None:
    waiting = Waiting(table([(0, "a", "to_server", RULES[1], 10), (1, "b", "to_server", RULES[1], 10)]))
    given = waiting.take_before(50, {"a": 11, "b": 10}, 5)
    assert given is not None and given.column("number").to_pylist() == [0]
    assert waiting.take_before(50, {"b": 10}, 10) is None
    given = waiting.take_before(50, {"b": 10}, 11)
    assert given is not None and given.column("number").to_pylist() == [1]
