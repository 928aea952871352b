"""Who gets what, compared with the plain definition of matching."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from wirelake.codec.topics import match_topic
from wirelake.live.mb.connection import Service
from wirelake.live.mb.options import BrokerOptions
from wirelake.live.mb.topics import Topics, is_valid_topic
from wirelake.live.mb.wire import PUBLISH, REQUEST
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
    served = Topics(BrokerOptions())
    services = [Service(str(n), None, 0, 0) for n in range(4)]  # type: ignore[arg-type]
    plain: dict[tuple[Service, str], int] = {}
    for what, number, pattern, priority in changes:
        service = services[number]
        if what == "add":
            served.subscribe(service, PUBLISH, pattern)
            served.subscribe(service, REQUEST, pattern, priority)
            plain[service, pattern] = priority
        else:
            known = plain.pop((service, pattern), None) is not None
            assert served.unsubscribe(service, PUBLISH, pattern) == known
            assert served.unsubscribe(service, REQUEST, pattern) == known
        for topic in topics:
            matching = [(s, p) for (s, wanted), p in plain.items() if match_topic(PROTOCOL, wanted, topic)]
            highest = max((p for _, p in matching), default=None)
            receivers = served.published.route(topic)
            assert set(receivers) == {s for s, _ in matching}
            assert len(set(receivers)) == len(receivers)
            assert set(served.requested.route(topic)) == {s for s, p in matching if p == highest}


def test_wildcards_are_valid_only_where_they_are_allowed() -> None:
    assert is_valid_topic("a.+.#", wildcards=True)
    assert not is_valid_topic("a.+.#", wildcards=False)
    assert not is_valid_topic("a.b\n", wildcards=True)
