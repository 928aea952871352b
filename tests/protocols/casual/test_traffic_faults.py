from __future__ import annotations

from collections import Counter

import pytest

from tests.protocols.faults import check_peers_keep_the_rules, check_truth_has_every_violation
from wirelake.generate import generate

RULES = {"state", "unexpected_reply", "duplicate_request", "duplicate_reply"}


@pytest.mark.parametrize("profile", ["document", "late"])
def test_peers_keep_the_rules_unless_they_are_to_break_them(profile: str) -> None:
    check_peers_keep_the_rules("casual", profile=profile)


@pytest.mark.parametrize("profile", ["document", "late"])
def test_the_truth_has_every_violation_that_the_messages_show(profile: str) -> None:
    check_truth_has_every_violation("casual", RULES, profile=profile)


def test_requests_that_break_a_rule_are_exchanges_too() -> None:
    truth = generate("casual", messages=1500, seed=3, violations=0.3).truth
    early = {violation.event for violation in truth.violations if violation.message == "service_call_request"}
    exchanges = {exchange.request: exchange for exchange in truth.exchanges if exchange.request in early}
    assert set(exchanges) == early
    assert Counter(exchange.outcome for exchange in exchanges.values())["error"] > 0
