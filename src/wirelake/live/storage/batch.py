"""Carries out a batch of requests with one sync: all in one transaction, or, if that fails, one after the other.

A batch that fails is rolled back before anybody has heard of it, so it may run again. That is why no request needs a
savepoint while all goes well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Any, Protocol, TypeGuard

from ..core.effects import Done, Failed
from .database import Rules

TRIES = 20
"""How often a batch runs that others get in the way of."""


class Verdict(Enum):
    """What an error means."""

    FULL = "the disk takes no more"
    REFUSED = "the request makes no sense"
    AGAIN = "another process was in the way"
    FATAL = "nobody knows what is on the disk"


class Occupied(Exception):
    """Somebody else writes, and there is no time to wait for the end of that."""


class Engine(Protocol):
    """The transactions of a database. ``waits``: whether the next one waits for others who write, or is Occupied."""

    waits: bool

    def begin(self, *, is_durable: bool, is_new: bool = True) -> None: ...

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def judge(self, error: Exception) -> Verdict: ...

    def make_room(self) -> None:
        """The disk is full: give back what can be given back. A disk that has no room for that is no error."""
        ...


class Batches:
    """Runs batches. ``counts`` has ``fsyncs``, ``batches`` and ``requests`` since the start."""

    def __init__(self, engine: Engine, rules: Rules) -> None:
        self.counts: Counter[str] = Counter()
        self._engine = engine
        self._rules = rules

    def run(self, requests: Sequence[Any]) -> list[Done | Failed]:
        """Do what ``core.effects.Storage.run`` promises."""
        try:
            results: list[Done | Failed] = [Done(value) for value in self._transact(requests)]
        except Occupied:
            raise
        except Exception as error:
            if self._engine.judge(error) is Verdict.FATAL:
                raise
            results = self._run_each(requests)
        self.counts["batches"] += 1
        self.counts["requests"] += len(requests)
        return results

    def run_at_once(self, requests: Sequence[Any]) -> list[Done | Failed] | None:
        """Do what ``core.effects.Storage.run_at_once`` promises."""
        self._engine.waits = False
        try:
            return self.run(requests)
        except Occupied:
            return None
        finally:
            self._engine.waits = True

    def _run_each(self, requests: Sequence[Any]) -> list[Done | Failed]:
        """Carry out one after the other. Once the disk is full, requests like the one that had no room are refused;
        others may need none, may have the last of it, or even make some.
        """
        results: list[Done | Failed] = []
        refused: dict[type, Failed] = {}
        for request in requests:
            kind = type(request)
            result = refused.get(kind) or self._run_one(request)
            if kind not in refused and self._has_no_room(result):
                self._engine.make_room()
                result = self._run_one(request)
                if self._has_no_room(result):
                    refused[kind] = result
            results.append(result)
        return results

    def _has_no_room(self, result: Done | Failed) -> TypeGuard[Failed]:
        return isinstance(result, Failed) and self._engine.judge(result.error) is Verdict.FULL

    def _run_one(self, request: Any) -> Done | Failed:
        try:
            return Done(self._transact([request])[0])
        except Exception as error:
            if self._engine.judge(error) is Verdict.FATAL:
                raise
            return Failed(error)

    def _transact(self, requests: Sequence[Any]) -> list[Any]:
        is_durable = any(map(self._rules.is_durable, requests))
        is_new = any(map(self._rules.is_new, requests))
        for attempt in range(TRIES):
            self._engine.begin(is_durable=is_durable, is_new=is_new)
            try:
                values = self._rules.apply_all(requests)
                self._engine.commit()
            except Exception as error:
                self._engine.rollback()
                if self._engine.judge(error) is not Verdict.AGAIN or attempt == TRIES - 1:
                    raise
                continue
            if is_durable:
                self.counts["fsyncs"] += 1
            return values
        raise AssertionError("unreachable")
