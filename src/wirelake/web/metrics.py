"""Figures in the text format of Prometheus: those of a hub, and those of a stream."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from prometheus_client.core import Metric

Labels = Mapping[str, str]
Sample = tuple[Labels, float]
Family = tuple[str, str, list[Sample]]
"""Name, meaning and values; a name that ends with ``_total`` only grows."""
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def show_metrics(families: Iterable[Family]) -> bytes:
    """Return the figures, and those of this process, as Prometheus reads them."""
    from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest  # takes a while to load

    registry = CollectorRegistry()
    registry.register(_Figures(families))
    ProcessCollector(registry=registry)
    return generate_latest(registry)


class _Figures:
    """What the library asks for figures, once when they are registered and once when they are shown."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        for name, about, samples in self._families:
            kind = CounterMetricFamily if name.endswith("_total") else GaugeMetricFamily
            labels = list(samples[0][0]) if samples else []
            family = kind(f"wirelake_{name}", about, labels=labels)
            for values, number in samples:
                family.add_metric(list(values.values()), number)
            yield family
