"""completion: scripts for shells."""

from __future__ import annotations

import pytest

from tests.cli.invoked import run


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_name_the_program(shell: str) -> None:
    assert "_WIRELAKE_COMPLETE" in run("completion", shell).stdout
