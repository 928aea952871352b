"""Chunks: some bytes of one direction of one connection, with stream offset and time. Whatever a capture is made of,
packets, tap records or bare bytes, its readers give chunks.
"""

from __future__ import annotations

import hashlib
import ipaddress
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
TO_SERVER, TO_CLIENT = 0, 1
DIRECTIONS = ("to_server", "to_client")
SERVER_DIGITS = 4


def connection_id(server: str, text: str) -> str:
    """Return the id of a connection: a few hex digits for its server's host, 16 for itself.

    The id shows what has to be looked at together: a connection, or all legs of an exchange over a broker, which may
    listen on several ports.
    """
    return _server_digits(server) + _hash(text, 8)


@lru_cache(maxsize=1 << 12)
def _server_digits(host: str) -> str:
    return _hash(_machine(host), SERVER_DIGITS // 2)


def server_of(connection: str) -> str:
    """Return what ids of connections with the same server host have in common."""
    return connection[:SERVER_DIGITS]


def _machine(host: str) -> str:
    """Return one name for all addresses that are surely of one machine: those of loopback, IPv4 and IPv4 in IPv6."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() if host.lower() != "localhost" else "loopback"
    address = getattr(address, "ipv4_mapped", None) or address
    return "loopback" if address.is_loopback else str(address)


def _hash(text: str, size: int) -> str:
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


@dataclass(slots=True, eq=False)
class Connection:
    """What is known about a connection so far. ``id`` is made of addresses and first packet: the same in every run.

    Times are microseconds since 1970, None where a capture has no times. ``is_whole``: its beginning was captured.
    ``protocol`` is set if the capture itself says what is spoken.
    """

    id: str
    client: str
    server: str
    client_port: int = 0
    server_port: int = 0
    first_us: int | None = None
    last_us: int | None = None
    is_whole: bool = False
    ended: str = ""
    """``closed``, ``reset``, or empty while it is open."""
    ended_us: int | None = None
    protocol: str | None = None
    is_over: bool = False
    """It had ended before: the window has only late packets of it, which carry nothing."""


@dataclass(slots=True)
class Chunks:
    """Chunks as arrays, one entry each. Those of one direction are in the order of their offsets and without overlap.

    ``start`` is the place of a chunk's bytes in ``data``; -1 marks a gap: ``length`` bytes that were never captured.
    ``ts`` is -1 where a capture has no times, and STRANGE where a time stamp is outside the range of times: these bytes
    are quarantined. ``position`` is their place in the (uncompressed) capture file.
    ``connection`` counts within ``connections``: all that were seen since the Chunks before, also those that only began
    or ended.
    """

    data: NDArray[np.uint8]
    connections: list[Connection]
    connection: Ints
    direction: Ints
    offset: Ints
    length: Ints
    ts: Ints
    start: Ints
    position: Ints

    def __len__(self) -> int:
        return len(self.connection)

    def columns(self) -> tuple[Ints, ...]:
        return self.connection, self.direction, self.offset, self.length, self.ts, self.start, self.position


@dataclass(slots=True)
class Counts:
    """What a capture holds besides stream bytes, so that nothing is lost silently."""

    packets: int = 0
    bytes: int = 0
    foreign: dict[str, int] = field(default_factory=dict)
    """Packets without TCP that can be read, by what they are: ``link`` (the link type is not known), ``interface`` (it
    is not described), ``ethertype`` (not IP), ``udp``, ``protocol`` (another one than TCP), ``header`` (cut off or
    contradicting itself), ``layers`` (too many)."""
    foreign_bytes: int = 0
    fragments: int = 0
    """IP fragments, and how many of them became part of a whole packet; the others wait, or were given up."""
    joined_fragments: int = 0
    time_records: int = 0
    """Records of a tap that say that nothing came; the last of them until ``silent_until_us``."""
    silent_until_us: int | None = None
    strange_times: int = 0
    """Packets whose time stamp lies before 1970 or behind 2099."""
    repeated_bytes: int = 0
    """Stream bytes that were captured more than once, or only after their hole had been given up."""
    outside_bytes: int = 0
    """Bytes that no receiver takes: behind the end of their connection, or in a reset outside of the window."""
    early_bytes: int = 0
    """Bytes from before the first segment that was seen of a connection that began before the capture."""
    missing_bytes: int = 0
    cut_packets: int = 0
    """Packets of which only a part was captured."""
    broken: str = ""
    """Why the rest of the file could not be read; empty if it could."""
    notes: list[str] = field(default_factory=list)

    @property
    def foreign_packets(self) -> int:
        return sum(self.foreign.values())
