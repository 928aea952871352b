"""What the traffic of each protocol must show of peers that break its rules."""

from __future__ import annotations

from typing import Any

from tests.generate.judge import judge
from wirelake.generate import generate


def check_peers_keep_the_rules(protocol: str, **options: Any) -> None:
    traffic = generate(protocol, messages=4000, connections=8, seed=11, **options)
    assert traffic.truth.violations == []
    assert judge(traffic) == []


def check_truth_has_every_violation(protocol: str, rules: set[str], **options: Any) -> None:
    """Compare the truth with what the messages alone show."""
    traffic = generate(protocol, messages=1500, connections=8, seed=3, violations=0.3, **options)
    noted = traffic.truth.violations
    assert judge(traffic) == [(violation.event, violation.rule) for violation in noted]
    assert {violation.rule for violation in noted} == rules
    events = list(traffic)
    for violation in noted:
        event = events[violation.event]
        place = event.connection.number, event.direction, event.ts_us
        assert (violation.connection, violation.direction, violation.ts_us) == place
        assert (violation.protocol, violation.message) == (protocol, event.message.__message__["name"])
