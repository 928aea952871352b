"""What a CEDA server knows of one connection."""

from __future__ import annotations

from collections import Counter

from ...protocols.ceda import PROTOCOL
from ...spec.nodes import LifeCycle
from ..core.link import Link
from ..core.session import States
from .groups import Merger
from .options import CedaOptions
from .wire import Reader

assert PROTOCOL.life_cycle is not None
LIFE_CYCLE: LifeCycle = PROTOCOL.life_cycle
READY = LIFE_CYCLE.server["login_sent"]["login"]
"""The state behind a good login."""


class Connection:
    """One client of a server. ``served`` tells when it was last given a request, in turns."""

    __slots__ = (
        "client_id", "due", "has_joined", "heard", "is_ready", "link", "merger", "noted", "number", "patterns",
        "pinged", "reader", "served", "spoke", "states", "user",
    )  # fmt: skip

    def __init__(self, number: int, link: Link, now: float, options: CedaOptions, counts: Counter[str]) -> None:
        self.number = number
        self.link = link
        self.reader = Reader(link, options.reads)
        self.merger = Merger(options.limits.groups, counts)
        self.states = States(LIFE_CYCLE)
        self.is_ready = False
        """Logged in, and not about to log in again."""
        self.has_joined = False
        """The application knows that it is logged in."""
        self.user = ""
        self.client_id = ""
        self.heard = self.spoke = self.pinged = now
        self.due = float("inf")
        self.served = 0
        self.patterns = 0
        """Wildcard subscriptions."""
        self.noted: set[str] = set()

    def __repr__(self) -> str:
        return f"<connection {self.number} of {self.user or 'nobody'}>"

    @property
    def is_closing(self) -> bool:
        return self.link.closing is not None

    def settle(self) -> None:
        """To be called where the state may have changed."""
        self.is_ready = self.states.state == READY
