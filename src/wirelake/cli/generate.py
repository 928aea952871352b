"""generate: realistic seeded traffic into files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..spec.nodes import Protocol
from .common import ProtocolName, reading_options, take_options


@click.command()
@click.option(
    "-p",
    "--protocol",
    "protocols",
    type=ProtocolName(),
    multiple=True,
    required=True,
    metavar="P",
    help="casual, dsa, mb, ceda or file.py:NAME; several for mixed traffic.",
)
@click.option("-n", "--messages", default=1000, show_default=True, help="About how many messages.")
@click.option("--connections", default=4, show_default=True, help="Connections per protocol.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same bytes.")
@click.option("--corrupt", default=0.0, show_default=True, metavar="SHARE", help="Share of frames to damage, 0..1.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["pcap", "raw", "jsonl"]),
    default="pcap",
    show_default=True,
    help="A capture, a folder of byte streams, or JSON lines.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The file (raw: the folder).")
@reading_options
def generate(
    protocols: tuple[Protocol, ...],
    messages: int,
    connections: int,
    seed: int,
    corrupt: float,
    form: str,
    output: Path,
    **given: Any,
) -> None:
    """Realistic seeded traffic: conversations with latencies, failures and time-outs, not noise.

    \b
    wirelake generate -p casual -n 5000 -o calls.pcap
    wirelake generate -p mb -p ceda --corrupt 0.01 --seed 7 -o mixed.pcap
    wirelake generate -p dsa --format raw -o streams/
    """
    from ..generate import generate as make
    from ..generate import write_jsonl, write_pcap, write_raw

    options = take_options(protocols[0], given) if len(protocols) == 1 else _mixed(given)
    try:
        traffic = make(protocols, seed=seed, messages=messages, connections=connections, corrupt=corrupt, **options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        match form:
            case "pcap":
                write_pcap(traffic, output)
            case "raw":
                output.mkdir(parents=True, exist_ok=True)
                write_raw(traffic, output)
            case _:
                write_jsonl(traffic, output)
    except OSError as error:
        raise click.UsageError(f"cannot write {output}: {error.strerror}") from None
    click.echo(f"wrote {output}", err=True)


def _mixed(given: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name != "more" and value is not None}
