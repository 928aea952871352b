"""``python -m benchmarks.given_back``: memory that a hub takes for clients that attack it, and gives back afterwards.

*tls*: connections that send the first six bytes of a TLS handshake and then nothing. *pieces*: CEDA clients that log in
and send the first pieces of messages that they never finish. The hub is a process of its own; what counts is its
resident memory before the attack, at most while it lasts, and once all attackers are gone. A small attack comes first,
so that what is loaded and kept with the first client of a kind is not taken for memory that is lost.
"""

from __future__ import annotations

import argparse
import json
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.live.certificates import Authority

from .crowd import CEDA_LOGIN, MIB, Address, ceda_frame

TLS_CLIENTS, PIECE_CLIENTS = 12_000, 120
PIECES = 256
"""Unfinished messages of one client: as many as a hub keeps."""
PIECE_BYTES = 60_000
BEGUN = b"\x16\x03\x01\x02\x00\x01"
PATIENCE_SECONDS = 60.0
LOOK_SECONDS = 0.05
MOST_KEPT = 128 * MIB
"""More than before the attack, once it is over."""
SETTINGS = """
[ceda]
tcp = "127.0.0.1:0"
tls = "127.0.0.1:0"
connections = 20000
handshake_seconds = {handshake_seconds}
[tls]
certificate = "{certificate}"
key = "{key}"
[metrics]
listen = "127.0.0.1:0"
[log]
level = "error"
"""

Attack = Callable[[Address, int], list[socket.socket]]


@dataclass(frozen=True)
class Hub:
    process: psutil.Process
    listening: dict[str, Address]

    @property
    def memory(self) -> int:
        return int(self.process.memory_info().rss)

    @property
    def connections(self) -> int:
        """Those that the hub counts itself."""
        with socket.create_connection(self.listening["metrics"]) as one:
            one.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
            content = b"".join(iter(lambda: one.recv(1 << 16), b""))
        return sum(json.loads(content.partition(b"\r\n\r\n")[2])["connections"].values())


@dataclass(frozen=True)
class Taken:
    """Bytes of the hub: before an attack, at most, and after it."""

    before: int
    peak: int
    after: int

    @property
    def kept(self) -> int:
        return self.after - self.before


def attack_tls(address: Address, count: int) -> list[socket.socket]:
    clients = []
    for number in range(count):
        # A few source addresses: one has not so many free ports everywhere.
        clients.append(socket.create_connection(address, source_address=(f"127.0.0.{2 + number % 8}", 0)))
        clients[-1].sendall(BEGUN)
    return clients


def attack_pieces(address: Address, count: int) -> list[socket.socket]:
    clients = []
    for _ in range(count):
        one = socket.create_connection(address)
        one.sendall(CEDA_LOGIN)
        one.recv(1 << 16)
        one.settimeout(PATIENCE_SECONDS)
        for number in range(PIECES):
            one.sendall(_piece(number))
        clients.append(one)
    return clients


def _piece(number: int) -> bytes:
    """The first of two pieces of a published message, in the deployed dialect."""
    key = b"k.%d" % number
    data = bytes(PIECE_BYTES)
    signature = struct.pack("<BhhihI", 1, 0, 2, 2 * PIECE_BYTES, 3, PIECE_BYTES)
    names = b"\x01t\xff\xff\xff\x00\x00" + bytes((len(key),)) + key
    cells = struct.pack("<HH", 3 << 4 | 14, len(data)) + data + struct.pack("<HH", 14, len(signature)) + signature
    return ceda_frame(b"\x65" + names + cells)


ATTACKS: dict[str, tuple[str, Attack, int]] = {
    "tls": ("ceda-tls", attack_tls, TLS_CLIENTS),
    "pieces": ("ceda", attack_pieces, PIECE_CLIENTS),
}


@contextmanager
def running(handshake_seconds: float = 30.0) -> Iterator[Hub]:
    with tempfile.TemporaryDirectory() as directory:
        certificate, key = Authority(Path(directory)).issue("localhost")
        settings = Path(directory) / "hub.toml"
        text = SETTINGS.format(certificate=certificate, key=key, handshake_seconds=handshake_seconds)
        settings.write_text(text)
        command = [sys.executable, "-c", "from wirelake.cli import main; main()", "serve", "--config", str(settings)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert process.stdout is not None
        try:
            told = json.loads(process.stdout.readline())["listening"]
            places = {name: (where.rpartition(":")[0], int(where.rpartition(":")[2])) for name, where in told.items()}
            yield Hub(psutil.Process(process.pid), places)
        finally:
            process.terminate()
            process.wait(PATIENCE_SECONDS)
            process.stdout.close()


def measure(hub: Hub, name: str, count: int, kept: int = MOST_KEPT) -> Taken:
    """Attack, leave, and wait until the hub has noticed and had the time to give back all but ``kept``."""
    listener, attack, _ = ATTACKS[name]
    for one in attack(hub.listening[listener], max(count // 100, 1)):
        one.close()
    _until(lambda: not hub.connections)
    before = hub.memory
    clients = attack(hub.listening[listener], count)
    _until(lambda: hub.connections >= count)
    peak = hub.memory
    for one in clients:
        one.close()
    _until(lambda: not hub.connections)
    _until(lambda: hub.memory - before < kept, 15.0)
    return Taken(before, max(peak, hub.memory), hub.memory)


def _until(holds: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)


def main(arguments: Sequence[str] | None = None) -> int:
    from wirelake.live.hub.machine import raise_file_limit

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.given_back", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--attack", action="append", choices=ATTACKS, help="only this one; may be repeated")
    given = parser.parse_args(arguments)
    limit = raise_file_limit()
    is_good = True
    for name in given.attack or ATTACKS:
        count = ATTACKS[name][2]
        if limit and limit < count + 100:
            print(f"{name}: {count + 100} open files are needed, and {limit} are allowed", file=sys.stderr)
            return 1
        with running() as hub:
            taken = measure(hub, name, count)
        is_good &= taken.kept < MOST_KEPT
        figures = ", ".join(f"{what} {getattr(taken, what) / MIB:.0f} MiB" for what in ("before", "peak", "after"))
        print(f"{name:8}{count:7,} clients: {figures}{'' if taken.kept < MOST_KEPT else '  MISSED'}", flush=True)
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
