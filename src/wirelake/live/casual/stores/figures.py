"""What a store holds, as figures for the metrics of a hub. It reads beside the hub, on a connection of its own."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

from ...core.effects import Done
from ...storage.database import StorageError
from ..store import CountBranches, ListQueues, QueueReport
from . import open_store

Family = tuple[str, str, list[tuple[Mapping[str, str], float]]]


class Figures:
    """Reads the figures of the store at a place."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __call__(self) -> list[Family]:
        now = time.time_ns()
        store = open_store(self._where, is_guest=True)
        try:
            results = store.run([ListQueues(now), CountBranches()])
        finally:
            store.close()
        values = [result.value for result in results if isinstance(result, Done)]
        if len(values) < len(results):
            raise StorageError(f"{self._where}: cannot be read")
        reports, branches = values
        return [*_queues(reports, now), _branches(branches)]


def _queues(reports: tuple[QueueReport, ...], now: int) -> Iterator[Family]:
    states = ("ready", "delayed", "added", "taken")
    depths = [
        ({"queue": report.name, "state": state}, float(getattr(report, state)))
        for report in reports
        for state in states
    ]
    yield "queue_messages", "Messages in a queue, by state.", list(depths)
    ages = [
        ({"queue": report.name}, (now - report.oldest) / 1e9 if report.oldest is not None else 0.0)
        for report in reports
    ]
    yield "queue_oldest_seconds", "Age of the oldest message of a queue that is ready.", list(ages)


def _branches(counts: dict[str, int]) -> Family:
    samples = [({"state": state}, float(count)) for state, count in sorted(counts.items())]
    return "branches", "Branches of transactions that are not finished, by state.", list(samples)
