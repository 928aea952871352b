"""queues: look after the queues of a store."""

from __future__ import annotations

import click

from .output import emit
from .stores import opened


@click.command()
@click.argument("store", metavar="STORE|URL")
@click.argument("names", nargs=-1, metavar="[QUEUE]...")
@click.option("--peek", type=click.IntRange(1), metavar="N", help="Print the first N messages; they stay in the queue.")
@click.option("--move-back", is_flag=True, help="Move messages from the error queue of QUEUE back to it.")
@click.option(
    "--id", "idents", multiple=True, metavar="ID", help="With --move-back: only this message; may be repeated."
)
@click.option("--purge", is_flag=True, help="Delete the messages of QUEUE that no transaction has.")
@click.option("--yes", is_flag=True, help="With --purge: do not ask.")
def queues(
    store: str,
    names: tuple[str, ...],
    peek: int | None,
    move_back: bool,
    idents: tuple[str, ...],
    purge: bool,
    yes: bool,
) -> None:
    """List the queues of a STORE or URL, or look after one of them.

    Each QUEUE, or every one, is a line: how many messages are ready, delayed until a time, added or taken by a
    transaction that is not committed, and how old the oldest is. A hub may use the store meanwhile.

    A STORE can do everything. The URL of a hub's metrics only lists. Domains do not list their queues, nor show
    messages without giving them away: the URL of a domain tells whether it has QUEUE, moves messages back (they get new
    ids), and purges. It can be that of any domain, not only of a hub.

    \b
    wirelake queues casual.db
    wirelake queues casual.db orders.error --peek 5
    wirelake queues casual.db orders --move-back
    wirelake queues postgresql://hub@db/queues orders --purge
    wirelake queues http://localhost:9464
    wirelake queues casual://localhost:7771 orders --move-back

    Exit status 1 if there is no such store or queue, or if it cannot do that.
    """
    if sum((peek is not None, move_back, purge)) > 1:
        raise click.UsageError("--peek, --move-back and --purge exclude each other")
    if (peek is not None or move_back or purge) and len(names) != 1:
        raise click.UsageError("name the one QUEUE")
    if idents and not move_back:
        raise click.UsageError("--id belongs to --move-back")
    with opened(store) as found:
        if peek is not None:
            lines = found.peek(names[0], peek)
        elif move_back:
            lines = found.restore(names[0], idents)
        elif purge:
            (about,) = found.queues(names)
            if not yes:
                count = about["ready"] + about["delayed"] if "ready" in about else "all"
                click.confirm(f"delete {count} messages of {names[0]}?", abort=True, err=True)
            lines = [{"queue": names[0], "deleted": found.purge(names[0])}]
        else:
            lines = found.queues(names)
        for line in lines:
            emit(line)
