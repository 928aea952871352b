"""How large this process is, and was at most: from /proc where there is one, else from the resource usage."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

_CLEAR, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


def peak() -> int:
    """The most bytes that were resident at once."""
    if _STATUS.exists():
        return _status("VmHWM")
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def reset_peak() -> int:
    """Lets the peak begin anew where that is possible; gives what it is now."""
    try:
        _CLEAR.write_text("5")
    except OSError:
        return peak()
    return _status("VmRSS")


def _status(name: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024
