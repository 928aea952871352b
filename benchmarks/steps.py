"""``python -m benchmarks.steps``: what a step over 1 MB of growth costs in a busy hour, in this process and warm.

A tap of some minutes at 5 000 messages a second grows. After each minute, all that is new is read, and then some steps
are measured, each over one more MB of it. The last ones count towards a minute that is nearly full, in an hour with as
many messages as the tap has.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from wirelake.generate import Traffic, generate, write_tap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest

MEGABYTE = 1 << 20
STEPS = 5
PER_SECOND = 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=int, default=4)
    parser.add_argument("--protocol", default="mb")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole, growing = Path(folder, "whole.tap"), Path(folder, "captures", "one.tap")
        growing.parent.mkdir()
        write_tap(_traffic(options.protocol, options.minutes), whole)
        content = whole.read_bytes()
        print(f"{options.minutes} minutes, {len(content) / MEGABYTE:.0f} MB", flush=True)
        lake, position = str(Path(folder, "lake")), 0
        for minute in range(1, options.minutes + 1):
            end = len(content) * minute // options.minutes - (STEPS + 1) * MEGABYTE
            _grow(growing, content[position:end], lake)
            times = [
                _grow(growing, content[at : at + MEGABYTE], lake) for at in range(end, end + STEPS * MEGABYTE, MEGABYTE)
            ]
            position = end + STEPS * MEGABYTE
            wall, processor = (1000 * statistics.median(one) for one in zip(*times, strict=True))
            print(
                f"minute {minute}: a step over 1 MB takes {wall:.0f} ms, {processor:.0f} ms of processor time",
                flush=True,
            )


def _traffic(protocol: str, minutes: int) -> Traffic:
    """Pace it by a short trial: how often peers begin something differs from protocol to protocol."""
    trial = generate(protocol, seed=2, messages=20_000, connections=40)
    times = [item.ts_us for item in trial.timeline()]
    pace = PER_SECOND * (times[-1] - times[0]) / 1e6 / len(times)
    return generate(protocol, seed=1, messages=10**9, connections=40, pace=pace, seconds=60.0 * minutes)


def _grow(capture: Path, more: bytes, lake: str) -> tuple[float, float]:
    with capture.open("ab") as file:
        file.write(more)
    began, processor = time.perf_counter(), time.process_time()
    ingest(InlineRunner(), [str(capture.parent)], lake)
    return time.perf_counter() - began, time.process_time() - processor


if __name__ == "__main__":
    main()
