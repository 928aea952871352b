"""What happens to packets between the peers and the capture: some come late, some twice, some the capture misses.

Bytes are the same, whatever happens; what is missing is noted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from ..capture.write.pcap import PcapWriter
from ..capture.write.tcp import FIN, RST, SYN, Segment
from .truth import Direction, Missing, Truth

MOST_LATE = 6
"""So many packets may pass one that is late."""


@dataclass(slots=True)
class _Late:
    after: int
    key: int
    packet: bytes


@dataclass
class Line:
    """Hands packets on to a capture. ``disorder`` is the share of data packets that come late, or once more (as they
    were, or cut otherwise); ``gaps`` the share that the capture does not get.
    """

    writer: PcapWriter
    rng: Random
    disorder: float
    gaps: float
    truth: Truth | None
    _late: list[_Late] = field(default_factory=list)
    _before: dict[tuple[int, bool], tuple[int, bytes]] = field(default_factory=dict)
    """The last data that the capture has of each direction, with their offset."""
    _now: int = 0

    def __call__(self, segment: Segment) -> None:
        self._now = segment.ts_us
        if segment.flags & (SYN | FIN | RST):
            self._release(lambda late: late.key == segment.key)
        if segment.data and self.rng.random() < self.gaps:
            self._miss(segment)
        elif segment.data and self.rng.random() < self.disorder:
            self._disturb(segment)
        else:
            self.writer.packet(segment.ts_us, segment.packet)
        if segment.flags & (FIN | RST):
            self._before.pop((segment.key, segment.from_client), None)
        for late in self._late:
            late.after -= 1
        self._release(lambda late: late.after <= 0)

    def finish(self) -> None:
        """Nothing more comes: what is late is written."""
        self._release(lambda late: True)

    def _miss(self, segment: Segment) -> None:
        if self.truth is None:
            return
        direction: Direction = "to_server" if segment.from_client else "to_client"
        self.truth.missing.append(Missing(segment.key, direction, segment.offset, len(segment.data)))

    def _disturb(self, segment: Segment) -> None:
        kind = int(self.rng.random() * 3)
        if kind == 0:
            self._delay(segment, segment.packet)
        else:
            self.writer.packet(segment.ts_us, segment.packet)
            self._delay(segment, segment.packet if kind == 1 else self._cut_otherwise(segment))
        self._before[segment.key, segment.from_client] = (segment.offset, segment.data)

    def _cut_otherwise(self, segment: Segment) -> bytes:
        """A packet with a part of these data, and of those before if they join them."""
        start, data = segment.offset, segment.data
        offset, before = self._before.get((segment.key, segment.from_client), (start, b""))
        if offset + len(before) == start:
            start, data = offset, before + data
        begin = int(self.rng.random() * len(data))
        length = 1 + int(self.rng.random() * min(len(data) - begin, 1400))
        return segment.make(start + begin, data[begin : begin + length])

    def _delay(self, segment: Segment, packet: bytes) -> None:
        self._late.append(_Late(1 + int(self.rng.random() * MOST_LATE), segment.key, packet))

    def _release(self, is_due: Callable[[_Late], bool]) -> None:
        due = [late for late in self._late if is_due(late)]
        if due:
            self._late = [late for late in self._late if not is_due(late)]
            for late in due:
                self.writer.packet(self._now, late.packet)
