"""Typical mistakes in a declaration: each is refused when it is loaded, in one sentence that says what to write."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from wirelake.errors import SpecError
from wirelake.protocols import load

HERE = Path(__file__).parent / "mistakes"
DECLARATION = (HERE / "declaration.py").read_text()
MISTAKES: dict[str, dict[str, Any]] = tomllib.loads((HERE / "mistakes.toml").read_text())


def test_the_declaration_without_a_mistake_is_accepted() -> None:
    assert load(f"{HERE / 'declaration.py'}:PROTOCOL").name == "station"


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_refused_in_one_sentence(mistake: dict[str, str], tmp_path: Path) -> None:
    assert DECLARATION.count(mistake["old"]) == 1
    wrong = tmp_path / "wrong.py"
    wrong.write_text(DECLARATION.replace(mistake["old"], mistake["new"]))
    with pytest.raises(SpecError) as caught:
        load(f"{wrong}:PROTOCOL")
    assert str(caught.value) == mistake["says"]


def test_no_sentence_speaks_of_how_records_are_made() -> None:
    assert len(MISTAKES) >= 45
    for mistake in MISTAKES.values():
        assert not re.search("msgspec|StructMeta|metaclass|struct field", mistake["says"])


def test_an_error_of_python_itself_is_told_with_its_line(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text(DECLARATION.replace('within(be.u16, 1, 3600, "wait_range")', "within(be.u16, 1, 3600)"))
    with pytest.raises(SpecError, match=r"wrong\.py, line 6\d: TypeError: within\(\) missing 1 required positional"):
        load(f"{wrong}:PROTOCOL")


def test_a_type_checker_sees_typos_in_words_that_are_one_of_a_few() -> None:
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--follow-imports=silent", str(HERE / "typos.py")]
    output = subprocess.run(command, check=False, capture_output=True, text=True, cwd=HERE.parents[2]).stdout
    marked = [number for number, line in enumerate((HERE / "typos.py").read_text().splitlines(), 1) if "# typo" in line]
    seen = {int(found[1]) for found in re.finditer(r"typos\.py:(\d+): error", output)}
    assert seen == set(marked), output
