"""What verbs read: files and standard input, as chunks or lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import click

CHUNK = 1 << 20


def open_inputs(files: tuple[str, ...]) -> Iterator[tuple[str, BinaryIO]]:
    """Open the named files one after the other; ``-``, or no name, is standard input."""
    for name in files or ("-",):
        if name == "-":
            yield name, sys.stdin.buffer
            continue
        path = Path(name)
        try:
            with path.open("rb") as file:
                yield name, file
        except OSError as error:
            raise click.UsageError(f"cannot read {name}: {error.strerror}") from None


def open_streams(files: tuple[str, ...]) -> Iterator[tuple[str, BinaryIO]]:
    """Open files that hold frames and nothing else; refuse a capture, whose packets would be read as frames."""
    from ..capture.magic import HEAD_BYTES, magic_kind

    for name, file in open_inputs(files):
        peek = getattr(file, "peek", None)
        kind = magic_kind(peek(HEAD_BYTES)[:HEAD_BYTES]) if peek is not None else None
        if kind is not None:
            shown = "standard input" if name == "-" else name
            raise click.UsageError(f"{shown} is a capture ({kind}): use `wirelake ingest {name} LAKE`")
        yield name, file


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def read_lines(file: BinaryIO) -> Iterator[str]:
    for raw in file:
        yield raw.decode("utf-8", "replace")
