"""describe, dissector, completion: what a declaration says, for people, for Wireshark and for shells."""

from __future__ import annotations

import sys

import click
from click.shell_completion import get_completion_class

from ..spec.nodes import Protocol
from ..spec.render import as_markdown, as_text, tables
from .common import ProtocolName


@click.command()
@click.argument("protocol", type=ProtocolName())
@click.argument("message", required=False)
@click.option("--markdown", is_flag=True, help="As Markdown, like the pages in docs/protocols/.")
def describe(protocol: Protocol, message: str | None, markdown: bool) -> None:
    """The tables of a protocol: frame, messages with every field, values, life cycle; or one MESSAGE, by name or code.

    \b
    wirelake describe casual
    wirelake describe casual 3100
    wirelake describe dsa subscribe_response
    """
    try:
        found = tables(protocol, message)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    sys.stdout.write(as_markdown(found) if markdown else as_text(found))


@click.command()
@click.argument("protocol", type=ProtocolName())
def dissector(protocol: Protocol) -> None:
    """A Wireshark dissector in Lua, made from the declaration.

    \b
    wirelake dissector casual > ~/.local/lib/wireshark/plugins/casual.lua
    tshark -X lua_script:casual.lua -d tcp.port==7771,casual -r capture.pcap
    """
    from ..spec.dissector import dissector as lua

    sys.stdout.write(lua(protocol))


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """The completion script for a shell.

    \b
    source <(wirelake completion bash)
    """
    from . import cli

    made = get_completion_class(shell)
    assert made is not None
    sys.stdout.write(made(cli, {}, "wirelake", "_WIRELAKE_COMPLETE").source() + "\n")
