"""completion: scripts that complete the command line in a shell."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print the completion script of a shell.

    \b
    source <(wirelake completion bash)
    """
    from . import cli

    made = get_completion_class(shell)
    assert made is not None
    sys.stdout.write(made(cli, {}, "wirelake", "_WIRELAKE_COMPLETE").source() + "\n")
