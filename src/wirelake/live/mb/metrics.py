"""The numbers that a broker tells of itself, under the names that its peers know.

What happened is counted in one place; a rate is how much of it happened in the last full second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from .connection import Service
from .wire import Clock, plain_number

Probe = Callable[[], Mapping[str, float]]

_COUNTED = (
    "connection.connected.total", "connection.disconnected.total", "connection.failed.total",
    "connection.rejected.total",
    "router.message.count", "router.message.count.error",
    "router.publish.count", "router.publish.count.dropped", "router.publish.count.error",
    "router.request.count", "router.request.count.dropped", "router.request.count.error",
    "router.request.count.timeout",
    "router.response.count", "router.response.count.error",
)  # fmt: skip
_REGISTRY = ("discovery", "registration", "unregistration")
_PROBED = {
    "process.cpu.percent": "percent",
    "process.memory.percent": "percent",
    "process.memory.bytes": "gauge",
    "process.uptime": "uptime",
    "system.cpu.percent": "percent",
    "system.memory.percent": "percent",
    "system.memory.bytes": "gauge",
    "system.uptime": "uptime",
}

Metric = tuple[dict[str, str], str, str, float]
"""What tells it apart, of one service or one processor; name, type, value."""


class Metrics:
    """``counts`` goes up by the names of the gauges; the largest and the sum of all sizes are kept beside."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts
        self.size_sum = 0
        self.size_max = 0
        self._started: float | None = None
        self._second: int | None = None
        self._before: dict[str, int] = {}
        self._rates: dict[str, int] = {}
        self._errors_before: dict[Service, int] = {}
        self._error_rates: dict[Service, int] = {}

    def roll(self, now: float, services: Iterable[Service]) -> None:
        """A second has begun: what was counted in the last one is its rate, if it was the one just before."""
        second = int(now)
        if self._started is None:
            self._started = now
        if second == self._second:
            return
        is_next = self._second is not None and second == self._second + 1
        self._rates = {n: c - self._before.get(n, 0) for n, c in self.counts.items()} if is_next else {}
        failing = {s: s.errors for s in services if s.errors}
        self._error_rates = {s: e - self._errors_before.get(s, 0) for s, e in failing.items()} if is_next else {}
        self._before = dict(self.counts)
        self._errors_before = failing
        self._second = second

    def _all(self, now: float, services: list[Service], probed: dict[str, float]) -> Iterator[Metric]:
        counts, rate, general = self.counts, self._rates.get, dict[str, str]()
        yield general, "connection.active", "gauge", len(services)
        for name in _COUNTED:
            yield general, name, "gauge", counts[name]
            yield general, name.replace(".count", ".rate").replace(".total", ".rate"), "rate", rate(name, 0)
        messages = counts["router.message.count"]
        yield general, "router.message.size.avg", "average", self.size_sum / messages if messages else 0
        yield general, "router.message.size.max", "maximum", self.size_max
        yield general, "registry.count", "gauge", len(services)
        for what in _REGISTRY:
            yield general, f"registry.{what}.rate", "rate", rate(f"registry.{what}", 0)
        ours = {"process.uptime": 0 if self._started is None else now - self._started}
        for name, kind in _PROBED.items():
            value = probed.get(name, ours.get(name, 0))
            yield general, name, kind, int(value) if kind == "uptime" else value
        for service in services:
            front = f"registry.service.{{serviceid:{service.id}}}"
            given = {"serviceid": service.id}
            yield given, f"{front}.uptime", "uptime", int(now - service.connected_at)
            yield given, f"{front}.error.rate", "rate", self._error_rates.get(service, 0)
        for name, value in probed.items():
            core = name.removeprefix("system.cpu.{core:").removesuffix("}.percent")
            if name not in _PROBED and core != name:
                yield {"core": core}, name, "percent", value

    def shown(
        self, clock: Clock, services: list[Service], probed: dict[str, float], args: dict[str, Any]
    ) -> dict[str, Any]:
        """What ``system.metrics`` answers; ``probed`` are the numbers of process and machine."""
        found = self._all(clock.now, services, probed)
        wanted = args.get("paramFilter")
        if isinstance(wanted, dict):
            lowered = {key.lower(): value for key, value in wanted.items()}
            found = (metric for metric in found if metric[0] and lowered.items() <= metric[0].items())
        if not args.get("showAll"):
            return {name: plain_number(value) for _, name, _, value in found}
        when = clock.stamp.decode()
        return {
            name: {"name": name, "type": kind, "timestamp": when, "value": plain_number(value)}
            for _, name, kind, value in found
        }
