"""Follows a lake: after each commit its report is made anew, beside those who read the last one.

Whoever asks gets the newest edition that is finished. If one cannot be made, for instance because a commit removed
a file that was just being read, the old one stays and it is tried again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from .http import Content, Refused, policy_of, prepare
from .packing import packed
from .render import script_json

if TYPE_CHECKING:
    from ..lake import Lake

EVERY_SECONDS = 1.0
LONGEST_PAUSE = 30.0
AT_ONCE = 2
"""Conversations that are read from the lake at the same time."""
PATIENCE_SECONDS = 20.0
MAX_ID = 4_000
KEPT_CONVERSATIONS = 64
JSON = "application/json; charset=utf-8"
Tell = Callable[[str], None]


class Source(Protocol):
    """What reports are made of."""

    def number(self) -> int:
        """The number of the last commit."""

    def report(self, progress: Tell) -> dict[str, Any]:
        """``progress`` is called between steps; what it raises ends the work."""

    def render(self, report: dict[str, Any]) -> str: ...

    def conversation(self, id: str) -> dict[str, Any] | None: ...


class LakeSource:
    """A lake. ``number`` and ``report`` are for one thread, ``conversation`` for any, a few at a time."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._others: queue.LifoQueue[Lake] = queue.LifoQueue()
        for _ in range(AT_ONCE):  # what has been read of the commits is in the object, and that is for one thread
            self._others.put(type(lake)(lake.store, lake.settings))

    def number(self) -> int:
        return self._lake.number()

    def report(self, progress: Tell) -> dict[str, Any]:
        from . import collect

        return packed(collect(self._lake, progress=progress))

    def render(self, report: dict[str, Any]) -> str:
        from .render import render

        return render(report, live=True)

    def conversation(self, id: str) -> dict[str, Any] | None:
        from . import find_conversation

        try:
            lake = self._others.get(timeout=PATIENCE_SECONDS)
        except queue.Empty:
            raise Refused(503, "too many conversations are asked for; try again", ("Retry-After", "5")) from None
        try:
            return find_conversation(lake, id)
        finally:
            self._others.put(lake)


@dataclass(frozen=True)
class Edition:
    number: int
    """That of the last commit when it was begun: what came since then may not be in it."""
    page: Content
    data: Content
    state: Content
    conversations: OrderedDict[str, Content | None] = field(default_factory=OrderedDict)
    """Those asked for last, also those that there are not."""


def make_edition(source: Source, progress: Tell = lambda step: None) -> Edition:
    number = source.number()
    report = source.report(progress)
    report["about"]["commit"] = number  # readers look at it to see that there is a newer one
    page = source.render(report)
    about = report["about"]
    return Edition(
        number=number,
        page=prepare("text/html; charset=utf-8", page.encode("utf-8", "replace"), policy_of(page)),
        data=_json(report),
        state=_json({"commit": about["commit"], "made": about["made"]}),
    )


def _json(value: Any) -> Content:
    return prepare(JSON, script_json(value).encode())


class Editions:
    """The newest edition, and the thread that sees to it. ``begin`` raises what the first one fails with."""

    def __init__(self, source: Source, tell: Tell, every: float = EVERY_SECONDS) -> None:
        self._source, self._tell, self._every = source, tell, every
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._is_unread = False
        self._thread = threading.Thread(target=self._follow, name="report-editions", daemon=True)
        self.newest: Edition

    def begin(self, progress: Tell = lambda step: None) -> None:
        self.newest = self._first(progress)
        self._thread.start()

    def end(self, seconds: float) -> bool:
        """Says whether the thread has ended by then: it leaves a report between two queries."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(seconds)
        return not self._thread.is_alive()

    def conversation(self, id: str) -> Content | None:
        """A conversation of the lake, ready to be sent."""
        if not 0 < len(id) <= MAX_ID:
            return None
        kept = self.newest.conversations
        with self._lock:
            if id in kept:
                kept.move_to_end(id)
                return kept[id]
        found = self._find(id)
        content = None if found is None else _json(found)
        with self._lock:
            kept[id] = content
            while len(kept) > KEPT_CONVERSATIONS:
                kept.popitem(last=False)
        return content

    def _find(self, id: str) -> dict[str, Any] | None:
        """A commit may remove a file while it is read; the second try sees the files of after it."""
        for is_last in (False, True):
            try:
                found = self._source.conversation(id)
                self._is_unread = False
                return found
            except Refused:
                raise
            except Exception as error:
                if is_last and not self._is_unread:
                    self._is_unread = True
                    self._tell(f"a conversation cannot be read: {first_line(error)}")
        raise Refused(503, "the lake cannot be read just now; try again", ("Retry-After", "2"))

    def _first(self, progress: Tell) -> Edition:
        """A commit may remove a file while it is read, even now; then there is a newer one to read."""
        while True:
            before = self._source.number()
            try:
                return make_edition(self._source, progress)
            except Exception:
                if self._source.number() == before:
                    raise

    def _follow(self) -> None:
        pause, faults = self._every, 0
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                if self._source.number() != self.newest.number:
                    self.newest = make_edition(self._source, self._go_on)
                    if faults:
                        self._tell(f"the report is made anew again, of commit {self.newest.number}")
                faults = 0
                pause = max(self._every, time.monotonic() - began)  # no more than half of the time is spent on it
            except _Ended:
                return
            except Exception as error:  # whatever it is, the old page is better than none
                faults += 1
                pause = min(self._every * 2 ** min(faults - 1, 10), LONGEST_PAUSE)
                if faults == 1:
                    self._tell(f"the report cannot be made anew, the old one stays: {first_line(error)}")

    def _go_on(self, step: str) -> None:
        if self._ended.is_set():
            raise _Ended


class _Ended(Exception):
    """In the middle of a report."""


def first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]
