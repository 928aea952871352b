"""Time and memory. Time: all contestants in turn, several rounds, the best of each, so that noise hits all alike."""

from __future__ import annotations

import gc
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from .contest import Contestant, contestants
from .memory import peak, reset_peak

WARM_UP_FRAMES = 200


def pin() -> int | None:
    """Binds this process to one core; gives its number, or None where that cannot be done."""
    if not hasattr(os, "sched_setaffinity"):
        return None
    core = max(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {core})
    return core


def race(runners: Sequence[Contestant], rounds: int, say: Callable[[str], None]) -> dict[str, float]:
    """The best seconds per message of each contestant."""
    best = {runner.name: float("inf") for runner in runners}
    for number in range(rounds):
        say(f"round {number + 1} of {rounds}")
        for runner in runners:
            best[runner.name] = min(best[runner.name], _timed(runner))
    return best


def _timed(runner: Contestant) -> float:
    """Seconds per message, in the state that a run before has left: caches and memory are then its own."""
    runner.run()
    gc.collect()
    gc.disable()
    try:
        start = time.perf_counter()
        runner.run()
        return (time.perf_counter() - start) / runner.messages
    finally:
        gc.enable()


# --- memory: each contestant in a process of its own, which has nothing left over from others


def peak_memory(protocol: str, frames: Sequence[bytes], names: Sequence[str]) -> dict[str, int]:
    """By how many bytes the process grows at most while a contestant decodes all frames and keeps the result."""
    peaks = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames"
        path.write_bytes(pickle.dumps(list(frames)))
        for name in names:
            command = [sys.executable, "-m", f"{__package__}.measure", protocol, name, str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            peaks[name] = int(json.loads(done.stdout)["peak"])
    return peaks


def _growth(protocol: str, name: str, path: str) -> int:
    frames: list[bytes] = pickle.loads(Path(path).read_bytes())
    pick = {runner.name: runner for runner in contestants(protocol, frames)}
    warm = {runner.name: runner for runner in contestants(protocol, frames[:WARM_UP_FRAMES])}
    warm[name].run()
    gc.collect()
    before = reset_peak()
    kept = pick[name].keep()
    grown = peak() - before
    del kept
    return max(grown, 0)


if __name__ == "__main__":
    print(json.dumps({"peak": _growth(*sys.argv[1:])}))
