"""invoke: run an action and print its results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from ..errors import WireError
from .client import connecting, payload_argument, protocol_values, run, standard_input
from .output import emit_now

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson


@click.command()
@click.argument("url")
@click.argument("path")
@click.argument("params", required=False)
@click.option("--input", "feeds", is_flag=True, help="Send each line of standard input, JSON, to the running action.")
@click.option("-n", "--results", "count", type=click.IntRange(1), metavar="N", help="End after N results.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="S", help="End after S seconds.")
@connecting("invoke")
def invoke(path: str, params: str | None, feeds: bool, count: int | None, timeout: float | None, **given: Any) -> None:
    """Run an action and print each of its results as one JSON object: {"path", "value"}.

    PARAMS is a JSON object. Ends when the action ends, after -n results, after --timeout seconds, or on Ctrl-C; an
    action that still runs then is aborted.

    \b
    wirelake invoke dsa://localhost downstream/boiler/main/add '{"x": 1, "y": 2}'
    wirelake invoke dsa://localhost downstream/boiler/main/log -n 10

    Exit status 1 if the action failed, or did not end in time.
    """
    extra = protocol_values("invoke", given)
    content = None if params is None else payload_argument(given, params)

    async def follow(client: Any, shape: MessageJson) -> int:
        seen = 0
        async with client.results(path, content, **extra) as results:
            feeding = asyncio.ensure_future(_feed(results, shape)) if feeds else None
            try:
                async with asyncio.timeout(timeout):
                    async for result in results:
                        emit_now(shape.show(result))
                        seen += 1
                        if seen == count:
                            break
            except TimeoutError as error:
                if isinstance(error, WireError):
                    raise
                click.echo(f"wirelake: the action did not end within {timeout:g} s", err=True)
                return 1
            finally:
                if feeding is not None:
                    feeding.cancel()
        return 0

    run(follow, given)


async def _feed(results: Any, shape: MessageJson) -> None:
    async for line in standard_input():
        if line.strip():
            await results.send(shape.argument(line.decode("utf-8", "replace")))
