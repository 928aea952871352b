"""lake: look after a lake over months."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from ..errors import LakeError
from .options import as_of_option, protocols_option
from .output import emit
from .progress import size, span

if TYPE_CHECKING:
    from ..lake import Lake
    from ..spec.nodes import Protocol

quiet_option = click.option("--quiet", is_flag=True, help="No summary on standard error.")


@click.group()
def lake() -> None:
    """Look after a lake: its state, its files, and what operations teams do with it over months.

    LAKE is a directory or a URI, as `wirelake ingest` writes it. Each verb prints JSON on standard output and a summary
    for people on standard error. Those that write take the lake's lock, as `ingest` does: while another run writes,
    they say so and end.

    \b
    wirelake lake status lake
    wirelake lake compact lake
    wirelake lake expire lake --before 2024-05-01
    wirelake lake delta lake
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
        dates = f"  {table['first'][:10]} to {table['last'][:10]}" if table["first"] and table["last"] else ""
        yield f"  {name:<20} {table['rows']:>14,} rows {table['files']:>8,} files {size(table['bytes']):>9}{dates}"
    for name, sensor in found["sensors"].items():
        lag = "" if sensor["lag_seconds"] is None else f", {span(sensor['lag_seconds'])} behind now"
        yield f"  sensor {name}: {sensor['captures']:,} captures, read to {sensor['until'] or 'no time'}{lag}"
    if found["open"]:
        yield "  open: " + ", ".join(f"{count:,} {kind}" for kind, count in found["open"].items())
    if found["expired_before"]:
        yield f"  rows before {found['expired_before']} are expired"


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


# --- upkeep


@lake.command("compact")
@click.argument("place", metavar="LAKE")
@click.option("--table", "tables", multiple=True, metavar="TABLE", help="Only this table; may be repeated.")
@click.option(
    "--target-mb",
    type=click.IntRange(1, 4096),
    default=128,
    show_default=True,
    help="About how large files become; larger than half of it are left alone.",
)
@click.option(
    "--min-files", type=click.IntRange(2), default=2, show_default=True, help="Merge only so many files and more."
)
@quiet_option
def compact_verb(place: str, tables: tuple[str, ...], target_mb: int, min_files: int, quiet: bool) -> None:
    """Merge small files, by table, date and sensor, into files sorted by time.

    It is a commit of its own: readers see the small files or the large ones. A late capture can still be put in its
    place, so files of the newest captures are merged only when enough later ones have come.

    \b
    wirelake lake compact lake
    wirelake lake compact lake --table silver/messages --min-files 8
    """
    from ..lake.compaction import compact
    from ..lake.validation import is_table

    for table in tables:
        if not is_table(table):
            raise click.UsageError(
                f"{table!r} is not a table of a lake: gold/exchanges is one, silver/PROTOCOL another"
            )
    say = (lambda line: None) if quiet else (lambda line: click.echo(line, err=True))
    with lake_errors(), opened(place).writing() as run:
        done = compact(run, tables=tables or None, target_bytes=target_mb << 20, min_files=min_files, say=say)
    emit(asdict(done))
    if not quiet:
        sizes = f"{size(done.bytes_before)} to {size(done.bytes_after)}"
        click.echo(f"{done.files_before:,} files became {done.files_after:,}, {sizes}", err=True)


@lake.command("expire")
@click.argument("place", metavar="LAKE")
@click.option(
    "--before", type=click.DateTime(["%Y-%m-%d"]), required=True, metavar="DATE", help="The first date that stays."
)
@quiet_option
def expire_verb(place: str, before: datetime, quiet: bool) -> None:
    """Remove the rows of all dates before DATE, from every table that has dates, in one commit.

    What goes is counted, and so are the accounts of connections that had ended: accounts still add up. Rows without a
    time stay. The files are deleted after the grace period. A late capture of these dates can no longer be put in its
    place.

    \b
    wirelake lake expire lake --before 2024-05-01
    """
    from ..lake.expiry import expire

    with lake_errors(), opened(place).writing() as run:
        done = expire(run, before.date())
    emit(asdict(done))
    if not quiet:
        rows = ", ".join(f"{count:,} of {table}" for table, count in done.rows.items()) or "nothing"
        click.echo(f"expired {rows}; {done.files:,} files, {size(done.bytes)}", err=True)


@lake.command("sweep")
@click.argument("place", metavar="LAKE")
@click.option("--grace", type=click.FloatRange(0), metavar="SECONDS", help="Instead of the grace period of the lake.")
@quiet_option
def sweep_verb(place: str, grace: float | None, quiet: bool) -> None:
    """Delete removed files whose grace period is over, and records that a checkpoint covers.

    Every run that writes does this too. A grace of 0 takes files from under whoever reads a snapshot now.

    \b
    wirelake lake sweep lake
    wirelake lake sweep lake --grace 0
    """
    from ..lake.sweep import sweep

    with lake_errors(), opened(place).writing() as run:
        state = run.lake.refresh()
        period = run.lake.grace if grace is None else timedelta(seconds=grace)
        deleted = sweep(run.lake.store, state, period)
        emit({"deleted": deleted, "swept_to": state.swept})
    if not quiet:
        click.echo(f"deleted {deleted:,} files", err=True)


@lake.command("configure")
@click.argument("place", metavar="LAKE")
@click.option("--buckets", type=click.IntRange(1, 999), help="Into how many parts gold is divided, for each sensor.")
@click.option("--grace", type=click.FloatRange(0), metavar="SECONDS", help="How long snapshots find removed files.")
@protocols_option("With --buckets: a protocol of your own that has open connections. May be repeated.")
def configure_verb(place: str, buckets: int | None, grace: float | None, protocols: tuple[Protocol, ...]) -> None:
    """Change the settings of a lake; without options, print them.

    The number of buckets may change while requests, sessions and transactions are open: they go on in the new buckets.
    A late capture that comes afterwards is put in its place from the first capture of its sensor on.

    \b
    wirelake lake configure lake --grace 3600
    wirelake lake configure lake --buckets 32
    """
    with lake_errors():
        found = opened(place)
        if buckets is not None or grace is not None:
            with found.writing() as run:
                if buckets is not None:
                    from ..ingest.rebucket import rebucket

                    rebucket(run, buckets, protocols)
                if grace is not None:
                    run.commit(settings={"grace_seconds": grace})
        emit({"lake": found.path, "commit": found.number(), "settings": found.settings})


@lake.command("delta")
@click.argument("place", metavar="LAKE")
@click.option("--drop", "is_dropped", is_flag=True, help="Publish no longer: delete the logs of the Delta tables.")
@quiet_option
def delta_verb(place: str, is_dropped: bool, quiet: bool) -> None:
    """Publish the tables as Delta tables: LAKE/_tables/gold/exchanges and so on. Files are not copied, except on S3.

    Run it again after commits, as often as you like: it adds and removes what changed, one transaction per table, which
    names the commit of the lake. It may run while another run writes. Removed files stay until the next publication,
    and for the grace period after it. The tables are for reading: it refuses to go on behind somebody else's commit.

    \b
    wirelake lake delta lake
    wirelake lake delta lake --drop
    """
    from ..lake.delta import drop, publish

    with lake_errors():
        if is_dropped:
            emit({"dropped": drop(opened(place))})
            return
        done = publish(opened(place))
    emit(asdict(done))
    if not quiet:
        added, removed = (sum(table[name] for table in done.tables.values()) for name in ("added", "removed"))
        line = (
            f"published commit {done.commit:,}: {added:,} files added, {removed:,} removed in {len(done.tables)} tables"
        )
        click.echo(line, err=True)
