"""Three sentences, each about what was really found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from wirelake.demo.findings import latency, rank, transactions, violations

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def asked(address: str | None, us: int | None, outcome: str = "ok", protocol: str = "mb") -> dict[str, Any]:
    return {"address": address, "protocol": protocol, "latency_us": us, "outcome": outcome}


def ended(gtrid: str, outcome: str, *votes: int | None) -> dict[str, Any]:
    return {"gtrid": gtrid, "outcome": outcome, "branches": [branch(vote) for vote in votes]}


def branch(vote: int | None, decision: str | None = None, result: int | None = None) -> dict[str, Any]:
    return {"vote": vote, "decision": decision, "result": result}


def broke(rule: str, protocol: str, seconds: int, **more: Any) -> dict[str, Any]:
    base = {"connection": "c1", "direction": "to_server", "message": "publish", "state": "open", "length": 20}
    return {**base, "rule": rule, "protocol": protocol, "ts": NOW + timedelta(seconds=seconds), **more}


@pytest.mark.parametrize(("count", "share", "found"), [(1, 0.95, 1), (20, 0.95, 19), (21, 0.95, 20), (10, 0.5, 5)])
def test_a_percentile_is_the_value_at_the_nearest_rank(count: int, share: float, found: int) -> None:
    assert rank(list(range(1, count + 1)), share) == found


def test_latency_names_the_slowest_that_was_asked_often_who_failed_and_who_was_late() -> None:
    rows = (
        [asked("pay", 400_000)] * 20
        + [asked("stock", 5_000)] * 22
        + [asked("rare", 900_000)] * 19
        + [asked("stock", 1_000, "error")] * 3
    )
    rows += [asked("daily", 3_000_000, "timeout"), asked(None, 9_000_000), asked("stock", None, "unanswered")]
    assert latency(rows) == (
        "Latency: pay (mb) is the slowest frequently called service: 400 ms at its 95th percentile and 400 ms in the "
        "median; "
        "stock (mb) failed most often, 3 times, and daily (mb) timed out once."
    )


def test_latency_of_little_is_not_talked_about() -> None:
    assert latency([asked("pay", 1)]) == "Latency: no service was called often enough to say which is slow."
    assert latency([]) == "Latency: no service was called often enough to say which is slow."


def test_transactions_name_the_clearest_that_is_in_doubt() -> None:
    found = [ended("aa", "in_doubt", None, 0), ended("bb", "in_doubt", 0, 0), ended("cc", "rolled_back", 100)]
    assert transactions(found) == (
        "Transactions: bb and 1 more are in doubt (2 of its 2 branches voted to commit and never received the "
        "decision), and 1 of 3 was rolled back."
    )
    assert transactions(found[:1]) == (
        "Transactions: aa is in doubt (1 of its 2 branches voted to commit and never received the decision), "
        "and none of 1 was rolled back."
    )
    assert transactions(found[2:]) == "Transactions: none is in doubt, and 1 of 1 was rolled back."
    assert transactions(found[2:] * 2) == "Transactions: none is in doubt, and 2 of 2 were rolled back."
    assert transactions([]) == "Transactions: there are none."


@pytest.mark.parametrize(
    ("branches", "why"),
    [
        ([branch(0)], "its only branch voted to commit and never received the decision"),
        ([branch(106), branch(0, "rollback")], "a branch was asked to roll back and never confirmed it"),
        ([branch(0, "commit", 0), branch(0, "commit")], "a branch was asked to commit and never confirmed it"),
        ([branch(100), branch(None)], "its end is not in the capture"),
    ],
)
def test_it_is_said_what_is_not_known_of_a_transaction(branches: list[dict[str, Any]], why: str) -> None:
    found = [{"gtrid": "aa", "outcome": "in_doubt", "branches": branches}]
    assert transactions(found) == f"Transactions: aa is in doubt ({why}), and none of 1 was rolled back."


def test_violations_name_who_broke_which_rule_the_life_cycle_first() -> None:
    broken = [broke("unexpected_reply", "mb", 1), broke("state", "casual", 10), broke("state", "ceda", 9)]
    bad = [broke("magic", "dsa", 6), broke("action", "mb", 5, length=33), broke("gap", "mb", 1, length=1000)]
    assert violations(broken, bad, {"c1": "scanner"}) == (
        "Violations: scanner sent a publish of ceda in state open (rule state), one of 3 messages out of sequence, "
        "and scanner sent 33 undecodable bytes over mb (rule action), 53 such bytes in all."
    )
    assert violations([], bad[2:], {}) == "Violations: none."


def test_violations_of_one_byte_and_of_a_server_are_told_as_such() -> None:
    broken = [broke("state", "ceda", 0, message="unsubscribe", direction="to_client", state=None)]
    assert violations(broken, [broke("magic", "mb", 1, length=1)], {"c1": "desk"}) == (
        "Violations: the server of desk sent an unsubscribe of ceda (rule state), "
        "and desk sent 1 undecodable byte over mb (rule magic)."
    )
