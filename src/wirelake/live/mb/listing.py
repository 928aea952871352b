"""All subscriptions as JSON, ready to be sent. There may be many, and anybody may ask for them at any time: so each
topic has its own piece, pieces stand in blocks, and only what has changed since is made anew.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection
from dataclasses import dataclass

from .connection import Service
from .wire import REQUEST

FEW = 16
"""Pieces of so few subscribers are made at once; others when the list is asked for."""
BLOCK = 512
"""Pieces of a block; at most twice as many."""
Subscribers = Collection[tuple[Service, float]]
"""With their priorities."""


@dataclass(slots=True)
class Block:
    """Keys in order; ``text`` is what is sent for them, empty if it has to be made."""

    keys: list[str]
    text: bytes = b""


class Listing:
    """By topic, then action: that is how a key begins."""

    def __init__(self) -> None:
        self._pieces: dict[str, str] = {}
        self._blocks: list[Block] = []
        self._size = 0
        self._stale: dict[str, tuple[str, str, Subscribers]] = {}

    def change(self, action: str, topic: str, subscribers: Subscribers) -> None:
        key = f"{topic}\0{action}"
        if len(subscribers) > FEW:
            self._stale[key] = (action, topic, subscribers)
            return
        self._stale.pop(key, None)
        if subscribers:
            self._put(key, action, topic, subscribers)
        elif key in self._pieces:
            self._size -= len(self._pieces.pop(key))
            at = self._place(key)
            block = self._blocks[at]
            block.text = b""
            del block.keys[bisect_left(block.keys, key)]
            if not block.keys:
                del self._blocks[at]

    def size(self) -> int:
        for key, changed in self._stale.items():
            self._put(key, *changed)
        self._stale.clear()
        return self._size + len(self._pieces)

    def texts(self) -> list[bytes]:
        """The list in parts, to be joined by commas."""
        self.size()
        for block in self._blocks:
            block.text = block.text or ",".join([self._pieces[key] for key in block.keys]).encode()
        return [block.text for block in self._blocks]

    def _put(self, key: str, action: str, topic: str, subscribers: Subscribers) -> None:
        if action == REQUEST:
            ranked = sorted(subscribers, key=lambda item: -item[1])
            listed = ",".join([f'{{"serviceId":"{one.id}","priority":{priority!r}}}' for one, priority in ranked])
        else:
            listed = ",".join([f'{{"serviceId":"{one.id}"}}' for one, _ in subscribers])
        piece = f'{{"action":"{action}","topic":"{topic}","subscribers":[{listed}]}}'
        self._size += len(piece) - len(self._pieces.get(key, ""))
        if key not in self._pieces:
            self._insert(key)
        self._pieces[key] = piece
        self._blocks[self._place(key)].text = b""

    def _insert(self, key: str) -> None:
        if not self._blocks:
            self._blocks.append(Block([]))
        at = min(self._place(key), len(self._blocks) - 1) if self._pieces else 0
        keys = self._blocks[at].keys
        insort(keys, key)
        if len(keys) > 2 * BLOCK:
            self._blocks[at : at + 1] = [Block(keys[:BLOCK]), Block(keys[BLOCK:])]

    def _place(self, key: str) -> int:
        """The block that has the key, or would have it."""
        return bisect_left(self._blocks, key, key=lambda block: block.keys[-1])
