"""password: the line of a users file."""

from __future__ import annotations

import json
import sys

import click

from ..live.hub.users import hash_password


@click.command()
@click.argument("user")
def password(user: str) -> None:
    """Hash a password for a users file, and print its line.

    Asks for the password without showing it; reads a line of standard input if that is not a terminal. The hub reads
    the file that [ceda] users_file names, again on SIGHUP. A password cannot be read back from the line.

    \b
    wirelake password alice >>users.toml
    """
    if sys.stdin.isatty():
        given = click.prompt("password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        given = sys.stdin.readline().rstrip("\r\n")
    if not given:
        raise click.UsageError("the password is empty")
    click.echo(f"{json.dumps(user, ensure_ascii=False)} = {json.dumps(hash_password(given))}")
