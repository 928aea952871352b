"""How a broker has things stored: again if the disk refused, and with what is to be done once they are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.effects import Cancelled, Done, Failed, Result, Store
from ..core.session import Session
from ..core.timers import Timers
from .desk import Then
from .store import DropQueue, Kept, Load, Put, Remove

RETRY_SECONDS = 1.0
Wanted = tuple[Then | None, Callable[[], bool] | None]
"""What to do once a request is stored, and whether it still is to be."""


class Keeping:
    """The stores of a session. Without a store nothing is kept, and everything is as good as done at once."""

    def __init__(self, session: Any, *, has_store: bool) -> None:
        self._session: Session = session
        self._timers: Timers[Any] = session.timers
        self._desk = session.desk
        self._has_store = has_store
        self._open: dict[Store, Wanted] = {}
        self._failed: dict[int, tuple[Any, Wanted]] = {}
        self._count = 0
        self._latest: dict[tuple[str, str], Any] = {}
        """The last request about each fact, while one of them is open: an older one must not come after it."""
        self._on_load: Callable[[Kept], None] | None = None

    def load(self, then: Callable[[Kept], None]) -> None:
        """Read everything that was kept."""
        self._on_load = then
        if self._has_store:
            self._want(Load(), (None, None))
        else:
            then(Kept())

    def keep(self, request: Any, then: Then | None, is_wanted: Callable[[], bool] | None = None, /) -> None:
        if not self._has_store:
            if then is not None:
                then()
            return
        if isinstance(request, Put | Remove):
            self._latest[request.kind, request.key] = request
        self._want(request, (then, is_wanted))

    def drop_queue(self, queue: str) -> None:
        self.keep(DropQueue(queue), None)

    def _want(self, request: Any, wanted: Wanted) -> None:
        store = Store(request)
        self._open[store] = wanted
        self._session.want(store)

    def completed(self, store: Store, result: Result) -> None:
        wanted = self._open.pop(store)
        then = wanted[0]
        request: Any = store.request
        match result:
            case Done(value):
                self._settle(request)
                if isinstance(request, Load):
                    assert self._on_load is not None
                    self._on_load(value)
                elif then is not None:
                    then()
            case Failed(error):
                self._session.counts["stores_failed"] += 1
                text = f"cannot store, trying again in {RETRY_SECONDS:g} s: {type(error).__name__}: {error}"
                self._session.note("error", text)
                self._count += 1
                self._failed[self._count] = (request, wanted)
                self._timers.set(("store", self._count), self._desk.now + RETRY_SECONDS)
            case Cancelled():
                """The process ends."""

    def _settle(self, request: Any) -> None:
        if isinstance(request, Put | Remove):
            fact = request.kind, request.key
            if self._latest.get(fact) is request:
                del self._latest[fact]

    def retry(self, key: tuple[str, int]) -> None:
        """Try again, unless that makes no sense any more: a newer request is about the same fact, or what was to be
        stored is to be forgotten.
        """
        request, wanted = self._failed.pop(key[1])
        then, is_wanted = wanted
        is_old = isinstance(request, Put | Remove) and self._latest.get((request.kind, request.key)) is not request
        if not is_old and (is_wanted is None or is_wanted()):
            self._want(request, wanted)
        elif then is not None:
            then()
