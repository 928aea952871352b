"""decode: bytes to JSON lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from operator import itemgetter
from typing import Any, BinaryIO

import click

from ..codec import decode as decode_one
from ..codec.json import error_json, to_json
from ..codec.stream import Decoded, StreamDecoder
from ..errors import BadValue, DecodeError
from ..spec.nodes import Protocol
from ..spec.resolve import layout
from .inputs import CHUNK, open_inputs, open_streams, read_chunks, read_lines
from .options import protocol_option, reading_options, take_options, usage_errors
from .output import Tally

_SPACE = re.compile(r"\s+")
_DIGIT = re.compile("[0-9a-fA-F]")
BATCH_LINES = 4096

Objects = Iterator[dict[str, Any]]


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
    read = READERS[engine, is_hex]
    tally = Tally()
    for name, file in (open_inputs if is_hex else open_streams)(files):
        more = {"file": name} if len(files) > 1 else {}
        for shown in read(protocol, options, file):
            tally.emit(shown | more)
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


def _hex_records(protocol: Protocol, options: dict[str, Any], file: BinaryIO) -> Objects:
    for frame in _frames(file):
        try:
            if isinstance(frame, DecodeError):
                raise frame
            yield to_json(decode_one(protocol, frame, **options))
        except DecodeError as error:
            yield error_json(error, protocol.name)


def _hex_columns(protocol: Protocol, options: dict[str, Any], file: BinaryIO) -> Objects:
    from ..columnar import decode_frames
    from ..columnar.to_json import all_columns, show_rows

    nodes = {node.name: node for node in layout(protocol, **options).messages.values()}
    lines = _frames(file)
    while group := list(islice(lines, BATCH_LINES)):
        frames = [frame if isinstance(frame, bytes) else b"" for frame in group]
        batch = decode_frames(protocol, frames, all_columns(protocol), **options)
        assert batch.row_frames is not None and batch.quarantined_frames is not None
        shown = dict(zip(batch.row_frames.tolist(), show_rows(protocol, nodes, batch), strict=True))
        for i, row in zip(batch.quarantined_frames.tolist(), batch.quarantined.to_pylist(), strict=True):
            shown[i] = _show_quarantined(row, protocol, row["error_offset"])
        for i, frame in enumerate(group):
            yield error_json(frame, protocol.name) if isinstance(frame, DecodeError) else shown[i]


def _show_quarantined(row: dict[str, Any], protocol: Protocol, offset: int) -> dict[str, Any]:
    place = {"rule": row["rule"], "path": row["path"], "offset": offset}
    return {"ok": False, "protocol": protocol.name, "verdict": row["verdict"], **place, "detail": row["detail"]}


def _stream_records(protocol: Protocol, options: dict[str, Any], file: BinaryIO) -> Objects:
    for event in _events(_decoder(protocol, options), file):
        if isinstance(event, Decoded):
            yield to_json(event.message) | {"offset": event.offset}
        else:
            yield error_json(event.error, protocol.name) | {"offset": event.offset, "length": event.length}


def _events(decoder: StreamDecoder, file: BinaryIO) -> Iterator[Any]:
    for chunk in read_chunks(file):
        yield from decoder.feed(chunk)
    yield from decoder.finish()


def _decoder(protocol: Protocol, options: dict[str, Any]) -> StreamDecoder:
    with usage_errors(ValueError):
        return StreamDecoder(protocol, **options)


def _stream_columns(protocol: Protocol, options: dict[str, Any], file: BinaryIO) -> Objects:
    from ..columnar import decode_stream
    from ..columnar.to_json import all_columns, show_rows

    _decoder(protocol, options)  # refuses what cannot be read as a stream
    nodes = {node.name: node for node in layout(protocol, **options).messages.values()}
    wanted = all_columns(protocol)
    for batch in decode_stream(protocol, read_chunks(file), wanted, batch_bytes=CHUNK, **options):
        offsets = batch.records.column("offset").to_pylist()
        rows = [shown | {"offset": at} for at, shown in zip(offsets, show_rows(protocol, nodes, batch), strict=True)]
        for row in batch.quarantined.to_pylist():
            rows.append(_show_quarantined(row, protocol, row["offset"]) | {"length": row["length"]})
        yield from sorted(rows, key=itemgetter("offset"))


READERS = {
    ("record", True): _hex_records,
    ("record", False): _stream_records,
    ("columnar", True): _hex_columns,
    ("columnar", False): _stream_columns,
}
