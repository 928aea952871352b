"""Routing by topics: as deployed, with every surprise, or as the document reads; fast without a difference."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.codec import subscriptions as module
from wirelake.codec.subscriptions import Subscriptions
from wirelake.codec.topic_tree import SLICE
from wirelake.codec.topics import match_topic
from wirelake.protocols.ceda import PROTOCOL

assert PROTOCOL.topics is not None
RULES = PROTOCOL.topics
VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "ceda" / "topics.json").read_text(encoding="utf-8"))
SEGMENTS = st.sampled_from(["a", "b", "c", "*", "**", "", "a*", "b**", "***"])
TEXTS = st.lists(SEGMENTS, min_size=1, max_size=5).map(".".join)


def match_strictly(pattern: str, topic: str) -> bool:
    """The documented reading: ``*`` is exactly one segment, ``**`` the rest, and all before it must be there."""
    wanted, given = pattern.split("."), topic.split(".")
    for i, want in enumerate(wanted):
        if want == "**":
            return True
        if i >= len(given) or want not in ("*", given[i]):
            return False
    return len(wanted) == len(given)


@pytest.mark.parametrize("case", VECTORS, ids=lambda case: f"{case['pattern']} {case['topic']}")
def test_a_subscription_gets_what_its_pattern_matches(case: dict[str, str]) -> None:
    subscriptions: Subscriptions[int] = Subscriptions(RULES)
    subscriptions.add(1, case["pattern"])
    assert bool(subscriptions.route(case["topic"])) == case["matches"]
    found = [one for one in subscriptions.matches([case["pattern"]], [case["topic"]]) if isinstance(one, str)]
    assert bool(found) == case["matches"]


@given(
    st.lists(TEXTS, max_size=12), st.sets(st.integers(0, 11), max_size=6), st.lists(TEXTS, max_size=6), st.booleans()
)
def test_routes_are_those_of_matching_each_pattern(
    patterns: list[str], gone: set[int], topics: list[str], strict: bool
) -> None:
    subscriptions: Subscriptions[int] = Subscriptions(RULES, strict)
    for i, pattern in enumerate(patterns):
        subscriptions.add(i, pattern)
    for topic in topics:
        subscriptions.route(topic)
    for i in gone:
        subscriptions.leave(i)
    for topic in topics:
        wanted = {
            i
            for i, pattern in enumerate(patterns)
            if i not in gone and (match_strictly(pattern, topic) if strict else match_topic(PROTOCOL, pattern, topic))
        }
        assert set(subscriptions.route(topic)) == wanted


def test_everybody_is_on_a_route_once() -> None:
    subscriptions: Subscriptions[str] = Subscriptions(RULES)
    for pattern in ("a.b", "a.*", "a.**", "**"):
        subscriptions.add("x", pattern)
    assert subscriptions.route("a.b") == ("x",)


def test_subscribing_twice_is_the_same_as_once() -> None:
    subscriptions: Subscriptions[str] = Subscriptions(RULES)
    assert subscriptions.add("x", "a.*")
    assert not subscriptions.add("x", "a.*")
    assert subscriptions.remove("x", "a.*")
    assert not subscriptions.remove("x", "a.*")
    assert subscriptions.route("a.b") == ()


def test_taking_back_a_text_takes_back_exactly_that_one() -> None:
    subscriptions: Subscriptions[str] = Subscriptions(RULES)
    subscriptions.add("x", "a.*")
    subscriptions.add("x", "a.b")
    assert not subscriptions.remove("x", "a.c")
    subscriptions.remove("x", "a.b")
    assert subscriptions.route("a.b") == ("x",)


def test_strict_topics_read_the_document() -> None:
    subscriptions: Subscriptions[str] = Subscriptions(RULES, strict=True)
    subscriptions.add("x", "a.*")
    subscriptions.add("y", "a.b.**")
    assert subscriptions.route("a") == ()
    assert set(subscriptions.route("a.b")) == {"x", "y"}
    assert subscriptions.route("a.b.c") == ("y",)


def test_remembered_routes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ROUTES", 10)
    subscriptions: Subscriptions[str] = Subscriptions(RULES)
    subscriptions.add("x", "**")
    for i in range(100):
        assert subscriptions.route(f"t{i}") == ("x",)
    assert len(subscriptions.routes) <= 10


def test_nothing_is_left_of_who_leaves() -> None:
    subscriptions: Subscriptions[int] = Subscriptions(RULES)
    chance = random.Random(1)
    for who in range(20):
        for _ in range(20):
            subscriptions.add(who, ".".join(chance.choices(["a", "b", "*", "**"], k=chance.randint(1, 5))))
    for who in range(20):
        subscriptions.leave(who)
    assert not subscriptions.of and not subscriptions.holders
    root = subscriptions._patterns._root
    assert not root.children and not root.here and not root.below and not root.following
    assert subscriptions.patterns == subscriptions.topics == 0


def test_routes_that_subscriptions_took_back_are_not_kept() -> None:
    subscriptions: Subscriptions[str] = Subscriptions(RULES)
    for i in range(100):
        subscriptions.route(f"a.{i}")
        subscriptions.add("x", f"a.{i}")
        subscriptions.remove("x", f"a.{i}")
    assert not subscriptions.routes and not any(subscriptions._begun.values())


def seconds_of_routes(subscriptions: Subscriptions[int], form: str, wanted: int) -> float:
    """The processor time that twenty routes take which nobody has asked for before; the best of ten."""
    took = []
    for batch in range(10):
        started = time.thread_time()
        for i in range(20):
            assert len(subscriptions.route(form.format(batch * 20 + i))) == wanted
        took.append(time.thread_time() - started)
    return min(took)


def test_a_flood_of_patterns_does_not_slow_other_routes() -> None:
    took = []
    for count in (50, 30_000):
        subscriptions: Subscriptions[int] = Subscriptions(RULES)
        for i in range(count):
            subscriptions.add(i % 50, f"*.x.{i}")
        subscriptions.add(99, "FX.SPOT.*")
        took.append(seconds_of_routes(subscriptions, "FX.SPOT.{}", 1))
    assert took[1] < 5 * took[0]


def test_a_flood_of_patterns_with_a_rest_does_not_slow_routes() -> None:
    took = []
    for count in (140, 30_000):
        subscriptions: Subscriptions[int] = Subscriptions(RULES)
        for i in range(count):
            subscriptions.add(i % 20, f"{'a.' * (i % 7)}**.x.{i}")
            subscriptions.add(i % 20, f"b{i}.c.**")
        took.append(seconds_of_routes(subscriptions, "a.{}", 20))
    assert took[1] < 5 * took[0]


def test_a_search_is_cut_into_slices_and_sees_what_held_when_it_began() -> None:
    subscriptions: Subscriptions[str] = Subscriptions(RULES)
    for i in range(1 << 10):
        subscriptions.add("x", ".".join("*a"[i >> bit & 1] for bit in range(10)) + ".*.*.*.*")
    topic = ".".join("a" * 14)
    search = subscriptions.search(topic)
    assert next(search) < 2 * SLICE
    subscriptions.add("y", topic)
    assert sum(1 for _ in search) > 3
    assert subscriptions.route(topic) == ("x",)
    assert set(subscriptions.route(topic)) == {"x", "y"}


def test_a_pattern_takes_back_only_the_routes_that_begin_as_it_does() -> None:
    subscriptions: Subscriptions[str] = Subscriptions(RULES)
    for topic in ("a.b", "b.c", ".a.d"):
        subscriptions.route(topic)
    subscriptions.add("x", "a.*")
    assert list(subscriptions.routes) == ["b.c"] and subscriptions.route("a.b") == ("x",)
    subscriptions.add("x", "*.c")
    assert not subscriptions.routes and subscriptions.route("b.c") == ("x",)
