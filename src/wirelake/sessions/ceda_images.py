"""Images: the last state of each topic, for those who subscribe later. Cached messages are laid over each other, field
by field.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from .ceda_data import Blob, Data
from .ceda_records import raw_cells
from .ceda_wire import CEDA4_WS, MAX_PAYLOAD, PUBLISH

_ROOM = MAX_PAYLOAD[CEDA4_WS] - 2
_OVERHEAD = 256
"""What a topic costs beside its bytes, roughly."""


class Image(msgspec.Struct):
    cells: dict[int, bytes]
    blob: Blob | None = None
    size: int = 0


class Images:
    """One image for each topic, at most ``most`` of them, in at most ``most_bytes``; what does not fit is counted."""

    def __init__(self, most: int, most_bytes: int, counts: Counter[str]) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._counts = counts
        self._images: dict[str, Image] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._images)

    def __iter__(self) -> Iterator[str]:
        return iter(self._images)

    def keep(self, message: Data) -> None:
        if message.is_bad:
            return
        topic = message.topic
        before = self._images.get(topic)
        image = _merged(before, message)
        room = _ROOM - len(topic.encode())
        if sum(map(len, image.cells.values())) > room:
            self._counts["images_restarted"] += 1
            image = _merged(None, message)
        image.size = _OVERHEAD + len(topic) + sum(map(len, image.cells.values()))
        image.size += len(image.blob.data) if image.blob is not None else 0
        held = self._bytes + image.size - (before.size if before is not None else 0)
        if held > self._most_bytes or (before is None and len(self._images) >= self._most):
            self._counts["images_refused"] += 1
            return
        self._bytes = held
        self._images[topic] = image

    def message(self, topic: str) -> Data:
        """The image of a topic as a publish."""
        image = self._images[topic]
        return Data(PUBLISH, topic, b"".join(image.cells.values()), blob=image.blob)


def _merged(before: Image | None, message: Data) -> Image:
    cells = dict(raw_cells(message.body))
    blob = message.blob
    if before is not None:
        if blob is None and before.blob is not None and before.blob.position not in cells:
            blob = before.blob
        cells = before.cells | cells
    if blob is not None:
        cells.pop(blob.position, None)
    return Image(cells, blob)
