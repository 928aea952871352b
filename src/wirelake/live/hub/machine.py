"""What process and machine do; before memory runs short the hub refuses newcomers, and it gives back what is free."""

from __future__ import annotations

import asyncio
import ctypes
import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil

from ..core.log import log

LOOK_SECONDS = 0.1
CALM_SHARE = 0.95
"""Of the limit: below it newcomers are let in again."""
TRIM_SECONDS = 5.0
TRIM_BYTES = 64 << 20
"""Free memory is given back when clients go and the process has so much more than at first, at most that often."""
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
FRESH_SECONDS = 0.5


class Machine:
    """Numbers under the names of MB's metrics; shares are 0..1, of all processors together."""

    def __init__(self) -> None:
        self._process = psutil.Process()
        self._started = time.monotonic()
        self._asked = -FRESH_SECONDS
        self._found: dict[str, float] = {}
        self._process.cpu_percent()  # shares are those of the time since they were asked for last
        psutil.cpu_percent()
        psutil.cpu_percent(percpu=True)

    def __call__(self) -> dict[str, float]:
        now = time.monotonic()
        if now - self._asked >= FRESH_SECONDS:
            self._asked = now
            self._found = self._ask(now)
        return dict(self._found)

    def _ask(self, now: float) -> dict[str, float]:
        memory, ours = psutil.virtual_memory(), self._process.memory_info().rss
        used = memory.total - memory.available
        cores = enumerate(psutil.cpu_percent(percpu=True))
        return {
            "process.cpu.percent": min(self._process.cpu_percent() / 100 / (os.cpu_count() or 1), 1.0),
            "process.memory.bytes": ours,
            "process.memory.percent": ours / memory.total,
            "process.uptime": now - self._started,
            "system.cpu.percent": psutil.cpu_percent() / 100,
            **{f"system.cpu.{{core:{number}}}.percent": share / 100 for number, share in cores},
            "system.memory.bytes": used,
            "system.memory.percent": used / memory.total,
            "system.uptime": time.time() - psutil.boot_time(),
        }


def raise_file_limit() -> int:
    """Let this process open as many files as the system allows; return how many, 0 if unknown."""
    try:
        import resource
    except ImportError:
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return 0 if soft == resource.RLIM_INFINITY else soft


def available_bytes() -> int:
    """Return the memory of the machine, or of the cgroup that this process is in."""
    found: list[int] = [psutil.virtual_memory().total]
    for path in _LIMITS:
        with suppress(OSError, ValueError):  # "max" is no limit
            found.append(int(path.read_text()))
    return min(found)


class MemoryGuard:
    """Looks at the memory of this process. ``is_short`` is true while it has more than ``share`` of what there is."""

    def __init__(self, share: float, connections: Callable[[], int]) -> None:
        self.limit = int(share * available_bytes())
        self.is_short = False
        self._process = psutil.Process()
        self._connections = connections
        self._idle = self.used
        self._trim_at = 0.0
        self._most_connections = 0
        self.look()

    @property
    def used(self) -> int:
        return int(self._process.memory_info().rss)

    async def watch(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self.look()

    def look(self) -> None:
        used = self.used
        was_short = self.is_short
        self.is_short = used > self.limit * (CALM_SHARE if was_short else 1.0)
        if self.is_short != was_short:
            text = "memory is short: nobody new is let in" if self.is_short else "memory suffices again"
            log.warning(text, bytes=used, limit=self.limit)
        connections = self._connections()
        self._most_connections = max(self._most_connections, connections)
        # What a client took is free only after it has gone: each time that half of the rest has gone, there is more.
        have_gone = connections <= self._most_connections // 2 and self._most_connections > 0
        if have_gone and used > self._idle + TRIM_BYTES and time.monotonic() > self._trim_at:
            self._trim_at = time.monotonic() + TRIM_SECONDS
            self._most_connections = connections
            trim()


def trim() -> None:
    """Give free memory back to the system, where its C library can."""
    with suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
