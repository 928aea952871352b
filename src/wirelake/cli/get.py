"""get: print the values at paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..errors import WireError
from .client import connecting, run
from .output import emit_now

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson


@click.command()
@click.argument("url")
@click.argument("paths", nargs=-1, required=True)
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=30.0, metavar="S", show_default=True,
              help="How many seconds to wait for each value.")  # fmt: skip
@connecting("get")
def get(paths: tuple[str, ...], timeout: float, **given: Any) -> None:
    """Print the value at each path as one JSON object: {"path", "value", "meta", "status"}.

    \b
    wirelake get dsa://localhost downstream/boiler/main/temperature

    Exit status 1 if a value could not be read.
    """

    async def show(client: Any, shape: MessageJson) -> int:
        status = 0
        for path in paths:
            try:
                emit_now(shape.show(await client.get(path, timeout=timeout)))
            except WireError as error:
                if isinstance(error, ConnectionError):
                    raise
                click.echo(f"wirelake: {path}: {error}", err=True)
                status = 1
        return status

    run(show, given)
