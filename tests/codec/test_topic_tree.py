"""Many patterns in one tree match what each of them matches alone, in every style of topics."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from wirelake.codec.topic_tree import Patterns
from wirelake.codec.topics import match_topic
from wirelake.protocols import ceda, mb
from wirelake.spec.nodes import Protocol

LEVELS = st.lists(st.sampled_from(["a", "b", "c1"]), min_size=1, max_size=5).map(".".join)
LEVEL_PATTERNS = st.builds(
    lambda levels, rest: ".".join([*levels[:4], "#"] if rest else levels),
    st.lists(st.sampled_from(["a", "b", "+"]), max_size=5),
    st.booleans(),
).filter(lambda pattern: "+" in pattern or "#" in pattern)
SEGMENTS = st.lists(st.sampled_from(["a", "b", ""]), min_size=1, max_size=5).map(".".join)
SEGMENT_PATTERNS = (
    st.lists(st.sampled_from(["a", "b", "*", "**", ""]), min_size=1, max_size=5)
    .map(".".join)
    .filter(lambda pattern: "*" in pattern)
)


def check(protocol: Protocol, patterns: list[str], removed: int, topic: str) -> None:
    assert protocol.topics is not None
    tree: Patterns[int] = Patterns(protocol.topics)
    for number, pattern in enumerate(patterns):
        tree.add(pattern, number)
    for number, pattern in enumerate(patterns[:removed]):
        tree.remove(pattern, number)
    found: dict[int, None] = {}
    assert sum(tree.search(topic, found)) >= 0
    left = enumerate(patterns[removed:], min(removed, len(patterns)))
    assert set(found) == {number for number, pattern in left if match_topic(protocol, pattern, topic)}


@given(st.lists(LEVEL_PATTERNS, max_size=8), st.integers(0, 8), LEVELS)
def test_levels_match_as_each_pattern_does_alone(patterns: list[str], removed: int, topic: str) -> None:
    check(mb.PROTOCOL, patterns, removed, topic)


@given(st.lists(SEGMENT_PATTERNS, max_size=8), st.integers(0, 8), SEGMENTS)
def test_segments_match_as_each_pattern_does_alone(patterns: list[str], removed: int, topic: str) -> None:
    check(ceda.PROTOCOL, patterns, removed, topic)
