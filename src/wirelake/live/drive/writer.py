"""Gives a storage what sessions want to have stored: all that is ready at once, in one transaction.

To hand a batch over to a thread and back costs as much as a quick disk takes for a sync, and while both threads have
something to do, each waits for the other at every turn. So while the disk is quick, batches are carried out right
here, as everything else that takes no longer than a turn. When it is not, there is a thread for them, which others do
not have to wait for. A storage that waits for a server, or for somebody else who writes, has the thread too, and so has
a request that takes long whatever the disk does.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import islice
from queue import SimpleQueue
from typing import Any, NamedTuple

from ..core.effects import Cancelled, Result, Storage, Store
from ..core.log import log

MOST_AT_ONCE = 256
"""Stores of one transaction: what waits for their end takes its time too, and others wait for that."""
QUICK_SECONDS = 0.005
QUICK_BATCHES = 8
"""A disk is quick if so many batches in a row took no longer than that: the turn of a connection."""
EXIT_STATUS = 74
"""That of a process whose disk failed: EX_IOERR of sysexits.h."""

Run = Callable[[Sequence[Any]], Sequence[Result] | None]
Finish = Callable[[Sequence[tuple[Store, Result]]], None]


class _Batch(NamedTuple):
    stores: dict[Store, Finish]
    taken_back: set[Store]
    requests: list[Any]


class Writer:
    """The one user of a storage, for all endpoints of a loop. Completions keep the order of submission, cancels too."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._waiting: dict[Store, Finish] = {}
        self._cancelled: set[Store] = set()
        self._is_busy = False
        self._idle = asyncio.Event()
        self._idle.set()
        self._quick_batches = 0
        self._batches: SimpleQueue[_Batch | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop

    def submit(self, stores: Sequence[Store], finish: Finish) -> None:
        for store in stores:
            self._waiting[store] = finish
        if not self._is_busy:
            self._is_busy = True
            self._idle.clear()
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._next)  # with all that becomes ready at the same time

    def cancel(self, store: Store) -> None:
        """Take it back, unless it is being carried out already."""
        if store in self._waiting:
            self._cancelled.add(store)

    def _next(self) -> None:
        if not self._waiting:
            self._is_busy = False
            self._idle.set()
            return
        batch = self._take()
        is_quick = self._quick_batches >= QUICK_BATCHES and not any(store.is_long for store in batch.stores)
        results = self._run(self._storage.run_at_once, batch.requests) if is_quick else None
        if results is not None:
            self._loop.call_soon(self._loop.call_soon, self._next)  # with all that comes meanwhile
            self._end(batch, results)
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="wirelake-storage", daemon=True)
            self._thread.start()
        self._batches.put(batch)

    def _take(self) -> _Batch:
        if len(self._waiting) <= MOST_AT_ONCE:
            stores, self._waiting = self._waiting, {}
        else:
            stores = {store: self._waiting.pop(store) for store in list(islice(self._waiting, MOST_AT_ONCE))}
        taken_back = stores.keys() & self._cancelled if self._cancelled else set()
        self._cancelled -= taken_back
        return _Batch(stores, taken_back, [store.request for store in stores if store not in taken_back])

    def _work(self) -> None:
        while (batch := self._batches.get()) is not None:
            results = self._run(self._storage.run, batch.requests)
            assert results is not None
            with suppress(RuntimeError):  # the loop is closed: nobody waits for it any more
                self._loop.call_soon_threadsafe(self._ended, batch, results)

    def _run(self, run: Run, requests: list[Any]) -> Sequence[Result] | None:
        began = time.perf_counter()
        try:
            results = run(requests) if requests else []
            if results is not None and len(results) != len(requests):
                raise RuntimeError(f"{len(results)} results of {len(requests)} requests")
        except BaseException:
            log.critical("the storage failed; the process ends, because it may have lost writes", exc_info=True)
            logging.shutdown()
            os._exit(EXIT_STATUS)
        self._quick_batches = self._quick_batches + 1 if time.perf_counter() - began < QUICK_SECONDS else 0
        return results

    def _ended(self, batch: _Batch, results: Sequence[Result]) -> None:
        try:
            self._end(batch, results)
        finally:
            self._next()

    def _end(self, batch: _Batch, results: Sequence[Result]) -> None:
        finishes = set(batch.stores.values())
        if len(finishes) == 1 and not batch.taken_back:
            finishes.pop()(list(zip(batch.stores, results, strict=True)))
            return
        following = iter(results)
        ended: dict[Finish, list[tuple[Store, Result]]] = {}
        for store, finish in batch.stores.items():
            result = Cancelled() if store in batch.taken_back else next(following)
            ended.setdefault(finish, []).append((store, result))
        for finish, stores in ended.items():
            finish(stores)

    async def close(self) -> None:
        """Carry out what was submitted, then close the storage."""
        await self._idle.wait()
        if self._thread is not None:
            self._batches.put(None)
            await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._storage.close)
