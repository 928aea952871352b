"""What a page must not show of bytes that are no message: a damaged login still has its password in it.

Tables leave such cells out of messages; of a bad range they keep every byte. Where a secret begins is told by the head
of its cell. In a message that has one, and in which no such head is found, everything behind its type may be it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache

from ..codec.annotate import Annotated
from ..spec.nodes import Cells
from ..spec.resolve import Layout


def has_secrets(layout: Layout) -> bool:
    """Whether messages of a protocol have anything that only the server should read."""
    return any(node.secret_cells for node in layout.messages.values())


def secret_at(layouts: Sequence[Layout], data: bytes, looks: Iterable[Annotated]) -> int | None:
    """The first byte of a range to the server that must not be shown; None if all may be."""
    names, heads = _secrets(tuple(layouts))
    places = [place for head in heads if (place := data.find(head)) >= 0]
    if places:
        return min(places)
    ends = [seen.offset + seen.length for looked in looks for seen in looked.seen if seen.what in names]
    return min(ends, default=None)


@lru_cache(maxsize=64)
def _secrets(layouts: tuple[Layout, ...]) -> tuple[frozenset[str], frozenset[bytes]]:
    """The messages that have secrets, and the heads of the cells that are."""
    guarded = [node for layout in layouts for node in layout.messages.values() if node.secret_cells]
    heads = {
        (cell << wire.id_shift | low).to_bytes(wire.head.size, "little" if wire.head.little else "big")
        for node in guarded
        for wire in (field.wire for field in node.fields)
        if isinstance(wire, Cells)
        for cell in node.secret_cells
        for low in range(1 << wire.id_shift)
    }
    return frozenset(node.name for node in guarded), frozenset(heads)
