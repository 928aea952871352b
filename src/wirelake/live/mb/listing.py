"""All subscriptions as JSON, ready to be sent. There may be many, and anybody may ask for them at any time: so each
topic has its own piece, which is made anew only when it changes.
"""

from __future__ import annotations

from .connection import Service
from .wire import REQUEST

FEW = 16
"""Pieces of so few subscribers are made at once; others when the list is asked for."""
Subscribers = dict[Service, float]


class Listing:
    """Pieces are kept by topic and action, in the order of the list."""

    def __init__(self) -> None:
        self._pieces: dict[str, str] = {}
        self._size = 0
        self._is_sorted = True
        self._stale: dict[str, tuple[str, str, Subscribers]] = {}
        self._whole: bytes | None = None

    def change(self, action: str, topic: str, subscribers: Subscribers) -> None:
        key = f"{topic}\0{action}"
        self._whole = None
        if not subscribers:
            self._size -= len(self._pieces.pop(key, ""))
            self._stale.pop(key, None)
        elif len(subscribers) <= FEW:
            self._stale.pop(key, None)
            self._put(key, action, topic, subscribers)
        else:
            self._stale[key] = (action, topic, subscribers)

    def size(self) -> int:
        for key, changed in self._stale.items():
            self._put(key, *changed)
        self._stale.clear()
        return self._size + len(self._pieces)

    def whole(self) -> bytes:
        """By topic, then action."""
        if self._whole is None:
            self.size()
            if not self._is_sorted:
                self._pieces = {key: self._pieces[key] for key in sorted(self._pieces)}
                self._is_sorted = True
            self._whole = f"[{','.join(self._pieces.values())}]".encode()
        return self._whole

    def _put(self, key: str, action: str, topic: str, subscribers: Subscribers) -> None:
        if action == REQUEST:
            ranked = sorted(subscribers.items(), key=lambda item: -item[1])
            listed = ",".join([f'{{"serviceId":"{one.id}","priority":{priority!r}}}' for one, priority in ranked])
        else:
            listed = ",".join([f'{{"serviceId":"{one.id}"}}' for one in subscribers])
        piece = f'{{"action":"{action}","topic":"{topic}","subscribers":[{listed}]}}'
        before = self._pieces.get(key)
        if before is None:
            self._is_sorted = False
        else:
            self._size -= len(before)
        self._size += len(piece)
        self._pieces[key] = piece
