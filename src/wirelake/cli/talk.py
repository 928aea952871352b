"""publish, subscribe, request, respond: talk to running servers, in JSON Lines."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ..codec.content import dump_json
from ..errors import WireError
from .talking import connecting, each_message, first_of, payload_argument, print_line, run, single_message, target_of

if TYPE_CHECKING:
    from ..net.client import Client
    from .talk_shapes import Outgoing, Shape

COMMAND_FAILED = "COMMAND_FAILED"
COMMANDS, ANSWERS = 16, 100
"""How many requests are handled side by side, with a command and without."""


# --- publish


@click.command()
@click.argument("url")
@click.argument("topic", required=False)
@click.argument("payload", required=False)
@click.option("--confirm", is_flag=True, help="mb: wait until the broker has handed each one to somebody.")
@connecting
def publish(topic: str | None, payload: str | None, confirm: bool, **given: Any) -> None:
    """Publish one message, or one for each line of standard input.

    The PAYLOAD of mb is sent as it stands; that of ceda is a record in JSON: values by number, or a list of fields as
    decode prints it. Without a PAYLOAD, or with -, each line of standard input is an object: {"topic": …, "payload": …}
    for mb ("text" or "hex" instead of "payload" for what is no JSON), {"topic": …, "record": …} for ceda. A TOPIC on
    the command line is that of lines without one. What subscribe prints can be published again.

    \b
    wirelake publish mb://localhost plant.boiler '{"celsius": 81.5}'
    wirelake publish -p ceda localhost:8088 FX.SPOT.EURUSD '{"1": 1.085, "3": "firm"}'
    jq -c '{topic: "order.new", payload: .}' orders.json | wirelake publish mb://localhost
    wirelake subscribe mb://here '#' | wirelake publish mb://there

    Exit status 1 if a line was bad or a message was refused.
    """
    _check_confirm(confirm, given)
    extra = {"confirm": True} if confirm else {}
    single = single_message(given, topic, payload)

    async def send(client: Client[Any, Any], shape: Shape) -> int:
        async def one(message: Outgoing) -> None:
            more = {key: value for key, value in message.more.items() if key == "version"}
            await client.publish(message.topic, message.payload, **more, **extra)

        return await each_message(shape, topic, single, one)

    run(send, given)


def _check_confirm(confirm: bool, given: dict[str, Any]) -> None:
    if confirm and target_of(given).protocol != "mb":
        raise click.UsageError("--confirm: only mb has confirmations")


# --- subscribe


@click.command()
@click.argument("url")
@click.argument("patterns", nargs=-1, required=True)
@click.option("-n", "--messages", "count", type=click.IntRange(1), metavar="N", help="End after so many.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="End after so many seconds.")
@click.option("--image", is_flag=True, help="ceda: ask for the current values first.")
@connecting
def subscribe(patterns: tuple[str, ...], count: int | None, timeout: float | None, image: bool, **given: Any) -> None:
    """Print every message of some topics or patterns, one JSON object per line, as it comes.

    mb: {"topic", "payload", "version"}; a payload that is no JSON is "text", one that is not even UTF-8 is "hex".
    Patterns: + is one level, # the rest. ceda: {"topic", "record"}; * is one segment, ** the rest. A line on standard
    error says when the subscription holds. Ends after -n messages or --timeout seconds, or when it is interrupted.

    \b
    wirelake subscribe mb://localhost 'plant.#'
    wirelake subscribe -p ceda localhost:8088 'FX.SPOT.*' -n 1 --timeout 5
    wirelake subscribe ceda+wss://user@gateway.example 'FX.**' --ca ca.pem

    Exit status 1 if there were fewer than -n messages when the time was over.
    """
    if image and target_of(given).protocol != "ceda":
        raise click.UsageError("--image: only ceda has images")
    extra: dict[str, Any] = {"image": True} if image else {}

    async def listen(client: Client[Any, Any], shape: Shape) -> int:
        seen = 0
        async with client.subscribe(*patterns, **extra) as messages:
            click.echo(f"subscribed to {', '.join(patterns)}", err=True)
            try:
                async with asyncio.timeout(timeout):
                    async for message in messages:
                        print_line(shape.show(message))
                        seen += 1
                        if seen == count:
                            break
            except TimeoutError as error:
                if isinstance(error, WireError):
                    raise
        return 1 if count is not None and seen < count else 0

    run(listen, given, is_endless=True)


# --- request


@click.command()
@click.argument("url")
@click.argument("topic", required=False)
@click.argument("payload", required=False)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="How long to wait for an answer.")
@click.option("--server-id", metavar="TEXT", help="ceda: the wanted service (MQ).")
@connecting
def request(topic: str | None, payload: str | None, timeout: float | None, server_id: str | None, **given: Any) -> None:
    """Ask, and print the answer as one JSON object.

    TOPIC and PAYLOAD as for publish; with - for the PAYLOAD, or without a TOPIC, every line of standard input is a
    request, and they are asked one after the other. The PAYLOAD of mb may be left out: it is {} then. An error answer
    of mb is printed as {"topic", "error": {"code", "message", "details"}}.

    \b
    wirelake request mb://localhost math.add '{"x": 1, "y": 2}'
    wirelake request mb://localhost system.service.list
    wirelake request -p ceda localhost:8088 QUOTE.GET '{"1": "EURUSD"}' --timeout 2

    Exit status 1 if an answer was an error or none came in time.
    """
    extra: dict[str, Any] = {} if timeout is None else {"timeout": timeout}
    if server_id is not None:
        if target_of(given).protocol != "ceda":
            raise click.UsageError("--server-id: only ceda has it")
        extra["server_id"] = server_id
    if topic is not None and payload is None and target_of(given).protocol == "mb":
        payload = "{}"
    single = single_message(given, topic, payload)

    async def ask(client: Client[Any, Any], shape: Shape) -> int:
        from ..net.errors import AnswerError

        failed = 0

        async def one(message: Outgoing) -> None:
            nonlocal failed
            try:
                answer = await client.request(message.topic, message.payload, **(extra | message.more))
            except AnswerError as error:
                failed = 1
                print_line({"topic": message.topic, "error": _shown_error(error)})
            else:
                print_line(shape.show(answer) | {"topic": message.topic})

        return await each_message(shape, topic, single, one) or failed

    run(ask, given)


def _shown_error(error: Any) -> dict[str, Any]:
    shown = {"code": error.code, "message": error.message}
    return shown if error.details is None else shown | {"details": error.details}


# --- respond


@click.command()
@click.argument("url")
@click.argument("pattern")
@click.option("--exec", "shell", metavar="CMD", help="Run this for each request; what it prints is the answer.")
@click.option("--reply", metavar="JSON", help="Answer every request with this.")
@click.option("--echo", is_flag=True, help="Answer every request with its own payload.")
@click.option("--priority", type=float, default=0.0, metavar="X", help="mb: the highest gets the requests (0).")
@click.option("-n", "--requests", "count", type=click.IntRange(1), metavar="N", help="End after so many.")
@connecting
def respond(
    pattern: str, shell: str | None, reply: str | None, echo: bool, priority: float, count: int | None, **given: Any
) -> None:
    """Answer requests to a topic or pattern, and print each of them as one JSON object.

    --exec runs a command by the shell: it is given the request on standard input, as the object that is printed, and
    its output is the answer, for ceda a record in JSON. If it fails, the answer is an error with the last line that it
    wrote to standard error. A line on standard error says when requests are taken. Ends after -n requests, or when it
    is interrupted.

    \b
    wirelake respond mb://localhost math.add --exec "jq -c '{sum: (.payload.x + .payload.y)}'"
    wirelake respond mb://localhost ping --echo
    wirelake respond -p ceda localhost:8088 QUOTE.GET --reply '{"1": 1.085, "3": "firm"}'
    """
    if (shell is not None) + (reply is not None) + echo != 1:
        raise click.UsageError("one of --exec, --reply and --echo says what to answer")
    fixed = None if reply is None else payload_argument(given, reply)

    async def serve(client: Client[Any, Any], shape: Shape) -> int:
        enough = asyncio.Event()
        seen = 0

        async def answer(asked: Any) -> Any:
            nonlocal seen
            print_line(shape.show(asked))
            seen += 1
            if seen == count:
                enough.set()
            if shell is not None:
                return await _ask_command(shell, asked, shape)
            return fixed if reply is not None else asked.payload if hasattr(asked, "payload") else asked.cells

        responder = await client.respond(pattern, answer, priority=priority, concurrency=COMMANDS if shell else ANSWERS)
        click.echo(f"answering {pattern}", err=True)
        await first_of(enough.wait(), client.wait_closed())
        await responder.close()
        return 0

    run(serve, given, is_endless=True)


async def _ask_command(shell: str, asked: Any, shape: Shape) -> Any:
    """What the command answers; whatever is wrong with it is an error answer."""
    from ..net.errors import AnswerError

    process = await asyncio.create_subprocess_shell(
        shell, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        printed, complaint = await process.communicate((dump_json(shape.show(asked)) + "\n").encode())
    except asyncio.CancelledError:
        process.kill()
        await process.wait()
        raise
    if process.returncode:
        said = complaint.decode("utf-8", "replace").strip().splitlines()
        raise AnswerError(COMMAND_FAILED, said[-1] if said else f"exit status {process.returncode}")
    try:
        return shape.argument(printed.decode("utf-8", "surrogateescape").removesuffix("\n"))
    except ValueError as error:
        raise AnswerError(COMMAND_FAILED, str(error)) from None
