"""What a CEDA server knows of one connection."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ...protocols.ceda import PROTOCOL
from ...spec.nodes import LifeCycle
from ..core.link import Link
from ..core.session import States
from .groups import Merger, Pool
from .options import CedaOptions
from .wire import Reader

if TYPE_CHECKING:
    from .events import LoginAttempt

assert PROTOCOL.life_cycle is not None
LIFE_CYCLE: LifeCycle = PROTOCOL.life_cycle
READY = LIFE_CYCLE.server["login_sent"]["login"]
"""The state behind a good login."""


class Connection:
    """One client of a server. ``served`` tells when it was last given a request, in turns."""

    __slots__ = (
        "attempt", "backlog", "client_id", "credit", "credit_at", "due", "failures", "has_joined", "heard", "held",
        "image_requests", "is_ready", "is_waiting", "job", "link", "login_until", "merger", "noted", "number",
        "patterns", "pinged", "reader", "refusal", "served", "spoke", "states", "tag", "user",
    )  # fmt: skip

    def __init__(
        self, number: int, link: Link, now: float, options: CedaOptions, counts: Counter[str], pool: Pool | None = None
    ) -> None:
        self.number = number
        self.tag = number.to_bytes(3, "little")
        """The number as it is written."""
        self.link = link
        self.reader = Reader(link, options.reads)
        self.merger = Merger(options.limits.groups, counts, pool)
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
        self.image_requests: dict[str, tuple[str, ...]] = {}
        """Topics of image requests that nobody has replied to, by reply topic."""
        self.is_waiting = False
        """Whether a login, work or a pause has to end before more is handled."""
        self.backlog: deque[bytes] = deque()
        """Payloads that came meanwhile."""
        self.held = 0
        """Their bytes."""
        self.attempt: LoginAttempt | None = None
        """The login that is not decided."""
        self.refusal = ""
        """What it will be told when the delay of a refusal is over."""
        self.failures = 0
        self.login_until = 0.0
        self.job: Iterator[int] | None = None
        self.credit = self.credit_at = 0.0
        """Work that it may still cause, and when that was counted."""

    def __repr__(self) -> str:
        return f"<connection {self.number} of {self.user or 'nobody'}>"

    @property
    def is_closing(self) -> bool:
        return self.link.closing is not None

    def settle(self) -> None:
        """To be called where the state may have changed."""
        self.is_ready = self.states.state == READY

    def wait(self) -> None:
        """Handle nothing more of it, and read nothing more, for the time being."""
        if not self.is_waiting:
            self.is_waiting = True
            self.link.pause()

    def hold(self, payloads: Iterable[bytes]) -> int:
        """Keep what came meanwhile; return how many bytes that makes."""
        for payload in payloads:
            self.backlog.append(payload)
            self.held += len(payload)
        return self.held

    def go_on(self) -> None:
        """Handle more of it again, first what was kept."""
        self.is_waiting = False
        self.link.resume()

    def kept(self) -> Iterator[bytes]:
        """Take out what was kept, one payload after the other."""
        while self.backlog:
            payload = self.backlog.popleft()
            self.held -= len(payload)
            yield payload

    def free(self) -> None:
        """Give back what it holds: it is gone."""
        self.merger.clear()
        self.reader.clear()
        self.backlog.clear()
        self.held, self.job, self.attempt = 0, None, None
        self.image_requests.clear()
        self.link.state = None
