"""transactions: show what is prepared or in doubt, and decide it by hand."""

from __future__ import annotations

import click

from .output import emit
from .stores import STORE, opened

WARNING = "If the coordinator decides otherwise later, the domains disagree, and it is told so."


@click.command()
@click.argument("store", metavar=STORE)
@click.option("--commit", "committed", metavar="XID", help="Commit this prepared branch.")
@click.option("--rollback", "rolled_back", metavar="XID", help="Roll back this prepared branch.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def transactions(store: str, committed: str | None, rolled_back: str | None, yes: bool) -> None:
    """List the branches of transactions in a STORE that are not finished, or decide one by hand.

    A branch is "prepared" until its coordinator says how it ends, "preparing" while domains below are asked, and
    "committed" or "rolled_back" as long as "peers" have to be told. A prepared branch waits without a limit. Decide one
    by hand only if its coordinator will never come back. A hub may use the store meanwhile.

    \b
    wirelake transactions casual.db
    wirelake transactions casual.db --rollback 42:9f1c0a:01

    Exit status 1 if there is no such store, or the branch is not prepared.
    """
    if committed is not None and rolled_back is not None:
        raise click.UsageError("--commit and --rollback exclude each other")
    xid = committed or rolled_back
    with opened(store) as found:
        if xid is None:
            lines = found.transactions()
        else:
            verb = "commit" if committed else "roll back"
            if not yes:
                click.confirm(f"{WARNING}\n{verb} {xid}?", abort=True, err=True)
            lines = [found.resolve(xid, is_commit=committed is not None)]
        for line in lines:
            emit(line)
