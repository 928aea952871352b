"""respond: reply to requests."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ..codec.content import dump_json
from .client import connecting, first_of, payload_argument, protocol_values, run
from .output import emit_now

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson
    from ..live.drive.client import Client

COMMAND_FAILED = "COMMAND_FAILED"
COMMANDS, REPLIES = 16, 100
"""How many requests are handled side by side, with a command and without."""


@click.command()
@click.argument("url")
@click.argument("pattern")
@click.option("--exec", "shell", metavar="CMD", help="Run CMD for each request; what it prints is the reply.")
@click.option("--reply", metavar="JSON", help="Reply to every request with this.")
@click.option("--echo", is_flag=True, help="Reply to every request with its own payload.")
@click.option("-n", "--requests", "count", type=click.IntRange(1), metavar="N", help="End after N requests.")
@connecting("respond")
def respond(pattern: str, shell: str | None, reply: str | None, echo: bool, count: int | None, **given: Any) -> None:
    """Reply to the requests of a topic or pattern, and print each request as one JSON object.

    --exec runs a shell command for each request: it reads the request on standard input, as the object that is
    printed, and what it prints is the reply, for ceda a record in JSON. If it fails, the reply is an error with the
    last line of its standard error. A line on standard error says when requests are accepted. Ends after -n requests,
    or on Ctrl-C.

    \b
    wirelake respond mb://localhost math.add --exec "jq -c '{sum: (.payload.x + .payload.y)}'"
    wirelake respond mb://localhost ping --echo
    wirelake respond -p ceda localhost:8088 QUOTE.GET --reply '{"1": 1.085, "3": "firm"}'
    """
    if (shell is not None) + (reply is not None) + echo != 1:
        raise click.UsageError("give one of --exec, --reply and --echo")
    extra = protocol_values("respond", given)
    fixed = None if reply is None else payload_argument(given, reply)

    async def serve(client: Client[Any, Any], shape: MessageJson) -> int:
        enough = asyncio.Event()
        seen = 0

        async def respond_one(asked: Any) -> Any:
            nonlocal seen
            emit_now(shape.show(asked))
            seen += 1
            if seen == count:
                enough.set()
            if shell is not None:
                return await _ask_command(shell, asked, shape)
            return shape.echo(asked) if reply is None else fixed

        concurrency = COMMANDS if shell else REPLIES
        responder = await client.respond(pattern, respond_one, concurrency=concurrency, **extra)
        click.echo(f"replying to {pattern}", err=True)
        await first_of(enough.wait(), client.wait_closed())
        await responder.close()
        return 0

    run(serve, given, is_endless=True)


async def _ask_command(shell: str, asked: Any, shape: MessageJson) -> Any:
    """Return the reply of the command; raise AnswerError, which is an error reply, if the command fails."""
    from ..live.core.errors import AnswerError

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
