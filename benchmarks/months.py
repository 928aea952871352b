"""``python -m benchmarks.months``: 43 200 commits, half a day at one per second, with compaction, expiry, publication
and readers at work, and 100 kills.

Prints what a commit costs, and opening and refreshing the lake, after a quarter of them and at the end. Fails if the
lake grows, or a reader ever misses a file or sees half a commit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

COMMITS, KILLS = 43_200, 100
MOST_SECONDS, MOST_MEGABYTES = 0.2, 100.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=COMMITS)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        numbers = (str(number) for number in (options.commits, options.kills, options.seed))
        command = [sys.executable, "-m", "tests.lake.months", str(Path(folder, "lake")), *numbers]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr, sep="")
    if done.returncode:
        return done.returncode
    *_, last = done.stdout.splitlines()
    early, late = (value for name, value in json.loads(last).items() if name != "kills")
    is_flat = late["files"] <= early["files"] + 30 and late["records"] <= early["records"] + 1024
    is_small = late["open_seconds"] <= MOST_SECONDS and late["open_megabytes"] <= MOST_MEGABYTES
    print(
        f"a commit {early['commit_milliseconds']} ms of processor time early, {late['commit_milliseconds']} ms late; "
        f"open {late['open_seconds']} s, {late['open_megabytes']} MB; {'fine' if is_flat and is_small else 'too much'}"
    )
    return 0 if is_flat and is_small else 1


if __name__ == "__main__":
    sys.exit(main())
