"""describe: a declaration as tables."""

from __future__ import annotations

import sys

import click

from ..spec.nodes import Protocol
from ..spec.render import as_markdown, as_text, tables
from .options import ProtocolName, usage_errors


@click.command()
@click.argument("protocol", type=ProtocolName())
@click.argument("message", required=False)
@click.option("--markdown", is_flag=True, help="As Markdown, like the pages in docs/protocols/.")
def describe(protocol: Protocol, message: str | None, markdown: bool) -> None:
    """Print the tables of a protocol: frame, messages with every field, values, life cycle; or of one MESSAGE.

    MESSAGE is a name or a code.

    \b
    wirelake describe casual
    wirelake describe casual 3100
    wirelake describe dsa subscribe_response
    """
    with usage_errors(ValueError):
        shown = tables(protocol, message)
    sys.stdout.write(as_markdown(shown) if markdown else as_text(shown))
