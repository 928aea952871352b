"""Options that verbs share: they are those that the protocols declare."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from wirelake.cli import cli
from wirelake.cli.options import FLAGS, READING, pairs, usage_errors
from wirelake.protocols import BUILT_IN, load


def test_every_declared_reading_option_is_an_option_of_the_verbs() -> None:
    declared = {name: option for protocol in map(load, BUILT_IN) for name, option in protocol.options.items()}
    assert set(READING) == set(declared)
    assert set(FLAGS) == {name for name, option in declared.items() if isinstance(option.default, bool)}


def test_the_help_says_which_protocols_have_an_option_and_its_words() -> None:
    shown = " ".join(CliRunner().invoke(cli, ["decode", "--help"]).output.split())
    assert "--profile WORD casual: document or late; mb: strict or upstream." in shown
    assert re.search(r"--frame-only dsa: [^-]+\.", shown)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("-p", "nonsense"), "unknown protocol 'nonsense'"),
        (("-p", "missing.py:P"), "no such file: missing.py"),
        (("-p", "mb", "--dialect", "auto"), "dialect"),
        (("-p", "mb", "--option", "framing"), "--option takes NAME=VALUE, not 'framing'"),
    ],
)
def test_wrong_options_are_refused_with_a_reason(words: tuple[str, ...], complaint: str) -> None:
    ended = CliRunner().invoke(cli, ["decode", *words], input=b"")
    assert ended.exit_code == 2
    assert complaint in ended.output


def test_wrong_values_become_one_line_of_wrong_usage() -> None:
    with pytest.raises(click.UsageError) as refused, usage_errors(KeyError, ValueError, about="--size: "):
        raise ValueError("7 is odd")
    assert (refused.value.message, refused.value.exit_code) == ("--size: 7 is odd", 2)
    with pytest.raises(TypeError), usage_errors(ValueError):
        raise TypeError


def test_pairs_are_split_at_the_first_equals_sign() -> None:
    assert pairs(("a=1", "b=x=y", "c="), "--conf") == [("a", "1"), ("b", "x=y"), ("c", "")]
    for wrong in ("a", "=1"):
        with pytest.raises(click.UsageError, match="--conf takes NAME=VALUE"):
            pairs((wrong,), "--conf")
