"""Times at which something is due: whatever is set, put off and dropped, each key comes once and at its time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirelake.live.core.timers import Timers

KEYS = st.integers(0, 5)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers(0, 50)),
        st.tuples(st.just("drop"), KEYS, st.just(0)),
        st.tuples(st.just("due"), st.just(0), st.integers(0, 20)),
    ),
    max_size=60,
)


@given(STEPS)
def test_keys_come_at_the_time_they_were_set_to_last_and_only_once(steps: list[tuple[str, int, int]]) -> None:
    timers: Timers[int] = Timers()
    wanted: dict[int, float] = {}
    now = 0.0
    for what, key, number in steps:
        if what == "set":
            timers.set(key, now + number)
            wanted[key] = now + number
        elif what == "drop":
            timers.drop(key)
            wanted.pop(key, None)
        else:
            now += number
            due = timers.due(now)
            assert sorted(due) == sorted(key for key, when in wanted.items() if when <= now)
            assert [wanted[key] for key in due] == sorted(wanted[key] for key in due)
            for key in due:
                del wanted[key]
        deadline = timers.deadline
        assert (deadline is None) == (not wanted)
        assert deadline is None or deadline <= min(wanted.values())


def test_a_deadline_that_was_put_off_is_looked_at_and_nothing_is_due() -> None:
    timers: Timers[str] = Timers()
    timers.set("a", 1.0)
    timers.set("a", 5.0)
    assert timers.deadline == 1.0
    assert timers.due(1.0) == []
    assert timers.deadline == 5.0
    assert timers.due(5.0) == ["a"] and timers.deadline is None


def test_keys_that_come_and_go_do_not_pile_up() -> None:
    timers: Timers[int] = Timers()
    timers.set(-1, 1e9)
    for key in range(10_000):
        timers.set(key, 1e6)
        timers.drop(key)
    assert len(timers._heap) < 100
    assert timers.due(1e9) == [-1]
