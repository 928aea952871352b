"""subscribe: print the messages of topics as they come."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ..errors import WireError
from .client import connecting, protocol_values, run
from .output import emit_now

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson
    from ..live.drive.client import Client


@click.command()
@click.argument("url")
@click.argument("patterns", nargs=-1, required=True)
@click.option("-n", "--messages", "count", type=click.IntRange(1), metavar="N", help="End after N messages.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="End after S seconds.")
@connecting("subscribe")
def subscribe(patterns: tuple[str, ...], count: int | None, timeout: float | None, **given: Any) -> None:
    """Print the messages of topics or patterns as they come, one JSON object per line.

    mb: {"topic", "payload", "version"}; a payload that is not JSON is "text", one that is not UTF-8 is "hex".
    Patterns: + matches one level, # the rest. ceda: {"topic", "record"}; * matches one segment, ** the rest. dsa:
    {"path", "value", "meta", "status"}; paths have no patterns. A line on standard error says when the subscription is
    active. Ends after -n messages, after --timeout seconds, or on Ctrl-C.

    \b
    wirelake subscribe mb://localhost 'plant.#'
    wirelake subscribe -p ceda localhost:8088 'FX.SPOT.*' -n 1 --timeout 5
    wirelake subscribe ceda+wss://user@gateway.example 'FX.**' --ca ca.pem
    wirelake subscribe dsa://localhost downstream/boiler/main/temperature --qos 1

    Exit status 1 if fewer than -n messages came in time.
    """
    extra = protocol_values("subscribe", given)

    async def listen(client: Client[Any, Any], shape: MessageJson) -> int:
        seen = 0
        async with client.subscribe(*patterns, **extra) as messages:
            click.echo(f"subscribed to {', '.join(patterns)}", err=True)
            try:
                async with asyncio.timeout(timeout):
                    async for message in messages:
                        emit_now(shape.show(message))
                        seen += 1
                        if seen == count:
                            break
            except TimeoutError as error:
                if isinstance(error, WireError):
                    raise
        return 1 if count is not None and seen < count else 0

    run(listen, given, is_endless=True)
