"""What the pages show is what happens: blocks are run and compared, links lead somewhere, generated pages are new."""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import generate_docs
from tests.docs.pages import ROOT, Block, agrees, blocks, commands, pages, written_pages

RUNNABLE = [page for page in written_pages() if any(b.language in ("python", "console") for b in blocks(page))]
LANGUAGES = {"python", "console", "text", "json"}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty directory that looks like a checkout: the examples are there, and the commands of the environment."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    bin_dir = tmp_path / ".venv" / "bin"
    bin_dir.mkdir(parents=True)
    (bin_dir / "wirelake").write_text(f"#!{sys.executable}\nfrom wirelake.cli import main\nmain()\n", encoding="utf-8")
    (bin_dir / "wirelake").chmod(0o755)
    (bin_dir / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n', encoding="utf-8")
    (bin_dir / "python").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT))
    monkeypatch.setenv("PATH", f"{bin_dir}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_the_blocks_of_a_page_print_what_it_shows(page: Path, desk: Path):
    names: dict[str, object] = {"__name__": "__page__"}
    for block in blocks(page):
        if block.is_run and block.language == "python":
            run_python(page, block, names)
        elif block.is_run and block.language == "console":
            run_console(page, block, desk)


def run_python(page: Path, block: Block, names: dict[str, object]) -> None:
    printed = io.StringIO()
    source = "\n" * block.line + block.text
    with contextlib.redirect_stdout(printed):
        exec(compile(source, name_of(page), "exec"), names)
    compare(page, block.line, (block.output or "").splitlines(), printed.getvalue())


def run_console(page: Path, block: Block, desk: Path) -> None:
    for command in commands(block):
        result = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command.line],
            cwd=desk, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert result.returncode in (0, 1, 2), f"{name_of(page)}: {command.line}: {result.stdout}"
        compare(page, block.line, command.output, result.stdout)


def compare(page: Path, line: int, wanted: list[str], printed: str) -> None:
    found = printed.splitlines()
    if not agrees(wanted, found):
        shown = "\n".join(found)
        pytest.fail(f"{name_of(page)}, the block in line {line} prints:\n{shown}", pytrace=False)


@pytest.mark.parametrize("page", written_pages(), ids=name_of)
def test_every_block_has_a_language_that_says_whether_it_is_run(page: Path):
    assert {block.language for block in blocks(page)} <= LANGUAGES


def test_only_a_few_blocks_are_not_run():
    left_out = [block for page in written_pages() for block in blocks(page) if not block.is_run]
    assert len(left_out) <= 6


def test_a_difference_between_a_page_and_the_truth_is_seen():
    assert agrees(["a", "...", "d"], ["a", "b", "c", "d"])
    assert agrees(["a", "..."], ["a"])
    assert not agrees(["a"], ["a", "b"])
    assert not agrees(["a", "b"], ["a"])
    assert not agrees([], ["a"])
    assert not agrees(["a", "...", "d"], ["a", "b"])


# --- links


LINK = re.compile(r"(?<!!)\[[^\]]+\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as they are made on the usual sites."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    found = set()
    for heading in re.findall(r"^#+ (.+)$", text, re.MULTILINE):
        found.add(re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_links_between_pages_lead_somewhere(page: Path):
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = (page.parent / path).resolve() if path else page
        assert there.exists(), f"{name_of(page)}: {target}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors(there), f"{name_of(page)}: {target}"


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=name_of)
def test_every_page_can_be_reached_from_the_readme(page: Path):
    assert page in reachable(ROOT / "README.md")


def reachable(start: Path) -> set[Path]:
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        page = waiting.pop()
        if page in found or page.suffix != ".md":
            continue
        found.add(page)
        for target in LINK.findall(page.read_text(encoding="utf-8")):
            if "://" not in target and target.partition("#")[0]:
                waiting.append((page.parent / target.partition("#")[0]).resolve())
    return found


# --- what is generated


def test_the_generated_pages_are_up_to_date():
    assert list(generate_docs.stale()) == []


def test_a_generated_page_that_was_edited_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for page, text in generate_docs.documents().items():
        copy = tmp_path / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(text, encoding="utf-8")
    monkeypatch.setattr(generate_docs, "ROOT", tmp_path)
    monkeypatch.setattr(generate_docs, "DOCS", tmp_path / "docs")
    assert generate_docs.main(["--check"]) == 0
    edited = tmp_path / "docs" / "tables.md"
    edited.write_text(edited.read_text(encoding="utf-8").replace("correlation", "corelation"), encoding="utf-8")
    assert generate_docs.main(["--check"]) == 1
    assert generate_docs.main([]) == 0
    assert generate_docs.main(["--check"]) == 0
    (tmp_path / "docs" / "protocols" / "gone.md").write_text("old", encoding="utf-8")
    assert generate_docs.main(["--check"]) == 1


def test_the_generator_refuses_words_that_it_does_not_know(capsys: pytest.CaptureFixture[str]):
    assert generate_docs.main(["--chekc"]) == 2
    assert "--check" in capsys.readouterr().err


def test_every_verb_is_in_the_reference_of_the_command_line():
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for verb in generate_docs.cli.commands:
        assert f"## wirelake {verb}\n" in page
