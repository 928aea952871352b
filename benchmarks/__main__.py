"""``python -m benchmarks``: a table on stdout, the same as JSON in a file; what is going on, on stderr."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from .contest import BATCH, DEMANDS, Contestant, assert_agreement, contestants
from .measure import peak_memory, pin, race
from .traffic import OPTIONS, PROTOCOLS, make_frames

RESULTS = Path(__file__).parent / "results.json"
PACKAGES = ("wirelake", "numba", "numpy", "pyarrow", "msgspec", "msgpack", "construct")


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    core = pin()
    results: dict[str, Any] = {
        "machine": {"python": platform.python_version(), "platform": platform.platform(), "cores": os.cpu_count()},
        "packages": {name: version(name) for name in PACKAGES},
        "core": core,
        "messages": given.messages,
        "rounds": given.rounds,
        "seed": given.seed,
        "protocols": {},
    }
    for protocol in given.protocol or PROTOCOLS:
        results["protocols"][protocol] = found = compare(
            protocol, given.messages, given.rounds, given.seed, memory=not given.no_memory
        )
        print(table(protocol, found), flush=True)
    given.json.write_text(json.dumps(results, indent=2) + "\n")
    _say(f"results are in {given.json}")
    missed = [r for found in results["protocols"].values() for r in found["ratios"] if not r["passed"]]
    return 1 if missed and given.check else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Compares decoders on the same messages.")
    parser.add_argument("--json", type=Path, default=RESULTS, help="where to write the results (%(default)s)")
    parser.add_argument("--protocol", action="append", choices=PROTOCOLS, help="only this one; may be repeated")
    parser.add_argument("--messages", type=int, default=BATCH, help="messages in a batch (%(default)s)")
    parser.add_argument(
        "--rounds", type=int, default=7, help="how often each is measured; the best counts (%(default)s)"
    )
    parser.add_argument("--seed", type=int, default=1, help="other messages (%(default)s)")
    parser.add_argument("--no-memory", action="store_true", help="measure only time")
    parser.add_argument("--check", action="store_true", help="fail if a ratio is not reached")
    return parser


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def compare(protocol: str, messages: int, rounds: int, seed: int, *, memory: bool) -> dict[str, Any]:
    """Everything that is measured for one protocol."""
    _say(f"{protocol}: making {messages} messages")
    frames = make_frames(protocol, messages, seed)
    _say(f"{protocol}: comparing results")
    assert_agreement(protocol, frames)
    runners = contestants(protocol, frames)
    peaks: dict[str, int] = {}
    if memory:
        _say(f"{protocol}: measuring memory")
        peaks = peak_memory(protocol, frames, [runner.name for runner in runners])
    best = race(runners, rounds, lambda text: _say(f"{protocol}: measuring time, {text}"))
    return {
        "options": OPTIONS[protocol],
        "bytes_per_message": sum(map(len, frames)) / len(frames),
        "contestants": {runner.name: _figures(runner, best[runner.name], peaks) for runner in runners},
        "ratios": ratios(best),
    }


def _figures(runner: Contestant, seconds: float, peaks: dict[str, int]) -> dict[str, Any]:
    return {
        "messages": runner.messages,
        "microseconds_per_message": seconds * 1e6,
        "messages_per_second": 1 / seconds,
        "megabytes_per_second": runner.size / runner.messages / seconds / 1e6,
        "peak_bytes_per_message": peaks[runner.name] / runner.messages if runner.name in peaks else None,
    }


def ratios(best: dict[str, float]) -> list[dict[str, Any]]:
    """What is demanded, what was found, and whether that is enough."""
    found = []
    for demand in DEMANDS:
        if demand.faster in best and demand.slower in best:
            value = best[demand.slower] / best[demand.faster]
            about = {"faster": demand.faster, "slower": demand.slower, "demanded": demand.at_least}
            found.append(about | {"value": value, "passed": value >= demand.at_least})
    return found


def table(protocol: str, found: dict[str, Any]) -> str:
    """The figures of one protocol for people."""
    lines = [
        f"{protocol}: {found['bytes_per_message']:.0f} bytes a message",
        f"  {'':24}{'µs/message':>12}{'messages/s':>14}{'MB/s':>9}{'peak B/message':>16}",
    ]
    for name, figures in found["contestants"].items():
        peak = figures["peak_bytes_per_message"]
        lines.append(
            f"  {name:24}{figures['microseconds_per_message']:12.3f}{figures['messages_per_second']:14,.0f}"
            f"{figures['megabytes_per_second']:9.1f}{'-' if peak is None else f'{peak:,.0f}':>16}"
        )
    for ratio in found["ratios"]:
        mark = "ok" if ratio["passed"] else "MISSED"
        what = f"{ratio['faster']} / {ratio['slower']}"
        lines.append(f"  {what:50}{ratio['value']:9.2f} x   at least {ratio['demanded']:g} x   {mark}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
