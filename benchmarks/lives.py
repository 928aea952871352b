"""``python -m benchmarks.lives``: tens of thousands of simulated lives of hubs and clients, in which nothing promised
may be lost.

Prints for each life that breaks a promise how to replay it: ``--kind K --life N``.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from tests.live.all_lives import KINDS

LIVES = 50_000
FIRST_SEED = 10_000
"""The lives before are those of the tests."""
AT_ONCE = 100


def try_lives(kind: str, seeds: range) -> tuple[int, list[str]]:
    """Return how many messages these lives sent, and what is wrong with them."""
    messages, wrong = 0, []
    for seed in seeds:
        life = KINDS[kind](seed)
        try:
            life.play()
        except Exception as error:
            wrong.append(f"--kind {kind} --life {seed}: {type(error).__name__}: {error}")
        messages += life.world.messages
    return messages, wrong


def shares(kind: str, first: int, count: int) -> list[partial[tuple[int, list[str]]]]:
    return [
        partial(try_lives, kind, range(seed, min(seed + AT_ONCE, first + count)))
        for seed in range(first, first + count, AT_ONCE)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.lives", description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--lives", type=int, default=LIVES, help="how many lives, of all kinds together")
    parser.add_argument("--seed", type=int, default=FIRST_SEED, help="the first seed")
    parser.add_argument("--kind", choices=tuple(KINDS), help="only lives of this kind")
    parser.add_argument("--life", type=int, help="only the life with this seed, and with the place where it fails")
    given = parser.parse_args(arguments)
    kinds = [given.kind] if given.kind else list(KINDS)
    if given.life is not None:
        for kind in kinds:
            print(f"{kind} {given.life}: {KINDS[kind](given.life).play()}")
        return 0
    return play(kinds, given.seed, given.lives)


def play(kinds: list[str], first: int, lives: int) -> int:
    started, messages, wrong = time.perf_counter(), 0, 0
    tasks = [task for kind in kinds for task in shares(kind, first, -(-lives // len(kinds)))]
    with ProcessPoolExecutor(os.cpu_count()) as workers:
        for sent, faults in workers.map(_run, tasks):
            messages += sent
            wrong += len(faults)
            for fault in faults:
                print(fault, flush=True)
    seconds = time.perf_counter() - started
    print(f"{lives:,} lives of {', '.join(kinds)}, {messages:,} messages, {wrong} broken promises, {seconds:.0f} s")
    return 1 if wrong else 0


def _run(task: partial[tuple[int, list[str]]]) -> tuple[int, list[str]]:
    return task()


if __name__ == "__main__":
    sys.exit(main())
