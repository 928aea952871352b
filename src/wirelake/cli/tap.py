"""tap: a transparent proxy that records."""

from __future__ import annotations

import logging
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..spec.nodes import Protocol
from .logs import ThreadedHandler, show_logs
from .options import ProtocolName
from .output import announce

if TYPE_CHECKING:
    from ..live.tap.proxy import Proxy
    from ..live.tap.recorder import Recorder

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
            self.fail(f"{value!r} is not an address; write HOST:PORT, such as 127.0.0.1:3001", param, ctx)
        return host, int(port)


class _Upstream(AddressType):
    """An address that can be connected to."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        host, port = super().convert(value, param, ctx)
        if not host or not port:
            self.fail(f"{value!r}: give both host and port of the server", param, ctx)
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
    help="The protocol of the traffic; stored in the capture, so that readers need not detect it.",
)
@click.option(
    "--rotate-mb",
    type=click.FloatRange(min=0.001),
    default=256,
    show_default=True,
    help="Begin a new file after so many megabytes.",
)
@click.option("--rotate-seconds", type=click.FloatRange(min=0.001), help="Begin a new file after so many seconds.")
@click.option(
    "--sync-seconds",
    type=click.FloatRange(min=0.01),
    default=1.0,
    show_default=True,
    help="Sync to disk this often: a power failure loses no more. A crash of wirelake loses nothing.",
)
@click.option(
    "--max-connections",
    type=click.IntRange(1),
    default=10_000,
    show_default=True,
    help="Further connections are closed at once.",
)
@click.option(
    "--drain-seconds",
    type=click.FloatRange(min=0),
    default=5.0,
    show_default=True,
    help="How long to wait for data under way when the tap ends.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log every connection.")
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
    """Record all traffic of a server, as a transparent proxy in front of it.

    Clients connect to LISTEN instead of the server. The tap forwards them to UPSTREAM and appends every byte of both
    directions to tap files in DIR, which it creates if needed. Port 0 picks a free port. The tap records bytes before
    it forwards them: whatever a peer has received is in DIR, even after kill -9. It does not look into the bytes, so
    TLS passes through and is recorded encrypted. If the disk is full, the tap logs it, stops recording and keeps
    forwarding; when there is room again it records on, with a gap.

    \b
    wirelake tap 127.0.0.1:4001 127.0.0.1:3001 captures/
    wirelake tap [::]:4001 broker.example:3001 captures/ -p mb --rotate-seconds 3600
    wirelake ingest captures/ lake                 while the tap runs, or later
    wirelake export captures/ -o today.pcapng      for Wireshark

    Once ready, the tap prints where it listens, as one line on standard output:

    \b
    {"listening":{"tap":"127.0.0.1:4001"},"upstream":"127.0.0.1:3001","directory":"captures"}

    It logs to standard error, as JSON unless that is a terminal. SIGTERM or Ctrl-C ends it once the data under way is
    delivered, a second signal at once. Exit status 1: some traffic was not recorded.
    """
    import asyncio

    from ..live.tap.proxy import Proxy
    from ..live.tap.recorder import Recorder

    with closing(ThreadedHandler()) as handler:
        log = show_logs(handler, level=logging.DEBUG if verbose else logging.INFO)
        try:
            recorder = Recorder(
                directory,
                rotate_bytes=int(rotate_mb * (1 << 20)),
                rotate_seconds=rotate_seconds,
                sync_seconds=sync_seconds,
            )
        except OSError as error:
            raise click.ClickException(f"cannot record into {directory}: {error.strerror}") from None
        name = None if protocol is None else protocol.name
        proxy = Proxy(listen, upstream, recorder, protocol=name, max_connections=max_connections)
        asyncio.run(_run(proxy, recorder, drain_seconds))
        log.info("ended", extra={"fields": _summary(proxy, recorder)})
    if recorder.unrecorded or recorder.unrecorded_connections:
        sys.exit(1)


async def _run(proxy: Proxy, recorder: Recorder, drain_seconds: float) -> None:
    """Run until a signal comes, and then until the data under way is delivered."""
    import asyncio
    import signal

    from ..live.core.address import show_address
    from ..live.drive.failures import explain_listening
    from ..live.hub.machine import raise_file_limit

    raise_file_limit()
    try:
        await proxy.start()
    except OSError as error:
        raise click.ClickException(explain_listening(error, proxy.listen)) from None
    recorder.start()
    signals: asyncio.Queue[str] = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, signals.put_nowait, number.name)
    place = {"upstream": show_address(proxy.upstream), "directory": str(recorder.directory)}
    announce({"listening": {"tap": show_address(proxy.listening[0])}, **place})
    log = logging.getLogger("wirelake.tap")
    log.info("listening", extra={"fields": {"tap": " ".join(map(show_address, proxy.listening)), **place}})
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
