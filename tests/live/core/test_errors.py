"""What can go wrong for a client is one family, each kind with its rule, and Python's own word where there is one."""

from __future__ import annotations

import pickle

import pytest

from wirelake.errors import ProtocolError, WireError
from wirelake.live.core.errors import AnswerError, ConnectionFailed, ConnectionLost, LiveError, Refused, RequestTimeout

KINDS = [
    (ConnectionFailed("nobody there"), "connection_failed", ConnectionError),
    (ConnectionLost("gone"), "connection_lost", ConnectionError),
    (Refused("no"), "refused", ProtocolError),
    (RequestTimeout("silence"), "request_timeout", TimeoutError),
    (AnswerError("BAD", "so it is", {"x": 1}), "answer_error", WireError),
]


@pytest.mark.parametrize(("error", "rule", "kind"), KINDS, ids=[rule for _, rule, _ in KINDS])
def test_each_kind_has_its_rule_and_its_family(error: LiveError, rule: str, kind: type[Exception]) -> None:
    assert error.rule == rule
    assert isinstance(error, LiveError) and isinstance(error, kind)
    assert str(error).endswith(f"[{rule}]")


@pytest.mark.parametrize(("error", "rule", "kind"), KINDS, ids=[rule for _, rule, _ in KINDS])
def test_they_come_back_from_another_process(error: LiveError, rule: str, kind: type[Exception]) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and again.__dict__ == error.__dict__ and str(again) == str(error)


def test_an_error_answer_says_what_the_peer_said() -> None:
    error = AnswerError("NO_ROUTE_FOUND", "nobody serves it", {"topic": "a"})
    assert (error.code, error.message, error.details) == ("NO_ROUTE_FOUND", "nobody serves it", {"topic": "a"})
    assert str(error) == "NO_ROUTE_FOUND: nobody serves it [answer_error]"


def test_errors_are_equal_by_kind_and_fields_so_that_events_are() -> None:
    assert AnswerError("A", "x", {"y": 1}) == AnswerError("A", "x", {"y": 1}) != AnswerError("A", "x", {"y": 2})
    assert ConnectionLost("gone") != ConnectionFailed("gone")
    assert len({RequestTimeout(), RequestTimeout(), ConnectionLost()}) == 2
    assert "no reply in time" in str(RequestTimeout())
