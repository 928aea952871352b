"""Plain rows of one message become messages; the others are left to the exact reader."""

from __future__ import annotations

import random
from decimal import Decimal
from typing import Any

import pytest

from tests.differential import valid_frames
from wirelake.codec import encode
from wirelake.columnar import decode_frames
from wirelake.columnar.row_to_message import message_of, node_of
from wirelake.columnar.rows_to_messages import NotPlain, message_reader, needed_columns
from wirelake.protocols import load
from wirelake.spec.resolve import layout

CASUAL = layout(load("casual"))


def test_rows_become_the_messages_of_the_exact_reader() -> None:
    rows = decode_frames("casual", valid_frames("casual", 300, random.Random(3))).records.to_pylist()
    plain = 0
    for row in rows:
        try:
            made = read(row)
        except NotPlain:
            assert row["raw_text"]
        else:
            assert encode(made) == encode(message_of(CASUAL, row))
            plain += 1
    assert plain > 250


def read(row: dict[str, Any]) -> Any:
    """The message of a row, from only the columns that it needs."""
    node = node_of(CASUAL, row)
    reader = message_reader(CASUAL, node)
    assert reader is not None
    return reader({name: row[name] for name in needed_columns(node, row)})


@pytest.mark.parametrize(
    "wrong",
    [
        {"execution": None},
        {"execution": "text"},
        {"domain": [1]},
        {"domain": {"id": bytes(16)}},
        {"domain": {"id": bytes(16), "name": b"a"}},
        {"protocol": {"versions": [None]}},
        {"protocol": {"versions": [Decimal("1.5")]}},
        {"protocol": {"versions": [True]}},
        {"raw_text": [("domain.name", b"\xff")]},
    ],
)
def test_what_is_not_plain_is_left_to_the_exact_reader(wrong: dict[str, Any]) -> None:
    row = {
        "message": "domain_connect_request",
        "correlation": bytes(16),
        "execution": bytes(16),
        "domain": {"id": bytes(16), "name": "a"},
        "protocol": {"versions": [Decimal(1000)]},
    }
    assert encode(read(row)) == encode(message_of(CASUAL, row))
    with pytest.raises(NotPlain):
        read({**row, **wrong})


def test_a_message_with_tags_has_no_plain_rows() -> None:
    chosen = layout(load("dsa"))
    assert all(message_reader(chosen, node) is None for node in chosen.messages.values())
