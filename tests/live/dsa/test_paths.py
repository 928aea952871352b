"""Which paths nodes can have."""

from __future__ import annotations

import pytest

from wirelake.live.dsa.paths import InvalidPath, check_path, is_name, is_within, join_path, names_of

GOOD = ("a", "boiler 1", "~", "#", "&", "\x7f", "%2F", "a%20b", "ä", "日本", ".a", "...", "a@b", "a$", "a!", "(b)")
BAD = ("", ".", "..", "@a", "$a", "a\x1f", "\n", *(f"a{sign}b" for sign in "\\/'\"?*|<>=:;"), "%", "%2", "%2g", "a%zz")


@pytest.mark.parametrize("name", GOOD)
def test_a_node_may_have_this_name(name: str) -> None:
    assert is_name(name)
    assert check_path(f"a/{name}/b") == f"a/{name}/b"


@pytest.mark.parametrize("name", BAD)
def test_no_node_has_this_name(name: str) -> None:
    assert not is_name(name)
    if name != "a/b":
        with pytest.raises(InvalidPath):
            check_path(f"a/{name}/b")


@pytest.mark.parametrize("path", ["a/", "a//b", "//a", "/a/"])
def test_slashes_in_wrong_places_are_refused(path: str) -> None:
    with pytest.raises(InvalidPath):
        check_path(path)


def test_one_leading_slash_is_taken_off_unless_strict() -> None:
    assert check_path("/a/b") == "a/b" and check_path("/") == "" and check_path("") == ""
    with pytest.raises(InvalidPath):
        check_path("/a", is_strict=True)


def test_text_that_was_not_utf_8_is_a_name() -> None:
    assert check_path(b"a/\xff".decode("utf-8", "surrogateescape")) == "a/\udcff"


def test_paths_are_taken_apart_and_joined() -> None:
    assert names_of("") == [] and names_of("a/b") == ["a", "b"]
    assert join_path("downstream", "x", "") == "downstream/x" and join_path("", "a/b") == "a/b"
    assert is_within("a/b", "a") and is_within("a", "a") and is_within("a", "") and not is_within("ab", "a")
