"""What a broker knows about each connection, which is a service from the moment it is accepted."""

from __future__ import annotations

from ...codec.quick_frames import QuickFrames
from ..core.link import Link
from .wire import PUBLISH, REQUEST, TO_BROKER


class Service:
    """One connection."""

    __slots__ = (
        "asked_at", "connected_at", "description", "errors", "frames", "heard", "id", "link", "listed", "name",
        "second", "spent", "topics",
    )  # fmt: skip

    def __init__(self, id: str, link: Link, now: float) -> None:
        self.id = id
        self.link = link
        self.name = ""
        self.description = ""
        self.connected_at = now
        self.heard = now
        """When the last message came whose header was good."""
        self.asked_at = -1.0
        """When it was last asked for a sign of life."""
        self.frames = QuickFrames(TO_BROKER)
        self.topics: dict[str, dict[str, float]] = {PUBLISH: {}, REQUEST: {}}
        """Its subscriptions: topics, with their priorities."""
        self.errors = 0
        self.second = -1
        self.spent = 0
        """Messages in this second, where that is limited."""
        self.listed = 0
        """Bytes of listings in this second."""

    @property
    def is_here(self) -> bool:
        return self.link.state is self

    def begin(self, second: int) -> None:
        """What is limited for each second begins anew with it."""
        if second != self.second:
            self.second = second
            self.spent = self.listed = 0
