"""What process and machine are doing."""

from __future__ import annotations

import os
import time
from contextlib import suppress

import psutil

FRESH_SECONDS = 0.5
"""Numbers are not asked for more often."""


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
            self._found = {**self._of_process(now), **_of_system()}
        return dict(self._found)

    def _of_process(self, now: float) -> dict[str, float]:
        memory = self._process.memory_info().rss
        return {
            "process.cpu.percent": min(self._process.cpu_percent() / 100 / (os.cpu_count() or 1), 1.0),
            "process.memory.bytes": memory,
            "process.memory.percent": memory / psutil.virtual_memory().total,
            "process.uptime": now - self._started,
        }


def _of_system() -> dict[str, float]:
    memory = psutil.virtual_memory()
    used = memory.total - memory.available
    cores = enumerate(psutil.cpu_percent(percpu=True))
    return {
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
