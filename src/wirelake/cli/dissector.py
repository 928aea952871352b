"""dissector: a declaration as a Wireshark plugin."""

from __future__ import annotations

import sys

import click

from ..spec.nodes import Protocol
from .options import ProtocolName


@click.command()
@click.argument("protocol", type=ProtocolName())
def dissector(protocol: Protocol) -> None:
    """Print a Wireshark dissector in Lua, generated from the declaration.

    \b
    wirelake dissector casual > ~/.local/lib/wireshark/plugins/casual.lua
    tshark -X lua_script:casual.lua -d tcp.port==7771,casual -r capture.pcap
    """
    from ..spec.dissector import dissector as lua

    sys.stdout.write(lua(protocol))
