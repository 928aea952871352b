"""Nodes: what they say of themselves, and which of them are equal."""

from __future__ import annotations

import pytest

from wirelake.protocols import load
from wirelake.spec import Frame, LifeCycle, Protocol, choose
from wirelake.spec import nodes as n

COLOURS = n.Labels("colour", {1: "red", 2: "green"})


def test_a_label_gives_its_number() -> None:
    assert COLOURS.code("green") == 2
    with pytest.raises(StopIteration):
        COLOURS.code("blue")


def test_the_key_of_a_field_is_its_name_unless_json_has_another() -> None:
    assert n.Field("body", None).key == "body"
    assert n.Field("body", None, json="body_hex").key == "body_hex"


def test_labels_are_equal_by_what_they_hold_and_can_be_hashed() -> None:
    same, other = n.Labels("colour", {1: "red", 2: "green"}), n.Labels("colour", {1: "red"})
    assert same == COLOURS != other
    assert len({COLOURS, same, other}) == 2


def test_integers_with_equal_labels_are_equal() -> None:
    made = [n.Int(1, False, False, n.Labels("colour", dict(COLOURS.names))) for _ in range(2)]
    assert made[0] == made[1] and hash(made[0]) == hash(made[1])


def test_declarations_are_equal_only_to_themselves() -> None:
    for make in (
        lambda: Protocol("toy", "Toy", Frame(), ()),
        lambda: LifeCycle("open", {}, {}),
        lambda: choose("width", narrow=1, wide=2),
    ):
        one, other = make(), make()
        assert one == one != other and len({one, other}) == 2


def test_a_protocol_has_the_settings_that_its_options_list() -> None:
    ceda = load("ceda")
    assert ceda.has_setting("dialect", "ceda4-ws") and not ceda.has_setting("dialect", "ceda5")
    assert ceda.has_setting("charset", "any name") and not ceda.has_setting("mode", "strict")
