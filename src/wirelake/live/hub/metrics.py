"""What a hub tells about itself: numbers in the text format of Prometheus, and whether it is well."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

from ..records import LIVE
from .machine import open_files, resident_bytes

if TYPE_CHECKING:
    from ..drive.server import Server
    from .hub import Hub

Labels = Mapping[str, str]
Sample = tuple[Labels, float]
LAG_SECONDS = 0.25
"""How often the event loop is asked for its lag."""
LAG_SAMPLES = 240
_UNUSUAL = re.compile(r"[^a-z0-9_]+")


class LagMeter:
    """How late the event loop does what is due: the longest time that somebody had to wait lately."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lags = [0.0]
        self._timer = self._loop.call_later(LAG_SECONDS, self._look, self._loop.time() + LAG_SECONDS)

    def _look(self, due: float) -> None:
        now = self._loop.time()
        self._lags = [*self._lags[-LAG_SAMPLES:], max(now - due, 0.0)]
        self._timer = self._loop.call_later(LAG_SECONDS, self._look, now + LAG_SECONDS)

    @property
    def last(self) -> float:
        return self._lags[-1]

    @property
    def most(self) -> float:
        """Of the last minute."""
        return max(self._lags)

    def stop(self) -> None:
        self._timer.cancel()


def show_metrics(hub: Hub) -> str:
    """All numbers, one a line, as Prometheus reads them."""
    return "\n".join(line for family in _families(hub) for line in family) + "\n"


def _families(hub: Hub) -> Iterator[Iterator[str]]:
    servers = hub.servers

    def each(value: str) -> list[Sample]:
        number = attrgetter(value)
        return [({"protocol": name}, number(server)) for name, server in servers.items()]

    yield _family("connections", "gauge", "Connections that are open.", each("connections"))
    yield _family("connections_accepted_total", "counter", "Connections that were accepted.", each("endpoint.accepted"))
    yield _family("connections_refused_total", "counter", "Connections beyond the limit.", each("refused"))
    yield _family("tls_failures_total", "counter", "TLS handshakes that failed.", each("tls_failures"))
    yield _family("received_bytes_total", "counter", "Bytes that came.", each("endpoint.received"))
    yield _family("sent_bytes_total", "counter", "Bytes that were sent.", each("endpoint.sent"))
    yield _family("unsent_bytes", "gauge", "Bytes that peers have not taken yet.", each("endpoint.unsent"))
    yield _family("slow_readers", "gauge", "Connections that read too slowly now.", each("endpoint.slow"))
    yield _family(
        "stalled_readers_total", "counter", "Slow readers that were dropped for others.", each("endpoint.stalled")
    )
    yield _family("errors_total", "counter", "Mistakes of the hub itself.", each("endpoint.errors"))
    yield _family("messages_total", "counter", "Messages that came.", list(_messages(servers)))
    yield _family("session_total", "counter", "What happened in a protocol, by name.", list(_counts(servers)))
    yield _family("loop_lag_seconds", "gauge", "How late the event loop was last.", [({}, hub.lag.last)])
    yield _family("loop_lag_max_seconds", "gauge", "The same, the most in a minute.", [({}, hub.lag.most)])
    yield _family("draining", "gauge", "1 while the hub ends.", [({}, float(hub.is_draining))])
    if hub.recorder is not None:
        yield _family("tap_recorded_bytes_total", "counter", "Bytes recorded.", [({}, hub.recorder.recorded)])
        yield _family("tap_unrecorded_bytes_total", "counter", "Bytes not recorded.", [({}, hub.recorder.unrecorded)])
    yield _family("start_time_seconds", "gauge", "When the hub was started.", [({}, hub.started)], "process")
    yield _family("resident_memory_bytes", "gauge", "Memory of the process.", [({}, resident_bytes())], "process")
    yield _family("open_fds", "gauge", "Descriptors of the process.", [({}, open_files())], "process")
    yield _family("cpu_seconds_total", "counter", "Time of processors.", [({}, time.process_time())], "process")


def _messages(servers: Mapping[str, Server]) -> Iterator[Sample]:
    for name, server in servers.items():
        counts = server.session.counts
        names = LIVE[name].message_counts if name in LIVE else ("messages",)
        yield {"protocol": name}, sum(counts[counter] for counter in names)


def _counts(servers: Mapping[str, Server]) -> Iterator[Sample]:
    for name, server in servers.items():
        for what, count in sorted(server.session.counts.items()):
            yield {"protocol": name, "name": _UNUSUAL.sub("_", what.lower()).strip("_")}, count


def _family(name: str, kind: str, about: str, samples: Iterable[Sample], front: str = "wirelake") -> Iterator[str]:
    yield f"# HELP {front}_{name} {about}"
    yield f"# TYPE {front}_{name} {kind}"
    for labels, value in samples:
        inside = ",".join(f'{key}="{text}"' for key, text in labels.items())
        shown = str(int(value)) if value == int(value) else repr(float(value))
        yield f"{front}_{name}{{{inside}}} {shown}" if inside else f"{front}_{name} {shown}"
