"""Who gets what, compared with the plain definition of matching."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wirelake.codec.topics import match_topic
from wirelake.live.mb.topics import Subscriptions, is_valid_topic
from wirelake.protocols.mb import PROTOCOL

LEVELS = st.lists(st.sampled_from(["a", "b", "c1"]), min_size=1, max_size=5)
TOPICS = LEVELS.map(".".join)
PATTERNS = st.builds(
    lambda levels, rest: ".".join([*levels[:4], "#"] if rest else levels),
    st.lists(st.sampled_from(["a", "b", "+"]), max_size=5),
    st.booleans(),
).filter(lambda pattern: pattern != "")


CHANGES = st.lists(
    st.tuples(st.sampled_from(["add", "remove"]), st.integers(0, 3), PATTERNS | TOPICS, st.integers(-2, 2))
)


@given(CHANGES, st.lists(TOPICS, min_size=1, max_size=4))
def test_routes_are_right_after_every_change(changes: list[Any], topics: list[str]) -> None:
    subscriptions = Subscriptions()
    plain: dict[tuple[int, str], int] = {}
    for what, service, pattern, priority in changes:
        who: Any = service
        if what == "add":
            subscriptions.add(who, pattern, priority)
            plain[service, pattern] = priority
        else:
            assert subscriptions.remove(who, pattern) == (plain.pop((service, pattern), None) is not None)
        for topic in topics:
            matching = [(s, p) for (s, wanted), p in plain.items() if match_topic(PROTOCOL, wanted, topic)]
            highest = max((p for _, p in matching), default=None)
            receivers = subscriptions.routes.get(topic) or subscriptions.receivers(topic)
            assert sorted(receivers) == sorted({s for s, _ in matching})
            assert len(set(receivers)) == len(receivers)
            assert set(subscriptions.best(topic)) == {s for s, p in matching if p == highest}


def test_wildcards_are_valid_only_where_they_are_allowed() -> None:
    assert is_valid_topic("a.+.#", wildcards=True)
    assert not is_valid_topic("a.+.#", wildcards=False)
    assert not is_valid_topic("a.b\n", wildcards=True)
