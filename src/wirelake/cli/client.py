"""What the verbs that connect to servers share: options, messages from standard input, and a clean end."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from ..errors import WireError
from ..live.records import LIVE, Live, VerbOption
from .inputs import CHUNK
from .options import usage_errors

if TYPE_CHECKING:
    from ..live.core.message_json import MessageJson, Outgoing
    from ..live.drive.client import Client, Opening
    from ..live.drive.urls import Target

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130
MAX_LINE = 1 << 24


def connecting(verb: str) -> Callable[[F], F]:
    """Add the options of a verb that connects: how to connect, and those that single protocols have for it."""
    able = [name for name, live in LIVE.items() if verb in live.verbs]
    names = " or ".join(f"{name}://" for name in able)

    def add(command: F) -> F:
        options = (
            click.option(
                "-p",
                "--protocol",
                type=click.Choice(able),
                help=f"Needed if the URL does not begin with {names}.",
            ),
            *_protocol_options("connect", verb),
            click.option("--ca", type=click.Path(exists=True, dir_okay=False), help="TLS: authorities to trust."),
            click.option("--cert", type=click.Path(exists=True, dir_okay=False), help="TLS: certificate to show."),
            click.option("--key", type=click.Path(exists=True, dir_okay=False), help="TLS: its key."),
            click.option("--insecure", is_flag=True, help="TLS: do not verify the server."),
            click.option("--reconnect/--no-reconnect", default=True, help="Reconnect after a loss.  [default: yes]"),
        )
        for option in (*reversed(options), *reversed(_protocol_options(verb, verb))):
            command = option(command)
        return command

    return add


def _protocol_options(kind: str, verb: str) -> list[Callable[[F], F]]:
    """The options of that kind, of the protocols that have the verb."""
    return [
        click.option(
            f"--{option.name.replace('_', '-')}",
            type=option.kind,
            is_flag=option.kind is bool,
            default=None,
            metavar=option.metavar,
            envvar=option.variable,
            help=f"{', '.join(owners)}: {option.help}",
        )
        for option, owners in _options_of(kind, verb)
    ]


def _options_of(kind: str, verb: str) -> list[tuple[VerbOption, list[str]]]:
    """Return each option of that kind with those protocols that have it and the verb."""
    options: dict[str, tuple[VerbOption, list[str]]] = {}
    for live in LIVE.values():
        for option in live.options.get(kind, ()) if verb in live.verbs else ():
            options.setdefault(option.name, (option, []))[1].append(live.name)
    return list(options.values())


def protocol_values(kind: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return what the options of this protocol say for a verb, or for connecting; refuse those of another protocol."""
    live = live_of(given)
    own = {option.name: option for option in live.options.get(kind, ())}
    values = {}
    for option, owners in _options_of(kind, _verb()):
        value = given[option.name]
        if option.name not in own and value is not None and not _is_from_environment(option.name):
            flag = option.name.replace("_", "-")
            raise click.UsageError(f"--{flag} is an option of {' and '.join(owners)}, not of {live.name}")
        if option.name in own:
            values[option.name] = own[option.name].default if value is None else value
    return {name: value for name, value in values.items() if value is not None}


def _is_from_environment(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is ParameterSource.ENVIRONMENT


def _verb() -> str:
    """The verb that runs."""
    return str(click.get_current_context().info_name)


def live_of(given: dict[str, Any]) -> Live:
    return LIVE[target_of(given).protocol]


def target_of(given: dict[str, Any]) -> Target:
    from ..live.drive.urls import parse_url

    with usage_errors(ValueError):
        target = parse_url(given["url"], given["protocol"])
    live = LIVE[target.protocol]
    if _verb() not in live.verbs:
        raise click.UsageError(f"{live.name} has no {_verb()}; it has {', '.join(live.verbs)}")
    return target


def _open(given: dict[str, Any]) -> Opening[Any]:
    """Return the client to be."""
    target = target_of(given)
    common = {key: given[key] for key in ("ca", "cert", "key", "reconnect")} | {"verify": not given["insecure"]}
    values = protocol_values("connect", given)
    with usage_errors(ValueError, OSError):  # of options, and of the files that they name
        return live_of(given).connect(target, **values, **common)


def payload_argument(given: dict[str, Any], text: str) -> Any:
    """Return a payload on the command line as the client takes it."""
    with usage_errors(ValueError):
        return live_of(given).message_json.argument(text)


def single_message(given: dict[str, Any], topic: str | None, payload: str | None) -> Outgoing | None:
    """Return the message of the command line; None if messages come from standard input."""
    from ..live.core.message_json import Outgoing

    if payload is None or payload == "-":
        return None
    return Outgoing(topic or "", payload_argument(given, payload))


async def each_message(
    shape: MessageJson, topic: str | None, single: Outgoing | None, send: Callable[[Outgoing], Awaitable[None]]
) -> int:
    """Call ``send`` with the message of the command line, or each line of standard input; return the exit status."""
    if single is not None:
        return await _send_one(send, single, "")
    status = number = 0
    async for line in standard_input():
        number += 1
        if not line.strip():
            continue
        where = f"line {number}: "
        try:
            message = _parsed(shape, line, topic)
        except ValueError as error:
            click.echo(f"wirelake: {where}{error}", err=True)
            status = 1
            continue
        status |= await _send_one(send, message, where)
    return status


async def standard_input() -> AsyncIterator[bytes]:
    """Yield the lines of standard input. A daemon thread reads them: a read from a terminal may never return."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(4)

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the event loop has ended
            while True:
                chunk = _read_some()
                asyncio.run_coroutine_threadsafe(chunks.put(chunk), loop).result()
                if not chunk:
                    return

    threading.Thread(target=read, daemon=True).start()
    rest = b""
    while chunk := await chunks.get():
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line
        if len(rest) > MAX_LINE:
            raise click.ClickException(f"a line of standard input is longer than {MAX_LINE} bytes")
    if rest:
        yield rest


def _read_some() -> bytes:
    """Read past the buffer where there is a file: its lock would keep the interpreter from exiting."""
    try:
        return os.read(sys.stdin.fileno(), CHUNK)
    except io.UnsupportedOperation:
        buffer: Any = sys.stdin.buffer
        return bytes(buffer.read1(CHUNK))


def _parsed(shape: MessageJson, line: bytes, topic: str | None) -> Outgoing:
    from ..live.core.message_json import parse_line

    message = parse_line(shape, line.decode("utf-8", "replace"))
    message.topic = message.topic or topic or ""
    if not message.topic:
        raise ValueError("has no topic")
    return message


async def _send_one(send: Callable[[Outgoing], Awaitable[None]], message: Outgoing, where: str) -> int:
    """Report what is wrong with one message and go on with the next, unless the connection is gone."""
    try:
        await send(message)
    except WireError as error:
        if isinstance(error, ConnectionError):
            raise
        click.echo(f"wirelake: {where}{error}", err=True)
        return 1
    return 0


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Wait until one of them is done; raise what it raises."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


def run(
    verb: Callable[[Client[Any, Any], MessageJson], Awaitable[int]], given: dict[str, Any], *, is_endless: bool = False
) -> None:
    """Connect, run the verb, and disconnect cleanly, also when it is interrupted."""
    shape = live_of(given).message_json
    opening = _open(given)

    async def main() -> int:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        async with opening as client:
            return await verb(client, shape)

    try:
        status = asyncio.run(main())
    except asyncio.CancelledError:
        status = 0 if is_endless else INTERRUPTED
    except WireError as error:
        click.echo(f"wirelake: {error.detail}", err=True)
        status = 1
    sys.exit(status)
