"""The page of the declaration language: every exported name, with an example that runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts.spec_reference import GROUPS, exported, run

PAGE = Path(__file__).resolve().parents[2] / "docs" / "declaration.md"
EXAMPLES = {name: example for names in GROUPS.values() for name, example in names.items()}


def test_every_exported_name_has_an_example() -> None:
    assert sorted(EXAMPLES) == sorted(exported())


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_uses_its_name_and_gives_what_the_page_shows(name: str) -> None:
    example = EXAMPLES[name]
    assert name in example
    assert f"{example}\n# {run(example)}\n" in PAGE.read_text(encoding="utf-8")
