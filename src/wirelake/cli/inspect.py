"""inspect: annotated hex, every field with offset, bytes, name and value."""

from __future__ import annotations

import sys
from typing import Any, BinaryIO

import click

from ..codec.annotate import annotate, describe_value
from ..codec.detect import detect_alone
from ..codec.stream import Decoded, Quarantined, StreamDecoder
from ..codec.walk import Seen
from ..errors import DecodeError
from ..spec.nodes import Protocol
from ..spec.render import code_text
from ..spec.resolve import Layout, candidates, layout
from .inputs import CHUNK, open_streams
from .options import protocol_option, reading_options, take_options, usage_errors

WIDTH = 12
MOST_LINES = 4


@click.command()
@protocol_option
@click.option("--hex", "digits", metavar="HEX", help="One frame in hex instead of a file.")
@click.option("-n", "--count", default=10, show_default=True, help="Frames to show of a file; 0 shows all.")
@click.option("--all-bytes", is_flag=True, help="Show long fields in full.")
@click.option("--color/--no-color", default=None, help="Colour the output; by default on a terminal.")
@reading_options
@click.argument("files", nargs=-1, metavar="[FILE...|-]")
def inspect(
    protocol: Protocol,
    digits: str | None,
    count: int,
    all_bytes: bool,
    color: bool | None,
    files: tuple[str, ...],
    **given: Any,
) -> None:
    """Print annotated hex: every field with its offset, bytes, name and value, or the byte that breaks a rule.

    \b
    wirelake inspect -p ceda --hex "82 1c 13 03 7c 00 04 00 70 79 2d 31 ..."
    wirelake inspect -p casual capture.raw --count 3
    """
    options = take_options(protocol, given)
    if digits is not None and files:
        raise click.UsageError("give either --hex or files")
    draw = Drawing(protocol, options, MOST_LINES if not all_bytes else 1 << 30)
    if digits is not None:
        with usage_errors(ValueError, about="--hex: "):
            data = bytes.fromhex("".join(digits.split()))
        draw.frame(data, 0)
    else:
        for _, file in open_streams(files):
            draw.stream(file, count or None)
    for line in draw.lines:
        click.echo(line, color=color if color is not None else sys.stdout.isatty())
    if draw.bad:
        sys.exit(1)


class Drawing:
    """Lines of annotated hex."""

    def __init__(self, protocol: Protocol, options: dict[str, Any], most_lines: int) -> None:
        self.protocol = protocol
        self.options = options
        self.most_lines = most_lines
        self.lines: list[str] = []
        self.bad = False

    def frame(self, data: bytes, offset: int) -> None:
        """Draw one frame."""
        choices = candidates(self.protocol, **self.options)
        chosen = choices[0] if len(choices) == 1 else detect_alone(choices, data)
        self._walk(chosen or layout(self.protocol, **self.options), data, offset)

    def stream(self, file: BinaryIO, count: int | None) -> None:
        """Draw the frames of a stream, and the undecodable bytes between them."""
        with usage_errors(ValueError):
            decoder = StreamDecoder(self.protocol, **self.options)
        drawn = 0
        keep = bytearray()
        base = 0
        while True:
            chunk = file.read(CHUNK)
            keep += chunk
            for event in decoder.feed(chunk) if chunk else decoder.finish():
                start = event.offset - base
                is_cut = isinstance(event, Quarantined) and event.error.incomplete
                # All that there is of a frame that is not all there, even if other messages may begin in it.
                data = bytes(keep[start:] if is_cut else keep[start : start + event.length])
                if isinstance(event, Decoded):
                    self._walk(event.message.layout, data, event.offset)
                else:
                    self._walk(decoder.layout, data, event.offset, event.error)
                drawn += 1
                if drawn == count:
                    return
            done = decoder.bytes_decoded + decoder.bytes_quarantined - base
            del keep[:done]
            base += done
            if not chunk:
                return

    def _walk(self, made: Layout, data: bytes, offset: int, known: DecodeError | None = None) -> None:
        looked = annotate(made, data)
        error = known or looked.error
        title = "undecodable"
        if looked.message is not None:
            message = looked.message
            title = f"{message.__message__['name']} ({code_text(made.of(message))})"
            if known is None and message.notes:
                title += f", {', '.join(message.notes)}"
        elif looked.error is not None:
            title = looked.error.message or title
        where = f" at offset {offset}" if offset else ""
        dialect = "".join(f", {made.shown[name]}" for name, option in made.protocol.options.items() if option.auto)
        self.lines.append(click.style(f"{made.protocol.name} {title}, {len(data)} bytes{dialect}{where}", bold=True))
        for seen in looked.seen:
            self._field(seen, data)
        if error is not None:
            self.bad = True
            self._error(error, data)
        self.lines.append("")

    def _field(self, seen: Seen, data: bytes) -> None:
        rows = [data[seen.offset + i : seen.offset + min(i + WIDTH, seen.length)] for i in range(0, seen.length, WIDTH)]
        value = describe_value(seen.value, seen.labels)
        kind = click.style(f"{seen.what}", dim=True)
        counts = seen.what in ("length", "count")
        path = f"{seen.path} ({seen.what})" if counts and "length" not in seen.path else seen.path or "-"
        name = click.style(path, fg="cyan")
        kind = "" if counts else kind
        first = rows[0].hex(" ") if rows else ""
        self.lines.append(f"{_offset(seen.offset)}  {first:<{WIDTH * 3 - 1}}  {name} = {value}  {kind}")
        for i, row in enumerate(rows[1 : self.most_lines], start=1):
            self.lines.append(f"{_offset(seen.offset + i * WIDTH)}  {row.hex(' ')}")
        if len(rows) > self.most_lines:
            hidden = seen.length - self.most_lines * WIDTH
            self.lines.append(f"{'':8}  ... {hidden} more bytes")

    def _error(self, error: DecodeError, data: bytes) -> None:
        at = error.offset or 0
        verdict = "incomplete" if error.incomplete else "error"
        rest = data[at : at + WIDTH].hex(" ") or "(end)"
        where = f"{error.path}: " if error.path else ""
        text = f"{_offset(at)}  {rest:<{WIDTH * 3 - 1}}  {verdict}: {where}{error.detail} [{error.rule}]"
        self.lines.append(click.style(text, fg="red", bold=True))


def _offset(at: int) -> str:
    return f"{at:>5} {at:04x}"[:10]
