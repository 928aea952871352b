"""Errors of casual clients: each has its rule, and the fields that a program asks for."""

from __future__ import annotations

import pytest

from wirelake.live.casual.api import ConversationEnd, InDoubt, NotEnqueued, Reply, RolledBack, ServiceFailed
from wirelake.live.core.errors import LiveError


@pytest.mark.parametrize(
    ("error", "rule", "text"),
    [
        (ServiceFailed("book", Reply("no", 7, True)), "service_failed", "TPESVCFAIL: book returned failure, code 7"),
        (NotEnqueued("orders: no such queue"), "not_enqueued", "orders: no such queue"),
        (RolledBack("a domain refused"), "rolled_back", "a domain refused"),
        (InDoubt("they disagree", {"": 0, "b": 6}), "in_doubt", "they disagree (here: XA_OK, b: XA_HEURRB)"),
        (ConversationEnd("chat", 10), "conversation_over", "the conversation with chat is over: TPESVCERR"),
    ],
)
def test_errors_have_rules_and_tell_what_happened(error: LiveError, rule: str, text: str) -> None:
    assert (error.rule, str(error)) == (rule, f"{text} [{rule}]")


def test_a_failed_service_brings_what_it_returned() -> None:
    reply = Reply({"why": "no"}, 7, True)
    error = ServiceFailed("book", reply)
    assert (error.reply, error.value, error.user_code) == (reply, {"why": "no"}, 7)


def test_doubt_names_the_domains() -> None:
    assert InDoubt("they disagree", {"b": 6}).codes == {"b": 6}
