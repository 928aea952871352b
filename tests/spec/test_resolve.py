"""Protocol and options -> layout: what is chosen, what is left open, and what is refused."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

from tests.vectors.load import PROTOCOLS
from wirelake import decode
from wirelake.protocols import load
from wirelake.spec import nodes as n
from wirelake.spec.resolve import candidates, layout, settle


def test_options_that_are_not_given_have_their_defaults() -> None:
    assert settle(load("mb"), {}) == {"profile": "strict", "framing": "message", "json_payload": False}
    assert settle(load("mb"), {"framing": "tcp"})["framing"] == "tcp"


@pytest.mark.parametrize(
    ("protocol", "options", "detail"),
    [
        ("casual", {"mode": "strict"}, "casual has no option 'mode'; it has: profile"),
        ("dsa", {"mode": "lax"}, "dsa: mode is one of strict, compat, not 'lax'"),
        ("mb", {"json_payload": "yes"}, "mb: json_payload is one of False, True, not 'yes'"),
        ("ceda", {"dialect": "ceda5"}, "ceda: dialect is one of auto, ceda4, ceda4-ws, not 'ceda5'"),
        ("ceda", {"charset": "klingon"}, "ceda: charset is a character set, and 'klingon' is not a known one"),
        ("ceda", {"charset": 5}, "ceda: charset is a character set, and 5 is not a known one"),
    ],
)
def test_an_option_that_cannot_be_is_refused(protocol: str, options: dict[str, Any], detail: str) -> None:
    with pytest.raises(ValueError, match=detail):
        layout(load(protocol), **options)


def test_an_option_with_a_value_that_cannot_be_hashed_is_refused_too() -> None:
    with pytest.raises((ValueError, TypeError)):
        decode("ceda", b"\x82\x01\x01", dialect=["ceda4"])


def test_a_layout_is_made_once() -> None:
    assert layout(load("dsa"), mode="compat") is layout(load("dsa"), mode="compat")
    assert layout(load("dsa")) is layout(load("dsa"), mode="strict", frame_only=False)
    assert layout(load("dsa")) is not layout(load("dsa"), mode="compat")


def test_an_open_option_takes_its_fallback_and_is_shown_as_undecided() -> None:
    undecided = layout(load("ceda"))
    assert undecided.options["dialect"] == "ceda4"
    assert undecided.shown["dialect"] == "undecided"
    assert layout(load("ceda"), dialect="ceda4").shown["dialect"] == "ceda4"


def test_an_open_option_has_every_setting_as_a_candidate() -> None:
    assert [one.options["dialect"] for one in candidates(load("ceda"))] == ["ceda4", "ceda4-ws"]
    assert candidates(load("ceda"), dialect="ceda4-ws") == (layout(load("ceda"), dialect="ceda4-ws"),)
    assert len(candidates(load("casual"))) == 1


def unchosen(node: Any) -> list[Any]:
    """Choices and settings that are still in a description."""
    if isinstance(node, n.Choose | n.Setting):
        return [node]
    if isinstance(node, tuple):
        return [found for item in node for found in unchosen(item)]
    if hasattr(node, "__dataclass_fields__") and not isinstance(node, type):
        return [found for name in node.__dataclass_fields__ for found in unchosen(getattr(node, name))]
    return []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_no_choice_is_left_in_a_layout(protocol: str) -> None:
    for one in candidates(load(protocol)):
        assert unchosen(one.frame) == []
        for node in one.messages.values():
            assert unchosen(node.fields) == []
            assert unchosen((node.head_least, node.head_rule, node.padding)) == []


def test_a_field_of_one_dialect_is_not_in_the_other() -> None:
    document, deployed = candidates(load("ceda"))
    assert [f.name for f in document.messages[0x65].fields][:5] == [
        "topic",
        "connection_id",
        "server_id",
        "signal_id",
        "body",
    ]
    assert "reply_topic" in [f.name for f in deployed.messages[0x65].fields]
    assert [f.name for f in document.messages[0x14].fields] == []


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_layout_that_was_pickled_is_the_same_layout(protocol: str) -> None:
    for one in candidates(load(protocol)):
        pickled = pickle.dumps(one)
        assert pickle.loads(pickled) is one
        assert len(pickled) < 1000


def test_messages_are_found_by_name_code_and_record() -> None:
    casual = layout(load("casual"))
    call = casual.named("service_call_request")
    assert call is not None and call is casual.messages[3100]
    assert casual.named("nonsense") is None
    assert casual.of(call.cls) is call
    assert call.doc == "Calls a service."
    assert call.field("flags").wire == call.fields[5].wire
