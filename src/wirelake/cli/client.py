"""What the verbs that talk to servers share: where to connect, what to send, and an end in good order."""

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

from ..errors import WireError
from .inputs import CHUNK
from .output import emit

if TYPE_CHECKING:
    from ..net.client import Client
    from ..net.shapes import Outgoing, Shape
    from ..net.urls import Target

F = TypeVar("F", bound=Callable[..., Any])
INTERRUPTED = 130
MAX_LINE = 1 << 24
NAME = "wirelake"
"""Registering is also how we see that a broker is there."""


def connecting(command: F) -> F:
    """How to connect: the options that the four verbs have in common."""
    options = (
        click.option(
            "-p",
            "--protocol",
            type=click.Choice(["mb", "ceda"]),
            help="Needed if the URL is just HOST:PORT; mb://… and ceda://… say it themselves.",
        ),
        click.option("--name", metavar="TEXT", help="mb: the name to register under (wirelake)."),
        click.option("--user", metavar="TEXT", help="ceda: the user; or write it into the URL."),
        click.option(
            "--password",
            metavar="TEXT",
            envvar="WIRELAKE_PASSWORD",
            help="ceda: the password; better in the environment, as WIRELAKE_PASSWORD.",
        ),
        click.option("--ca", type=click.Path(exists=True, dir_okay=False), help="TLS: authorities to trust."),
        click.option("--cert", type=click.Path(exists=True, dir_okay=False), help="TLS: certificate to show."),
        click.option("--key", type=click.Path(exists=True, dir_okay=False), help="TLS: its key."),
        click.option("--insecure", is_flag=True, help="TLS: do not verify the server."),
        click.option("--reconnect/--no-reconnect", default=True, help="Whether to come back after a loss (yes)."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def target_of(given: dict[str, Any]) -> Target:
    from ..net.urls import parse_url

    try:
        return parse_url(given["url"], given["protocol"])
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def _open(given: dict[str, Any]) -> Any:
    """The client to be."""
    target = target_of(given)
    try:
        return _opening(target, given)
    except (ValueError, OSError) as error:  # of options, and of the files that they name
        raise click.UsageError(str(error)) from None


def _opening(target: Target, given: dict[str, Any]) -> Any:
    from ..net import ceda, mb

    common = {key: given[key] for key in ("ca", "cert", "key", "reconnect")} | {"verify": not given["insecure"]}
    logins = {key: given[key] for key in ("user", "password") if given[key] is not None}
    if target.protocol == "mb":
        if given["user"] is not None:
            raise click.UsageError("--user: mb has no login")
        return mb.connect(target, name=NAME if given["name"] is None else given["name"], **common)
    if given["name"] is not None:
        raise click.UsageError("--name: only mb has names; use --user")
    return ceda.connect(target, **logins, **common)


def payload_argument(given: dict[str, Any], text: str) -> Any:
    """A payload on the command line."""
    from ..net.shapes import SHAPES

    try:
        return SHAPES[target_of(given).protocol].argument(text)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def single_message(given: dict[str, Any], topic: str | None, payload: str | None) -> Outgoing | None:
    """The one message that the command line has; None if they come from standard input."""
    from ..net.shapes import Outgoing

    if payload is None or payload == "-":
        return None
    return Outgoing(topic or "", payload_argument(given, payload))


async def each_message(
    shape: Shape, topic: str | None, single: Outgoing | None, one: Callable[[Outgoing], Awaitable[None]]
) -> int:
    """Does it with the message of the command line, or with each line of standard input; the exit status."""
    if single is not None:
        return await _with_care(one, single, "")
    status = number = 0
    async for line in _standard_input():
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
        status |= await _with_care(one, message, where)
    return status


async def _standard_input() -> AsyncIterator[bytes]:
    """The lines of standard input. They are read by a thread that nobody waits for: it may hang in a terminal."""
    loop = asyncio.get_running_loop()
    chunks: asyncio.Queue[bytes] = asyncio.Queue(4)

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # nobody listens any more
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
            raise click.ClickException(f"a line of standard input has more than {MAX_LINE} bytes")
    if rest:
        yield rest


def _read_some() -> bytes:
    """Not through the buffer where there is a file: a thread that waits in it could not be left behind."""
    try:
        return os.read(sys.stdin.fileno(), CHUNK)
    except io.UnsupportedOperation:
        buffer: Any = sys.stdin.buffer
        return bytes(buffer.read1(CHUNK))


def _parsed(shape: Shape, line: bytes, topic: str | None) -> Outgoing:
    from ..net.shapes import parse_line

    message = parse_line(shape, line.decode("utf-8", "replace"))
    message.topic = message.topic or topic or ""
    if not message.topic:
        raise ValueError("has no topic")
    return message


async def _with_care(one: Callable[[Outgoing], Awaitable[None]], message: Outgoing, where: str) -> int:
    """What is wrong with one message does not hold up the others, unless nothing can be sent any more."""
    try:
        await one(message)
    except WireError as error:
        if isinstance(error, ConnectionError):
            raise
        click.echo(f"wirelake: {where}{error}", err=True)
        return 1
    return 0


async def first_of(*waits: Coroutine[Any, Any, Any]) -> None:
    """Until one of them is done; what it raises is raised."""
    tasks = [asyncio.ensure_future(wait) for wait in waits]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()


def print_line(shown: dict[str, Any]) -> None:
    emit(shown)
    sys.stdout.flush()


def run(
    work: Callable[[Client[Any, Any], Shape], Awaitable[int]], given: dict[str, Any], *, is_endless: bool = False
) -> None:
    """Connects, works, and leaves in good order, also when it is interrupted."""
    from ..net.shapes import SHAPES

    shape = SHAPES[target_of(given).protocol]
    opening = _open(given)

    async def main() -> int:
        task = asyncio.current_task()
        assert task is not None
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)
        async with opening as client:
            return await work(client, shape)

    try:
        status = asyncio.run(main())
    except asyncio.CancelledError:
        status = 0 if is_endless else INTERRUPTED
    except WireError as error:
        click.echo(f"wirelake: {error.detail}", err=True)
        status = 1
    sys.exit(status)
