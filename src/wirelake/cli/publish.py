"""publish: send messages to the subscribers of topics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .client import connecting, each_message, protocol_values, run, single_message

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson, Outgoing
    from ..live.drive.client import Client


@click.command()
@click.argument("url")
@click.argument("topic", required=False)
@click.argument("payload", required=False)
@connecting("publish")
def publish(topic: str | None, payload: str | None, **given: Any) -> None:
    """Publish one message, or one for each line of standard input.

    For mb the PAYLOAD is sent as given; for ceda it is a record in JSON: values by number, or a list of fields as
    decode prints it. Without a PAYLOAD, or with -, each line of standard input is an object: {"topic": …, "payload": …}
    for mb ("text" or "hex" instead of "payload" if it is not JSON), {"topic": …, "record": …} for ceda. Lines without a
    topic use the TOPIC of the command line. publish accepts what subscribe prints.

    \b
    wirelake publish mb://localhost plant.boiler '{"celsius": 81.5}'
    wirelake publish -p ceda localhost:8088 FX.SPOT.EURUSD '{"1": 1.085, "3": "firm"}'
    jq -c '{topic: "order.new", payload: .}' orders.json | wirelake publish mb://localhost
    wirelake subscribe mb://here '#' | wirelake publish mb://there

    Exit status 1 if a line could not be read or a message was refused.
    """
    extra = protocol_values("publish", given)
    single = single_message(given, topic, payload)

    async def send(client: Client[Any, Any], shape: MessageJson) -> int:
        async def publish_one(message: Outgoing) -> None:
            more = {key: value for key, value in message.more.items() if key in shape.publish_keys}
            await client.publish(message.topic, message.payload, **more, **extra)

        return await each_message(shape, topic, single, publish_one)

    run(send, given)
