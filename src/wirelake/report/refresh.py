"""Follows a lake: renews its report after each commit, while readers get the last one.

A whole report of a large lake takes a while, so the last minutes are a part of their own, read by another thread and
renewed with each commit. If the report cannot be made, for instance because a commit removed a file that was being
read, the old one stays and the follower tries again.
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Protocol

from ..lake import Lake
from ..web.http import Content, Refused, prepare
from .collect import collect, find_conversation
from .packing import packed
from .recent import collect_recent
from .render import render, script_json

POLL_SECONDS = 1.0
MAX_PAUSE_SECONDS = 30.0
MAX_READERS = 2
"""Conversations that are read from the lake at the same time."""
WAIT_SECONDS = 20.0
MAX_ID = 4_000
MAX_CACHED = 64
JSON = "application/json; charset=utf-8"
_POLICY = re.compile(r"""<meta\s+http-equiv=["']Content-Security-Policy["']\s+content=("[^"]*"|'[^']*')""", re.I)
Say = Callable[[str], None]


class Source(Protocol):
    """What reports are made of."""

    def number(self) -> int:
        """Return the number of the last commit."""

    def report(self, progress: Say) -> dict[str, Any]:
        """Return a new report. ``progress`` is called between steps and may raise to end it."""

    def recent(self, known: int) -> dict[str, Any] | None:
        """Return the last minutes; None if commit ``known`` is still the last. A thread of its own calls it."""

    def render(self, report: dict[str, Any]) -> str: ...

    def conversation(self, id: str) -> dict[str, Any] | None: ...


class LakeSource:
    """Reports of a lake. One thread may call ``number`` and ``report``, one ``recent``, any ``conversation``."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake  # a lake remembers the commits it has read, and is for one thread
        self._for_recent = type(lake)(lake.store, lake.settings)
        self._others: queue.LifoQueue[Lake] = queue.LifoQueue()
        for _ in range(MAX_READERS):
            self._others.put(type(lake)(lake.store, lake.settings))

    def number(self) -> int:
        return self._lake.number()

    def report(self, progress: Say) -> dict[str, Any]:
        report, recent = collect(self._lake, progress=progress), collect_recent(self._lake)
        report["recent"] = {name: recent[name] for name in ("commit", "step_us")}
        for part in ("queries", "data"):
            report[part] |= recent[part]
        return packed(report)

    def recent(self, known: int) -> dict[str, Any] | None:
        return None if self._for_recent.number() == known else collect_recent(self._for_recent)

    def render(self, report: dict[str, Any]) -> str:
        return render(report, live=True)

    def conversation(self, id: str) -> dict[str, Any] | None:
        try:
            lake = self._others.get(timeout=WAIT_SECONDS)
        except queue.Empty:
            raise Refused(503, "too many conversations are being read; try again", ("Retry-After", "5")) from None
        try:
            return find_conversation(lake, id)
        finally:
            self._others.put(lake)


@dataclass(frozen=True)
class Edition:
    """A report that is ready to be sent."""

    number: int
    """The last commit before it was made: later ones may not be in it."""
    page: Content
    data: Content
    made: str
    conversations: OrderedDict[str, Content | None] = field(default_factory=OrderedDict)
    """Recently requested ones; None for one that does not exist."""


def make_edition(source: Source, progress: Say = lambda step: None) -> Edition:
    number = source.number()
    report = source.report(progress)
    about = report["about"]
    about["commit"] = number  # pages compare it to learn of a newer one
    page = source.render(report)
    return Edition(
        number=number,
        page=prepare("text/html; charset=utf-8", page.encode("utf-8", "replace"), policy_of(page)),
        data=_json(report),
        made=about["made"],
    )


@dataclass(frozen=True)
class Recent:
    """The last minutes, ready to be sent."""

    number: int
    until_us: int | None
    """The newest capture time."""
    behind: tuple[str, ...]
    """Sensors that are far behind it."""
    data: Content


def make_recent(source: Source, known: int = -1) -> Recent | None:
    """Make the last minutes ready; None if commit ``known`` is still the last."""
    recent = source.recent(known)
    if recent is None:
        return None
    return Recent(recent["commit"], recent["until_us"], tuple(recent["behind"]), _json(recent))


def _json(value: Any) -> Content:
    return prepare(JSON, script_json(value).encode())


class Follower:
    """The newest edition, the newest of the last minutes, and the threads that renew them.

    ``begin`` raises whatever the first one fails with.
    """

    def __init__(self, source: Source, say: Say, every: float = POLL_SECONDS) -> None:
        self._source, self._say, self._every = source, say, every
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._has_complained = False
        self._threads = [
            threading.Thread(target=follow, name="report-follower", daemon=True)
            for follow in (self._follow, self._follow_recent)
        ]
        self.newest: Edition
        self.recent = Recent(-1, None, (), _json({}))

    def begin(self, progress: Say = lambda step: None) -> None:
        self.newest = self._first(progress)
        for thread in self._threads:
            thread.start()

    def end(self, seconds: float) -> bool:
        """End the threads, which stop between two queries; tell whether they have ended in time."""
        self._ended.set()
        until = time.monotonic() + seconds
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in self._threads)

    def state(self) -> Content:
        """Return what there is to fetch, and how far the newest message is behind now, by the clock of this machine."""
        recent, now = self.recent, time.time()
        lag = None if recent.until_us is None else round(max(0.0, now - recent.until_us / 1e6), 1)
        shown = {"commit": self.newest.number, "made": self.newest.made, "recent": recent.number, "lag_seconds": lag}
        return _json({**shown, "behind": recent.behind})

    def conversation(self, id: str) -> Content | None:
        """Return a conversation of the lake, ready to be sent."""
        if not 0 < len(id) <= MAX_ID:
            return None
        cached = self.newest.conversations
        with self._lock:
            if id in cached:
                cached.move_to_end(id)
                return cached[id]
        conversation = self._read(id)
        content = None if conversation is None else _json(conversation)
        with self._lock:
            cached[id] = content
            while len(cached) > MAX_CACHED:
                cached.popitem(last=False)
        return content

    def _read(self, id: str) -> dict[str, Any] | None:
        """Read a conversation. A commit may remove a file meanwhile; the second try then sees the new files."""
        for is_last in (False, True):
            try:
                conversation = self._source.conversation(id)
                self._has_complained = False
                return conversation
            except Refused:
                raise
            except Exception as error:
                if is_last and not self._has_complained:
                    self._has_complained = True
                    self._say(f"a conversation cannot be read: {first_line(error)}")
        raise Refused(503, "the lake cannot be read now; try again", ("Retry-After", "2"))

    def _first(self, progress: Say) -> Edition:
        """Make the first edition. A commit may remove a file meanwhile; then try again with the newer commit."""
        while True:
            before = self._source.number()
            try:
                return make_edition(self._source, progress)
            except Exception:
                if self._source.number() == before:
                    raise

    def _follow(self) -> None:
        def renew() -> bool:
            is_new = self._source.number() != self.newest.number
            if is_new:
                self.newest = make_edition(self._source, self._check_ended)
            return is_new

        self._keep(renew, "the report", lambda: self.newest.number)

    def _follow_recent(self) -> None:
        def renew() -> bool:
            newer = make_recent(self._source, self.recent.number)
            self.recent = newer or self.recent
            return newer is not None

        self._keep(renew, "the section of the last minutes", lambda: self.recent.number)

    def _keep(self, renew: Callable[[], bool], what: str, number: Callable[[], int]) -> None:
        """Renew until the end; what fails is tried again."""
        pause, faults = self._every, 0
        while not self._ended.wait(pause):
            began = time.monotonic()
            try:
                if renew() and faults:
                    self._say(f"{what} is renewed again, with commit {number()}")
                faults = 0
                pause = max(self._every, time.monotonic() - began)  # at most half of the time goes into it
            except _Ended:
                return
            except Exception as error:  # an old page is better than none
                faults += 1
                pause = min(self._every * 2 ** min(faults - 1, 10), MAX_PAUSE_SECONDS)
                if faults == 1:
                    self._say(f"{what} cannot be renewed, the old one stays: {first_line(error)}")

    def _check_ended(self, step: str) -> None:
        if self._ended.is_set():
            raise _Ended


class _Ended(Exception):
    """The follower ended in the middle of a report."""


def first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def policy_of(page: str) -> str:
    """Return the policy in the head of a page, and that nobody may frame it, which only a header can say."""
    policy = _POLICY.search(page)
    if policy is None:
        raise ValueError("the page states no Content-Security-Policy")
    return f"{unescape(policy[1][1:-1]).strip().rstrip(';')}; frame-ancestors 'none'"
