"""Values shortened for a page: no longer than it wants, and still telling."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirelake.report.page_values import MAX_CELL, MAX_FACTS, cell, cut, short_fields


def test_a_long_text_keeps_both_ends() -> None:
    text = "".join(chr(0x4E00 + i) for i in range(100))
    assert cut(text, 100) == text
    assert cut(text, 20) == f"{text[:14]}…{text[-5:]}" and len(cut(text, 20)) == 20


def test_cells_are_cut_and_json_stays_json() -> None:
    assert cell(7) == 7 and cell(None) is None
    assert len(cell("x" * 1000)) == MAX_CELL
    facts = json.dumps({"name": "x" * 5000, **{f"key {i}": i for i in range(30)}})
    short = cell(facts)
    assert len(short) < MAX_FACTS and json.loads(short)["name"].startswith("xxx") and len(json.loads(short)) == 16
    assert cell('{"whole": 1}') == '{"whole": 1}'
    assert len(cell("{" + "x" * 5000)) == MAX_CELL


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (True, True),
        (1 << 53, 1 << 53),
        ((1 << 53) + 1, "9007199254740993"),
        (0.5, 0.5),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (None, None),
        (b"\x00\xff", "00ff"),
        (list(range(14)), [*range(12), "… 2 more"]),
        ({str(i): i for i in range(13)}, {**{str(i): i for i in range(12)}, "…": "1 more"}),
        ([[[[[[1]]]]]], [[[[["[1]"]]]]]),
    ],
)
def test_a_field_is_a_value_that_json_has(value: Any, shown: Any) -> None:
    assert short_fields({"field": value}) == {"field": shown}


def test_long_bytes_tell_how_many_they_are() -> None:
    (text,) = short_fields({"body": bytes(500)}).values()
    assert text.endswith(" (500 bytes)") and len(text) < 140
