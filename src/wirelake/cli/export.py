"""export: what a tap recorded, as packets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ..capture.write.tap_to_pcapng import Exported


@click.command()
@click.argument("inputs", nargs=-1, required=True, metavar="IN...")
@click.option("-o", "--output", required=True, metavar="OUT", help="The pcapng file; - is standard output.")
def export(inputs: tuple[str, ...], output: str) -> None:
    """Export what a tap recorded to a pcapng file, for Wireshark, tshark and other tools.

    IN are tap files (gzip, zstd and xz too) or directories of them. Several files of one tap are one capture; several
    taps are merged in time order. Every connection becomes a TCP connection with handshake, sequence numbers and end;
    bytes and times are those of the tap. Bytes that were not recorded become missing segments.

    \b
    wirelake export captures/ -o today.pcapng
    wirelake export captures/ -o - | tshark -r -
    wirelake dissector mb > mb.lua && tshark -X lua_script:mb.lua -r today.pcapng
    """
    from ..capture.write.tap_to_pcapng import export_pcapng
    from ..errors import CaptureError

    try:
        exported = export_pcapng(inputs, sys.stdout.buffer if output == "-" else Path(output))
    except CaptureError as error:
        raise click.ClickException(str(error)) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise click.ClickException(f"cannot write {output}: {error.strerror}") from None
    _summarise(exported, output)


def _summarise(exported: Exported, output: str) -> None:
    for note in (*exported.notes, *exported.undecodable):
        click.echo(f"note: {note}", err=True)
    counted = f"{exported.connections} connections, {exported.packets} packets, {exported.bytes} bytes"
    missing = f", {exported.missing_bytes} bytes missing" if exported.missing_bytes else ""
    click.echo(f"wrote {output}: {counted} of {exported.files} files{missing}", err=True)
    if exported.undecodable:
        sys.exit(1)
