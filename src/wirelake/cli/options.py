"""Options that several verbs share: the protocol and how to read it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from ..errors import SpecError
from ..protocols import BUILT_IN, load
from ..spec.nodes import Protocol
from ..spec.resolve import settle

F = TypeVar("F", bound=Callable[..., Any])


@contextmanager
def usage_errors(*kinds: type[Exception], about: str = "") -> Iterator[None]:
    """Show these errors as wrong usage: one line, exit status 2."""
    try:
        yield
    except kinds as error:
        raise click.UsageError(f"{about}{error}") from None


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


PROTOCOLS = f"{', '.join(BUILT_IN)} or file.py:NAME"
protocol_option = click.option(
    "-p", "--protocol", type=ProtocolName(), required=True, metavar="P", help=f"{PROTOCOLS}."
)


def protocols_option(about: str, name: str = "protocols", **how: Any) -> Callable[[F], F]:
    """Return an option that names protocols and may be repeated."""
    given: dict[str, Any] = {"type": ProtocolName(), "multiple": True, "metavar": "P", "help": about, **how}
    return click.option("-p", "--protocol", name, **given)


class When(click.ParamType[Any, Any]):
    """The number of a commit, or a time."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        from ..lake.history import parse_when

        try:
            return parse_when(value) if isinstance(value, str) else value
        except ValueError as error:
            self.fail(str(error), param, ctx)


as_of_option = click.option(
    "--as-of",
    type=When(),
    metavar="COMMIT|TIME",
    help="Read the lake as this commit left it, or as it was at this time (UTC), as far back as its files are kept.",
)


class _ReadingOption(click.Option):
    """An option whose help is taken from the declarations, which are loaded for that only."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        self.help = f"{'; '.join(_meanings(self.name or ''))}."
        return super().get_help_record(ctx)


def _meanings(name: str) -> Iterator[str]:
    for protocol in map(load, BUILT_IN):
        if (option := protocol.options.get(name)) is not None:
            words = option.doc if name in FLAGS or not option.values else " or ".join(option.values)
            yield f"{protocol.name}: {words}"


WORDS = ("profile", "mode", "dialect", "charset", "errors", "framing")
FLAGS = ("json_payload", "frame_only")
READING = (*WORDS, *FLAGS)
"""Names of the reading options that the built-in protocols declare."""


def reading_options(command: F) -> F:
    """Add the reading options of all built-in protocols; ``take_options`` refuses those of another protocol."""
    for name in WORDS:
        command = click.option(f"--{name}", cls=_ReadingOption, metavar="WORD")(command)
    for name in FLAGS:
        flag = name.replace("_", "-")
        command = click.option(f"--{flag}", name, cls=_ReadingOption, is_flag=True, default=None)(command)
    return click.option("--option", "more", multiple=True, metavar="NAME=VALUE", help="Any reading option.")(command)


def take_options(protocol: Protocol, given: dict[str, Any]) -> dict[str, Any]:
    """Take the reading options out of a command's arguments, and check them."""
    chosen = chosen_options(given)
    with usage_errors(ValueError):
        settle(protocol, chosen)
    return chosen


def chosen_options(given: dict[str, Any]) -> dict[str, Any]:
    """Take the reading options out of a command's arguments."""
    more = given.pop("more", ())
    chosen = {name: given.pop(name) for name in READING}
    chosen = {name: value for name, value in chosen.items() if value is not None}
    for name, value in pairs(more, "--option"):
        chosen[name.replace("-", "_")] = {"true": True, "false": False}.get(value, value)
    return chosen


def pairs(given: tuple[str, ...], option: str) -> list[tuple[str, str]]:
    """Return the names and values of an option that takes NAME=VALUE."""
    parts = [item.partition("=") for item in given]
    for name, equals, _ in parts:
        if not equals or not name:
            raise click.UsageError(f"{option} takes NAME=VALUE, not {name!r}")
    return [(name, value) for name, _, value in parts]
