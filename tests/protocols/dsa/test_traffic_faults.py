from __future__ import annotations

import pytest

from tests.protocols.faults import check_peers_keep_the_rules, check_truth_has_every_violation

RULES = {"state", "unexpected_reply", "duplicate_reply", "page_order"}


@pytest.mark.parametrize("mode", ["strict", "compat"])
def test_peers_keep_the_rules_unless_they_are_to_break_them(mode: str) -> None:
    check_peers_keep_the_rules("dsa", mode=mode)


@pytest.mark.parametrize("mode", ["strict", "compat"])
def test_the_truth_has_every_violation_that_the_messages_show(mode: str) -> None:
    check_truth_has_every_violation("dsa", RULES, mode=mode)
