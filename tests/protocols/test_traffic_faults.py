from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.generate.judge import judge
from wirelake.generate import generate

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("casual", {}),
    ("casual", {"profile": "late"}),
    ("dsa", {}),
    ("dsa", {"mode": "compat"}),
    ("mb", {}),
    ("ceda", {}),
    ("ceda", {"dialect": "ceda4-ws"}),
]
RULES = {
    "casual": {"state", "unexpected_reply", "duplicate_request", "duplicate_reply"},
    "dsa": {"state", "unexpected_reply", "duplicate_reply", "page_order"},
    "mb": {"unexpected_reply", "duplicate_reply"},
    "ceda": {"state", "unexpected_reply", "duplicate_reply", "group_order"},
}
IDS = [f"{name}{''.join(options.values())}" for name, options in KINDS]


@pytest.mark.parametrize(("protocol", "options"), KINDS, ids=IDS)
def test_peers_keep_the_rules_unless_they_are_told_to_break_them(protocol: str, options: dict[str, Any]) -> None:
    traffic = generate(protocol, messages=4000, connections=8, seed=11, **options)
    assert traffic.truth.violations == []
    assert judge(traffic) == []


@pytest.mark.parametrize(("protocol", "options"), KINDS, ids=IDS)
def test_the_truth_has_every_violation_that_the_messages_show(protocol: str, options: dict[str, Any]) -> None:
    traffic = generate(protocol, messages=1500, connections=8, seed=3, violations=0.3, **options)
    told = traffic.truth.violations
    assert judge(traffic) == [(one.event, one.rule) for one in told]
    assert {one.rule for one in told} == RULES[protocol]
    events = list(traffic)
    for one in told:
        event = events[one.event]
        assert (one.connection, one.direction, one.ts_us) == (event.connection.number, event.direction, event.ts_us)
        assert (one.protocol, one.message) == (protocol, event.message.__message__["name"])


def test_requests_that_break_a_rule_are_exchanges_too() -> None:
    traffic = generate("casual", messages=1500, seed=3, violations=0.3)
    early = {one.event for one in traffic.truth.violations if one.message == "service_call_request"}
    found = {one.request: one for one in traffic.truth.exchanges if one.request in early}
    assert set(found) == early
    assert Counter(one.outcome for one in found.values())["error"] > 0


def test_more_violations_are_a_larger_share() -> None:
    shares = []
    for dial in (0.0, 0.02, 0.2):
        traffic = generate("mb", messages=3000, violations=dial)
        shares.append(len(traffic.truth.violations) / sum(1 for _ in traffic))
    assert shares[0] == 0 < shares[1] < shares[2] / 3
