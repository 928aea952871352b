"""decode: bytes to JSON lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, BinaryIO

import click

from ..codec import decode as decode_one
from ..codec.json import to_json
from ..codec.stream import Decoded, StreamDecoder
from ..errors import BadValue, DecodeError
from ..spec.nodes import Protocol
from ..spec.resolve import layout
from .inputs import CHUNK, open_inputs, read_chunks, read_lines
from .options import protocol_option, reading_options, take_options
from .output import Tally, emit

_SPACE = re.compile(r"\s+")
_DIGIT = re.compile("[0-9a-fA-F]")
BATCH_LINES = 4096


@click.command()
@protocol_option
@click.option("--hex", "is_hex", is_flag=True, help="Read one frame in hex per line.")
@click.option(
    "--engine",
    type=click.Choice(["record", "columnar"]),
    default="record",
    show_default=True,
    help="The decoder to use.",
)
@reading_options
@click.argument("files", nargs=-1, metavar="[FILE...|-]")
def decode(protocol: Protocol, is_hex: bool, engine: str, files: tuple[str, ...], **given: Any) -> None:
    """Decode bytes to JSON lines, one object per message.

    Without --hex the input is a byte stream of frames: each object has the offset of its frame, and each undecodable
    range becomes one object with "ok": false, the rule it breaks, offset and length.

    \b
    wirelake decode -p casual capture.raw
    echo 0b0000000700f822000000 | wirelake decode -p dsa --hex -
    wirelake decode -p mb --profile upstream --json-payload --hex frames.txt
    wirelake decode -p examples/sensor.py:PROTOCOL readings.bin
    """
    options = take_options(protocol, given)
    tally = Tally()
    several = len(files) > 1
    for name, file in open_inputs(files):
        more = {"file": name} if several else {}
        if is_hex:
            run = _hex_records if engine == "record" else _hex_columns
            run(protocol, options, file, tally, more)
        elif engine == "record":
            _stream_records(protocol, options, file, tally, more)
        else:
            _stream_columns(protocol, options, file, tally, more)
    tally.exit()


def _frames(file: BinaryIO) -> Iterator[bytes | DecodeError]:
    """Yield the frame of each line that has a hex digit."""
    for line in read_lines(file):
        if not _DIGIT.search(line):
            continue
        digits = _SPACE.sub("", line)
        try:
            yield bytes.fromhex(digits)
        except ValueError:
            odd = next((i for i, c in enumerate(digits) if not _DIGIT.match(c)), len(digits))
            what = f"{digits[odd]!r} is not a hex digit" if odd < len(digits) else "an odd number of hex digits"
            yield BadValue(what, rule="not_hex", offset=odd // 2)


def _hex_records(
    protocol: Protocol, options: dict[str, Any], file: BinaryIO, tally: Tally, more: dict[str, Any]
) -> None:
    for frame in _frames(file):
        if isinstance(frame, DecodeError):
            tally.error(frame, protocol, **more)
            continue
        try:
            emit(to_json(decode_one(protocol, frame, **options)) | more)
        except DecodeError as error:
            tally.error(error, protocol, **more)


def _hex_columns(
    protocol: Protocol, options: dict[str, Any], file: BinaryIO, tally: Tally, more: dict[str, Any]
) -> None:
    from ..columnar import decode_frames
    from ..columnar.to_json import all_columns, show_rows

    nodes = {node.name: node for node in layout(protocol, **options).messages.values()}
    lines = _frames(file)
    while group := list(islice(lines, BATCH_LINES)):
        frames = [frame if isinstance(frame, bytes) else b"" for frame in group]
        batch = decode_frames(protocol, frames, all_columns(protocol), **options)
        assert batch.row_frames is not None and batch.quarantined_frames is not None
        shown = dict(zip(batch.row_frames.tolist(), show_rows(protocol, nodes, batch), strict=True))
        rejected = dict(zip(batch.quarantined_frames.tolist(), batch.quarantined.to_pylist(), strict=True))
        for i, frame in enumerate(group):
            if isinstance(frame, DecodeError):
                tally.error(frame, protocol, **more)
            elif i in shown:
                emit(shown[i] | more)
            else:
                tally.errors += 1
                emit(_show_quarantined(rejected[i], protocol, rejected[i]["error_offset"]) | more)


def _show_quarantined(row: dict[str, Any], protocol: Protocol, offset: int) -> dict[str, Any]:
    return {
        "ok": False,
        "protocol": protocol.name,
        "verdict": row["verdict"],
        "rule": row["rule"],
        "path": row["path"],
        "offset": offset,
        "detail": row["detail"],
    }


def _stream_records(
    protocol: Protocol, options: dict[str, Any], file: BinaryIO, tally: Tally, more: dict[str, Any]
) -> None:
    decoder = _streamed(protocol, options)
    for events in _events(decoder, file):
        for event in events:
            if isinstance(event, Decoded):
                emit(to_json(event.message) | {"offset": event.offset} | more)
            else:
                tally.error(event.error, protocol, offset=event.offset, length=event.length, **more)


def _streamed(protocol: Protocol, options: dict[str, Any]) -> StreamDecoder:
    try:
        return StreamDecoder(protocol, **options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _events(decoder: StreamDecoder, file: BinaryIO) -> Iterator[list[Any]]:
    for chunk in read_chunks(file):
        yield decoder.feed(chunk)
    yield decoder.finish()


def _stream_columns(
    protocol: Protocol, options: dict[str, Any], file: BinaryIO, tally: Tally, more: dict[str, Any]
) -> None:
    from ..columnar import decode_stream
    from ..columnar.to_json import all_columns, show_rows

    _streamed(protocol, options)
    nodes = {node.name: node for node in layout(protocol, **options).messages.values()}
    wanted = all_columns(protocol)
    for batch in decode_stream(protocol, read_chunks(file), wanted, batch_bytes=CHUNK, **options):
        offsets = batch.records.column("offset").to_pylist()
        rows = [
            (at, shown | {"offset": at}) for at, shown in zip(offsets, show_rows(protocol, nodes, batch), strict=True)
        ]
        for row in batch.quarantined.to_pylist():
            tally.errors += 1
            rows.append((row["offset"], _show_quarantined(row, protocol, row["offset"]) | {"length": row["length"]}))
        for _, shown in sorted(rows, key=lambda pair: pair[0]):
            emit(shown | more)
