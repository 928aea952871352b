"""``python -m benchmarks.live``: messages per second through the hub, against an echo that is measured in the same run.

The echo is asyncio streams: it reads a length and a body exactly, and writes each message by itself. Servers and load
are processes of their own, on a core each where there are two. 1 → 1 and 1 → 10 are publishes that one or ten
subscribers get; window 1, 100 and 256 are requests that a service behind the server answers, so that each passes
the server twice, where the echo's pass it once. Every figure is the median of several rounds, in each of which all
are run; what is compared with the echo is compared within its round.

1000/s is a request each millisecond, the next one not before the reply to the last; what counts is the share of a core
that the hub takes for it.

At window 1 most of the time goes by until an idle core has woken up, for the echo as for the others; with ``--one-
core`` everything runs on one, which leaves the work. Before anything is measured every server has had a connection
that ended: until then the allocator of the echo maps and unmaps a quarter of a megabyte for each message, which
halves its speed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import psutil

from tests.live.dsa.plain_link import SETTINGS

from .live_load import RUNS, take_core

DEMANDS = {"1-1": 0.5, "window-1": 0.5}
"""The least share of the echo's rate."""
OWN_DEMANDS = {"dsa": {"1-1": 1.0, "1-10": 5.0, "window-1": 0.5}}
"""Of protocols that have others."""
LEFT_OUT = {"echo": ("1-10",), "dsa": ("window-100", "window-256")}
"""A frame of DSA has the id of its request, so the same frame cannot be open twice."""
MOST_CORE = 0.4
"""The largest share of a core that the paced requests may take."""
SHOWN = {
    "1-1": "1 → 1",
    "1-10": "1 → 10",
    "window-1": "window 1",
    "window-100": "window 100",
    "window-256": "window 256",
    "paced": "1000/s",
}
LIVE = ("mb", "ceda", "dsa")
COLUMNS = ("messages/s", "deliveries/s", "of echo", "core", "demanded")


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
    take_core(-1)
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    print(json.dumps({"listening": {"echo": f"{host}:{port}"}}), flush=True)
    await server.serve_forever()


HUB = "from benchmarks.live_load import take_core; take_core(-1); from wirelake.cli import main; main()"


def listening(protocols: Sequence[str]) -> list[str]:
    """The flags of a hub that serves these protocols."""
    return [word for name in protocols for word in (f"--{name}", "127.0.0.1:0")]


@contextmanager
def settings_for(protocols: Sequence[str]) -> Iterator[list[str]]:
    """The flags of settings that let the links of the load in, which brokers of DSA keep out by default."""
    if "dsa" not in protocols:
        yield []
        return
    with TemporaryDirectory() as directory:
        path = Path(directory) / "hub.toml"
        path.write_text(SETTINGS)
        yield ["--config", str(path)]


Figures = dict[str, dict[str, list[dict[str, float]]]]
"""By protocol and run: what was measured in each round."""


class Place(NamedTuple):
    """Where a server listens, and its process."""

    port: int
    process: psutil.Process

    @property
    def spent(self) -> float:
        """Seconds of a core that it has taken."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


@contextmanager
def running(*command: str, env: Mapping[str, str] | None = None) -> Iterator[dict[str, Place]]:
    """A server in a process of its own; its port and its process, by protocol."""
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())["listening"]
        place = psutil.Process(process.pid)
        yield {name: Place(int(str(address).rpartition(":")[2]), place) for name, address in told.items()}
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


# --- measuring


def measure(protocol: str, run: str, seconds: float, place: Place, core: int = 0) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.live_load", protocol, run, str(seconds), str(place.port), str(core)]
    before = place.spent
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds + 120)
    if done.returncode:
        raise RuntimeError(f"{protocol} {run}: {done.stderr.strip().splitlines()[-1]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found | {"core": (place.spent - before) / seconds}


def contest(ports: dict[str, Place], rounds: int, seconds: float, core: int = 0) -> Figures:
    found: Figures = {name: {} for name in ports}
    for protocol, port in ports.items():
        measure(protocol, "1-1", 0.1, port, core)
    for number in range(rounds):
        for run in RUNS:
            for protocol, port in ports.items():
                if run in LEFT_OUT.get(protocol, ()):
                    continue
                print(f"round {number + 1} of {rounds}: {protocol} {SHOWN[run]}", file=sys.stderr)
                found[protocol].setdefault(run, []).append(measure(protocol, run, seconds, port, core))
    return found


# --- telling


def judged(found: Figures) -> Iterator[dict[str, Any]]:
    """Rows of the table. What 1 → 10 is compared with is the echo's 1 → 1: so many messages go out."""
    for protocol, runs in found.items():
        for run, rounds in runs.items():
            row: dict[str, Any] = {"protocol": protocol, "run": run, "rate": median(one["rate"] for one in rounds)}
            row["deliveries"] = median(_outgoing(one) for one in rounds)
            if protocol != "echo":
                echo = found["echo"]["1-1" if run == "1-10" else run]
                shares = [_outgoing(one) / other["rate"] for one, other in zip(rounds, echo, strict=True)]
                row["of_echo"] = median(shares)
                row["demanded"] = OWN_DEMANDS.get(protocol, DEMANDS).get(run)
                row["passed"] = row["demanded"] is None or row["of_echo"] >= row["demanded"]
                if run == "paced":
                    row["core"], row["demanded"] = median(one["core"] for one in rounds), MOST_CORE
                    row["passed"] = row["core"] <= MOST_CORE
            yield row


def _outgoing(figures: dict[str, float]) -> float:
    return figures.get("deliveries", figures["rate"])


def table(rows: Sequence[dict[str, Any]]) -> str:
    lines = [f"{'':16}" + "".join(f"{name:>14}" for name in COLUMNS)]
    for row in rows:
        cells = [f"{row['rate']:,.0f}", f"{row['deliveries']:,.0f}" if row["run"] == "1-10" else ""]
        cells += [f"{row[key]:.2f}" if key in row else "" for key in ("of_echo", "core")]
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
        protocols = given.protocol or LIVE
        settings = servers.enter_context(settings_for(protocols))
        ports |= servers.enter_context(running("-c", HUB, "serve", *settings, *listening(protocols)))
        found = contest(ports, given.rounds, given.seconds, -1 if given.one_core else 0)
    rows = list(judged(found))
    print(json.dumps(rows, indent=2) if given.json else table(rows))
    return 1 if given.check and not all(row.get("passed", True) for row in rows) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description="Messages through the hub.")
    parser.add_argument("--protocol", action="append", choices=LIVE, help="only this one; may be repeated")
    parser.add_argument("--rounds", type=int, default=5, help="the median of so many counts (%(default)s)")
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run (%(default)s)")
    parser.add_argument("--one-core", action="store_true", help="servers and load share a core")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--check", action="store_true", help="fail if less than demanded is reached")
    parser.add_argument("--echo", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
