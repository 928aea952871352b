"""The two legs of an exchange over a broker find each other."""

from __future__ import annotations

from typing import Any

from .test_exchanges import A, B, Row, fact, fed

BROKER = "00b0"
"""What the ids of all connections with the broker begin with."""


def leg(at: float, connection: str, direction: str, correlation: str, **more: Any) -> Row:
    same: Row = {"address": "t", "version": "1.0.0", "payload_hash": 42, "protocol": "mb"}
    same["connection"] = BROKER + connection
    return fact(at, 1, direction, correlation, **(same | more))


def others(rows: list[Row]) -> list[tuple[str | None, str | None, str | None]]:
    names = [(row["other_connection"] or "").removeprefix(BROKER) or None for row in rows]
    return [(name, row["other_correlation"], row["other_leg_how"]) for name, row in zip(names, rows, strict=True)]


def test_the_other_leg_is_the_nearest_request_with_the_same_payload() -> None:
    rows = fed([leg(1, "c1", A, "n1"), leg(1.2, "c2", A, "n2"), leg(1.3, "c3", B, "f1"), leg(1.4, "c4", B, "f2")])
    assert others(rows) == [
        ("c4", "f2", "guessed"),
        ("c3", "f1", "guessed"),
        ("c2", "n2", "guessed"),
        ("c1", "n1", "guessed"),
    ]


def test_what_differs_or_comes_too_late_is_no_other_leg() -> None:
    assert others(fed([leg(1, "c1", A, "n"), leg(2, "c2", B, "f", payload_hash=43)])) == [(None, None, None)] * 2
    assert others(fed([leg(1, "c1", A, "n"), leg(6.1, "c2", B, "f")])) == [(None, None, None)] * 2
    answered = fact(1.5, 2, B, "n", protocol="mb", connection=f"{BROKER}c1")
    assert others(fed([leg(1, "c1", A, "n"), answered, leg(2, "c2", B, "f")])) == [(None, None, None)] * 2


def test_what_another_broker_sends_is_no_other_leg() -> None:
    rows = fed([leg(1, "c1", A, "n"), leg(1.1, "c2", B, "f") | {"connection": "00b1c2"}])
    assert others(rows) == [(None, None, None)] * 2


def test_the_audit_stream_is_believed_before_a_guess() -> None:
    audit = fact(1.45, 0, B, None, audit_id="f", masked_id="n1", connection="c9", wants_reply=None)
    rows = fed([leg(1, "c1", A, "n1"), leg(1.2, "c2", A, "n2"), leg(1.4, "c3", B, "f"), audit])
    assert others(rows) == [("c3", "f", "audit"), (None, None, None), ("c1", "n1", "audit")]
