"""lake: look after a lake over months."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from ..errors import LakeError
from .options import as_of_option
from .output import emit
from .progress import size

if TYPE_CHECKING:
    from ..lake import Lake

quiet_option = click.option("--quiet", is_flag=True, help="No summary on standard error.")


@click.group()
def lake() -> None:
    """Look after a lake: its state, its files, and what operations teams do with it over months.

    LAKE is a directory or a URI, as `wirelake ingest` writes it. Each verb prints JSON on standard output and a summary
    for people on standard error. Those that write take the lake's lock, as `ingest` does: while another run writes,
    they say so and end.

    \b
    wirelake lake status lake
    wirelake lake files lake gold/exchanges
    """


@contextmanager
def lake_errors() -> Iterator[None]:
    """Show what is wrong with a lake as one line."""
    try:
        yield
    except LakeError as error:
        raise click.ClickException(str(error)) from None


def opened(place: str, as_of: int | datetime | None = None) -> Lake:
    from ..lake import Lake

    found = Lake.open(place, create=False)
    return found if as_of is None else found.at(as_of)


@lake.command("status")
@click.argument("place", metavar="LAKE")
@as_of_option
@quiet_option
def status_verb(place: str, as_of: int | datetime | None, quiet: bool) -> None:
    """Show tables with rows, files and sizes, sensors with position and lag, what is open, and the last commit."""
    from ..lake.status import status

    with lake_errors():
        found = status(opened(place, as_of))
    emit(found)
    if not quiet:
        for line in _status_lines(found):
            click.echo(line, err=True)


def _status_lines(found: dict[str, Any]) -> Iterator[str]:
    yield f"{found['lake']}: commit {found['commit']:,} at {found['committed_at'] or 'no time yet'}"
    for name, table in found["tables"].items():
        span = f"  {table['first'][:10]} to {table['last'][:10]}" if table["first"] and table["last"] else ""
        yield f"  {name:<20} {table['rows']:>14,} rows {table['files']:>8,} files {size(table['bytes']):>9}{span}"
    for name, sensor in found["sensors"].items():
        lag = "" if sensor["lag_seconds"] is None else f", {_span(sensor['lag_seconds'])} behind now"
        yield f"  sensor {name}: {sensor['captures']:,} captures, read to {sensor['until'] or 'no time'}{lag}"
    if found["open"]:
        yield "  open: " + ", ".join(f"{count:,} {kind}" for kind, count in found["open"].items())
    if found["expired_before"]:
        yield f"  rows before {found['expired_before']} are expired"


def _span(seconds: float) -> str:
    for name, unit in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
        if abs(seconds) >= 2 * unit:
            return f"{seconds / unit:,.0f} {name}"
    return f"{seconds:,.0f} s"


@lake.command("files")
@click.argument("place", metavar="LAKE")
@click.argument("table", metavar="TABLE")
@as_of_option
def files_verb(place: str, table: str, as_of: int | datetime | None) -> None:
    """Print the files of a table in one snapshot, one path per line.

    TABLE is a name such as gold/exchanges. Every file that is listed can be read for the grace period, whatever is
    committed meanwhile.

    \b
    wirelake lake files lake silver/messages
    wirelake lake files lake gold/exchanges --as-of 4711
    """
    from ..lake.validation import is_table

    if not is_table(table):
        raise click.UsageError(f"{table!r} is not a table of a lake: gold/exchanges is one, silver/PROTOCOL another")
    with lake_errors():
        for path in opened(place, as_of).places(table):
            click.echo(path)
