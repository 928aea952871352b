"""enqueue: put messages into queues."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from .client import connecting, each_message, live_of, protocol_values, run, single_message
from .output import emit_now

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson, Outgoing


@click.command()
@click.argument("url")
@click.argument("queue", required=False)
@click.argument("value", required=False)
@click.option("--properties", metavar="TEXT", help="What a dequeue may select by.")
@click.option("--reply", metavar="QUEUE", help="The queue for replies.")
@click.option(
    "--available", type=click.DateTime(), metavar="TIME", help="Not before this time, as 2026-01-31T12:00:00."
)
@connecting("enqueue")
def enqueue(
    queue: str | None,
    value: str | None,
    properties: str | None,
    reply: str | None,
    available: datetime | None,
    **given: Any,
) -> None:
    """Enqueue one message, or one for each line of standard input, and print the id of each.

    The VALUE is JSON; what is not JSON goes as text. Without a VALUE, or with -, each line of standard input is an
    object: {"queue": …, "value": …}, with "text" or "hex" instead of "value" if it is not JSON, and "type",
    "properties", "reply", "available" and "id" where they are needed. enqueue accepts what dequeue prints. An id that
    is printed means that the message is on the disk of the domain.

    \b
    wirelake enqueue casual://localhost:7771 orders '{"number": 17}'
    wirelake dequeue casual://here:7771 orders --all | wirelake enqueue casual://there:7771

    Exit status 1 if a message was refused.
    """
    options = {"properties": properties, "reply": reply, "available": available}
    extra = protocol_values("enqueue", given) | {key: one for key, one in options.items() if one is not None}
    if queue is not None and value is None and live_of(given).message_json.empty is None:
        value = "-"
    single = single_message(given, queue, value)

    async def send(client: Any, shape: MessageJson) -> int:
        async def enqueue_one(message: Outgoing) -> None:
            ident = await client.enqueue(message.topic, message.payload, **(extra | message.more))
            emit_now({"queue": message.topic, "id": ident})

        return await each_message(shape, queue, single, enqueue_one)

    run(send, given)
