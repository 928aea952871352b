from __future__ import annotations

import pytest

from tests.protocols.faults import check_peers_keep_the_rules, check_truth_has_every_violation

RULES = {"state", "unexpected_reply", "duplicate_reply", "group_order"}


@pytest.mark.parametrize("dialect", ["ceda4", "ceda4-ws"])
def test_peers_keep_the_rules_unless_they_are_to_break_them(dialect: str) -> None:
    check_peers_keep_the_rules("ceda", dialect=dialect)


@pytest.mark.parametrize("dialect", ["ceda4", "ceda4-ws"])
def test_the_truth_has_every_violation_that_the_messages_show(dialect: str) -> None:
    check_truth_has_every_violation("ceda", RULES, dialect=dialect)
