"""call: call services and print the replies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .client import connecting, each_message, live_of, protocol_values, run, single_message
from .output import emit_now

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson, Outgoing


@click.command()
@click.argument("url")
@click.argument("service", required=False)
@click.argument("value", required=False)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="Seconds to wait for a reply.")
@click.option("--no-reply", is_flag=True, help="Do not wait for a reply; the service sends none.")
@connecting("call")
def call(service: str | None, value: str | None, timeout: float | None, no_reply: bool, **given: Any) -> None:
    """Call a service and print its reply as one JSON object.

    The VALUE is JSON; what is not JSON goes as text. With - for the VALUE, or without a SERVICE, every line of standard
    input is a call: {"service": …, "value": …}, with "text" or "hex" instead of "value" if it is not JSON, and "type"
    for another type of buffer. They are made one after the other. A failure is printed as {"service", "error"},
    with what the service returned beside it.

    \b
    wirelake call casual://localhost:7771 order.create '{"number": 17}'
    wirelake call casual://localhost:7771 order.create - < orders.jsonl

    Exit status 1 if a call failed.
    """
    extra = protocol_values("call", given) | ({} if timeout is None else {"timeout": timeout})
    if service is not None and value is None:
        value = live_of(given).message_json.empty
    single = single_message(given, service, value)

    async def send(client: Any, shape: MessageJson) -> int:
        from ..live.core.errors import AnswerError

        failed = 0

        async def call_one(message: Outgoing) -> None:
            nonlocal failed
            options = {"no_reply": no_reply} | extra | message.more
            try:
                reply = await client.call(message.topic, message.payload, **options)
            except AnswerError as error:
                failed = 1
                returned = {} if (reply := getattr(error, "reply", None)) is None else shape.show(reply)
                told = {"code": error.code, "message": error.message}
                emit_now({"service": message.topic, "error": told} | returned)
            else:
                emit_now({"service": message.topic} | ({} if options["no_reply"] else shape.show(reply)))

        return await each_message(shape, service, single, call_one) or failed

    run(send, given)
