"""encode: JSON lines to bytes."""

from __future__ import annotations

import json
import sys
from typing import Any

import click

from ..codec.encoder import encode_frame
from ..codec.json import error_json, from_json
from ..errors import EncodeError
from ..spec.nodes import Protocol
from ..spec.resolve import layout
from .inputs import open_inputs, read_lines
from .options import protocol_option, reading_options, take_options
from .output import Tally


@click.command()
@protocol_option
@click.option("--hex", "is_hex", is_flag=True, help="Print each frame as a line of hex.")
@reading_options
@click.argument("files", nargs=-1, metavar="[FILE...|-]")
def encode(protocol: Protocol, is_hex: bool, files: tuple[str, ...], **given: Any) -> None:
    """Encode JSON lines to bytes: the inverse of decode.

    Lengths are computed again. Where an object holds raw bytes and their decoded form, the raw bytes are written. An
    object that cannot be encoded gives an object with "ok": false (with --hex) or a message on standard error.

    \b
    wirelake decode -p casual --hex frames.txt | wirelake encode -p casual --hex -
    wirelake encode -p ceda --dialect ceda4-ws messages.jsonl > stream.raw
    """
    options = take_options(protocol, given)
    if not is_hex and "framing" in protocol.options:
        options.setdefault("framing", "tcp")
    tally = Tally()
    for _, file in open_inputs(files):
        for line in read_lines(file):
            if line.strip():
                _encode_line(protocol, options, line, is_hex, tally)
    sys.stdout.buffer.flush()
    tally.exit()


def _encode_line(protocol: Protocol, options: dict[str, Any], line: str, is_hex: bool, tally: Tally) -> None:
    try:
        shown = _parse(line)
        made = layout(protocol, **(_detected(protocol, shown) | options))
        frame = encode_frame(made, from_json(made, shown))
    except EncodeError as error:
        if is_hex:
            tally.emit(error_json(error, protocol.name))
        else:
            tally.errors += 1
            click.echo(f"wirelake encode: {error}", err=True)
        return
    if is_hex:
        sys.stdout.write(frame.hex() + "\n")
    else:
        sys.stdout.buffer.write(frame)


def _parse(line: str) -> Any:
    try:
        shown = json.loads(line)
    except ValueError as error:
        raise EncodeError(f"not JSON: {error}", rule="json_shape") from None
    if isinstance(shown, dict) and shown.get("ok") is False:
        raise EncodeError('an object with "ok": false holds no message', rule="json_shape", path="ok")
    return shown


def _detected(protocol: Protocol, shown: Any) -> dict[str, Any]:
    """Return options that the object itself holds: the dialect that ``auto`` detected."""
    detected: dict[str, Any] = {}
    fields = shown.get("fields") if isinstance(shown, dict) else None
    for name, option in protocol.options.items():
        if option.auto:
            value = fields.get(name) if isinstance(fields, dict) else None
            detected[name] = value if value in option.values and value != "auto" else option.auto
    return detected
