"""What some tests need besides Python packages: without it nothing is proved, and they say so.

That is a failure where the tests must be complete (``CI`` is set, as ``.ci/run`` does), and a skip elsewhere.
"""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

SETUP = Path(__file__).resolve().parents[1] / "scripts" / "setup-system"


def require(*names: str) -> None:
    """Ends the test unless these are there: java (one that can run Spark), tshark, tcpdump, chromium, postgres,
    redis, mosquitto."""
    faults = _faults(names)
    if not faults:
        return
    reason = f"{faults} (make setup installs it on Debian and Ubuntu)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


@cache
def _faults(names: tuple[str, ...]) -> str:
    done = subprocess.run([SETUP, "--check", *names], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    return "; ".join(done.stdout.splitlines())
