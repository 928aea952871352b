"""dissector: a declaration as a Wireshark plugin."""

from __future__ import annotations

import sys

import click

from ..errors import SpecError
from ..spec.nodes import Protocol
from .options import ProtocolName, usage_errors


@click.command()
@click.option(
    "--name", default="", metavar="NAME", help="What display filters call it.  [default: the protocol's name]"
)
@click.argument("protocol", type=ProtocolName())
def dissector(protocol: Protocol, name: str) -> None:
    """Print a Wireshark dissector in Lua, generated from the declaration.

    \b
    wirelake dissector casual > ~/.local/lib/wireshark/plugins/casual.lua
    tshark -X lua_script:casual.lua -d tcp.port==7771,casual -r capture.pcap

    Where Wireshark has a protocol of this name already, the dissector takes the prefix wl_ when it is loaded.
    """
    from ..spec.dissector import dissector as lua

    with usage_errors(ValueError, SpecError):
        sys.stdout.write(lua(protocol, name))
