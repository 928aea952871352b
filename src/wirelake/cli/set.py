"""set: give a node another value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from .client import connecting, payload_argument, run

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson


@click.command()
@click.argument("url")
@click.argument("path")
@click.argument("value")
@click.option("--attribute", metavar="@NAME", help="Set this attribute instead of the value.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=30.0, metavar="S", show_default=True,
              help="How many seconds to wait for the reply.")  # fmt: skip
@connecting("set")
def set(path: str, value: str, attribute: str | None, timeout: float, **given: Any) -> None:
    """Set the value at a path. VALUE is JSON, or else text; write '"5"' for a text that is also JSON.

    \b
    wirelake set dsa://localhost downstream/boiler/main/limit 85.5
    wirelake set dsa://localhost downstream/boiler/main/limit K --attribute @unit

    Exit status 1 if it was refused.
    """
    if attribute is not None and (not attribute.startswith("@") or len(attribute) < 2):
        raise click.UsageError(f"--attribute {attribute}: an attribute begins with @")
    content = payload_argument(given, value)

    async def change(client: Any, shape: MessageJson) -> int:
        await client.set(path, content, attribute=attribute, timeout=timeout)
        return 0

    run(change, given)
