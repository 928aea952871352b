from __future__ import annotations

import pytest

from tests.protocols.faults import check_peers_keep_the_rules, check_truth_has_every_violation
from wirelake.generate import generate

RULES = {"unexpected_reply", "duplicate_reply"}


@pytest.mark.parametrize("profile", ["strict", "upstream"])
def test_peers_keep_the_rules_unless_they_are_to_break_them(profile: str) -> None:
    check_peers_keep_the_rules("mb", profile=profile)


@pytest.mark.parametrize("profile", ["strict", "upstream"])
def test_the_truth_has_every_violation_that_the_messages_show(profile: str) -> None:
    check_truth_has_every_violation("mb", RULES, profile=profile)


def test_more_violations_are_a_larger_share() -> None:
    shares = []
    for dial in (0.0, 0.02, 0.2):
        traffic = generate("mb", messages=3000, violations=dial)
        shares.append(len(traffic.truth.violations) / sum(1 for _ in traffic))
    assert shares[0] == 0 < shares[1] < shares[2] / 3
