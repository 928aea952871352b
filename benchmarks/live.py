"""``python -m benchmarks.live``: messages per second through the hub, against an echo that is measured in the same run.

The echo is asyncio streams: it reads a length and a body exactly, and writes each message by itself. Servers and load
are processes of their own, on a core each where there are two. 1 → 1 and 1 → 10 are publishes that one or ten
subscribers get; window 1 and 100 are requests that a service behind the server answers, so that each of them passes the
server twice, where the echo's pass it once. Every figure is the best of several rounds, in each of which all are run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from .live_load import RUNS

DEMANDS = {"1-1": 0.5, "window-1": 0.5}
"""The least share of the echo's rate."""
SHOWN = {"1-1": "1 → 1", "1-10": "1 → 10", "window-1": "window 1", "window-100": "window 100"}
LIVE = ("mb", "ceda")
COLUMNS = ("messages/s", "deliveries/s", "of echo", "demanded")


# --- servers


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readexactly(4)
            body = await reader.readexactly(int.from_bytes(head, "big"))
            writer.write(head + body)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def serve_echo() -> None:
    _take_core()
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(json.dumps({"listening": {"echo": f"{host}:{port}"}}), flush=True)
    await server.serve_forever()


def _take_core() -> None:
    """The last core; the load has the first."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


HUB = "from benchmarks.live import _take_core; _take_core(); from wirelake.cli import main; main()"


@contextmanager
def running(*command: str) -> Iterator[dict[str, int]]:
    """A server in a process of its own; its ports by protocol."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())["listening"]
        yield {name: int(str(place).rpartition(":")[2]) for name, place in told.items()}
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


# --- measuring


def measure(protocol: str, run: str, seconds: float, port: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.live_load", protocol, run, str(seconds), str(port)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 120)
    if done.returncode:
        raise RuntimeError(f"{protocol} {run}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def contest(ports: dict[str, int], rounds: int, seconds: float) -> dict[str, dict[str, dict[str, float]]]:
    """The best of each protocol and run."""
    best: dict[str, dict[str, dict[str, float]]] = {name: {} for name in ports}
    for number in range(rounds):
        for run in RUNS:
            for protocol, port in ports.items():
                if protocol == "echo" and run == "1-10":
                    continue
                print(f"round {number + 1} of {rounds}: {protocol} {SHOWN[run]}", file=sys.stderr)
                found = measure(protocol, run, seconds, port)
                if found["rate"] > best[protocol].get(run, {"rate": 0.0})["rate"]:
                    best[protocol][run] = found
    return best


# --- telling


def judged(best: dict[str, dict[str, dict[str, float]]]) -> Iterator[dict[str, Any]]:
    """Rows of the table. What 1 → 10 is compared with is the echo's 1 → 1: so many messages go out."""
    for protocol, runs in best.items():
        for run, found in runs.items():
            row: dict[str, Any] = {"protocol": protocol, "run": run, **found}
            if protocol != "echo":
                echo = best["echo"]["1-1" if run == "1-10" else run]["rate"]
                row["of_echo"] = found.get("deliveries", found["rate"]) / echo
                row["demanded"] = DEMANDS.get(run)
                row["passed"] = row["demanded"] is None or row["of_echo"] >= row["demanded"]
            yield row


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [f"{'':16}" + "".join(f"{name:>14}" for name in COLUMNS)]
    for row in rows:
        cells = [f"{row['rate']:,.0f}", f"{row['deliveries']:,.0f}" if row["run"] == "1-10" else ""]
        cells += [f"{row['of_echo']:.2f}" if "of_echo" in row else ""]
        cells += ["" if row.get("demanded") is None else f"{row['demanded']:.2f}{'' if row['passed'] else ' MISSED'}"]
        lines.append(f"{row['protocol'] + ' ' + SHOWN[row['run']]:16}" + "".join(f"{cell:>14}" for cell in cells))
    return "\n".join(line.rstrip() for line in lines)


def main(arguments: Sequence[str] | None = None) -> int:
    given = _parser().parse_args(arguments)
    if given.echo:
        asyncio.run(serve_echo())
        return 0
    with ExitStack() as servers:
        ports = servers.enter_context(running("-m", "benchmarks.live", "--echo"))
        wanted = [word for name in given.protocol or LIVE for word in (f"--{name}", "127.0.0.1:0")]
        ports |= servers.enter_context(running("-c", HUB, "serve", *wanted))
        best = contest(ports, given.rounds, given.seconds)
    rows = list(judged(best))
    print(json.dumps(rows, indent=2) if given.json else table(rows))
    return 1 if given.check and not all(row.get("passed", True) for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description="Messages through the hub.")
    parser.add_argument("--protocol", action="append", choices=LIVE, help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=3, help="the best of so many counts (%(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="of each run (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--check", action="store_true", help="fail if less than demanded is reached")
    parser.add_argument("--echo", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
