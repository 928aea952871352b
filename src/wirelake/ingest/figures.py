"""What a stream tells about itself while it runs: figures for Prometheus, and whether it is well."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .follow import Batch, Round, Watcher

Family = tuple[str, str, list[tuple[Mapping[str, str], float]]]
MOST_SENSORS = 100
"""With a figure of their own: those that were heard last."""


class Figures(Watcher):
    """Adds up what it is told. Another thread may ask for ``families`` and ``health`` meanwhile."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._began = clock()
        self._counts: Counter[str] = Counter()
        self._seconds: Counter[str] = Counter()
        self._last_seconds: dict[str, float] = {}
        self._carry_bytes = 0
        self._commit = 0
        self._committed_at = 0.0
        self._in_a_row = 0
        self._round = Round()
        self._first: dict[str, int | None] | None = None
        self._heard: dict[str, int] = {}
        """Sensors whose time has moved since this process began, the one that was heard last behind the others."""

    # --- is told

    def batch(self, batch: Batch) -> None:
        report = batch.report
        self._counts.update(
            batches=1,
            messages=sum(report.messages.values()),
            decoded_bytes=report.bytes_decoded,
            quarantined_bytes=report.bytes_quarantined,
            missing_bytes=report.bytes_missing,
            time_records=report.captured["time_records"],
        )
        stages = {name: float(times["seconds"]) for name, times in report.stages.items()} | {"batch": batch.seconds}
        self._seconds.update(stages)
        self._last_seconds = stages
        self._carry_bytes, self._commit, self._committed_at = batch.carry_bytes, report.commit or 0, self._clock()

    def failed(self, error: Exception, in_a_row: int, pause: float) -> None:
        self._counts["failures"] += 1
        self._in_a_row = in_a_row

    def round(self, told: Round) -> None:
        self._counts["rounds"] += 1
        self._in_a_row = 0
        if self._first is None:
            self._first = dict(told.watermarks)
        for name, until in told.watermarks.items():
            if until is not None and until != self._first.get(name) and until != self._heard.get(name):
                self._heard.pop(name, None)
                self._heard[name] = until
        while len(self._heard) > MOST_SENSORS:
            del self._heard[next(iter(self._heard))]
        self._round = told

    # --- is asked

    def families(self) -> Iterator[Family]:
        """Yield name, meaning and values of every figure."""
        told, now = self._round, self._clock()
        newest = max((until for until in told.watermarks.values() if until is not None), default=None)
        yield "stream_lag_bytes", "Bytes of captures that wait to be read.", [({}, told.lag_bytes)]
        if newest is not None:
            yield "stream_lag_seconds", "From the newest time of any sensor to now.", [({}, now - newest / 1e6)]
        sensors = [({"sensor": name}, now - until / 1e6) for name, until in list(self._heard.items())]
        if sensors:
            yield "stream_sensor_lag_seconds", "From the time up to which a sensor is known to now.", list(sensors)
        silent = [({"input": path}, seconds) for path, seconds in told.silent_seconds.items()]
        yield "stream_silent_seconds", "How long nothing was written to an input.", list(silent)
        yield "stream_stalled", "Inputs that have stalled.", [({}, len(told.stalled))]
        for name, about in _COUNTED.items():
            yield f"stream_{name}_total", about, [({}, self._counts[name])]
        yield "stream_failures_in_a_row", "Rounds that failed since the last good one.", [({}, self._in_a_row)]
        seconds = [({"stage": name}, number) for name, number in sorted(self._seconds.items())]
        yield "stream_stage_seconds_total", "Seconds of tasks by stage; of whole batches as batch.", list(seconds)
        last = [({"stage": name}, number) for name, number in sorted(self._last_seconds.items())]
        yield "stream_last_batch_seconds", "The same of the last batch.", list(last)
        yield "stream_carry_bytes", "State that the last commit leaves to the next.", [({}, self._carry_bytes)]
        yield "stream_commit", "The number of the last commit of this process.", [({}, self._commit)]
        yield "stream_committed_timestamp_seconds", "When that was; 0 before the first.", [({}, self._committed_at)]

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Tell whether all is well, and what is known about it."""
        told = self._round
        status = "failing" if self._in_a_row else "stalled" if told.stalled else "ok"
        found = {
            "status": status,
            "uptime_seconds": round(self._clock() - self._began, 3),
            "commit": self._commit,
            "lag_bytes": told.lag_bytes,
            "failures_in_a_row": self._in_a_row,
            "stalled": list(told.stalled),
        }
        return status == "ok", found


_COUNTED = {
    "rounds": "Looks at the inputs.",
    "batches": "Steps that made a commit.",
    "failures": "Rounds that failed.",
    "messages": "Messages of committed steps.",
    "decoded_bytes": "Bytes of these messages.",
    "quarantined_bytes": "Bytes that are no message.",
    "missing_bytes": "Bytes that captures lack.",
    "time_records": "Time records of silent taps.",
}
