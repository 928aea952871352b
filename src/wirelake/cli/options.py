"""Options that several verbs share: the protocol and how to read it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from ..errors import SpecError
from ..protocols import BUILT_IN, load
from ..spec.nodes import Protocol
from ..spec.resolve import settle

F = TypeVar("F", bound=Callable[..., Any])


class ProtocolName(click.ParamType[Protocol, Any]):
    """A built-in protocol, or path/to/file.py:NAME."""

    name = "protocol"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Protocol:
        if isinstance(value, Protocol):
            return value
        try:
            return load(value)
        except (ValueError, SpecError) as error:
            self.fail(str(error), param, ctx)
        except Exception as error:  # a user's declaration may raise anything while it is imported
            self.fail(f"{value}: {type(error).__name__}: {error}", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[Any]:
        return [click.shell_completion.CompletionItem(name) for name in BUILT_IN if name.startswith(incomplete)]


protocol_option = click.option(
    "-p", "--protocol", type=ProtocolName(), required=True, metavar="P", help="casual, dsa, mb, ceda or file.py:NAME."
)


def reading_options(command: F) -> F:
    """The reading options of all protocols; those of another protocol are refused."""
    for option in (
        click.option("--profile", metavar="WORD", help="casual: document or late; mb: strict or upstream."),
        click.option("--mode", metavar="WORD", help="dsa: strict or compat."),
        click.option("--dialect", metavar="WORD", help="ceda: ceda4, ceda4-ws or auto."),
        click.option("--charset", metavar="NAME", help="ceda: character set of texts in records, such as gbk."),
        click.option("--errors", metavar="WORD", help="ceda: strict or replace, for texts not in that set."),
        click.option("--framing", metavar="WORD", help="mb: message or tcp."),
        click.option("--json-payload", is_flag=True, default=None, help="mb: require JSON payloads and show them."),
        click.option("--frame-only", is_flag=True, default=None, help="dsa: do not look into bodies."),
        click.option("--option", "more", multiple=True, metavar="NAME=VALUE", help="Any reading option."),
    ):
        command = option(command)
    return command


READING = ("profile", "mode", "dialect", "framing", "charset", "errors", "json_payload", "frame_only")


def take_options(protocol: Protocol, given: dict[str, Any]) -> dict[str, Any]:
    """The reading options among a command's arguments, checked."""
    chosen = chosen_options(given)
    try:
        settle(protocol, chosen)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return chosen


def chosen_options(given: dict[str, Any]) -> dict[str, Any]:
    """The reading options among a command's arguments; they are taken out of them."""
    more = given.pop("more", ())
    chosen = {name: given.pop(name) for name in READING}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    for item in more:
        name, equals, value = item.partition("=")
        if not equals:
            raise click.UsageError(f"--option takes NAME=VALUE, not {item!r}")
        chosen[name.replace("-", "_")] = {"true": True, "false": False}.get(value, value)
    return chosen
