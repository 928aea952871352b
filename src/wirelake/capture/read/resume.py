"""Where the reading of a capture goes on: plain values that another reader, in another run, can begin with."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_BLOCK = 1 << 26
"""Of pcapng."""

Interface = tuple[int, int, int, int]
"""Link type, snap length, unit of time (as the kernel wants it), seconds to add."""


@dataclass(frozen=True, slots=True)
class PacketFormat:
    """What earlier bytes of a pcap or pcapng file say about later packets."""

    is_big: bool = False
    is_nano: bool = False
    largest: int = LARGEST_BLOCK
    interfaces: tuple[Interface, ...] = ()
    last_us: int = -1
    """For packets that have no time of their own."""


@dataclass(frozen=True, slots=True)
class TapHead:
    """The head of a tap file."""

    set_id: bytes
    number: int
    seed: int
    """The CRC-32 with which those of all records begin."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A place in a capture file between two packets or records. Raw files need no more than the position."""

    position: int
    packets: PacketFormat | None = None
    tap: TapHead | None = None
