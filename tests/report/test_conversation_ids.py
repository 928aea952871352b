"""Ids of conversations: each says what its conversation is about, and no other text does."""

from __future__ import annotations

import pytest

from wirelake.report.conversation_ids import (
    ConnectionId,
    ExchangeId,
    Spot,
    TransactionId,
    located,
    parse,
    sensor_hash,
)


@pytest.mark.parametrize(
    "text",
    [
        "c:ab",
        "c:ab:s:0",
        "c:ab:c:999999999999999999",
        "x:ab:s:75",
        "t:42:00ff",
        "t::00ff",
        "t:-7:00",
        "c:ab:s:0@00ff00ff",
    ],
)
def test_an_id_says_what_it_is_of(text: str) -> None:
    parsed = parse(text)
    assert parsed is not None and parsed.id == text


@pytest.mark.parametrize(
    "text", ["c:", "c:a:b", "c:ab:x:1", "c:ab:s:-1", "x:ab", "t:42:0", "t:42:GG", "t:42:", "d:ab", "c:ab\n", "c:ab@zz"]
)
def test_what_is_no_id_says_nothing(text: str) -> None:
    assert parse(text) is None


def test_an_id_names_a_spot_or_a_transaction() -> None:
    assert parse("c:ab") == ConnectionId("c:ab", "", "ab")
    assert parse("c:ab:s:7") == ConnectionId("c:ab:s:7", "", "ab", "to_server", 7)
    assert parse("x:ab:c:75") == ExchangeId("x:ab:c:75", "", "ab", "to_client", 75)
    assert parse("t:-7:00ff") == TransactionId("t:-7:00ff", "", -7, "00ff")
    assert parse("t::00ff") == TransactionId("t::00ff", "", None, "00ff")


def test_an_id_is_located_at_its_sensor_or_at_any() -> None:
    sensors = {sensor_hash(name): name for name in ("/captures/eth0", "é@b:c")}
    named = parse(f"x:ab:c:75@{sensor_hash('é@b:c')}")
    assert named is not None
    (one,) = located(named, sensors)
    assert isinstance(one, ExchangeId) and one.request == Spot("é@b:c", "ab", "to_client", 75)
    bare = parse("c:ab:s:7")
    assert bare is not None
    assert [one.sensor for one in located(bare, sensors)] == ["/captures/eth0", "é@b:c"]
    other = parse("c:ab@00000000")
    assert other is not None and located(other, sensors) == []
