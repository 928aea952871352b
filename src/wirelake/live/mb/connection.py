"""What a broker knows about each connection, which is a service from the moment it is accepted."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...codec.quick_frames import QuickFrames
from ..core.link import Link
from .wire import PUBLISH, REQUEST, TO_BROKER


@dataclass(slots=True, eq=False)
class Service:
    id: str
    link: Link
    connected_at: float
    heard: float
    """When the last message came whose header was good."""
    asked_at: float = -1.0
    """When it was last asked for a sign of life."""
    name: str = ""
    description: str = ""
    frames: QuickFrames = field(default_factory=lambda: QuickFrames(TO_BROKER))
    topics: dict[str, dict[str, float]] = field(default_factory=lambda: {PUBLISH: {}, REQUEST: {}})
    """Its subscriptions: topics, with their priorities."""
    errors: int = 0

    @property
    def is_here(self) -> bool:
        return self.link.state is self
