"""The blocks of the written pages: which can be run, and what they should print.

- A ``python`` block runs in the namespace of its page; a ``text`` block right behind it is what it prints.
- A ``console`` block holds commands behind ``$ `` (going on behind ``> ``) and what each of them prints.
- A line that is just ``...`` in what is printed stands for any lines.
- A block whose first line says ``# not run by the tests`` is shown to people only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GENERATED = "<!-- made by scripts/generate_docs.py"
NOT_RUN = "# not run by the tests"
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass
class Block:
    """A fenced block: its language, its text, and the ``text`` block right behind it."""

    language: str
    text: str
    line: int
    output: str | None = None

    @property
    def is_run(self) -> bool:
        return not self.text.startswith(NOT_RUN)


@dataclass
class Command:
    line: str
    output: list[str] = field(default_factory=list)


def pages() -> list[Path]:
    """Every page that a person reads."""
    top = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    return [*top, *sorted((ROOT / "docs").rglob("*.md"))]


def written_pages() -> list[Path]:
    """The pages that are not made from the source."""
    return [page for page in pages() if not page.read_text(encoding="utf-8").startswith(GENERATED)]


def blocks(page: Path) -> list[Block]:
    return blocks_of(page.read_text(encoding="utf-8"))


def blocks_of(text: str) -> list[Block]:
    found: list[Block] = []
    end = 0
    for fence in FENCE.finditer(text):
        language, inside = fence.groups()
        behind = found and found[-1].language == "python" and not text[end : fence.start()].strip()
        if language == "text" and behind:
            found[-1].output = inside
        else:
            found.append(Block(language, inside, text.count("\n", 0, fence.start()) + 1))
        end = fence.end()
    return found


def commands(block: Block) -> list[Command]:
    found: list[Command] = []
    for line in block.text.splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:]))
            continue
        assert found, f"line {block.line}: a console block begins with a command"
        if line.startswith("> ") and not found[-1].output:
            found[-1].line += "\n" + line[2:]
        else:
            found[-1].output.append(line)
    return found


def agrees(wanted: list[str], printed: list[str]) -> bool:
    """Whether what was printed is what the page shows; ``...`` stands for any lines."""
    if not wanted:
        return not printed
    if wanted[0].strip() == "...":
        return any(agrees(wanted[1:], printed[i:]) for i in range(len(printed) + 1))
    return bool(printed) and wanted[0].rstrip() == printed[0].rstrip() and agrees(wanted[1:], printed[1:])
