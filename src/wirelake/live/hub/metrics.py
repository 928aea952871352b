"""What a hub tells about itself: numbers in the text format of Prometheus, and whether it is well."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from ...web.metrics import Family, Sample
from ..core.log import log
from ..records import LIVE
from ..storage.database import StorageError

if TYPE_CHECKING:
    from ..drive.server import Server
    from .hub import Hub

LAG_SECONDS = 0.25
LAG_SAMPLES = 240
FIGURES_SECONDS = 5.0
ReadFigures = Callable[[], Iterable[Family]]
_UNUSUAL = re.compile(r"[^a-z0-9_]+")


class LagMeter:
    """How late the event loop does what is due: the longest time that somebody had to wait lately."""

    def __init__(self) -> None:
        self.lags = [0.0]
        """The last one is the newest; they are those of a minute."""

    async def watch(self) -> None:
        time = asyncio.get_running_loop().time
        while True:
            due = time() + LAG_SECONDS
            await asyncio.sleep(LAG_SECONDS)
            self.lags = [*self.lags[-LAG_SAMPLES:], max(time() - due, 0.0)]


class StoreMeter:
    """Asks a store every few seconds, in a thread, because to count takes its time. ``families`` is the last reply."""

    def __init__(self, read: ReadFigures) -> None:
        self.families: list[Family] = []
        self._read = read

    async def watch(self) -> None:
        while True:
            try:
                self.families = list(await asyncio.to_thread(self._read))
            except StorageError as error:
                self.families = []
                log.warning("no figures of the store", reason=str(error))
            await asyncio.sleep(FIGURES_SECONDS)


def hub_figures(hub: Hub) -> Iterator[Family]:
    """All that a hub tells, in the order in which it is shown."""
    servers = hub.servers

    def each(value: str) -> list[Sample]:
        number = attrgetter(value)
        return [({"protocol": name}, number(server)) for name, server in servers.items()]

    yield "connections", "Open connections.", each("connections")
    yield "connections_accepted_total", "Accepted connections.", each("endpoint.accepted")
    yield "connections_refused_total", "Connections beyond the limit, or while memory is short.", each("refused")
    yield "tls_failures_total", "Failed TLS handshakes.", each("tls_failures")
    yield "received_bytes_total", "Received bytes.", each("endpoint.received")
    yield "sent_bytes_total", "Sent bytes.", each("endpoint.sent")
    yield "unsent_bytes", "Bytes that peers have not taken yet.", each("endpoint.unsent")
    yield "slow_readers", "Connections that read too slowly now.", each("endpoint.slow")
    yield "stalled_readers_total", "Slow readers that were dropped for others.", each("endpoint.stalled")
    yield "errors_total", "Bugs of the hub itself.", each("endpoint.errors")
    messages = {
        name: sum(one.session.counts[key] for key in LIVE[name].message_counts) for name, one in servers.items()
    }
    yield "messages_total", "Received messages.", [({"protocol": name}, count) for name, count in messages.items()]
    yield "session_total", "Events of a protocol, by name.", list(_counts(servers))
    yield from _stores(hub)
    yield "loop_lag_seconds", "How late the event loop was last.", [({}, hub.lag.lags[-1])]
    yield "loop_lag_max_seconds", "The largest lag of the last minute.", [({}, max(hub.lag.lags))]
    yield "draining", "1 while the hub shuts down.", [({}, float(hub.is_draining))]
    if hub.recorder is not None:
        yield "tap_recorded_bytes_total", "Recorded bytes.", [({}, hub.recorder.recorded)]
        yield "tap_unrecorded_bytes_total", "Bytes that were not recorded.", [({}, hub.recorder.unrecorded)]


def _stores(hub: Hub) -> Iterator[Family]:
    """What stores did, and what they hold. Requests by batches is the size of a group that shares a sync."""
    stores: dict[str, Any] = {name: served.storage for name, served in hub.served.items()}
    counts = {name: store.counts for name, store in stores.items() if hasattr(store, "counts")}
    if not counts:
        return

    def each(counter: str) -> list[Sample]:
        return [({"protocol": name}, one[counter]) for name, one in counts.items()]

    yield "store_requests_total", "Requests to the store.", each("requests")
    yield "store_batches_total", "Groups of requests that shared a transaction.", each("batches")
    yield "store_syncs_total", "Times that the store waited for its disk.", each("fsyncs")
    sizes = {name: one["requests"] / max(one["batches"], 1) for name, one in counts.items()}
    yield "store_group_size", "Requests of a batch, on average.", [({"protocol": n}, size) for n, size in sizes.items()]
    for meter in hub.meters:
        yield from meter.families


def _counts(servers: Mapping[str, Server]) -> Iterator[Sample]:
    for name, server in servers.items():
        for what, count in sorted(server.session.counts.items()):
            yield {"protocol": name, "name": _UNUSUAL.sub("_", what.lower()).strip("_")}, count
