"""generate: realistic seeded traffic as files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..spec.nodes import Protocol
from .options import PROTOCOLS, chosen_options, protocols_option, reading_options, usage_errors

if TYPE_CHECKING:
    from ..generate import Traffic

DIALS = ("corrupt", "violations", "ipv6", "disorder", "gaps")


@click.command()
@protocols_option(f"{PROTOCOLS}; repeat it for mixed traffic.", required=True)
@click.option("-n", "--messages", default=1000, show_default=True, help="About how many messages.")
@click.option("--connections", default=4, show_default=True, help="Connections per protocol.")
@click.option("--seed", default=0, show_default=True, help="The same seed gives the same bytes.")
@click.option(
    "--run", default="", metavar="NAME", help="Runs of the same name share their connections.  [default: none do]"
)
@click.option("--corrupt", default=0.0, show_default=True, metavar="SHARE", help="Share of frames to corrupt, 0..1.")
@click.option(
    "--violations", default=0.0, metavar="SHARE", help="Share of conversations in which a peer breaks the rules."
)
@click.option("--ipv6", default=0.0, metavar="SHARE", help="Share of connections with IPv6 addresses.")
@click.option("--disorder", default=0.0, metavar="SHARE", help="Share of packets that arrive late or twice.")
@click.option("--gaps", default=0.0, metavar="SHARE", help="Share of packets that the capture misses.")
@click.option("--rotate", type=click.IntRange(1), metavar="BYTES", help="Begin a new pcap or tap file after BYTES.")
@click.option("--files", type=click.IntRange(1), metavar="N", help="Split the pcap into N files of about equal size.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["pcap", "tap", "raw", "jsonl"]),
    default="pcap",
    show_default=True,
    help="A capture of packets or a tap, a folder of byte streams, or JSON lines.",
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), required=True, help="The file (raw, rotated tap: the folder)."
)
@reading_options
def generate(
    protocols: tuple[Protocol, ...],
    messages: int,
    connections: int,
    seed: int,
    run: str,
    form: str,
    output: Path,
    rotate: int | None,
    files: int | None,
    **given: Any,
) -> None:
    """Generate realistic seeded traffic: conversations with latencies, failures and timeouts.

    \b
    wirelake generate -p casual -n 5000 -o calls.pcap
    wirelake generate -p mb -p ceda --corrupt 0.01 --seed 7 -o mixed.pcap
    wirelake generate -p casual --disorder 0.1 --gaps 0.01 --files 5 -o rotated.pcap
    wirelake generate -p casual --violations 0.05 --format tap -o calls.tap
    wirelake generate -p dsa --format raw -o streams/
    """
    from ..generate import generate as make

    _check_sets(form, rotate, files)
    dials = {name: given.pop(name) for name in DIALS}
    options = chosen_options(given)
    with usage_errors(ValueError):
        traffic = make(protocols, seed=seed, messages=messages, connections=connections, run=run, **dials, **options)
    try:
        written = _write(traffic, form, output, rotate, files)
    except OSError as error:
        raise click.UsageError(f"cannot write {output}: {error.strerror}") from None
    click.echo(f"wrote {written}", err=True)


def _check_sets(form: str, rotate: int | None, files: int | None) -> None:
    if rotate is not None and form not in ("pcap", "tap"):
        raise click.UsageError(f"--rotate is for pcap and tap, not for {form}")
    if files is not None and form != "pcap":
        raise click.UsageError(f"--files is for pcap, not for {form}")


def _write(traffic: Traffic, form: str, output: Path, rotate: int | None, files: int | None) -> Path:
    """Write the traffic; return what was written."""
    from ..generate import write_jsonl, write_pcap, write_raw, write_tap

    if form == "raw" or (form == "tap" and rotate is not None):
        output.mkdir(parents=True, exist_ok=True)
    match form:
        case "pcap":
            write_pcap(traffic, output, rotate_bytes=rotate, files=files)
            return output.with_name(f"{output.stem}-*{output.suffix}") if rotate or files else output
        case "tap":
            write_tap(traffic, output, rotate_bytes=rotate)
        case "raw":
            write_raw(traffic, output)
        case _:
            write_jsonl(traffic, output)
    return output
