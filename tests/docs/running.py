"""Runs the blocks of a page, one after the other, in an empty directory that looks like a checkout."""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import ROOT, Block, Command, blocks, commands

SECONDS = 300


@dataclass
class Outcome:
    """What a block, or a command of a block, printed."""

    block: Block
    command: Command | None
    wanted: list[str]
    printed: list[str]


def lay_out(desk: Path) -> dict[str, str]:
    """Puts the examples and the commands of the environment into the directory; gives the variables that find them."""
    (desk / "examples").symlink_to(ROOT / "examples")
    bin_dir = desk / ".venv" / "bin"
    bin_dir.mkdir(parents=True)
    _script(bin_dir / "wirelake", f"#!{sys.executable}\nfrom wirelake.cli import main\nmain()\n")
    _script(bin_dir / "python", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    return {"PATH": f"{bin_dir}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def _script(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)


def run_page(page: Path, desk: Path) -> Iterator[Outcome]:
    """What the blocks of a page print. The current directory is ``desk``."""
    variables = os.environ | lay_out(desk)
    names: dict[str, object] = {"__name__": "__page__"}
    for block in blocks(page):
        if block.is_run and block.language == "python":
            yield Outcome(block, None, (block.output or "").splitlines(), _run_python(page, block, names))
        elif block.is_run and block.language == "console":
            for command in commands(block):
                yield Outcome(block, command, command.output, _run_command(command, desk, variables))


def _run_python(page: Path, block: Block, names: dict[str, object]) -> list[str]:
    printed = io.StringIO()
    source = "\n" * block.line + block.text
    with contextlib.redirect_stdout(printed):
        exec(compile(source, page.name, "exec"), names)
    return printed.getvalue().splitlines()


def _run_command(command: Command, desk: Path, variables: dict[str, str]) -> list[str]:
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command.line],
        cwd=desk, env=variables, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=SECONDS, check=False,
    )  # fmt: skip
    printed = result.stdout.decode().splitlines()
    assert result.returncode in (0, 1, 2), f"{command.line}: {printed}"
    assert not any(line.startswith("Traceback") for line in printed), f"{command.line}: {printed}"
    return printed
