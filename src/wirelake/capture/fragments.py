"""IP datagrams that came in fragments: put together when all fragments are there, in whatever order they came.

Of bytes that several fragments have, those of the fragment that begins first count, as tshark does it. A datagram is
given up when it is not complete after 30 seconds of capture time, as hosts do it, when it has too many fragments, or
when there are too many others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

TIMEOUT_US = 30_000_000
MOST_PIECES = 1024
"""Of a datagram."""
MOST_BYTES = 4 << 20
"""Of all datagrams that are not complete."""
PIECE_BYTES = 64
"""What a fragment costs besides its bytes."""
LONGEST = 1 << 16


class Fragment(NamedTuple):
    """Part of the payload of a datagram. ``head`` is the IP header for the whole, if this is its first part."""

    ends: bytes
    """Family and addresses."""
    identification: int
    protocol: int
    offset: int
    is_last: bool
    ts: int
    head: bytes
    data: bytes


@dataclass(slots=True)
class Datagram:
    """What has come of a datagram; ``size`` is that of its payload, -1 if it is not known."""

    ends: bytes
    identification: int
    protocol: int
    began_us: int
    size: int = -1
    head: bytes = b""
    pieces: list[tuple[int, bytes]] = field(default_factory=list)

    @property
    def cost(self) -> int:
        return sum(len(data) + PIECE_BYTES for _, data in self.pieces)

    def add(self, fragment: Fragment) -> bool:
        """Take a fragment; return whether it is a new one."""
        if any((offset, len(data)) == (fragment.offset, len(fragment.data)) for offset, data in self.pieces):
            return False
        self.pieces.append((fragment.offset, fragment.data))
        if fragment.is_last and self.size < 0:
            self.size = fragment.offset + len(fragment.data)
        self.head = self.head or fragment.head
        return True

    def joined(self) -> bytes | None:
        """Return the whole packet, None while something is missing."""
        if self.size < 0 or not self.head or sum(len(data) for _, data in self.pieces) < self.size:
            return None
        payload = bytearray()
        for offset, data in sorted(self.pieces, key=lambda piece: piece[0]):
            if offset > len(payload):
                return None
            payload += data[len(payload) - offset :]
        return self.head + payload[: self.size] if len(payload) >= self.size else None


@dataclass(frozen=True, slots=True)
class FragmentsState:
    """The datagrams that are not complete at some place of a capture, the oldest first."""

    datagrams: list[Datagram] = field(default_factory=list)


class Fragments:
    """The datagrams of which some fragments have come."""

    def __init__(self, state: FragmentsState) -> None:
        self._known = {self._key(datagram): datagram for datagram in _copies(state.datagrams)}
        self._cost = sum(datagram.cost for datagram in self._known.values())

    @staticmethod
    def _key(part: Datagram | Fragment) -> tuple[bytes, int, int]:
        # The fragments of IPv6 behind the first need not name the protocol.
        return part.ends, part.identification, part.protocol if len(part.ends) < 32 else -1

    def state(self) -> FragmentsState:
        return FragmentsState(list(_copies(self._known.values())))

    def add(self, fragment: Fragment) -> tuple[bytes, int] | None:
        """Take a fragment; return the packet that it completes, and the number of its fragments."""
        key = self._key(fragment)
        datagram = self._known.get(key)
        if datagram is not None and fragment.ts - datagram.began_us > TIMEOUT_US:
            self._drop(key)
            datagram = None
        if datagram is None:
            datagram = self._known[key] = Datagram(*fragment[:3], fragment.ts)
        if not datagram.add(fragment):
            return None
        self._cost += len(fragment.data) + PIECE_BYTES
        packet = datagram.joined()
        if packet is not None or len(datagram.pieces) >= MOST_PIECES or len(fragment.data) + fragment.offset > LONGEST:
            self._drop(key)
        while self._cost > MOST_BYTES:
            self._drop(next(iter(self._known)))
        return (packet, len(datagram.pieces)) if packet is not None else None

    def clear(self) -> None:
        self._known, self._cost = {}, 0

    def _drop(self, key: tuple[bytes, int, int]) -> None:
        self._cost -= self._known.pop(key).cost


def _copies(datagrams: Iterable[Datagram]) -> Iterator[Datagram]:
    for datagram in datagrams:
        yield replace(datagram, pieces=list(datagram.pieces))
