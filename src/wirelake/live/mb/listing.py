"""All subscriptions as JSON. There may be many, and anybody may ask for them at any time: so each topic has its own
piece, which is made when its subscriptions change, and a list only joins them.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection

from .connection import Service
from .wire import REQUEST

FEW = 16
"""Pieces of so few subscribers are made at once; others when the list is asked for."""
Subscribers = Collection[tuple[Service, float]]
"""With their priorities."""


class Listing:
    """By topic, then action: that is how a key begins."""

    def __init__(self) -> None:
        self._pieces: dict[str, str] = {}
        self._keys: list[str] = []
        """Of the pieces, in order."""
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
            del self._keys[bisect_left(self._keys, key)]

    def size(self) -> int:
        for key, changed in self._stale.items():
            self._put(key, *changed)
        self._stale.clear()
        return self._size + len(self._pieces)

    def text(self) -> bytes:
        """The list without its brackets."""
        self.size()
        return ",".join([self._pieces[key] for key in self._keys]).encode()

    def _put(self, key: str, action: str, topic: str, subscribers: Subscribers) -> None:
        if action == REQUEST:
            ranked = sorted(subscribers, key=lambda item: -item[1])
            listed = ",".join([f'{{"serviceId":"{one.id}","priority":{priority!r}}}' for one, priority in ranked])
        else:
            listed = ",".join([f'{{"serviceId":"{one.id}"}}' for one, _ in subscribers])
        piece = f'{{"action":"{action}","topic":"{topic}","subscribers":[{listed}]}}'
        self._size += len(piece) - len(self._pieces.get(key, ""))
        if key not in self._pieces:
            insort(self._keys, key)
        self._pieces[key] = piece
