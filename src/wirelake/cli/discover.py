"""discover: ask a domain which services and queues it offers."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import click

from .client import connecting, protocol_values, run
from .output import emit_now

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson


@click.command()
@click.argument("url")
@click.argument("names", nargs=-1, required=True)
@connecting("discover")
def discover(names: tuple[str, ...], **given: Any) -> None:
    """Ask whether a domain offers services or queues with these NAMES, and print what it offers.

    A domain replies only to names: it has no list of everything. "hops" 1 is that domain itself.

    \b
    wirelake discover casual://localhost:7771 order.create orders orders.error

    Exit status 1 if a name is offered neither as a service nor as a queue.
    """
    extra = protocol_values("discover", given)

    async def ask(client: Any, shape: MessageJson) -> int:
        offers = await client.discover(services=names, queues=names, **extra)
        for kind, found in (("service", offers.services), ("queue", offers.queues)):
            for one in found:
                shown = dataclasses.asdict(one)
                emit_now({kind: shown.pop("name")} | {key: value for key, value in shown.items() if value != ""})
        offered = {one.name for one in (*offers.services, *offers.queues)}
        missing = [name for name in names if name not in offered]
        if missing:
            click.echo(f"wirelake: not offered: {', '.join(missing)}", err=True)
        return 1 if missing else 0

    run(ask, given)
