"""``python -m benchmarks.metamorphic``: thousands of histories of generated worlds, which must end in the same lakes.

Prints for each history that does not how to replay it: ``--world W --history H``.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.ingest.histories import History, reference
from tests.ingest.lakes import Content
from tests.ingest.worlds import World

CASES, HISTORIES = 3000, 10
FIRST_WORLD = 1000
"""The worlds before are those of the tests."""
MOST_DIFFERENCES = 10


def try_world(seed: int, histories: Sequence[int], folder: Path) -> Iterator[str]:
    """Yield what is wrong with some histories of a world; nothing for each that ends in the right lake."""
    try:
        world = World(seed, folder / "world")
        expected = reference(world, folder / "reference")
    except Exception as error:
        yield f"--world {seed}: {error!r}"
        return
    for number in histories:
        yield _try_history(History(world, number, folder / f"lake-{number}"), expected)


def _try_history(history: History, expected: Content) -> str:
    try:
        wrong = history.run().differences(expected)
    except Exception as error:
        wrong = [repr(error)]
    finally:
        for place in (history.lake, history.folder):
            shutil.rmtree(place, ignore_errors=True)
    if not wrong:
        return ""
    lines = [f"--world {history.world.seed} --history {history.seed}: {len(wrong)} differences", *history.told]
    return "\n  ".join([*lines, *wrong[:MOST_DIFFERENCES]])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.metamorphic", description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=CASES, help="how many histories, ten of each world")
    parser.add_argument("--seed", type=int, default=FIRST_WORLD, help="the first world")
    parser.add_argument("--world", type=int, help="only this world")
    parser.add_argument("--history", type=int, help="only this history of each world")
    given = parser.parse_args(arguments)
    worlds = [given.world] if given.world is not None else range(given.seed, given.seed + -(-given.cases // HISTORIES))
    histories = [given.history] if given.history is not None else range(HISTORIES)
    began, cases, failures = time.perf_counter(), 0, 0
    for seed in worlds:
        with tempfile.TemporaryDirectory(prefix="wirelake-metamorphic-") as folder:
            for wrong in try_world(seed, histories, Path(folder)):
                cases, failures = cases + 1, failures + bool(wrong)
                if wrong:
                    print(wrong, flush=True)
    print(f"{cases:,} histories, {failures} of them wrong, {time.perf_counter() - began:.0f} s")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
