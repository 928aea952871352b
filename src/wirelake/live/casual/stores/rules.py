"""What each request does to the store of a domain: one set of rules for every database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
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

FIND, ENQUEUE, PREPARE, COMMIT, ROLLBACK = range(5)
"""Kinds of requests that are carried out together, in this order. What they do to different branches and queues does
not depend on their order.
"""
RANKS: dict[type, int] = {Find: FIND, Enqueue: ENQUEUE, Prepare: PREPARE, Commit: COMMIT, Rollback: ROLLBACK}
MAY_REPEAT = (FIND, ENQUEUE)
"""Those of which one branch may have several at a time."""


class DomainRules:
    """Carries out requests. ``settings`` are the queues that have to be there."""

    def __init__(self, database: Database, settings: Iterable[QueueSettings]) -> None:
        queues = self._queues = Queues(database)
        branches = Branches(database, queues)
        queues.configure(settings)
        self._carry_out_all: tuple[Callable[[Sequence[Any]], list[Any]], ...] = (
            branches.find_all,
            queues.enqueue_all,
            branches.prepare_all,
            branches.commit_all,
            branches.roll_back_all,
        )
        """By rank."""
        self._carry_out: dict[type, Callable[[Any], Any]] = {
            Dequeue: queues.dequeue,
            Load: branches.load,
            Begin: branches.begin,
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
        return type(request) is Enqueue

    def is_durable(self, request: Request) -> bool:
        return is_durable(request)

    def apply(self, request: Request) -> Any:
        rank = RANKS.get(type(request))
        return self._carry_out[type(request)](request) if rank is None else self._carry_out_all[rank]([request])[0]

    def apply_all(self, requests: Sequence[Request]) -> list[Any]:
        """Carry out requests as if one came after the other, many with one statement."""
        if all(type(request) is Enqueue for request in requests):
            return self._queues.enqueue_all(requests)  # type: ignore[arg-type]
        results: list[Any] = [None] * len(requests)
        together = _Together(self._carry_out_all, requests, results)
        for place, request in enumerate(requests):
            rank = RANKS.get(type(request))
            if rank is None or (rank == ENQUEUE and not self._queues.takes_any_order(request)):  # type: ignore[arg-type]
                together.carry_out()
                results[place] = self.apply(request)
            else:
                together.add(place, rank)
        together.carry_out()
        return results


class _Together:
    """Requests that wait to be carried out, by rank; those of one branch are in the order of their ranks."""

    def __init__(
        self,
        carry_out_all: Sequence[Callable[[Sequence[Any]], list[Any]]],
        requests: Sequence[Any],
        results: list[Any],
    ) -> None:
        self._carry_out_all = carry_out_all
        self._requests = requests
        self._results = results
        self._places: list[list[int]] = [[] for _ in carry_out_all]
        self._rank_of: dict[Any, int] = {}

    def add(self, place: int, rank: int) -> None:
        xid = self._requests[place].xid
        if xid is not None:
            last = self._rank_of.get(xid, -1)
            if rank < last or (rank == last and rank not in MAY_REPEAT):
                self.carry_out()
            self._rank_of[xid] = rank
        self._places[rank].append(place)

    def carry_out(self) -> None:
        for carry_out, places in zip(self._carry_out_all, self._places, strict=True):
            if places:
                done = carry_out([self._requests[place] for place in places])
                for place, result in zip(places, done, strict=True):
                    self._results[place] = result
                places.clear()
        self._rank_of.clear()
