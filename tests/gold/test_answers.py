"""What is judged in bulk must come out as if it had been walked through row by row."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from wirelake.gold import answers
from wirelake.gold.answers import ANSWERS, ASKS, CLOSES, ENDS, FOR_EVER, KEPT, LATE_US, Checked, Losses, Manners, Rows
from wirelake.gold.violation_rows import DUPLICATE_REPLY, DUPLICATE_REQUEST, NOTHING, UNEXPECTED_REPLY

SECOND = 1_000_000
MANNERS = {
    "plain": answers.PLAIN,
    "repeatable": Manners(repeatable=frozenset({1})),
    "shared": Manners(shared=True, inventing_side=1),
    "instead": Manners(instead=frozenset({(2, 3)})),
}


def rows_of(kept: NDArray[Any], new: list[dict[str, int]], first: int) -> Rows:
    """Rows of new messages behind what is kept. Keys say who it is: two of three keys are of connection 0."""

    def column(name: str, kind: Any = np.int64) -> NDArray[Any]:
        return np.array([one[name] for one in new], kind)

    def both(name: str, kind: Any) -> NDArray[Any]:
        return np.concatenate([kept[name].astype(kind), column(name, kind)])

    return Rows(
        kept,
        both("key", np.uint64),
        both("role", np.int8),
        both("code", np.int64),
        both("pair", np.int64),
        both("lane", np.int64),
        both("ts", np.int64),
        both("until", np.int64),
        both("ordinal", np.int64),
        both("who", np.int32),
        column("side", np.int8),
        column("invented", np.bool_),
        first + np.arange(len(new)),
    )


def messages(source: Random, size: int, keys: int) -> list[dict[str, int]]:
    """Requests, answers and closes of few keys, in the order of time."""
    found, ts = [], 0
    answered = 0
    likely = source.choice([(ASKS,), (ENDS, ANSWERS), (ASKS, ENDS), (ASKS, ENDS, ENDS, ENDS), (ASKS, ANSWERS, ENDS)])
    for _ in range(size):
        ts += source.choice((1, SECOND // 10, SECOND, source.choice((SECOND, LATE_US))))
        role = source.choice(likely if source.random() < 0.8 else (ASKS, ANSWERS, ENDS, CLOSES))
        answered += role in (ANSWERS, ENDS)
        key = source.randrange(keys)
        limit = source.choice((FOR_EVER - ts, FOR_EVER - ts, 3 * SECOND))
        found.append(
            {
                "key": key,
                "who": int(key % 3 == 0),
                "role": role,
                "code": source.choice((1, 1, 1, 3)),
                "pair": source.choice((2, 2, 2, 2, 4)),
                "lane": int(source.random() < 0.1),
                "ts": ts,
                "until": ts + limit,
                "ordinal": answered,
                "side": int(role in (ANSWERS, ENDS)),
                "invented": int(source.random() < 0.1),
            }
        )
    return found


def losses_of(source: Random) -> dict[int, tuple[Losses, Losses]]:
    def losses() -> Losses:
        found = Losses(source.random() < 0.2)
        if source.random() < 0.3:
            found.add(SECOND, 5 * SECOND)
        return found

    return {who: (losses(), losses()) for who in (0, 1)}


def walked(rows: Rows, manners: Manners, losses: dict[int, tuple[Losses, Losses]]) -> Checked:
    """The same without any shortcut."""
    size = len(rows.key) - rows.shift
    rule, us = np.zeros(size, np.int8), np.zeros(size, np.int64)
    kept: list[tuple[Any, ...]] = []
    met: list[int] = []
    for key in np.unique(rows.key):
        members = np.flatnonzero(rows.key == key).tolist()
        walk = answers._Walk(rows, manners, losses[int(rows.who[members[0]])])
        for row, broken, time in walk.through(members):
            rule[row], us[row] = broken, time
        kept += walk.kept()
        met += walk.met
    return Checked(rule, us, np.array(kept, KEPT), np.array(met, np.int64))


def told(found: Checked) -> tuple[list[int], list[int], list[tuple[Any, ...]], list[int]]:
    """Comparable. The ordinal of an open request says nothing."""
    kept = found.kept.copy()
    kept["ordinal"][kept["role"] == answers.OPEN] = 0
    return found.rule.tolist(), found.us.tolist(), sorted(kept.tolist()), sorted(found.met.tolist())


def feeds(source: Random) -> Iterator[tuple[list[dict[str, int]], int]]:
    """Traffic in a few feeds, and the number of the first message of each."""
    given = messages(source, 60, source.choice((3, 12, 40)))
    cuts = sorted(source.sample(range(60), 3))
    for start, stop in zip([0, *cuts], [*cuts, 60], strict=True):
        yield given[start:stop], start


@pytest.mark.parametrize("manners", MANNERS)
def test_what_is_judged_in_bulk_is_as_if_it_were_walked_through(manners: str) -> None:
    broken: set[int] = set()
    for seed in range(150):
        source = Random(f"{manners} {seed}")
        losses = losses_of(source)
        kept = np.zeros(0, KEPT)
        for new, first in feeds(source):
            rows = rows_of(kept, new, first)
            found = answers.check(rows, MANNERS[manners], losses)
            assert told(found) == told(walked(rows, MANNERS[manners], losses)), seed
            broken |= set(found.rule.tolist())
            kept = found.kept
    expected = {NOTHING, UNEXPECTED_REPLY, DUPLICATE_REPLY, DUPLICATE_REQUEST}
    assert broken == expected - ({DUPLICATE_REQUEST} if manners == "shared" else set())
