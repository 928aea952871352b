"""Filters of the log: what Python's engine finds, in the syntax of JavaScript, without the worst case of either."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wirelake.live.mb.log_filter import Filter

ATOMS = [
    "a", "b", "c", ".", r"\d", r"\w", r"\W", r"\s", r"\S", r"\D", "[ab]", "[^a]", "[a-c1]", r"[\d-]", "(a|b)",
    "(?:ab|c)*", "a*", "b+", "c?", "a*?", "b+?", "a{2}", "b{1,2}", "c{0,}", "^", "$", r"\b", r"\B", "(a*)*", "(a|)+",
    "|", r"\.", r"\x61",
]  # fmt: skip


@given(st.lists(st.sampled_from(ATOMS), max_size=6).map("".join), st.text("abc1. ", min_size=1, max_size=10))
def test_it_finds_what_pythons_engine_finds(expression: str, text: str) -> None:
    try:
        known = re.compile(expression, re.ASCII)
    except re.error:
        with pytest.raises(ValueError, match=r"\w"):
            Filter(expression)
        return
    assert Filter(expression).search(text) == (known.search(text) is not None)


@given(st.text(max_size=30), st.text(max_size=30))
def test_any_text_is_an_expression_or_is_refused(expression: str, text: str) -> None:
    try:
        Filter(expression).search(text)
    except ValueError:
        return


@pytest.mark.parametrize("expression", ["(a+)+$", "(a|a)*b", "(.*.*.*)*x", "(a?){40}a{40}", "((a*)*)*b"])
def test_no_expression_is_searched_for_years(expression: str) -> None:
    """With Python's engine none of these would come back."""
    assert not Filter(expression).search("a" * 39 + "!" * 300)


TOO_LARGE = ["a" * 1001, "a{1000}", "(a{100}){100}", "[" + "a" * 2000]
BROKEN = [
    "[",
    "(",
    ")",
    "a)",
    "*",
    "+a",
    "a**",
    "?",
    "{2}",
    "a{2,1}",
    "[b-a]",
    "\\",
    "(?=a)",
    "(?!a)",
    "(?",
    "^*",
    r"(a)\1",
    r"(?<n>a)\k<n>",
    r"\k",
    "(?<=a)b",
    "(?<!a)b",
    "(?i)a",
    "(?P<n>a)",
    r"\b+",
    "\\\\\\",
    "\ud83d",
]


@pytest.mark.parametrize("expression", BROKEN + TOO_LARGE)
def test_what_cannot_be_read_is_refused(expression: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Filter(expression)


@pytest.mark.parametrize(
    ("expression", "text", "found"),
    [
        ("", "x", True),
        ("plain", "in plain text", True),
        ("(?<name>ab)+c", "ababc", True),
        (r"A", "A", True),
        ("[]", "a", False),
        ("[^]", "\n", True),
        ("a{", "a{", True),
        ("]", "]", True),
        (r"[\b]", "\b", True),
        (r"^\[TIMEOUT\]", "[TIMEOUT] x", True),
        (".", "\u2028", False),
        (".", "\r", False),
        (r"^\s\s\s$", "\v\u00a0\ufeff", True),
        (r"[\s]", "\u2003", True),
        (r"\S", "\u2003", False),
        (r"[\Sx]", "\u00e4", True),
        (r"\u0041\x42\cA", "AB\x01", True),
        (r"\A\z\pL\Q", "AzpLQ", True),
        ("^[[:alpha:]]$", "a]", True),
        (r"[\]]", "]", True),
        ("\u00e4|\U0001f600", "\U0001f600", True),
    ],
)
def test_it_reads_the_syntax_of_javascript(expression: str, text: str, found: bool) -> None:
    assert Filter(expression).search(text) == found


def test_half_a_character_in_a_text_is_no_error() -> None:
    assert Filter("a.b").search("a\ud83db")


def test_a_class_ends_at_its_first_bracket() -> None:
    """Also behind another that opens: JavaScript has no names in brackets."""
    assert Filter("[a[].").search("ab") and Filter(r"[a\][].").search("]b") and Filter("[a[^].").search("^b")
    assert not any(Filter(expression).search("a\r") for expression in ("[a[].", r"[a\][].", "[a[^]."))
