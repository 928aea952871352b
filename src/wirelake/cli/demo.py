"""demo: all of it, end to end."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import click

from ..protocols import BUILT_IN, load
from .common import read_chunks

MESSAGES = 8000
CORRUPT = 0.002


@dataclass
class Line:
    """What was found of one protocol."""

    streams: int = 0
    size: int = 0
    messages: int = 0
    quarantined: int = 0
    ranges: int = 0
    names: Counter[str] = field(default_factory=Counter)


@click.command()
@click.option("-n", "--messages", default=MESSAGES, show_default=True, help="About how many messages.")
@click.option("--seed", default=1, show_default=True, help="The same seed gives the same traffic.")
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep the files in this folder.")
def demo(messages: int, seed: int, keep: Path | None) -> None:
    """Generates mixed traffic of all four protocols, a little of it damaged, decodes it and sums it up.

    \b
    wirelake demo
    wirelake demo --keep demo-files
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        _run(folder, messages, seed, kept=keep is not None)


def _run(folder: Path, messages: int, seed: int, kept: bool) -> None:
    from ..generate import generate, write_pcap, write_raw

    traffic = generate(BUILT_IN, seed=seed, messages=messages, corrupt=CORRUPT)
    started = time.perf_counter()
    capture = folder / "mixed.pcap"
    write_pcap(traffic, capture)
    click.echo(f"1. generated {capture.name}: {capture.stat().st_size:,} bytes of TCP, all four protocols mixed")
    streams = folder / "streams"
    streams.mkdir(exist_ok=True)
    written = write_raw(traffic, streams)
    click.echo(f"   and its {len(written)} byte streams ({time.perf_counter() - started:.1f} s)")
    click.echo("2. decoding to Arrow columns", nl=False)
    started = time.perf_counter()
    found = _decode(written)
    took = time.perf_counter() - started
    total = sum(line.messages for line in found.values())
    click.echo(f": {total:,} messages ({took:.1f} s, the first time with compiling)")
    click.echo("3. what was there:\n")
    for text in _table(found):
        click.echo(f"   {text}")
    whole = sum(line.size for line in found.values())
    accounted = whole - sum(line.quarantined for line in found.values())
    click.echo(f"\n   {accounted:,} bytes in messages + {whole - accounted:,} quarantined = {whole:,} bytes in")
    if kept:
        stream = next(path for path in written if "-casual-" in path.name)
        click.echo(f"\nLook closer: wirelake inspect -p casual {stream}")
        click.echo(
            f"In Wireshark: wirelake dissector casual > casual.lua; wireshark -X lua_script:casual.lua {capture}"
        )


def _decode(written: list[Path]) -> dict[str, Line]:
    """Each stream through the columnar decoder, in pieces as they would come from a socket."""
    from ..columnar import decode_stream

    found = {name: Line() for name in BUILT_IN}
    for path in written:
        name = path.name.split("-")[1]
        line = found[name]
        line.streams += 1
        line.size += path.stat().st_size
        with path.open("rb") as file:
            for batch in decode_stream(load(name), read_chunks(file), ["message"]):
                line.messages += batch.records.num_rows
                line.names.update(batch.records.column("message").to_pylist())
                line.ranges += batch.rejects.num_rows
                line.quarantined += sum(batch.rejects.column("length").to_pylist())
    return found


def _table(found: dict[str, Line]) -> list[str]:
    header = ("protocol", "streams", "bytes", "messages", "kinds", "bad ranges", "bad bytes", "most frequent")
    rows: list[tuple[str, ...]] = [header]
    for name, line in found.items():
        often = ", ".join(f"{message} {count}" for message, count in line.names.most_common(3))
        numbers = (line.streams, line.size, line.messages, len(line.names), line.ranges, line.quarantined)
        rows.append((name, *(f"{number:,}" for number in numbers), often))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    texts = []
    for i, row in enumerate(rows):
        cells = [
            cell.ljust(width) if column in (0, 7) else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        texts.append("  ".join(cells).rstrip())
        if i == 0:
            texts.append("  ".join("-" * width for width in widths))
    return texts
