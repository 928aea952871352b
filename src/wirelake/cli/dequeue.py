"""dequeue: take messages from a queue and print them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .client import connecting, protocol_values, run
from .output import emit_now

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson


@click.command()
@click.argument("url")
@click.argument("queue")
@click.option("-n", "--count", type=click.IntRange(1), default=1, show_default=True, help="Messages to take.")
@click.option("--all", "takes_all", is_flag=True, help="Take messages until the queue is empty.")
@click.option("--block", is_flag=True, help="Wait until there is a message; with --all, for ever.")
@click.option("--id", "ident", metavar="ID", help="Take the message with this id.")
@click.option("--properties", metavar="TEXT", help="Take only messages with exactly these properties.")
@connecting("dequeue")
def dequeue(
    queue: str, count: int, takes_all: bool, block: bool, ident: str | None, properties: str | None, **given: Any
) -> None:
    """Take messages from a QUEUE and print each as one JSON object.

    A message is taken in a transaction that is committed when its line is written: if writing fails, it stays in the
    queue.

    \b
    wirelake dequeue casual://localhost:7771 orders
    wirelake dequeue casual://localhost:7771 orders.error --all > failed.jsonl
    wirelake dequeue casual://localhost:7771 orders --block --all

    Exit status 1 if there was no message.
    """
    selector = {key: value for key, value in {"id": ident, "properties": properties}.items() if value is not None}
    extra = protocol_values("dequeue", given) | selector

    async def take(client: Any, shape: MessageJson) -> int:
        taken = 0
        while takes_all or taken < count:
            async with client.transaction():
                message = await client.dequeue(queue, block=block, **extra)
                if message is not None:
                    emit_now({"queue": queue} | shape.show(message))
            if message is None:
                break
            taken += 1
        return 0 if taken else 1

    run(take, given, is_endless=takes_all and block)
