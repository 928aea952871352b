"""``python -m benchmarks.dsa_crowd``: 10 000 subscriptions of 100 links on the tree of one link, through the broker.

The tree has 1 000 values; each is wanted by 10 links, with quality of service 1. Its link sends 1 000 updates a second.
The broker has to ask for each value once, and to send each update ten times: every one, and in order. Broker and load
are processes of their own; latency is from just before an update is written to just after it was read.
"""

from __future__ import annotations

import argparse
import json
import selectors
import socket
import struct
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.live.dsa.plain_link import SETTINGS, PlainLink, update
from wirelake.protocols import dsa as p

from .live import HUB, Place, running

STAMP = struct.Struct("<IIQ")
"""Which value, how often it was sent, and when."""
BATCH_SECONDS = 0.01
PATIENCE_SECONDS = 30.0
P99_MS = 100.0


class Reader:
    """One subscriber: checks that every update of each of its values comes, in order."""

    def __init__(self, link: PlainLink, values: Sequence[int]) -> None:
        self.link = link
        self.next = dict.fromkeys(values, 1)
        self.received = 0
        self.latencies: list[float] = []
        self._rest = b""

    def read(self) -> None:
        data = self._rest + self.link.end.recv(1 << 18)
        now = time.perf_counter_ns()
        at = 0
        while len(data) - at >= 4 and len(data) - at >= (size := int.from_bytes(data[at : at + 4], "little")):
            if data[at + 6] == p.SUB_R:
                self._take(data, at + size, now)
            at += size
        self._rest = data[at:]

    def _take(self, data: bytes, stop: int, now: int) -> None:
        value, number, sent = STAMP.unpack_from(data, stop - STAMP.size)
        if number != self.next[value]:
            raise AssertionError(f"value {value}: update {number} came, {self.next[value]} is due")
        self.next[value] += 1
        self.received += 1
        self.latencies.append((now - sent) / 1e6)


def stamped(request_id: int, value: int, number: int) -> bytes:
    return update(request_id, STAMP.pack(value, number, time.perf_counter_ns()))


def subscribe(place: Place, links: int, values: int, wanted_by: int) -> tuple[PlainLink, list[Reader], list[int]]:
    """Return the source, its subscribers, and the request id of each value at the source."""
    source = PlainLink(place.port, "source")
    each = values * wanted_by // links
    readers = []
    for number in range(links):
        link = PlainLink(place.port, f"reader{number}", is_responder=False)
        wanted = [(number * each + offset) % values for offset in range(each)]
        for request_id, value in enumerate(wanted, 1):
            link.subscribe(request_id, f"{source.path}/values/{value}")
        readers.append(Reader(link, wanted))
    asked: dict[int, int] = {}
    while len(asked) < values:
        message = source.read()
        if message.method == p.SUB:
            assert message.headers.target_path is not None
            asked[int(message.headers.target_path.rpartition("/")[2])] = message.request_id
    return source, readers, [asked[value] for value in range(values)]


def run(place: Place, links: int, values: int, wanted_by: int, rate: int, seconds: float) -> dict[str, Any]:
    source, readers, ids = subscribe(place, links, values, wanted_by)
    selector = selectors.DefaultSelector()
    for reader in readers:
        selector.register(reader.link.end, selectors.EVENT_READ, reader)
    before, sent, total = place.spent, 0, int(rate * seconds)
    began = time.perf_counter()
    while sum(reader.received for reader in readers) < total * wanted_by:
        now = time.perf_counter() - began
        due = min(int(now * rate), total)
        if due > sent:
            frames = (stamped(ids[n % values], n % values, n // values + 1) for n in range(sent, due))
            source.end.sendall(b"".join(frames))
            sent = due
        for key, _ in selector.select(BATCH_SECONDS):
            key.data.read()
        if now > seconds + PATIENCE_SECONDS:
            raise TimeoutError(f"{sum(reader.received for reader in readers)} of {total * wanted_by} updates came")
    took = time.perf_counter() - began
    source.end.setblocking(False)
    more = _requests_left(source.end)
    for link in (source, *(reader.link for reader in readers)):
        link.end.close()
    latencies = sorted(latency for reader in readers for latency in reader.latencies)
    return {
        "links": links,
        "subscriptions": links * len(readers[0].next),
        "asked": values + more,
        "updates": total,
        "deliveries": len(latencies),
        "lost": total * wanted_by - len(latencies),
        "deliveries_per_second": len(latencies) / took,
        "p50_ms": latencies[len(latencies) // 2],
        "p99_ms": latencies[len(latencies) * 99 // 100],
        "core": (place.spent - before) / took,
    }


def _requests_left(end: socket.socket) -> int:
    """Count requests that the broker should not have made."""
    try:
        data = end.recv(1 << 20)
    except BlockingIOError:
        return 0
    count = at = 0
    while at < len(data):
        count += data[at + 6] == p.SUB
        at += int.from_bytes(data[at : at + 4], "little")
    return count


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dsa_crowd", description="A crowd on one DSA tree.")
    parser.add_argument("--links", type=int, default=100, help="subscribers (%(default)s)")
    parser.add_argument("--values", type=int, default=1_000, help="nodes of the tree (%(default)s)")
    parser.add_argument("--wanted-by", type=int, default=10, help="subscribers of each (%(default)s)")
    parser.add_argument("--rate", type=int, default=1_000, help="updates per second (%(default)s)")
    parser.add_argument("--seconds", type=float, default=10.0, help="of updates (%(default)s)")
    parser.add_argument("--check", action="store_true", help="fail if latency is beyond its limit")
    given = parser.parse_args(arguments)
    with ExitStack() as stack:
        settings = Path(stack.enter_context(TemporaryDirectory())) / "hub.toml"
        settings.write_text(SETTINGS)
        places = stack.enter_context(running("-c", HUB, "serve", "--config", str(settings), "--dsa", "127.0.0.1:0"))
        found = run(places["dsa"], given.links, given.values, given.wanted_by, given.rate, given.seconds)
    print(json.dumps(found, indent=2))
    is_good = found["lost"] == 0 and found["asked"] == given.values
    return 0 if is_good and (not given.check or found["p99_ms"] <= P99_MS) else 1


if __name__ == "__main__":
    sys.exit(main())
