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


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk


def read_lines(file: BinaryIO) -> Iterator[str]:
    for raw in file:
        yield raw.decode("utf-8", "replace")
