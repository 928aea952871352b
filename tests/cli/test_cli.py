"""The command line as a whole: wrong usage, and help."""

from __future__ import annotations

import pytest

from tests.cli.invoked import run
from wirelake.cli import cli


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["decode", "-p", "nope", "-"], "unknown protocol 'nope': one of casual, dsa, mb, ceda, or path/to/file.py:"),
        (["decode", "-p", "casual", "--mode", "strict", "-"], "casual has no option 'mode'; it has: profile"),
        (["decode", "-p", "dsa", "--mode", "loose", "-"], "dsa: mode is one of strict, compat, not 'loose'"),
        (["decode", "-p", "casual", "/no/such/file"], "cannot read /no/such/file: No such file or directory"),
        (["decode", "-p", "missing.py:P", "-"], "no such file: missing.py"),
        (["match", "-p", "casual", "-"], "casual has no topics to match"),
        (["describe", "casual", "7"], "casual has no message '7'; it has: domain_connect_request"),
        (["inspect", "-p", "ceda", "--hex", "8x"], "--hex: non-hexadecimal number found"),
    ],
)  # fmt: skip
def test_wrong_use_exits_with_2_and_says_what_would_be_right(arguments: list[str], text: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert text in " ".join(result.stderr.split())


@pytest.mark.parametrize("verb", sorted(cli.commands))
def test_help_of_every_verb_teaches_by_example(verb: str) -> None:
    result = run(verb, "--help")
    assert result.exit_code == 0
    assert f"wirelake {verb}" in result.stdout.split("Options:")[0].split("\n", 1)[1]
