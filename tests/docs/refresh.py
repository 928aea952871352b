"""Writes what the blocks of the pages print into the pages, for changes that are meant. Read the difference after it.

python -m tests.docs.refresh [PAGE ...]
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path

from tests.docs.pages import ROOT, Block, agrees, blocks, commands, written_pages
from tests.docs.running import Outcome, run_page


def refresh(page: Path) -> bool:
    """Whether the page had to change."""
    with tempfile.TemporaryDirectory() as desk, contextlib.chdir(desk):
        outcomes = list(run_page(page, Path(desk)))
    text = page.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for block in reversed(blocks(page)):
        mine = [outcome for outcome in outcomes if outcome.block.line == block.line]
        if not all(agrees(outcome.wanted, outcome.printed) for outcome in mine):
            _put(lines, block, mine)
    changed = "".join(lines)
    page.write_text(changed, encoding="utf-8")
    return changed != text


def _put(lines: list[str], block: Block, mine: list[Outcome]) -> None:
    if block.language == "console":
        start, size, inside = block.line, len(block.text.splitlines()), _console(block, mine)
    else:
        assert block.output is not None, f"line {block.line} prints something, but no text block follows"
        start = _line_of(lines, block.line + len(block.text.splitlines()), "```text\n") + 1
        size, inside = len(block.output.splitlines()), mine[0].printed
    lines[start : start + size] = [line.rstrip() + "\n" for line in inside]


def _line_of(lines: list[str], start: int, wanted: str) -> int:
    return next(i for i in range(start, len(lines)) if lines[i] == wanted)


def _console(block: Block, mine: list[Outcome]) -> list[str]:
    found: list[str] = []
    for command, outcome in zip(commands(block), mine, strict=True):
        first, *more = command.line.split("\n")
        found += [f"$ {first}", *(f"> {line}" for line in more)]
        found += command.output if agrees(command.output, outcome.printed) else outcome.printed
    return found


def main(names: list[str]) -> None:
    for page in [Path(name).resolve() for name in names] or written_pages():
        if refresh(page):
            print(page.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])
