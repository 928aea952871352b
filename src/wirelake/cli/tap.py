"""tap: a transparent proxy that records; export: what it recorded, as packets."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..spec.nodes import Protocol
from .log_format import show_logs
from .log_handler import ThreadedHandler
from .options import ProtocolName
from .output import announce

if TYPE_CHECKING:
    from ..net.proxy import Proxy
    from ..net.recorder import Recorder

Address = tuple[str, int]


class AddressType(click.ParamType[Address, Any]):
    """HOST:PORT; [HOST]:PORT for IPv6."""

    name = "address"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        if isinstance(value, tuple):
            return value
        host, colon, port = str(value).rpartition(":")
        if host.startswith("[") and host.endswith("]"):
            host = host[1:-1]
        elif ":" in host:
            self.fail(f"{value!r}: an IPv6 address is written in brackets, [::1]:3001", param, ctx)
        if not colon or not (port.isascii() and port.isdecimal() and int(port) < 1 << 16):
            self.fail(f"{value!r} is no address; write HOST:PORT, such as 127.0.0.1:3001", param, ctx)
        return host, int(port)


class _Upstream(AddressType):
    """An address that can be connected to."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        host, port = super().convert(value, param, ctx)
        if not host or not port:
            self.fail(f"{value!r}: both host and port of the server have to be said", param, ctx)
        return host, port


@click.command()
@click.argument("listen", type=AddressType(), metavar="LISTEN")
@click.argument("upstream", type=_Upstream(), metavar="UPSTREAM")
@click.argument("directory", type=click.Path(path_type=Path), metavar="DIR")
@click.option(
    "-p",
    "--protocol",
    type=ProtocolName(),
    metavar="P",
    help="What is spoken; noted in the capture, so that nobody has to find it out.",
)
@click.option(
    "--rotate-mb",
    type=click.FloatRange(min=0.001),
    default=256,
    show_default=True,
    help="Begin a new file after so much.",
)
@click.option("--rotate-seconds", type=click.FloatRange(min=0.001), help="Begin a new file after so long.")
@click.option(
    "--sync-seconds",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    help="A power failure loses at most so much. A crash of wirelake loses nothing.",
)
@click.option(
    "--max-connections", type=click.IntRange(1), default=10_000, show_default=True, help="More are closed at once."
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="When it ends, what is under way may take so long to come through.",
)
@click.option("-v", "--verbose", is_flag=True, help="Tell of every connection.")
def tap(
    listen: Address,
    upstream: Address,
    directory: Path,
    protocol: Protocol | None,
    rotate_mb: float,
    rotate_seconds: float | None,
    sync_seconds: float,
    max_connections: int,
    drain_seconds: float,
    verbose: bool,
) -> None:
    """A transparent proxy in front of a server that records everything that passes.

    Clients connect to LISTEN instead of the server, are passed on to UPSTREAM, and every byte of both directions is
    appended to tap files in DIR, which is made if need be. Port 0 picks a free one. Bytes are recorded before they
    are passed on: whatever somebody has received is in DIR, even after kill -9. Nothing is looked into, so TLS passes
    as well and is recorded as it is, encrypted. If the disk is full, recording stops, and says so, and traffic goes
    on; when there is room again, recording goes on too, with a gap.

    \b
    wirelake tap 127.0.0.1:4001 127.0.0.1:3001 captures/
    wirelake tap [::]:4001 broker.example:3001 captures/ -p mb --rotate-seconds 3600
    wirelake ingest captures/ lake                 while it goes on, or later
    wirelake export captures/ -o today.pcapng      for Wireshark

    When it is ready, one line on standard output says where it listens:

    \b
    {"listening":{"tap":"127.0.0.1:4001"},"upstream":"127.0.0.1:3001","directory":"captures"}

    Logs are on standard error, as JSON if that is no terminal. SIGTERM or Ctrl-C ends it when what is under way has
    come through, a second one at once. Exit status 1: some of what passed was not recorded.
    """
    import asyncio

    from ..net.proxy import Proxy
    from ..net.recorder import Recorder

    handler = ThreadedHandler()
    log = show_logs(verbose=verbose, handler=handler)
    try:
        recorder = Recorder(
            directory,
            rotate_bytes=int(rotate_mb * (1 << 20)),
            rotate_seconds=rotate_seconds,
            sync_seconds=sync_seconds,
            on_problem=log.error,
            on_recovery=log.warning,
        )
    except OSError as error:
        raise click.ClickException(f"cannot record into {directory}: {error.strerror}") from None
    name = None if protocol is None else protocol.name
    proxy = Proxy(listen, upstream, recorder, protocol=name, max_connections=max_connections)
    try:
        asyncio.run(_run(proxy, recorder, drain_seconds))
        log.info("ended", extra={"fields": _summary(proxy, recorder)})
    finally:
        handler.close()
    if recorder.unrecorded or recorder.unrecorded_connections:
        sys.exit(1)


async def _run(proxy: Proxy, recorder: Recorder, drain_seconds: float) -> None:
    """Until a signal comes, and then until what is under way has come through."""
    import asyncio
    import logging
    import signal

    from ..net.hub import explain
    from ..net.machine import raise_file_limit
    from ..net.proxy import shown

    raise_file_limit()
    try:
        await proxy.start()
    except OSError as error:
        raise click.ClickException(explain(error, proxy.listen)) from None
    recorder.start()
    signals: asyncio.Queue[str] = asyncio.Queue()
    for one in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(one, signals.put_nowait, one.name)
    place = {"upstream": shown(proxy.upstream), "directory": str(recorder.directory)}
    announce({"listening": {"tap": shown(proxy.listening[0])}, **place})
    log = logging.getLogger("wirelake.tap")
    log.info("listening", extra={"fields": {"tap": " ".join(map(shown, proxy.listening)), **place}})
    name = await signals.get()
    log.info("ending", extra={"fields": {"signal": name, "connections": proxy.connections}})
    stopping = asyncio.create_task(proxy.stop(drain_seconds))
    again = asyncio.create_task(signals.get())
    await asyncio.wait((stopping, again), return_when=asyncio.FIRST_COMPLETED)
    again.cancel()
    if not stopping.done():
        stopping.cancel()
        await asyncio.wait((stopping,))
        await proxy.stop(0)
    recorder.end()


def _summary(proxy: Proxy, recorder: Recorder) -> dict[str, Any]:
    to_server, to_client = proxy.passed
    shown = {
        "connections": proxy.counts["connections"],
        "bytes_to_server": to_server,
        "bytes_to_client": to_client,
        "bytes_recorded": recorder.recorded,
        "bytes_unrecorded": recorder.unrecorded,
        "files": len(recorder.paths),
    }
    rare = {name: proxy.counts[name] for name in ("resets", "refused", "unreachable") if proxy.counts[name]}
    return {**shown, **rare}
