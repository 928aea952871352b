"""``python -m benchmarks.mb_attacks``: how long others wait while one client of the MB broker makes it work.

The broker and each attack are processes of their own. A third sends requests to a service one by one, and tells the
99th percentile of the time until the reply, alone and under each attack.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

from .hub_cpu import ask, hub
from .live_load import PROTOCOLS, Mb, take_core

MOST_MS = 50.0
SUBSCRIPTIONS = 100_000
FILTER = "(?:(?:.*)*){40}y"
WORST = "(?:a?){30}(?:a|b|c|d|e|f){30}!"


class Attacker(Mb):
    """A client that does what it may, as often as it can."""

    def opened(self) -> socket.socket:
        return self._open()

    def request(self, topic: str, args: object) -> bytes:
        return self._frame(f"request:{topic}:1.0.0".encode(), json.dumps(args).encode())

    def ask(self, end: socket.socket, *frames: bytes) -> None:
        end.sendall(b"".join(frames))
        for _ in frames:
            self._read(end)


def list_topics(attacker: Attacker, is_ready: Callable[[], None]) -> None:
    """Many subscriptions, listed again and again with a change between."""
    ends = []
    for place in range(SUBSCRIPTIONS // 10_000):
        end = attacker.opened()
        ends.append(end)
        for start in range(0, 10_000, 500):
            topics = ({"action": "publish", "topic": f"a{place}.b{n}"} for n in range(start, start + 500))
            attacker.ask(end, *(attacker.request("system.topic.subscribe", args) for args in topics))
    is_ready()
    again = attacker.request("system.topic.unsubscribe", {"action": "publish", "topic": "a0.b0"})
    again += attacker.request("system.topic.subscribe", {"action": "publish", "topic": "a0.b0"})
    while True:
        for end in ends:
            end.sendall(again + attacker.request("system.topic.list", None))
            for _ in range(3):
                attacker._read(end)


def filter_log(attacker: Attacker, is_ready: Callable[[], None]) -> None:
    """Three readers of the log with slow filters, and somebody who makes it write."""
    readers = [attacker.opened() for _ in range(3)]
    for end in readers:
        for regex in (FILTER, WORST):
            args = {"levels": ["debug", "info", "warn", "error"], "regex": regex}
            end.sendall(attacker.request("system.log.subscribe", args))
        end.settimeout(5)
    noisy = attacker.opened()
    frames = attacker._frame(b"publish:" + b"abcdef" * 40 + b":1.0.0", b"") * 50
    is_ready()
    while True:
        noisy.sendall(frames)
        for _ in range(50):
            attacker._read(noisy)


ATTACKS = {"topic list": list_topics, "log filters": filter_log}


def _attack(name: str, port: int, ready: multiprocessing.synchronize.Event) -> None:  # type: ignore[name-defined]
    take_core(0)
    with suppress(ConnectionError, TimeoutError):
        ATTACKS[name](Attacker(port), ready.set)


def waits_ms(port: int, seconds: float) -> list[float]:
    """How long each request took, in order."""
    roles = PROTOCOLS["mb"](port).requests()
    found, stop = [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < stop:
        ask(roles)
        found.append((time.perf_counter() - start) * 1e3)
    return sorted(found)


def under_attack(name: str | None, seconds: float) -> list[float]:
    with hub("mb") as (_, port):
        if name is None:
            return waits_ms(port, seconds)
        ready = multiprocessing.Event()
        process = multiprocessing.Process(target=_attack, args=(name, port, ready), daemon=True)
        process.start()
        try:
            if not ready.wait(120):
                raise TimeoutError(f"{name}: the attack did not begin")
            found = waits_ms(port, seconds)
            if process.exitcode is not None:
                raise RuntimeError(f"{name}: the broker ended the attack")
            return found
        finally:
            process.kill()
            process.join()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.mb_attacks", description="Others under attack.")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each attack (%(default)s)")
    parser.add_argument("--check", action="store_true", help=f"fail if a 99th percentile is above {MOST_MS:.0f} ms")
    given = parser.parse_args(arguments)
    take_core(0)
    is_good = True
    print(f"{'':12}{'requests/s':>12}{'median ms':>12}{'p99 ms':>10}{'most ms':>10}")
    for name in (None, *ATTACKS):
        found = under_attack(name, given.seconds)
        p99 = found[int(len(found) * 0.99)]
        is_good &= p99 < MOST_MS
        rate = len(found) / given.seconds
        print(f"{name or 'alone':12}{rate:12,.0f}{found[len(found) // 2]:12.2f}{p99:10.1f}{found[-1]:10.1f}")
    return 1 if given.check and not is_good else 0


if __name__ == "__main__":
    sys.exit(main())
