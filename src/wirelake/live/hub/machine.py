"""What process and machine are doing, as far as the system tells."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

FRESH_SECONDS = 0.5
"""Numbers are not asked for more often."""
_PROC = Path("/proc")


def resident_bytes() -> int:
    """Memory of this process, 0 if nobody knows."""
    try:
        return int((_PROC / "self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, AttributeError):
        pass
    try:
        import resource
    except ImportError:
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def open_files() -> int:
    """Descriptors of this process, 0 if nobody knows."""
    try:
        return len(os.listdir(_PROC / "self/fd"))
    except OSError:
        return 0


class Machine:
    """Numbers under the names of MB's metrics; shares are 0..1, of all processors together."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._asked = -FRESH_SECONDS
        self._found: dict[str, float] = {}
        self._process = (time.monotonic(), time.process_time())
        self._busy = _processors()

    def __call__(self) -> dict[str, float]:
        now = time.monotonic()
        if now - self._asked >= FRESH_SECONDS:
            self._asked = now
            self._found = {**self._of_process(now), **_memory(), **self._of_processors(), **_uptime()}
            total = self._found.get("total", 0)
            if total:
                self._found["process.memory.percent"] = self._found["process.memory.bytes"] / total
        return {name: value for name, value in self._found.items() if name != "total"}

    def _of_process(self, now: float) -> dict[str, float]:
        (then, spent), self._process = self._process, (now, time.process_time())
        share = (self._process[1] - spent) / max(now - then, 1e-3) / (os.cpu_count() or 1)
        return {
            "process.cpu.percent": min(max(share, 0.0), 1.0),
            "process.memory.bytes": resident_bytes(),
            "process.uptime": now - self._started,
        }

    def _of_processors(self) -> dict[str, float]:
        before, self._busy = self._busy, _processors()
        shares = {}
        for name, (busy, total) in self._busy.items():
            busy_then, total_then = before.get(name, (0, 0))
            key = "system.cpu.percent" if name == "cpu" else f"system.cpu.{{core:{name[3:]}}}.percent"
            shares[key] = (busy - busy_then) / (total - total_then) if total > total_then else 0.0
        return shares


def _processors() -> dict[str, tuple[int, int]]:
    """Time that each one was busy, and all its time."""
    busy: dict[str, tuple[int, int]] = {}
    try:
        for line in (_PROC / "stat").read_text().splitlines():
            if line.startswith("cpu"):
                name, *times = line.split()
                spent = list(map(int, times[:8]))
                busy[name] = (sum(spent) - spent[3] - spent[4], sum(spent))
    except (OSError, ValueError, IndexError):
        return {}
    return busy


def _memory() -> dict[str, float]:
    try:
        lines = (_PROC / "meminfo").read_text().splitlines()
        sizes = {name: int(rest.split()[0]) * 1024 for name, rest in (line.split(":", 1) for line in lines)}
        total = sizes["MemTotal"]
        used = total - sizes["MemAvailable"]
    except (OSError, ValueError, KeyError, IndexError):
        return {}
    return {"system.memory.bytes": used, "system.memory.percent": used / total, "total": total}


def _uptime() -> dict[str, float]:
    try:
        return {"system.uptime": float((_PROC / "uptime").read_text().split()[0])}
    except (OSError, ValueError, IndexError):
        return {}


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
