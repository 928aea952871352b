"""Does a topic pattern match a topic? Two styles, as the protocols' brokers do it.

``levels`` (mb): letters-and-digits levels, compared without case; ``+`` is one level, ``#`` the rest including nothing.
``segments`` (ceda): any text between dots; ``*`` is one segment, ``**`` the rest, with the deployed matcher's habits.
``words``: any text between separators, both as declared, and wildcards that mean what they say.
"""

from __future__ import annotations

import re
from typing import assert_never

from ..spec.nodes import Protocol, Topics

MAX_LEVELS = 5
MAX_CHARACTERS = 255
_LEVEL = re.compile("[A-Za-z][0-9A-Za-z]*")


class TopicError(ValueError):
    """An invalid pattern or topic; ``rule`` says which."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


def match_topic(protocol: Protocol, pattern: str, topic: str) -> bool:
    """Whether the pattern matches; TopicError if one of them is not valid, ValueError if the protocol has no topics."""
    rules = protocol.topics
    if rules is None:
        raise ValueError(f"{protocol.name} has no topics to match")
    match rules.style:
        case "levels":
            if not is_pattern(rules, pattern):
                raise TopicError("pattern")
            if not is_topic(topic):
                raise TopicError("topic")
            return _match_levels(rules, pattern.lower().split("."), topic.lower().split("."))
        case "segments":
            return _match_segments(rules, pattern, topic)
        case "words":
            return _match_words(rules, pattern.split(rules.separator), topic.split(rules.separator))
        case _:
            assert_never(rules.style)


def is_topic(topic: str) -> bool:
    """Whether this is a topic of the ``levels`` style."""
    levels = topic.split(".")
    return len(topic) <= MAX_CHARACTERS and len(levels) <= MAX_LEVELS and all(map(_LEVEL.fullmatch, levels))


def is_pattern(rules: Topics, pattern: str) -> bool:
    """Whether this is a pattern of the ``levels`` style: wildcards are whole levels, the rest only last."""
    *front, last = pattern.split(".")
    if len(pattern) > MAX_CHARACTERS or len(front) + 1 > MAX_LEVELS:
        return False
    return all(_is_level(rules, level) for level in front) and (last == rules.rest or _is_level(rules, last))


def has_wildcards(rules: Topics, text: str) -> bool:
    return rules.one in text or rules.rest in text


def _is_level(rules: Topics, level: str) -> bool:
    return level == rules.one or _LEVEL.fullmatch(level) is not None


def _match_levels(rules: Topics, pattern: list[str], topic: list[str]) -> bool:
    if pattern[-1] == rules.rest:
        pattern = pattern[:-1]
        topic = topic[: len(pattern)] if len(topic) >= len(pattern) else topic
    if len(pattern) != len(topic):
        return False
    return all(level in (rules.one, given) for level, given in zip(pattern, topic, strict=True))


def _match_words(rules: Topics, pattern: list[str], topic: list[str]) -> bool:
    """Whether words match, by the places in the topic that the words of the pattern can reach: linear for each."""
    for word in pattern if rules.rest_anywhere else pattern[:-1]:
        if word == rules.rest and not rules.rest_anywhere:
            raise TopicError("pattern")
    reached = {0}
    for word in pattern:
        if word == rules.rest:
            reached = set(range(min(reached) + rules.rest_least, len(topic) + 1)) if reached else reached
        else:
            reached = {at + 1 for at in reached if at < len(topic) and word in (rules.one, topic[at])}
    return len(topic) in reached


def _match_segments(rules: Topics, pattern: str, topic: str) -> bool:
    """As deployed: the number of segments may be one short, and with ``**`` anywhere it does not count at all."""
    if pattern == topic:
        return True
    if rules.one not in pattern:
        return False
    wanted = [segment for segment in pattern.split(".") if segment]
    given = [segment for segment in topic.split(".") if segment]
    if len(given) - len(wanted) not in (0, -1) and rules.rest not in pattern:
        return False
    compared = False
    for want, have in zip(wanted, given, strict=False):
        if want == rules.rest:
            return True
        if want not in (rules.one, have):
            return False
        compared = True
    return compared
