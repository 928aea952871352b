"""``python -m benchmarks.casual_attacks``: how long others wait while one peer of a casual hub does its worst.

Hub, attacker and the one who waits are processes of their own. The last one calls a service and enqueues durably, one
after the other, and tells the 99th percentile of the time until the reply, alone and under each attack.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from wirelake.live.casual.wire import NULL_XID, Xid, encode
from wirelake.protocols import casual

from .live import HUB, running
from .live_load import take_core
from .queues import CONFIG, SERVICES
from .queues_load import EXECUTION, enqueue_of, read_frame, shake_hands

MOST_MS = 50.0
BLOCKED = 10_000
LOST = 3_000
WAIT = 60.0


def id_of(number: int) -> bytes:
    return number.to_bytes(16, "big")


def dequeue_of(number: int, properties: str) -> bytes:
    selector = casual.Selector(properties, bytes(16))
    return encode(casual.QueueDequeueRequest(id_of(number), EXECUTION, "bench", NULL_XID, selector, True))


def blocked_dequeues(port: int, is_ready: Callable[[], None]) -> None:
    """Ten thousand dequeues that wait, each for other properties, again and again."""
    wire = b"".join(dequeue_of(number + 1, f"p{number}") for number in range(BLOCKED))
    while True:
        end = shake_hands(port)
        end.sendall(wire)
        is_ready()
        hear_all(end)
        end.close()


def hear_all(end: socket.socket) -> None:
    """Wait until the hub has handled what was sent: a discovery behind it has its reply."""
    domain = casual.Domain(bytes(16), "attacker")
    end.sendall(encode(casual.DomainDiscoverRequest(id_of(1 << 100), EXECUTION, domain, (), ())))
    while read_frame(end)[8:24] != id_of(1 << 100):
        pass


def lost_branches(port: int, is_ready: Callable[[], None]) -> None:
    """Thousands of branches with work in them, which end with their connection."""
    while True:
        end = shake_hands(port)
        wire = b"".join(enqueue_of(Xid(42, os.urandom(16), b"b"), id_of(number + 1)) for number in range(LOST))
        is_ready()
        end.settimeout(WAIT)
        end.sendall(wire)
        hear_all(end)
        end.close()


def flood(port: int, is_ready: Callable[[], None]) -> None:
    """Durable enqueues without waiting for any reply."""
    end = shake_hands(port)
    is_ready()
    number = 0
    while True:
        end.sendall(b"".join(enqueue_of(NULL_XID, id_of(number + n + 1)) for n in range(100)))
        for _ in range(100):
            read_frame(end)
        number += 100


def garbage(port: int, is_ready: Callable[[], None]) -> None:
    """Connections that send what cannot be: sizes of 2^62, lengths beyond their frame, replies, no handshake."""
    frames = (
        struct.pack(">Q16sQ", 3100, id_of(1), 1 << 62),
        struct.pack(">Q16sQ16s", 5201, id_of(1), 40, EXECUTION) + struct.pack(">qqq", 42, 1 << 40, 1),
        encode(casual.QueueEnqueueReply(id_of(1), EXECUTION, id_of(2))) * 1_000 + bytes(64),
        (struct.pack(">Q16sQ", 9_999, id_of(1), 8) + bytes(8)) * 5_000 + b"\xff" * 64,
    )
    is_ready()
    while True:
        for frame in frames:
            with suppress(OSError, ValueError, EOFError), shake_hands(port) as end:
                end.settimeout(WAIT)
                end.sendall(frame)
                while end.recv(1 << 16):
                    pass


def strange_xids(port: int, is_ready: Callable[[], None]) -> None:
    """The null xid of the document, and branches of many coordinators with one gtrid, which are rolled back."""
    end = shake_hands(port)
    is_ready()
    while True:
        branches = [Xid(42, b"one", os.urandom(8)) for _ in range(100)]
        wire = enqueue_of(Xid(0)) + b"".join(enqueue_of(branch, id_of(2 + n)) for n, branch in enumerate(branches))
        end.sendall(wire)
        for _ in range(101):
            read_frame(end)
        rolls = [
            encode(casual.ResourceRollbackRequest(id_of(200 + n), EXECUTION, branch, casual.Resource(-1), 0))
            for n, branch in enumerate(branches)
        ]
        end.sendall(b"".join(rolls))
        for _ in rolls:
            read_frame(end)


ATTACKS = {
    "blocked dequeues": blocked_dequeues,
    "lost branches": lost_branches,
    "flood": flood,
    "garbage": garbage,
    "strange xids": strange_xids,
}


def _attack(name: str, port: int, ready: multiprocessing.synchronize.Event) -> None:  # type: ignore[name-defined]
    take_core(0)
    ATTACKS[name](port, ready.set)


def waits_ms(port: int, seconds: float) -> list[float]:
    """How long each request took, the shortest first."""
    buffer = casual.Buffer("X_OCTET/", b"x" * 100)
    service = casual.Service("echo", 0), casual.Parent("")
    call = encode(casual.ServiceCallRequest(id_of(1), EXECUTION, *service, NULL_XID, 0, buffer))
    enqueue = enqueue_of(NULL_XID)
    end = shake_hands(port)
    end.settimeout(WAIT)
    found, stop = [], time.perf_counter() + seconds
    while time.perf_counter() < stop:
        for request in (call, enqueue):
            start = time.perf_counter()
            end.sendall(request)
            read_frame(end)
            found.append((time.perf_counter() - start) * 1e3)
    return sorted(found)


@contextmanager
def attacked(name: str | None, port: int) -> Iterator[None]:
    if name is None:
        yield
        return
    ready = multiprocessing.Event()
    process = multiprocessing.Process(target=_attack, args=(name, port, ready), daemon=True)
    process.start()
    try:
        if not ready.wait(WAIT):
            raise TimeoutError(f"{name}: the attack did not begin")
        yield
        if process.exitcode is not None:
            raise RuntimeError(f"{name}: the attack ended with {process.exitcode}")
    finally:
        process.kill()
        process.join()


def under_attack(name: str | None, seconds: float) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder)
        (directory / "hub.toml").write_text(CONFIG)
        (directory / "bench_services.py").write_text(SERVICES)
        command = ("-c", HUB, "serve", "--casual", "127.0.0.1:0", "--config", str(directory / "hub.toml"))
        with running(*command) as hub, attacked(name, hub["casual"].port):
            return waits_ms(hub["casual"].port, seconds)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.casual_attacks", description="Others under attack.")
    parser.add_argument("--seconds", type=float, default=4.0, help="of each attack (%(default)s)")
    parser.add_argument("--check", action="store_true", help=f"fail if a 99th percentile is above {MOST_MS:.0f} ms")
    given = parser.parse_args(arguments)
    take_core(0)
    is_good = True
    print(f"{'':18}{'requests/s':>12}{'median ms':>12}{'p99 ms':>10}{'most ms':>10}")
    for name in (None, *ATTACKS):
        found = under_attack(name, given.seconds)
        p99 = found[int(len(found) * 0.99)]
        is_good &= p99 < MOST_MS
        rate = len(found) / given.seconds
        print(
            f"{name or 'alone':18}{rate:12,.0f}{found[len(found) // 2]:12.2f}{p99:10.1f}{found[-1]:10.1f}", flush=True
        )
    return 1 if given.check and not is_good else 0


if __name__ == "__main__":
    sys.exit(main())
