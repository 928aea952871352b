"""``python -m benchmarks.live_compare DIRECTORY``: the hub of this checkout against the hub of another one.

``DIRECTORY`` is the other checkout, for example ``git worktree add --detach ../before COMMIT``. Both hubs run all the
time, in processes of their own on the last core; the same load drives them in turn, first the one, then the other, and
in the next round the other way round. What is compared is compared within a round, and the median of the rounds counts:
messages per second, and the seconds of a core that the hub took for a message. On a machine with other work the second
is the one to read; with ``--asleep`` hubs do not look for more before they sleep, which with one request at a time is
most of what they do there.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from .live import HUB, LEFT_OUT, LIVE, SHOWN, Place, listening, measure, running, settings_for

ASLEEP = """
try:
    import wirelake.live.drive.patience as patience
except ImportError:
    import wirelake.net.patience as patience
patience.LOOK_SECONDS = -1.0
"""
"""For hubs of this checkout, and of those before sessions and net became live."""
DEMANDS = dict.fromkeys(("1-1", "1-10", "window-1", "window-100"), 0.95)
"""The least rate, as a share of the other's."""
CEDA_DEMANDS = DEMANDS | {"window-256": 1.3}
RUNS = tuple(CEDA_DEMANDS)


def compare(ours: Place, theirs: Place, protocol: str, run: str, seconds: float, number: int) -> tuple[float, float]:
    """One round: our rate as a share of theirs, and their processor time for a message as a share of ours."""
    places = (ours, theirs) if number % 2 else (theirs, ours)
    found = {place: measure(protocol, run, seconds, place) for place in places}
    cost = {place: figures["core"] * seconds / figures["messages"] for place, figures in found.items()}
    return found[ours]["rate"] / found[theirs]["rate"], cost[theirs] / cost[ours]


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    protocols = given.protocol or [name for name in LIVE if _has(given.directory, name)]
    missed = False
    with ExitStack() as servers:
        wanted = [*servers.enter_context(settings_for(protocols)), *listening(protocols)]
        hub = ASLEEP + HUB if given.asleep else HUB
        ours = servers.enter_context(running("-c", hub, "serve", *wanted))
        before = os.environ | {"PYTHONPATH": str(given.directory / "src")}
        theirs = servers.enter_context(running("-c", hub, "serve", *wanted, env=before))
        for protocol in protocols:
            demands = CEDA_DEMANDS if protocol == "ceda" else DEMANDS
            for run in [run for run in given.run or RUNS if run not in LEFT_OUT.get(protocol, ())]:
                pair = (ours[protocol], theirs[protocol])
                rounds = [compare(*pair, protocol, run, given.seconds, number) for number in range(given.rounds)]
                rate, cost = median(rate for rate, _ in rounds), median(cost for _, cost in rounds)
                bad = min(rate, cost) < demands.get(run, 0)
                missed |= bad
                shown = " ".join(f"{rate:.2f}/{cost:.2f}" for rate, cost in rounds)
                print(f"{protocol + ' ' + SHOWN[run]:16} rate {rate:5.2f} x  processor {cost:5.2f} x", end="")
                print(f"{'  MISSED' if bad else '':8}  ({shown})", flush=True)
    return 1 if given.check and missed else 0


def _has(checkout: Path, protocol: str) -> bool:
    """Whether a checkout speaks a protocol, also one of the time before its hub was ``live``."""
    source = checkout / "src" / "wirelake"
    return (source / "live" / protocol).is_dir() or (source / "net" / f"{protocol}.py").exists()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live_compare", description="One hub against another.")
    parser.add_argument("directory", type=Path, help="the other checkout")
    parser.add_argument("--protocol", action="append", choices=LIVE, help="only this one; may be repeated")
    parser.add_argument("--run", action="append", choices=RUNS, help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=7, help="the median of so many counts (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run (%(default)s)")
    parser.add_argument("--asleep", action="store_true", help="hubs sleep at once when there is nothing to do")
    parser.add_argument("--check", action="store_true", help="fail if less than demanded is reached")
    return parser


if __name__ == "__main__":
    sys.exit(main())
