"""``python -m benchmarks.hub_cpu``: how much of a core the hub takes for a steady number of requests a second.

Each request is sent at its time and only when the reply to the one before is there (window 1), so that the hub wakes
up for every single message: twice for each request, which also passes a service behind the hub.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from .live import HUB, LIVE
from .live_load import PROTOCOLS, Roles, receive_exactly, take_core

MOST = 0.40
"""The share of a core that is allowed at 1 000 requests a second."""


@contextmanager
def hub(protocol: str) -> Iterator[tuple[int, int]]:
    """A hub in a process of its own: its process id and port."""
    command = [sys.executable, "-c", HUB, "serve", f"--{protocol}", "127.0.0.1:0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        told = json.loads(process.stdout.readline())["listening"]
        yield process.pid, int(str(told[protocol]).rpartition(":")[2])
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def ask(roles: Roles) -> None:
    """One request, there and back."""
    (service,) = roles.receivers
    assert roles.answer is not None
    roles.sender.send(roles.frame)
    service.send(roles.answer(receive_exactly(service, roles.request_size)))
    receive_exactly(roles.sender, roles.received_size)


def share(protocol: str, rate: int, seconds: float) -> tuple[float, float]:
    """The share of a core, and the rate that was reached."""
    with hub(protocol) as (pid, port):
        roles = PROTOCOLS[protocol](port).requests()
        for _ in range(200):
            ask(roles)
        before, start, count = cpu_seconds(pid), time.perf_counter(), int(rate * seconds)
        for number in range(count):
            wait = start + number / rate - time.perf_counter()
            if wait > 0:
                time.sleep(wait)
            ask(roles)
        took = time.perf_counter() - start
        return (cpu_seconds(pid) - before) / took, count / took


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hub_cpu", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--protocol", action="append", choices=LIVE, help="only this one; may be repeated")
    parser.add_argument("--rate", type=int, default=1000, help="requests a second (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="the median of so many counts (%(default)s)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of each round (%(default)s)")
    parser.add_argument("--check", action="store_true", help=f"fail if the hub takes more than {MOST:.0%} of a core")
    given = parser.parse_args(arguments)
    take_core(0)
    is_good = True
    for protocol in given.protocol or LIVE:
        rounds = [share(protocol, given.rate, given.seconds) for _ in range(given.rounds)]
        used, reached = median(used for used, _ in rounds), median(reached for _, reached in rounds)
        is_good &= used <= MOST
        print(f"{protocol:6} {reached:7,.0f} requests/s  {used:6.1%} of a core")
    return 1 if given.check and not is_good else 0


if __name__ == "__main__":
    sys.exit(main())
