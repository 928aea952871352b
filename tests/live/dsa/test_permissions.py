"""Levels and roles."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.live.dsa.permissions import (
    CONFIG,
    DEFAULT,
    LEVELS,
    LIST,
    NONE,
    READ,
    WRITE,
    Role,
    Roles,
    capped,
    level_named,
    round_down,
)

PATHS = st.sampled_from(["", "a", "a/b", "a/b/c", "ab", "a/bc", "x", "x/y"])
RULES = st.dictionaries(PATHS, st.sampled_from(sorted(LEVELS.values())), max_size=4)
NAMES = st.sampled_from(["p", "q", "r", DEFAULT])
ROLES = st.dictionaries(
    NAMES,
    st.tuples(st.none() | st.sampled_from(sorted(LEVELS.values())), st.sampled_from(["", "p", "q", "r"]), RULES),
    max_size=4,
)


def plainly(roles: dict[str, tuple[int | None, str, dict[str, int]]], name: str, path: str, depth: int = 0) -> int:
    """The rules of the specification, word for word."""
    if depth == 16:
        return NONE
    if name not in roles:
        level, fallback, rules = roles.get(DEFAULT, (None, "", {}))
        is_last = True
    else:
        level, fallback, rules = roles[name]
        is_last = False
    fitting = [rule for rule in rules if path == rule or rule == "" or path.startswith(rule + "/")]
    if fitting:
        return rules[max(fitting, key=len)]
    if level is not None:
        return level
    return NONE if is_last else plainly(roles, fallback, path, depth + 1)


@given(ROLES, NAMES, PATHS)
def test_levels_are_those_of_the_specification(
    given_roles: dict[str, tuple[int | None, str, dict[str, int]]], name: str, path: str
) -> None:
    roles = Roles()
    for role, (level, fallback, rules) in given_roles.items():
        roles.put(Role(role, level, fallback, rules))
    assert roles.level(name, path) == plainly(given_roles, name, path)
    assert roles.level(name, path) == plainly(given_roles, name, path), "the kept answer is another"


def test_a_ring_of_fallbacks_gives_nothing() -> None:
    roles = Roles()
    roles.put(Role(DEFAULT, CONFIG))
    roles.put(Role("a", None, "b"))
    roles.put(Role("b", None, "a"))
    assert roles.level("a", "x") == NONE


def test_a_changed_role_counts_at_once() -> None:
    roles = Roles()
    roles.put(Role("a", READ))
    assert roles.level("a", "x/y") == READ
    roles.put(Role("a", READ, "", {"x": WRITE}))
    assert roles.level("a", "x/y") == WRITE
    roles.remove("a")
    assert roles.level("a", "x/y") == NONE


def test_a_header_between_levels_is_rounded_down() -> None:
    levels = [round_down(level) for level in (0, 0x0F, 0x10, 0x2F, 0x40, 0xFF)]
    assert levels == [NONE, NONE, LIST, READ, CONFIG, CONFIG]
    assert capped(CONFIG, None) == CONFIG and capped(CONFIG, 0x21) == READ and capped(LIST, 0x40) == LIST
    assert capped(CONFIG, 0) == NONE


def test_an_unknown_permission_is_refused_with_the_names() -> None:
    assert level_named("write") == WRITE
    with pytest.raises(ValueError, match="none, list, read, write, config"):
        level_named("admin")
