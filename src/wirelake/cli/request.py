"""request: send requests and print the replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .client import connecting, each_message, live_of, protocol_values, run, single_message
from .output import emit_now

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson, Outgoing
    from ..live.drive.client import Client


@click.command()
@click.argument("url")
@click.argument("topic", required=False)
@click.argument("payload", required=False)
@click.option(
    "--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="How many seconds to wait for a reply."
)
@connecting("request")
def request(topic: str | None, payload: str | None, timeout: float | None, **given: Any) -> None:
    """Send a request and print its reply as one JSON object.

    TOPIC and PAYLOAD are those of publish. With - for the PAYLOAD, or without a TOPIC, every line of standard input is
    a request; they are sent one after the other. For mb the PAYLOAD defaults to {}. An error reply of mb is printed as
    {"topic", "error": {"code", "message", "details"}}.

    \b
    wirelake request mb://localhost math.add '{"x": 1, "y": 2}'
    wirelake request mb://localhost system.service.list
    wirelake request -p ceda localhost:8088 QUOTE.GET '{"1": "EURUSD"}' --timeout 2

    Exit status 1 if a reply was an error or none came in time.
    """
    extra = protocol_values("request", given) | ({} if timeout is None else {"timeout": timeout})
    if topic is not None and payload is None:
        payload = live_of(given).message_json.empty
    single = single_message(given, topic, payload)

    async def send(client: Client[Any, Any], shape: MessageJson) -> int:
        from ..live.core.errors import AnswerError

        failed = 0

        async def request_one(message: Outgoing) -> None:
            nonlocal failed
            try:
                reply = await client.request(message.topic, message.payload, **(extra | message.more))
            except AnswerError as error:
                failed = 1
                emit_now({"topic": message.topic, "error": _shown_error(error)})
            else:
                emit_now(shape.show(reply) | {"topic": message.topic})

        return await each_message(shape, topic, single, request_one) or failed

    run(send, given)


def _shown_error(error: Any) -> dict[str, Any]:
    shown = {"code": error.code, "message": error.message}
    return shown if error.details is None else shown | {"details": error.details}
