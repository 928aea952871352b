"""list: print what is at a path, and below it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import click

from .client import connecting, run
from .output import emit_now

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson

TREE_DEPTH = 3
MIDDLE, LAST, BESIDE, BELOW = "├── ", "└── ", "│   ", "    "
"""How branches of a tree are drawn."""


@click.command()
@click.argument("url")
@click.argument("path", default="")
@click.option("--tree", is_flag=True, help="Draw a tree, for people.")
@click.option("--depth", type=click.IntRange(1), metavar="N", help="Levels to go down.  [default: 1; with --tree: 3]")
@click.option("--follow", is_flag=True, help="Print what changes there, until Ctrl-C.")
@click.option("--timeout", type=click.FloatRange(0, min_open=True), default=30.0, metavar="S", show_default=True,
              help="How many seconds to wait for each list.")  # fmt: skip
@connecting("list")
def list(path: str, tree: bool, depth: int | None, follow: bool, timeout: float, **given: Any) -> None:
    """Print what is at a path: metadata ($…), attributes (@…) and children, as one JSON object.

    With --depth, one object for each node down to that level. With --tree, names are drawn as a tree. With --follow,
    changes follow as they come: {"path", "changed", "removed"}. Without a PATH it is the root.

    \b
    wirelake list dsa://localhost
    wirelake list dsa://localhost downstream --tree --depth 4
    wirelake list dsa://localhost downstream/boiler/main --follow

    Exit status 1 if a list could not be read.
    """
    if follow and (tree or depth is not None):
        raise click.UsageError("--follow prints one node: use it without --tree and --depth")

    async def show(client: Any, shape: MessageJson) -> int:
        if follow:
            async with client.watch(path, merge=False) as updates:
                async for update in updates:
                    emit_now(shape.show(update))
            return 0
        walk = Walk(lambda where: client.list(where, timeout=timeout), shape, draws=tree)
        first = await client.list(path, timeout=timeout)
        walk.show_root(path, first)
        await walk.below(path, first, (depth or (TREE_DEPTH if tree else 1)) - 1)
        return walk.status

    run(show, given, is_endless=follow)


class Walk:
    """Goes down from a node, prints each, and goes on where a list cannot be read."""

    def __init__(self, read: Callable[[str], Awaitable[Any]], shape: MessageJson, *, draws: bool) -> None:
        self._read = read
        self._shape = shape
        self._draws = draws
        self.status = 0

    def show_root(self, path: str, listing: Any) -> None:
        if self._draws:
            click.echo(path or "/")
        else:
            emit_now(self._shape.show(listing))

    async def below(self, path: str, listing: Any, levels: int, margin: str = "") -> None:
        """Print what is below a node that was printed already; a tree shows the names of one level more."""
        if levels < 1 and not self._draws:
            return
        names = [*listing.children]
        for place, name in enumerate(names):
            is_last = place == len(names) - 1
            if self._draws:
                click.echo(f"{margin}{LAST if is_last else MIDDLE}{_label(name, listing.children[name])}")
            if levels > 0:
                where = f"{path}/{name}" if path else name
                await self._child(where, levels, margin + (BELOW if is_last else BESIDE))

    async def _child(self, path: str, levels: int, margin: str) -> None:
        from ..live.core.errors import AnswerError

        try:
            listing = await self._read(path)
        except AnswerError as error:
            self.status = 1
            click.echo(f"wirelake: {path}: {error}", err=True)
            return
        if not self._draws:
            emit_now(self._shape.show(listing))
        await self.below(path, listing, levels - 1, margin)


def _label(name: str, summary: Any) -> str:
    """A name, with what its parent says about it."""
    facts = summary if isinstance(summary, dict) else {}
    told = " ".join(f"{key.lstrip('$')}={value}" for key, value in facts.items() if key != "$is")
    shown = name.encode("utf-8", "replace").decode()
    return f"{shown}  {told}" if told else shown
