"""How much one step reads: a bounded number of bytes, the oldest captures of each sensor first.

A sensor that is far behind does not keep others waiting: all sensors share what a step may read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from .plan import Found, in_sensor_order

LEAST_BYTES = 2 << 20
"""The smallest share of a sensor. It is more than any record of a tap, and than any packet that is not absurd."""


@dataclass
class Admitted:
    """What a step reads: captures, and where to stop in those that are not read to their end, by path."""

    captures: list[Found] = field(default_factory=list)
    stops: dict[str, int] = field(default_factory=dict)
    bytes_left: int = 0


def admit(found: Sequence[Found], max_bytes: int | None) -> Admitted:
    """Choose what to read now. Whole captures that are compressed, or without times, are not divided."""
    if max_bytes is None:
        return Admitted(list(found))
    admitted = Admitted([one for one in found if not one.is_news])
    sensors: dict[str, list[Found]] = {}
    for one in found:
        if one.is_news:
            sensors.setdefault(one.now.sensor, []).append(one)
    waiting = {name: sum(bytes_ahead(one) for one in captures) for name, captures in sensors.items()}
    shares = dict(_shares(waiting, max_bytes))
    for name, captures in sensors.items():
        _admit_sensor(admitted, captures, shares[name])
    return admitted


def bytes_ahead(one: Found) -> int:
    """Return how many bytes of a file were not read; of a compressed one, all of them count."""
    if not one.is_news:
        return 0
    if one.capture.compression or one.before is None:
        return one.now.size
    return max(0, one.now.size - one.before.position)


def _shares(waiting: dict[str, int], max_bytes: int) -> Iterator[tuple[str, int]]:
    """Divide what a step may read: those that wait for little first, so that nothing of a share is lost."""
    left = max_bytes
    for number, (name, size) in enumerate(sorted(waiting.items(), key=lambda pair: pair[1])):
        share = max(min(LEAST_BYTES, max_bytes), left // (len(waiting) - number))
        left = max(0, left - min(share, size))
        yield name, share


def _admit_sensor(admitted: Admitted, captures: Iterable[Found], share: int) -> None:
    left = share
    for one in sorted(captures, key=in_sensor_order):
        ahead = bytes_ahead(one)
        can_be_cut = not one.capture.compression and one.capture.kind != "raw"
        if left <= 0:
            admitted.bytes_left += ahead
        elif ahead <= left or not can_be_cut:
            admitted.captures.append(one)
            left -= ahead
        else:
            admitted.captures.append(one)
            admitted.stops[one.capture.path] = one.now.size - ahead + left
            admitted.bytes_left += ahead - left
            left = 0
