"""Which of several dialects a connection speaks, found from its bytes.

Each dialect is a layout; the frame at hand is read with all of them. A verdict is a proof: only one reading is
possible. While nothing is proved, all layouts read the frames alike.

In a stream a clean frame is believed at once: an idle peer sends no more, and what follows may be broken. So more bytes
never change a verdict that does not ask for them, and a stream may be cut anywhere. A frame that stands alone is
complete, and what follows it within the same bytes counts too (``detect_alone``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from ..errors import DecodeError
from ..spec import nodes as n
from ..spec.resolve import Layout
from .faults import faults_for
from .outline import UNKNOWN, compile_claim, outlines_for


@dataclass(slots=True)
class Verdict:
    """``layout`` if it is proved. ``wait``: more bytes may change that; it holds as it is where no more will come."""

    layout: Layout | None = None
    wait: bool = False
    length: int = field(default=0, compare=False)
    """How long the layout says the frame is, where its header is good."""


class Detector:
    """What tells a few layouts apart."""

    def __init__(self, layouts: tuple[Layout, ...]) -> None:
        self._layouts = layouts
        self._claims = tuple(map(compile_claim, layouts))
        self._judges = {layout: faults_for(layout).judge for layout in layouts}
        self._follows = outlines_for(layouts).follows

    def detect(self, data: bytes | bytearray, start: int, end: int, alone: bool = False) -> Verdict:
        """Return the verdict of the frame at ``start`` of a stream: a pure function of the bytes up to ``end``."""
        claims, layouts = [claim(data, start, end) for claim in self._claims], self._layouts
        if min(claims) < 0:
            possible = [number for number, length in enumerate(claims) if length >= UNKNOWN]
            if len(possible) < 2 or UNKNOWN in claims:
                return self._broken(claims, possible)
            claims, layouts = [claims[i] for i in possible], tuple(layouts[i] for i in possible)
        length, longest = min(claims), max(claims)
        if end - start < length:
            return Verdict(None, wait=True)
        frame = bytes(memoryview(data)[start : start + length])
        if length == longest:
            return Verdict(self._same_length(layouts, frame), False, length)
        small, large = layouts[claims.index(length)], layouts[claims.index(longest)]
        is_clean, rule = self._outcome(small, frame)
        if is_clean and not alone:
            return Verdict(small, False, length)
        if not is_clean and rule != "body":
            return Verdict(large, False, longest)
        follows = self._follows(data, start + length, end)
        if follows is None and not is_clean:
            return Verdict(large, True, longest)
        return Verdict(large, False, longest) if follows is False else Verdict(small, False, length)

    def _broken(self, claims: list[int], possible: list[int]) -> Verdict:
        """Return the verdict of a header that is cut off, or that one layout reads at most."""
        if len(possible) == 1:
            length = claims[possible[0]]
            # A header that is cut off may yet turn out wrong, and then another one may have been read further.
            return Verdict(self._layouts[possible[0]], length == UNKNOWN, max(length, 0))
        if possible:
            return Verdict(None, wait=True)
        # Wrong in all of them: one that reads further than the others was proved before it failed.
        furthest = min(claims)
        return Verdict(self._layouts[claims.index(furthest)] if claims.count(furthest) == 1 else None)

    def _same_length(self, layouts: tuple[Layout, ...], frame: bytes) -> Layout | None:
        outcomes = [(layout, *self._outcome(layout, frame)) for layout in layouts]
        clean = [layout for layout, is_clean, _ in outcomes if is_clean]
        if len(clean) == 1:
            return clean[0]
        knows = [layout for layout, _, rule in outcomes if rule != "leftover_bytes"]
        return knows[0] if len(knows) == 1 else None

    def _outcome(self, layout: Layout, frame: bytes) -> tuple[bool, str]:
        """Whether the frame parses cleanly, else the rule it breaks (``body`` for anything inside its body)."""
        message = self._judges[layout](frame)
        if isinstance(message, DecodeError):
            return False, "body" if message.body_only else message.rule
        return is_clean(message), ""


@lru_cache(maxsize=64)
def detector_for(layouts: tuple[Layout, ...]) -> Detector:
    return Detector(layouts)


def detect_alone(layouts: tuple[Layout, ...], frame: bytes) -> Layout | None:
    """Return the layout that is proved by one frame, given whole, and by whatever stands behind it."""
    return detector_for(layouts).detect(frame, 0, len(frame), alone=True).layout


def is_clean(message: Any) -> bool:
    """No oddity that real senders never produce: cells without value, with the group bit, or with the same number
    twice.
    """
    for declared in message.__wire_fields__:
        if isinstance(declared.wire, n.Cells):
            cells = getattr(message, declared.name)
            if len({cell.fid for cell in cells}) != len(cells):
                return False
            if any(cell.value is None or cell.group_bit for cell in cells):
                return False
    return True
