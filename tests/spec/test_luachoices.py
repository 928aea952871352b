"""What depends on options stays open for preferences, unless a stream settles it."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake.errors import SpecError
from wirelake.protocols import load
from wirelake.spec import Line, Setting, be, choose, many, text, u8
from wirelake.spec import nodes as n
from wirelake.spec.luachoices import Choices, as_setting, open_option, with_setting


def test_an_option_that_decides_whether_frames_have_a_length_is_settled() -> None:
    assert Choices(load("mb")).settled == {"framing": "tcp"}
    assert Choices(load("ceda")).settled == {}


def test_a_choice_stays_open_and_its_option_is_used() -> None:
    choices = Choices(load("mb"))
    assert choices.plain(choose("profile", strict=1, upstream=None)) == {
        "choose": "profile",
        "cases": {"strict": 1, "upstream": None},
    }
    assert choices.used == {"profile"}


def test_a_choice_by_a_settled_option_is_its_case() -> None:
    choices = Choices(load("mb"))
    assert choices.plain(choose("framing", message=1, tcp=2)) == 2
    assert choices.plain(Setting("framing")) == "tcp"
    assert choices.used == set()


def test_a_choice_by_an_unknown_option_is_refused() -> None:
    with pytest.raises(SpecError, match="the option 'width', which is not declared"):
        Choices(load("mb")).plain(choose("width", narrow=1))


def test_the_value_of_an_open_option_is_asked_for_when_frames_are_read() -> None:
    choices = Choices(load("ceda"))
    assert choices.plain(Setting("charset")) == {"setting": "charset"}
    assert choices.used == {"charset"}


def test_attributes_that_have_their_defaults_are_left_out() -> None:
    line = Line(b":", b"\n", 50, 1, choose("profile", strict=6, upstream=None), "action", "action")
    members = Choices(load("mb")).members(line, "window", "most", "fold")
    assert members == {"window": 50, "most": {"choose": "profile", "cases": {"strict": 6, "upstream": None}}}


def test_a_field_of_one_setting_says_so_unless_the_option_is_settled() -> None:
    choices = Choices(load("mb"))
    assert choices.only(("json_payload", True)) == {"option": "json_payload", "is": True}
    assert choices.only(("framing", "tcp")) is None and choices.only(None) is None
    assert choices.rules_out(("framing", "message"))
    assert not choices.rules_out(("framing", "tcp")) and not choices.rules_out(("profile", "upstream"))


WIDTH = choose("width", narrow=u8, wide=be.u16)


@pytest.mark.parametrize(("wire", "option"), [(text(WIDTH), "width"), (many(WIDTH, u8), "width"), (text(u8), "")])
def test_the_option_of_a_value_is_found_inside_it(wire: Any, option: str) -> None:
    assert open_option(wire) == option


def test_a_setting_replaces_its_choices_only() -> None:
    other = choose("order", big=be.u32, little=u8)
    made = with_setting(n.Many(WIDTH, other), "width", "wide")
    assert made == n.Many(be.u16, other)


def test_settings_are_words_or_truth_values() -> None:
    assert (as_setting(True), as_setting("tcp"), as_setting(3)) == (True, "tcp", "3")
