"""demo: all of it, end to end."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from ..protocols import BUILT_IN
from .ingest import needs_spark, summary

MESSAGES = 8000
CORRUPT = 0.002
VIOLATIONS = 0.01


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
@click.option("--keep", type=click.Path(path_type=Path, file_okay=False), help="Keep capture and lake in this folder.")
def demo(messages: int, seed: int, keep: Path | None) -> None:
    """Generates mixed traffic of all four protocols, some of it damaged or against the rules, makes tables of it on
    Spark and sums them up.

    \b
    wirelake demo
    wirelake demo --keep demo-files
    """
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        if (folder / "lake").exists():
            raise click.UsageError(f"{folder / 'lake'} exists already; name another folder")
        with needs_spark():
            _run(folder, messages, seed, kept=keep is not None)


def _run(folder: Path, messages: int, seed: int, kept: bool) -> None:
    from ..generate import generate, write_pcap
    from ..spark.pipeline import ingest
    from ..spark.session import session

    traffic = generate(BUILT_IN, seed=seed, messages=messages, corrupt=CORRUPT, violations=VIOLATIONS)
    started = time.perf_counter()
    capture, lake = folder / "mixed.pcap", folder / "lake"
    write_pcap(traffic, capture)
    took = time.perf_counter() - started
    click.echo(
        f"1. generated {capture.name}: {capture.stat().st_size:,} bytes of TCP, all four protocols ({took:.1f} s)"
    )
    click.echo("2. ingest on Spark, to the tables of a lake", nl=False)
    report = ingest(lambda: session("local[*]"), [str(capture)], str(lake), final=True)
    click.echo(f": {sum(report.messages.values()):,} messages ({report.seconds:.1f} s, the first time with compiling)")
    click.echo("3. what was there:\n")
    found = _found(lake)
    for text in _table(found):
        click.echo(f"   {text}")
    whole = sum(line.size for line in found.values())
    bad = sum(line.quarantined for line in found.values())
    click.echo(f"\n   {whole - bad:,} bytes in messages + {bad:,} quarantined = {whole:,} bytes in\n")
    for text in summary(report):
        click.echo(f" {text}")
    if kept:
        click.echo(f"\nAsk it: python examples/questions/ask.py {lake}")
        click.echo(f"In Wireshark: wirelake dissector casual > c.lua; wireshark -X lua_script:c.lua {capture}")


def _found(path: Path) -> dict[str, Line]:
    from ..lake import Lake

    lake = Lake.open(path, create=False)
    found = {name: Line() for name in BUILT_IN}
    for row in _rows(lake, "accounting", "protocol", "bytes_in", "bytes_quarantined"):
        line = found[row["protocol"]]
        line.streams += 1
        line.size += row["bytes_in"]
        line.quarantined += row["bytes_quarantined"]
    for row in _rows(lake, "silver/messages", "protocol", "message"):
        found[row["protocol"]].messages += 1
        found[row["protocol"]].names[row["message"]] += 1
    for row in _rows(lake, "silver/quarantine", "protocol"):
        found[row["protocol"]].ranges += 1
    return found


def _rows(lake: Any, table: str, *columns: str) -> list[dict[str, Any]]:
    return list(lake.dataset(table).to_table(columns=list(columns)).to_pylist()) if lake.files(table) else []


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
