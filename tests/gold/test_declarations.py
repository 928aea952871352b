"""Protocols by the names that facts have for them."""

from __future__ import annotations

from pathlib import Path

from wirelake.gold.declarations import Declarations
from wirelake.protocols import load

ORDERS = load(f"{Path(__file__).parents[2] / 'examples' / 'orders.py'}:PROTOCOL")


def test_built_in_protocols_are_known_by_their_names() -> None:
    known = Declarations()
    assert known.protocol("mb") is load("mb")
    assert known.conduct("mb") is load("mb").conduct


def test_a_user_s_protocol_is_known_where_it_was_declared_and_only_there() -> None:
    assert Declarations({ORDERS.name: ORDERS}).conduct(ORDERS.name) is ORDERS.conduct
    assert Declarations().protocol(ORDERS.name) is None


def test_a_name_that_nobody_declared_has_plain_conduct_and_loads_no_file() -> None:
    known = Declarations()
    for name in ("nobody", f"{__file__}:PROTOCOL", None):
        conduct = known.conduct(name)
        assert not (conduct.parts or conduct.limits or conduct.brokered or conduct.pieces or conduct.branches)
