"""What CEDA sessions know of a connection: both sides read it in the same way, a server has to know more."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from ...errors import DecodeError
from ...protocols.ceda import PROTOCOL, UNASSIGNED
from ...spec.nodes import LifeCycle
from ..core.link import Link
from ..core.session import Session, States
from .data import BadMessage, Message, is_record, read_data
from .groups import Merger, Pool
from .options import CedaOptions
from .wire import Reader, decode_payload, is_stream

if TYPE_CHECKING:
    from .logins import LoginAttempt

assert PROTOCOL.life_cycle is not None
LIFE_CYCLE: LifeCycle = PROTOCOL.life_cycle
READY = LIFE_CYCLE.server["login_sent"]["login"]
"""The state behind a good login."""


@dataclass(slots=True, eq=False, repr=False)
class Conversation:
    """One connection, as either side sees it. ``pool`` bounds what the pieces of all connections take."""

    session: Session
    link: Link
    options: CedaOptions
    pool: Pool = field(default_factory=Pool)
    number: int = UNASSIGNED
    reader: Reader = field(init=False)
    merger: Merger = field(init=False)
    states: States = field(init=False)
    noted: set[str] = field(default_factory=set)
    """What was logged once already."""

    def __post_init__(self) -> None:
        if is_stream(self.link.framing):
            self.link.framing = self.options.framing
        self.reader = Reader(self.link, self.options.reads)
        self.merger = Merger(self.options.limits.groups, self.session.counts, self.pool)
        self.states = States(LIFE_CYCLE)

    def payloads(self, bodies: Iterable[bytes]) -> list[bytes]:
        """The payloads of a transport that keeps messages apart."""
        batch = list(bodies)
        self.session.counts["message_errors"] += batch.count(b"")
        return [body for body in batch if body]

    def read(self, payload: bytes) -> Message | None:
        """The data message in a payload, whose record is not looked at; None if it cannot be read."""
        try:
            return read_data(payload, self.reader.reading, self.options.charset, self.options.errors)
        except BadMessage:
            self.bad("message", payload)
            return None

    def decode(self, payload: bytes) -> Any:
        """The message in a payload, by the record codec; DecodeError says what is wrong with it."""
        return decode_payload(payload, self.reader.reading, self.options.charset, self.options.errors)

    def checked(self, message: Message, payload: bytes) -> Message:
        """The same message, marked if its record cannot be read."""
        if is_record(message.body, 0, self.options.charset, self.options.errors):
            return message
        self.bad("record", payload)
        return replace(message, is_bad=True)

    def bad(self, scope: str, payload: bytes) -> None:
        """Count what cannot be read, and note once why."""
        self.session.counts[f"{scope}_errors"] += 1
        if scope not in self.noted:
            self.noted.add(scope)
            rule = ""
            try:
                self.decode(payload)
            except DecodeError as error:
                rule = error.rule
            text = f"a {scope} that cannot be read"
            self.session.note("warn", text, connection=self.number, rule=rule, type=payload[0])


@dataclass(slots=True, eq=False, repr=False)
class Connection(Conversation):
    tag: bytes = b""
    """The number as it is written."""
    is_ready: bool = False
    """Logged in, and not about to log in again."""
    user: str = ""
    client_id: str = ""
    heard: float = 0.0
    spoke: float = 0.0
    pinged: float = 0.0
    due: float = inf
    served: int = 0
    """When it was last given a request, in turns."""
    patterns: int = 0
    """Wildcard subscriptions."""
    image_requests: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Topics of image requests that nobody has replied to, by reply topic."""
    is_waiting: bool = False
    """Whether a login, work or a pause has to end before more is handled."""
    backlog: deque[bytes] = field(default_factory=deque)
    """Payloads that came meanwhile."""
    held: int = 0
    """Their bytes."""
    attempt: LoginAttempt | None = None
    """The login that is not decided."""
    refusal: str = ""
    """What it will be told when the delay of a refusal is over."""
    failures: int = 0
    login_until: float = 0.0
    job: Iterator[int] | None = None
    credit: float = 0.0
    """Work that it may still cause."""
    credit_at: float = 0.0
    """When that was counted."""

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
