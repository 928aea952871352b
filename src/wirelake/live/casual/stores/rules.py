"""What each request does to the store of a domain: one set of rules for every database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

from ...storage.database import Database
from ..store import (
    Begin,
    Commit,
    CountBranches,
    Dequeue,
    Enqueue,
    Find,
    ListBranches,
    ListQueues,
    Load,
    Peek,
    Prepare,
    Purge,
    QueueSettings,
    Request,
    Resolve,
    Restore,
    Rollback,
    Told,
    is_durable,
)
from .branches import Branches
from .queues import Queues


class DomainRules:
    """Carries out requests. ``settings`` are the queues that have to be there."""

    def __init__(self, database: Database, settings: Iterable[QueueSettings]) -> None:
        queues = self._queues = Queues(database)
        branches = Branches(database, queues)
        queues.configure(settings)
        self._carry_out: dict[type, Callable[[Any], Any]] = {
            Enqueue: queues.enqueue,
            Dequeue: queues.dequeue,
            Load: branches.load,
            Find: branches.find,
            Begin: branches.begin,
            Prepare: branches.prepare,
            Commit: branches.commit,
            Rollback: branches.roll_back,
            Told: branches.told,
            ListQueues: queues.list,
            Peek: queues.peek,
            Restore: queues.restore,
            Purge: queues.purge,
            ListBranches: lambda request: branches.list(),
            CountBranches: lambda request: branches.count(),
            Resolve: branches.resolve,
        }

    def is_new(self, request: Request) -> bool:
        return isinstance(request, Enqueue)

    def is_durable(self, request: Request) -> bool:
        return is_durable(request)

    def apply(self, request: Request) -> Any:
        return self._carry_out[type(request)](request)

    def apply_all(self, requests: Sequence[Request]) -> list[Any]:
        results: list[Any] = []
        for kind, run in groupby(requests, type):
            if kind is Enqueue:
                results += self._queues.enqueue_all(list(run))  # type: ignore[arg-type]
            else:
                results += map(self._carry_out[kind], run)
        return results
