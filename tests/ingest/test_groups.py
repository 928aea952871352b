"""Units of work are divided among as few tasks as keep all cores busy."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirelake.ingest.groups import ENOUGH_ROWS, TASKS_PER_CORE, grouped


def test_little_work_is_one_task() -> None:
    assert grouped("abc", [5, 1, 9], cores=8) == [["a", "b", "c"]]
    assert grouped("", [], cores=2) == []


def test_much_work_is_divided_evenly() -> None:
    sizes = [4 * ENOUGH_ROWS, ENOUGH_ROWS, ENOUGH_ROWS, 2 * ENOUGH_ROWS]
    assert sorted(grouped("abcd", sizes, cores=1)) == [["a"], ["b", "c", "d"]]


@given(st.lists(st.integers(0, 3 * ENOUGH_ROWS), max_size=40), st.integers(1, 8))
def test_every_unit_is_in_one_task_and_there_are_not_too_many(sizes: list[int], cores: int) -> None:
    groups = grouped(range(len(sizes)), sizes, cores)
    assert sorted(unit for group in groups for unit in group) == list(range(len(sizes)))
    assert len(groups) <= max(1, min(TASKS_PER_CORE * cores, sum(sizes) // ENOUGH_ROWS))
    assert all(group == sorted(group) for group in groups)
