"""What the pages show is what happens: blocks are run and compared, links lead somewhere, generated pages are new."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from scripts import generate_docs
from tests.docs.pages import ROOT, agrees, blocks, blocks_of, commands, pages, written_pages
from tests.docs.refresh import refresh
from tests.docs.running import run_page
from tests.needs import require

RUNNABLE = [page for page in written_pages() if any(b.language in ("python", "console") for b in blocks(page))]
STARTS_SPARK = re.compile(r"wirelake ingest(?!.*--engine inline)|examples/(spark|questions)/")
LANGUAGES = {"python", "console", "text", "json", "ini"}


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", RUNNABLE, ids=name_of)
def test_the_blocks_of_a_page_print_what_it_shows(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    if any(block.is_run and STARTS_SPARK.search(block.text) for block in blocks(page)):
        require("java")
    monkeypatch.chdir(tmp_path)
    for outcome in run_page(page, tmp_path):
        if not agrees(outcome.wanted, outcome.printed):
            what = outcome.command.line if outcome.command is not None else "the block"
            shown = "\n".join(outcome.printed)
            pytest.fail(f"{name_of(page)}, line {outcome.block.line}: {what} prints:\n{shown}", pytrace=False)


@pytest.mark.parametrize("page", written_pages(), ids=name_of)
def test_every_block_has_a_language_that_says_whether_it_is_run(page: Path):
    assert {block.language for block in blocks(page)} <= LANGUAGES


def test_only_a_few_blocks_are_not_run():
    left_out = [block for page in written_pages() for block in blocks(page) if not block.is_run]
    assert len(left_out) <= 6


def test_at_most_two_blocks_start_spark():
    starting = [b for page in written_pages() for b in blocks(page) if b.is_run and b.language == "console"]
    assert len([block for block in starting if STARTS_SPARK.search(block.text)]) <= 2


COMMAND = re.compile(
    r"^(?:\$ |> |Exec\w+=)?(?:[\w./]*/)?wirelake (?=\S)(.*)$|&& (?:[\w./]*/)?wirelake (.*)$", re.MULTILINE
)
AFTER_IT = re.compile(r"\s{2,}\S|\s(?:\|\||&&|[|&;]|[12]?>)")
"""Where the words of a command end: what it does, in words, or another command."""


def shown_commands(page: Path) -> Iterator[list[str]]:
    """The commands of a page that are only shown: no test runs them, so they should at least be understood."""
    for block in blocks(page):
        if block.language in ("text", "ini") or not block.is_run:
            for found in COMMAND.finditer(block.text.replace("\\\n", " ")):
                yield shlex.split(AFTER_IT.split(found[1] or found[2])[0])


def understand(verb: str, arguments: list[str]) -> None:
    """Reads the words of a command as it would itself, and does nothing; UsageError says what is wrong with them."""
    cli = generate_docs.cli
    cli.commands[verb].make_context(verb, arguments, parent=click.Context(cli, **cli.context_settings))


@pytest.mark.parametrize("page", written_pages(), ids=name_of)
def test_commands_that_are_only_shown_are_understood(page: Path):
    for verb, *arguments in shown_commands(page):
        understand(verb, arguments)


def test_a_command_that_there_is_not_would_be_seen():
    (words,) = [AFTER_IT.split(found[1])[0] for found in COMMAND.finditer("$ wirelake ingest a b --finall   the end")]
    with pytest.raises(click.UsageError):
        understand("ingest", shlex.split(words)[1:])


def test_a_difference_between_a_page_and_the_truth_is_seen():
    assert agrees(["a", "...", "d"], ["a", "b", "c", "d"])
    assert agrees(["a", "..."], ["a"])
    assert not agrees(["a"], ["a", "b"])
    assert not agrees(["a", "b"], ["a"])
    assert not agrees([], ["a"])
    assert not agrees(["a", "...", "d"], ["a", "b"])


def test_a_page_that_shows_something_else_is_seen_and_can_be_put_right(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    page = tmp_path / "page.md"
    page.write_text(WRONG, encoding="utf-8")
    desk = tmp_path / "desk"
    desk.mkdir()
    monkeypatch.chdir(desk)
    assert [agrees(o.wanted, o.printed) for o in run_page(page, desk)] == [False, True, False]
    assert refresh(page)
    assert page.read_text(encoding="utf-8") == WRONG.replace("three", "2").replace("nothing", "wirelake")
    assert not refresh(page)


WRONG = """
```python
print(1 + 1)
```

```text
three
```

```console
$ echo a \\
> b
a b
$ echo wirelake
nothing
```
"""


def test_a_command_goes_on_behind_its_prompt():
    block = blocks_of(WRONG)[1]
    assert [command.line for command in commands(block)] == ["echo a \\\nb", "echo wirelake"]


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


@pytest.mark.parametrize("verb", ["", *generate_docs.cli.commands])
def test_the_reference_of_the_command_line_is_what_help_prints(verb: str):
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    told = page.partition(f"## wirelake {verb}".rstrip() + "\n\n```text\n")[2].partition("\n```\n")[0]
    arguments = [verb, "--help"] if verb else ["--help"]
    printed = CliRunner().invoke(
        generate_docs.cli, arguments, prog_name="wirelake", terminal_width=generate_docs.HELP_WIDTH
    )
    assert told == printed.output.rstrip("\n")


def test_every_verb_is_in_the_reference_of_the_command_line():
    page = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
    for verb in generate_docs.cli.commands:
        assert f"## wirelake {verb}\n" in page
