"""A hub: any set of protocols on any of their transports in one process, until it is stopped.

>>> from wirelake.live.hub.hub import Hub, default_settings
>>> async def main():
...     async with Hub(default_settings()) as hub:
...         print(hub.listening)
...         await hub.until_stopped()
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ...web.http import Response, is_loopback, prepare
from ...web.metrics import METRICS_TYPE, show_metrics
from ..core.address import Address, show_address
from ..core.link import Framing
from ..core.log import log
from ..core.settings import SettingsError
from ..drive.client import Opening
from ..drive.failures import explain_listening
from ..drive.http import Pages
from ..drive.patience import new_event_loop
from ..drive.server import Server
from ..drive.writer import Writer
from ..storage.database import StorageError
from ..tap.recorder import Recorder
from .machine import MemoryGuard, raise_file_limit
from .metrics import LagMeter, StoreMeter, hub_figures
from .participants import find_services, join, run
from .settings import HubSettings, Served, default_settings, load_settings, read_settings, with_listeners

__all__ = [
    "Hub",
    "HubError",
    "HubSettings",
    "SettingsError",
    "default_settings",
    "load_settings",
    "read_settings",
    "serve",
    "with_listeners",
]

COLLECT_AFTER = (10_000, 50, 100)
SWITCH_SECONDS = 0.0005
"""How long the event loop waits at most for its turn when a thread is busy: it may do so at every read and write."""
SPARE_FILES = 64
"""Descriptors that a hub needs besides its connections."""


class HubError(Exception):
    """The hub cannot begin: why, in one line."""


class Hub:
    """A hub. Once it has started, ``listening`` has its addresses, by protocol and transport: ``mb``, ``mb-ws``, …"""

    def __init__(self, settings: HubSettings) -> None:
        self.settings = settings
        self.servers: dict[str, Server] = {}
        self.listening: dict[str, str] = {}
        self.recorder: Recorder | None = None
        self.is_draining = False
        self.started = 0.0
        self.lag: LagMeter
        self.memory: MemoryGuard
        self.served: dict[str, Served] = {}
        self.meters: list[StoreMeter] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._pages: Pages | None = None
        self._stopped: asyncio.Event

    async def __aenter__(self) -> Hub:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def start(self) -> None:
        """Listens everywhere, or nowhere: HubError says why."""
        self._stopped = asyncio.Event()
        self.started = time.time()
        self.lag = LagMeter()
        self.memory = MemoryGuard(
            self.settings.memory.share, lambda: sum(one.connections for one in self.servers.values())
        )
        try:
            self._begin_to_record()
            services = [
                (name, service)
                for name, settings in self.settings.services.items()
                for service in find_services(settings.participants, self.settings.directory)
            ]
            for name in self.settings.services:
                await self._serve(name)
            await self._begin_to_tell()
        except BaseException:
            await self.close(0)
            raise
        running = [self.lag.watch(), self.memory.watch(), *(meter.watch() for meter in self.meters)]
        running += [run(self.servers[name], service) for name, service in services]
        self._tasks = [asyncio.create_task(coroutine) for coroutine in running]
        for name, address in self.listening.items():
            log.info("listening", name=name, address=address)

    def participant(self, protocol: str, **options: Any) -> Opening[Any]:
        """Return a client of this hub that needs no address: ``async with hub.participant("mb", name="x") as client``.

        It is trusted: it logs in without a password.
        """
        return join(self.servers[protocol], **options)

    async def _serve(self, name: str) -> None:
        settings = self.settings.services[name]
        if not settings.listeners:
            raise HubError(f"{name} has no usual port: say where it listens, --{name} HOST:PORT or tcp in [{name}]")
        try:
            served = self.served[name] = settings.serve(self.settings.directory)
        except StorageError as error:
            raise HubError(f"{name}: {error}") from None
        server = self.servers[name] = Server(
            name,
            served.session,
            served.framing,
            is_text=served.is_text,
            max_message=served.max_message,
            limits=settings,
            recorder=self.recorder,
            is_short=lambda: self.memory.is_short,
        )
        if served.gate is not None:
            server.endpoint.effects.authenticate = served.gate.authenticate
            if served.gate.is_open:
                log.warning("every user may log in, with any password", protocol=name)
        if served.storage is not None:
            server.endpoint.effects.writer = Writer(served.storage)
        if served.figures is not None and self.settings.metrics.listen is not None:
            self.meters.append(StoreMeter(served.figures))
        if served.open is not None:
            served.open(server.endpoint)
        for transport, address in settings.listeners.items():
            await self._listen(server, name, transport, address, served.framings.get(transport))

    async def _listen(
        self, server: Server, name: str, transport: str, address: Address, framing: Framing | None
    ) -> None:
        label = name if transport == "tcp" else f"{name}-{transport}"
        certificate = self.settings.tls if transport in ("tls", "wss") else None
        try:
            is_websocket = transport in ("ws", "wss")
            bound = await server.listen(address, websocket=is_websocket, certificate=certificate, framing=framing)
        except ValueError as error:
            raise HubError(f"{label}: {error}") from None
        except OSError as error:
            raise HubError(f"{label}: {explain_listening(error, address)}") from None
        self.listening[label] = shown = show_address(bound)
        if certificate is None and not is_loopback(bound[0]):
            text = "anybody who reaches this address can read what passes: it has no TLS"
            log.warning(text, name=label, address=shown)

    def _begin_to_record(self) -> None:
        tap = self.settings.tap
        if tap.directory is None:
            return
        try:
            self.recorder = Recorder(
                tap.directory,
                rotate_bytes=int(tap.rotate_mb * (1 << 20)),
                rotate_seconds=tap.rotate_seconds,
                sync_seconds=tap.sync_seconds,
            )
        except OSError as error:
            raise HubError(f"cannot record into {tap.directory}: {error.strerror or error}") from None
        self.recorder.start()

    async def _begin_to_tell(self) -> None:
        address = self.settings.metrics.listen
        if address is not None:
            self._pages = Pages({"/metrics": self._metrics, "/health": self._health}, self.settings.metrics.hosts)
            try:
                self.listening["metrics"] = show_address(await self._pages.listen(address))
            except OSError as error:
                raise HubError(f"metrics: {explain_listening(error, address)}") from None

    def _metrics(self) -> Response:
        return Response(200, prepare(METRICS_TYPE, show_metrics(hub_figures(self))))

    def _health(self) -> Response:
        health = {
            "status": "draining" if self.is_draining else "ok",
            "uptime_seconds": round(time.time() - self.started, 3),
            "connections": {name: server.connections for name, server in self.servers.items()},
            "recording": None if self.recorder is None else self.recorder.problem or "ok",
        }
        status = 503 if self.is_draining else 200
        return Response(status, prepare("application/json", json.dumps(health).encode() + b"\n"))

    async def until_stopped(self) -> None:
        await self._stopped.wait()

    def stop(self) -> None:
        """To be ended: everybody may finish. Said twice: at once."""
        if self._stopped.is_set():
            for server in self.servers.values():
                server.cut()
        self._stopped.set()

    def reload(self) -> None:
        """Reads certificates and users again; what makes no sense is logged, and changes nothing."""
        try:
            contexts = [server.read_certificates() for server in self.servers.values()]  # before anything changes
            for served in self.served.values():
                if served.gate is not None:
                    served.gate.reload()
            for server, read in zip(self.servers.values(), contexts, strict=True):
                server.contexts = read
        except (OSError, ValueError) as error:
            log.error("not reloaded, all stays as it was", reason=str(error))
        else:
            log.info("reloaded certificates and users")

    async def close(self, drain_seconds: float | None = None) -> None:
        """Accepts nobody any more; those who are here have some time to take what was said to them."""
        seconds = self.settings.shutdown.drain_seconds if drain_seconds is None else drain_seconds
        self.is_draining = True
        if self.servers:
            connections = sum(server.connections for server in self.servers.values())
            log.info("shutting down", connections=connections, seconds=seconds)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(server.close(seconds) for server in self.servers.values()))
        for server in self.servers.values():
            if server.endpoint.effects.writer is not None:
                await server.endpoint.effects.writer.close()
        if self._pages is not None:
            await self._pages.close()
        if self.recorder is not None:
            self.recorder.end()
        await asyncio.sleep(0)


def serve(settings: HubSettings, on_ready: Callable[[Hub], Any]) -> None:
    """Run a hub until SIGTERM or SIGINT; SIGHUP reloads certificates and users."""
    with asyncio.Runner(loop_factory=_loop_factory(settings)) as runner:
        runner.run(_run(settings, on_ready))


async def _run(settings: HubSettings, on_ready: Callable[[Hub], Any]) -> None:
    limit = raise_file_limit()
    wanted = max(service.connections for service in settings.services.values()) + SPARE_FILES
    if limit and limit < wanted:
        log.warning("fewer connections are possible than allowed: the limit of open files", files=limit, wanted=wanted)
    async with Hub(settings) as hub:
        loop = asyncio.get_running_loop()
        calls = {"SIGTERM": hub.stop, "SIGINT": hub.stop, "SIGHUP": hub.reload}
        for name, call in calls.items():
            with suppress(NotImplementedError, AttributeError):  # as on Windows, where Ctrl-C is all there is
                loop.add_signal_handler(getattr(signal, name), call)
        _collect_rarely()
        sys.setswitchinterval(SWITCH_SECONDS)
        on_ready(hub)
        await hub.until_stopped()


def _collect_rarely() -> None:
    """To look through all objects for cycles takes a tenth of a second where there are thousands of connections, and
    everybody waits: what was imported is not looked through any more, and the rest rarely. Little here is in cycles.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)


def _loop_factory(settings: HubSettings) -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return that of uvloop, if there is one, but not with TLS: what it reads before the handshake begins is lost."""
    has_tls = any({"tls", "wss"} & set(service.listeners) for service in settings.services.values())
    try:
        uvloop = None if has_tls else importlib.import_module("uvloop")
    except ImportError:
        uvloop = None
    if uvloop is None:
        return new_event_loop if sys.platform != "win32" else None
    return uvloop.new_event_loop  # type: ignore[no-any-return]
