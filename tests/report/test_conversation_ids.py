"""Ids of conversations: each says what its conversation is about, and no other text does."""

from __future__ import annotations

import pytest

from wirelake.report.conversation_ids import ConnectionId, ExchangeId, Spot, TransactionId, parse


@pytest.mark.parametrize(
    "text", ["c:ab", "c:ab:s:0", "c:ab:c:999999999999999999", "x:ab:s:75", "t:42:00ff", "t::00ff", "t:-7:00"]
)
def test_an_id_says_what_it_is_of(text: str) -> None:
    parsed = parse(text)
    assert parsed is not None and parsed.id == text


@pytest.mark.parametrize(
    "text", ["c:", "c:a:b", "c:ab:x:1", "c:ab:s:-1", "x:ab", "t:42:0", "t:42:GG", "t:42:", "d:ab", "c:ab\n"]
)
def test_what_is_no_id_says_nothing(text: str) -> None:
    assert parse(text) is None


def test_an_id_names_a_spot_or_a_transaction() -> None:
    assert parse("c:ab") == ConnectionId("c:ab", "ab", None)
    assert parse("c:ab:s:7") == ConnectionId("c:ab:s:7", "ab", Spot("ab", "to_server", 7))
    assert parse("x:ab:c:75") == ExchangeId("x:ab:c:75", Spot("ab", "to_client", 75))
    assert parse("t:-7:00ff") == TransactionId("t:-7:00ff", -7, "00ff")
    assert parse("t::00ff") == TransactionId("t::00ff", None, "00ff")
