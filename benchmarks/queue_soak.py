"""``python -m benchmarks.queue_soak``: a million messages of 1 KiB go into a durable queue and come out in order.

The hub is killed between the two halves. Its memory has to stay flat: between the first tenth of the messages and the
last one the cache of its store may fill, and it may grow by a tenth.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from wirelake.live.casual.wire import encode
from wirelake.live.storage.sqlite import CACHE_KIB
from wirelake.protocols import casual
from wirelake.protocols.casual import NULL_XID

from .live import HUB, Place, running
from .queues_load import EXECUTION, read_frame, shake_hands

MIB = 1 << 20
WINDOW = 500
"""Requests that are open at once on the one connection."""
TOLERANCE, SPARE = 1.10, CACHE_KIB * 1024 + 16 * MIB
QUEUE = "soak"
CONFIG = f'[casual]\nstorage = "soak.db"\nqueues = [{{name = "{QUEUE}"}}]\n'


def payload(number: int) -> bytes:
    return number.to_bytes(8, "big") + bytes(1_016)


def enqueue(number: int) -> bytes:
    message = casual.Enqueued(bytes(16), "", "", 0, "X_OCTET/", payload(number))
    return encode(casual.QueueEnqueueRequest((number + 1).to_bytes(16, "big"), EXECUTION, QUEUE, NULL_XID, message))


def dequeue(number: int) -> bytes:
    selector = casual.Selector("", bytes(16))
    correlation = (number + 1).to_bytes(16, "big")
    return encode(casual.QueueDequeueRequest(correlation, EXECUTION, QUEUE, NULL_XID, selector, False))


def is_stored(number: int, reply: bytes) -> bool:
    return reply[8:24] == (number + 1).to_bytes(16, "big") and reply[48:64] != bytes(16)


def is_next(number: int, reply: bytes) -> bool:
    return reply[8:24] == (number + 1).to_bytes(16, "big") and payload(number) in reply


def exchange(
    place: Place, count: int, ask: Callable[[int], bytes], is_right: Callable[[int, bytes], bool], name: str
) -> list[int]:
    """Send so many requests and check the replies, which come in order; return the memory after each tenth."""
    end = shake_hands(place.port)
    sent, memory, start = 0, [], time.perf_counter()
    for number in range(count):
        if sent < min(count, number + WINDOW // 2):
            until = min(count, number + WINDOW)
            end.sendall(b"".join(map(ask, range(sent, until))))
            sent = until
        if not is_right(number, read_frame(end)):
            raise AssertionError(f"{name}: message {number} is missing, or out of order")
        if (number + 1) % max(count // 10, 1) == 0:
            memory.append(place.process.memory_info().rss)
            rate = (number + 1) / (time.perf_counter() - start)
            print(f"{name} {number + 1:>9,}  {rate:>8,.0f}/s  {memory[-1] / MIB:>6.0f} MiB", file=sys.stderr)
    end.close()
    return memory


@contextmanager
def hub(directory: Path) -> Iterator[Place]:
    config = str(directory / "hub.toml")
    with running("-c", HUB, "serve", "--casual", "127.0.0.1:0", "--config", config) as places:
        yield places["casual"]


def run(directory: Path, count: int) -> list[str]:
    """Return what is wrong."""
    (directory / "hub.toml").write_text(CONFIG)
    faults = []
    with hub(directory) as place:
        memory = exchange(place, count, enqueue, is_stored, "enqueued")
        faults += judged("enqueues", memory)
        psutil.Process(place.process.pid).kill()
    with hub(directory) as place:
        memory = exchange(place, count, dequeue, is_next, "dequeued")
        faults += judged("dequeues", memory)
    return faults


def judged(name: str, memory: Sequence[int]) -> list[str]:
    if memory[-1] <= memory[0] * TOLERANCE + SPARE:
        return []
    return [f"{name}: the hub grew from {memory[0] / MIB:.0f} to {memory[-1] / MIB:.0f} MiB"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.queue_soak", description="A queue of many messages.")
    parser.add_argument("--messages", type=int, default=1_000_000, help="how many (%(default)s)")
    parser.add_argument("--directory", help="where the store is; a temporary directory by default")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.directory) as folder:
        faults = run(Path(folder), given.messages)
    for fault in faults:
        print(fault)
    print(f"{given.messages:,} messages in, killed, out in order" + ("" if faults else ", memory flat"))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
