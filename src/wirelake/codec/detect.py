"""Which of several dialects a connection speaks, found from its bytes.

Each dialect is a layout; the frame at hand is read with all of them. A verdict is a proof: only one reading is
possible. While nothing is proved, all layouts read the frames alike.

In a stream a clean frame is believed at once: an idle peer sends no more, and what follows may be broken. So more bytes
never change a verdict that does not ask for them, and a stream may be cut anywhere. A frame that stands alone is
complete, and what follows it within the same bytes counts too (``detect_alone``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..errors import DecodeError, Incomplete
from ..spec import nodes as n
from ..spec.resolve import Layout, MessageNode
from .faults import faults_for
from .frame import Buffer, Header, measure, plausible


@dataclass(slots=True)
class Verdict:
    """``layout`` if it is proved. ``wait``: more bytes may change that; it holds as it is where no more will come."""

    layout: Layout | None = None
    wait: bool = False


@lru_cache(maxsize=64)
def undisputed(layouts: tuple[Layout, ...]) -> frozenset[int]:
    """The messages that all layouts read alike where the frame's length is short; such a frame proves nothing."""
    first, *others = layouts
    if any(not _same_header(first, other) for other in others):
        return frozenset()
    return frozenset(
        code
        for code, node in first.messages.items()
        if all(code in other.messages and _same_fields(node, other.messages[code]) for other in others)
    )


def _same_header(a: Layout, b: Layout) -> bool:
    """Whether headers with a short length are the same."""
    return [_short(part) for part in a.frame.parts] == [_short(part) for part in b.frame.parts]


def _short(part: n.Part) -> n.Part:
    if isinstance(part, n.Size) and isinstance(part.wire, n.Escaped):
        return replace(part, wire=replace(part.wire, wide=None, mask_bit=0))
    return part


def _same_fields(a: MessageNode, b: MessageNode) -> bool:
    """Whether a message is laid out the same (masks apart, which no short length announces)."""
    return [(f.name, f.wire) for f in a.fields if f.name != "mask_key"] == [
        (f.name, f.wire) for f in b.fields if f.name != "mask_key"
    ]


def detect(layouts: tuple[Layout, ...], data: Buffer, start: int, end: int) -> Verdict:
    """Return the verdict of the frame at ``start`` of a stream: a pure function of the bytes up to ``end``."""
    return _detect(layouts, data, start, end, alone=False)


def detect_alone(layouts: tuple[Layout, ...], frame: bytes) -> Layout | None:
    """Return the layout that is proved by one frame, given whole, and by whatever stands behind it."""
    return _detect(layouts, frame, 0, len(frame), alone=True).layout


def _detect(layouts: tuple[Layout, ...], data: Buffer, start: int, end: int, alone: bool) -> Verdict:
    headers: list[tuple[Layout, Header]] = []
    waiting: list[Layout] = []
    failed: list[tuple[int, Layout]] = []
    for layout in layouts:
        try:
            headers.append((layout, measure(layout, data, start, end)))
        except Incomplete:
            waiting.append(layout)
        except DecodeError as error:
            failed.append((error.offset or 0, layout))
    if waiting:
        # The header itself is cut off. A layout that already fails is out; one that stands alone is proved.
        return Verdict(None, wait=True) if len(waiting) + len(headers) > 1 else Verdict(waiting[0])
    if not headers:
        # Wrong in all of them: one that reads further than the others was proved before it failed.
        furthest = max(offset for offset, _ in failed)
        reached = [layout for offset, layout in failed if offset == furthest]
        return Verdict(reached[0]) if len(reached) == 1 else Verdict()
    if len(headers) == 1:
        return Verdict(headers[0][0])
    if len({header.length for _, header in headers}) == 1:
        return _same_length(headers, data, start, end)
    return _by_length(layouts, headers, data, start, end, alone)


def _same_length(headers: list[tuple[Layout, Header]], data: Buffer, start: int, end: int) -> Verdict:
    length = headers[0][1].length
    if end - start < length:
        return Verdict(None, wait=True)
    frame = bytes(data[start : start + length])
    outcomes = [(layout, *_outcome(layout, frame)) for layout, _ in headers]
    clean = [layout for layout, is_clean, _ in outcomes if is_clean]
    if len(clean) == 1:
        return Verdict(clean[0])
    knows = [layout for layout, _, rule in outcomes if rule != "leftover_bytes"]
    if len(knows) == 1:
        return Verdict(knows[0])
    return Verdict()


def _by_length(
    layouts: tuple[Layout, ...],
    headers: list[tuple[Layout, Header]],
    data: Buffer,
    start: int,
    end: int,
    alone: bool,
) -> Verdict:
    (small, header), *_, (large, _) = sorted(headers, key=lambda pair: pair[1].length)
    behind = start + header.length
    if end < behind:
        return Verdict(None, wait=True)
    is_clean, rule = _outcome(small, bytes(memoryview(data)[start:behind]))
    if is_clean and not alone:
        return Verdict(small)
    follows = _looks_like_frame(layouts, data, behind, end)
    if is_clean:
        return Verdict(large if follows is False else small)
    if rule != "body" or follows is False:
        return Verdict(large)
    return Verdict(small) if follows else Verdict(large, wait=True)


def _looks_like_frame(layouts: tuple[Layout, ...], data: Buffer, start: int, end: int) -> bool | None:
    """What one of the layouts takes for a frame; None while it cannot be told (also at the very end)."""
    answers = [plausible(layout, data, start, end) for layout in layouts]
    if any(answer is True for answer in answers):
        return True
    return None if any(answer is None for answer in answers) else False


def _outcome(layout: Layout, frame: bytes) -> tuple[bool, str]:
    """Whether the frame parses cleanly, else the rule it breaks (``body`` for anything inside its body)."""
    message = faults_for(layout).judge(frame)
    if isinstance(message, DecodeError):
        return False, "body" if message.body_only else message.rule
    return is_clean(message), ""


def is_clean(message: Any) -> bool:
    """No oddity that real senders never produce: cells without value, with the group bit, or with the same number
    twice.
    """
    for field in message.__wire_fields__:
        if isinstance(field.wire, n.Cells):
            cells = getattr(message, field.name)
            if len({cell.fid for cell in cells}) != len(cells):
                return False
            if any(cell.value is None or cell.group_bit for cell in cells):
                return False
    return True
