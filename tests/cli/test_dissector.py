from __future__ import annotations

from tests.cli.invoked import run
from wirelake.protocols import load
from wirelake.spec.dissector import dissector


def test_the_dissector_of_the_declaration_is_printed() -> None:
    result = run("dissector", "mb")
    assert (result.exit_code, result.stdout) == (0, dissector(load("mb")))
