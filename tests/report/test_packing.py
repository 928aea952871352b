"""Conversations packed into a page: a summary of each, all of them in blocks, and how large they are there."""

from __future__ import annotations

import base64
import gzip
import json
from typing import Any

import pytest

from tests.report.sample import connection_talk, sample
from wirelake.report import packing
from wirelake.report.packing import json_size, packed, packed_size


def unpacked(report: dict[str, Any]) -> dict[str, Any]:
    opened: dict[str, Any] = {}
    for block in report["blocks"]:
        listed = json.loads(gzip.decompress(base64.b64decode(block["gzip"])))
        opened |= dict(zip(block["ids"], listed, strict=True))
    return opened


@pytest.mark.parametrize("block_bytes", [1, 1_000_000])
def test_all_conversations_are_in_blocks_however_small_these_are(
    monkeypatch: pytest.MonkeyPatch, block_bytes: int
) -> None:
    monkeypatch.setattr(packing, "BLOCK_BYTES", block_bytes)
    report = sample()
    result = packed(report)
    assert unpacked(result) == report["conversations"]
    assert len(result["blocks"]) == (len(report["conversations"]) if block_bytes == 1 else 1)
    assert packed(result) == result, "what is packed stays as it is"


def test_a_summary_has_the_words_that_a_search_finds_marked_events_first() -> None:
    conversation = connection_talk("orders.place", "shop", "is not UTF-8")
    (summary,) = packed({"conversations": {"c:1": conversation}})["conversations"]
    assert {name: summary[name] for name in ("id", "kind", "why")} == {
        "id": "c:1",
        "kind": "connection",
        "why": ["violation"],
    }
    words = summary["words"]
    assert {"orders.place", "shop", "text_utf8", "10.0.0.1:5000"} <= set(words)
    assert words.index("logout") < words.index("request")


def test_the_size_in_a_page_counts_what_is_escaped() -> None:
    assert json_size("a") == 3 and json_size("<") == 8 and json_size("é") == 4
    assert json_size("\udc80") == 5


def test_the_estimated_size_is_near_the_size_in_the_page(report: dict[str, Any]) -> None:
    talks = report["conversations"]
    size = json_size(packed({"conversations": talks}))
    assert sum(map(packed_size, talks.values())) == pytest.approx(size, rel=0.2)
