"""Topic patterns: which topics they match, and which of them are valid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.vectors.load import topic_cases
from wirelake.codec.topics import MAX_CHARACTERS, MAX_LEVELS, TopicError, is_pattern, is_topic, match_topic
from wirelake.protocols import load
from wirelake.spec import Protocol, Topics

RULES = load("mb").topics


@pytest.mark.parametrize("protocol", ["mb", "ceda"])
def test_patterns_match_topics_as_the_brokers_do(protocol: str) -> None:
    complaints = []
    for case in topic_cases(protocol):
        outcome: bool | str
        try:
            outcome = match_topic(load(protocol), case["pattern"], case["topic"])
        except TopicError as error:
            outcome = error.rule
        if outcome != case.get("error", case["matches"]):
            complaints.append(f"{case['pattern']!r} {case['topic']!r}: {outcome}")
    assert not complaints, "\n".join(complaints)


def test_a_topic_of_levels_has_letters_and_digits_within_its_limits() -> None:
    assert all(map(is_topic, ("a", "a.b2.C", ".".join("a" * MAX_LEVELS), "a" * MAX_CHARACTERS)))
    refused = ("", "a.", "a..b", "2a", "a b", "a.+", ".".join("a" * (MAX_LEVELS + 1)), "a" * (MAX_CHARACTERS + 1))
    assert not any(map(is_topic, refused))


def test_a_wildcard_is_a_whole_level_and_the_rest_comes_last() -> None:
    assert RULES is not None
    assert all(is_pattern(RULES, pattern) for pattern in ("a", "+", "#", "a.+.b", "a.#", "+.+.#"))
    assert not any(is_pattern(RULES, pattern) for pattern in ("", "a+", "#.a", "a.#.b", "a.b#", "a" * 256))


@pytest.mark.parametrize(("pattern", "topic", "rule"), [("a.#.b", "a", "pattern"), ("a", "a..b", "topic")])
def test_an_error_names_what_is_not_valid(pattern: str, topic: str, rule: str) -> None:
    with pytest.raises(TopicError) as caught:
        match_topic(load("mb"), pattern, topic)
    assert caught.value.rule == rule


def test_a_protocol_without_topics_matches_nothing() -> None:
    with pytest.raises(ValueError, match="casual has no topics to match"):
        match_topic(load("casual"), "a", "a")


def test_words_between_any_separator_match_as_declared() -> None:
    mqtt = Topics("words", one="+", rest="#", separator="/")
    nats = Topics("words", one="*", rest=">", rest_least=1)
    amqp = Topics("words", one="*", rest="#", rest_anywhere=True)
    for rules, pattern, topic, matches in (
        (mqtt, "a/+/c", "a/b/c", True),
        (mqtt, "a/#", "a", True),
        (mqtt, "a/#", "a/b/c", True),
        (mqtt, "a/+", "A/b", False),
        (nats, "a.>", "a", False),
        (nats, "a.>", "a.b.c", True),
        (amqp, "#.b.#", "a.b.c", True),
        (amqp, "#.b.#", "b", True),
        (amqp, "*.b", "a.a.b", False),
    ):
        assert match_topic(_with(rules), pattern, topic) is matches, (pattern, topic)
    with pytest.raises(TopicError):
        match_topic(_with(mqtt), "a/#/c", "a/b/c")


def _with(rules: Topics) -> Protocol:
    return replace(load("mb"), topics=rules)
