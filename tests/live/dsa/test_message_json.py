"""DSA values, lists and results as JSON lines."""

from __future__ import annotations

import json
from typing import Any

import pytest

from wirelake.live.dsa.api import Result, Value
from wirelake.live.dsa.events import ABSENT, Listed
from wirelake.live.dsa.listing import Listing
from wirelake.live.dsa.message_json import MESSAGE_JSON
from wirelake.live.dsa.requester import Stream
from wirelake.live.dsa.streams import Joiner, Pool
from wirelake.protocols import dsa as p


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (Value("a", 21.5, {"ts": "t"}, "ok"), {"path": "a", "value": 21.5, "meta": {"ts": "t"}, "status": "ok"}),
        (Value("a", None, {}, "ok"), {"path": "a", "value": None, "status": "ok"}),
        (Value("a", None, {}, "not_available", has_value=False), {"path": "a", "status": "not_available"}),
        (Value("a", b"\xff", {}, "ok"), {"path": "a", "value": {"$bin": "ff"}, "status": "ok"}),
        (Value("a\udcff", "b\udcff", {}, "ok"), {"path": {"hex": "61ff"}, "value": {"hex": "62ff"}, "status": "ok"}),
        (Result("a", [1], is_refreshed=True), {"path": "a", "value": [1], "refreshed": True}),
        (Listing("a", {"$is": "x"}, {"@u": 1}), {"path": "a", "list": {"$is": "x", "@u": 1}, "status": "ok"}),
        (Listing("a", {}, {}, {"c\udcff": {}}), {"path": "a", "list": {"hex:63ff": {}}, "status": "ok"}),
    ],
)  # fmt: skip
def test_what_comes_is_shown(message: Any, shown: dict[str, Any]) -> None:
    assert json.loads(json.dumps(MESSAGE_JSON.show(message))) == shown


def test_an_update_of_a_list_tells_what_changed_and_what_is_gone() -> None:
    stream = Stream(p.LIST, p.Headers(target_path="a"), 1, Joiner(Pool()))
    update = Listed(stream, {"new": {"$type": "number"}, "old": ABSENT}, 0, is_refreshed=True)
    assert MESSAGE_JSON.show(update) == {
        "path": "a", "refreshed": True, "changed": {"new": {"$type": "number"}}, "removed": ["old"], "status": "ok",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value"),
    [("5", 5), ('"5"', "5"), ("hot", "hot"), ('{"$bin": "ff"}', b"\xff"), ('{"a": [null]}', {"a": [None]}), ("", "")],
)
def test_an_argument_is_json_or_else_text(text: str, value: Any) -> None:
    assert MESSAGE_JSON.argument(text) == value


def test_a_line_that_was_shown_is_read_again() -> None:
    outgoing = MESSAGE_JSON.read(MESSAGE_JSON.show(Value("a/b", {"x": b"\0"}, {}, "ok")))
    assert (outgoing.topic, outgoing.payload) == ("a/b", {"x": b"\0"})
    with pytest.raises(ValueError, match="path"):
        MESSAGE_JSON.read({"path": 5})
