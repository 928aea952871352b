from __future__ import annotations

import pytest

from wirelake.generate.truth import Branch, Exchange, Transaction, opposite

OK, READ_ONLY, ROLLED_BACK = 0, 3, 100


def branch(**fields: object) -> Branch:
    return Branch(1, b"b", **fields)  # type: ignore[arg-type]


COMMITTED = branch(vote=OK, decision="commit", result=OK)


@pytest.mark.parametrize(
    ("branches", "outcome"),
    [
        ([COMMITTED], "committed"),
        ([branch(vote=READ_ONLY)], "read_only"),
        ([branch(one_phase=True, decision="commit", result=READ_ONLY)], "read_only"),
        ([branch(one_phase=True, decision="commit", result=ROLLED_BACK)], "rolled_back"),
        ([COMMITTED, branch(vote=READ_ONLY)], "committed"),
        ([branch(vote=OK, decision="rollback", result=OK), branch(vote=ROLLED_BACK)], "rolled_back"),
        ([branch(vote=OK)], "in_doubt"),
        ([COMMITTED, branch(vote=OK, decision="commit")], "in_doubt"),
        ([branch(prepare_sent=True)], "open"),
    ],
)
def test_a_transaction_ends_as_badly_as_its_worst_branch(branches: list[Branch], outcome: str) -> None:
    assert Transaction(42, b"g", 0, branches).outcome == outcome


def test_the_latency_is_the_time_to_the_first_reply() -> None:
    exchange = Exchange("mb", 0, "to_server", "request", "a", "1", 0, 500)
    assert exchange.latency_us is None
    exchange.reply_us = 730
    assert exchange.latency_us == 230


def test_a_reply_goes_in_the_opposite_direction() -> None:
    assert (opposite("to_server"), opposite("to_client")) == ("to_client", "to_server")
