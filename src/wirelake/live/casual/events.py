"""What a casual domain tells its application: how its requests ended, and who is connected."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ...protocols.casual import Dequeued, OfferedQueue, OfferedService
from .wire import EMPTY_BUFFER, Buffer

Token = int


@dataclass(frozen=True, slots=True)
class PeerReady:
    """A peer that serves us may be called. ``name`` is what its domain calls itself."""

    peer: str
    name: str


@dataclass(frozen=True, slots=True)
class PeerLost:
    """The connection to a peer is lost, or could not be made."""

    peer: str
    reason: str
    is_refused: bool = False
    """Whether the peer refused our protocol version."""


@dataclass(frozen=True, slots=True)
class CallEnded:
    """``status`` is an XATMI code; the buffer is that of OK and of TPESVCFAIL."""

    token: Token
    status: int
    code: int = 0
    buffer: Buffer = EMPTY_BUFFER


@dataclass(frozen=True, slots=True)
class EnqueueEnded:
    """``id`` is nil if the message is not enqueued, or if nobody knows: then ``is_lost``."""

    token: Token
    id: bytes
    is_lost: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class DequeueEnded:
    token: Token
    messages: tuple[Dequeued, ...]
    is_lost: bool = False


@dataclass(frozen=True, slots=True)
class Discovered:
    """What peers offer of what was asked, by peer; hops count from here."""

    token: Token
    services: tuple[tuple[str, OfferedService], ...]
    queues: tuple[tuple[str, OfferedQueue], ...]


Outcome = Literal["committed", "rolled_back", "unknown"]


@dataclass(frozen=True, slots=True)
class TransactionEnded:
    """``codes`` are the XA codes of peers that did something else (heuristic), or have not replied yet. ``reason``
    says why it was rolled back. ``token`` is that of the application, if it is its transaction.
    """

    outcome: Outcome
    codes: dict[str, int] = field(default_factory=dict)
    reason: str = ""
    token: Token = 0


@dataclass(frozen=True, slots=True)
class ConversationOpened:
    """``status`` is an XATMI code: 0, or why there is no conversation."""

    token: Token
    status: int


@dataclass(frozen=True, slots=True)
class ConversationHeard:
    """The other end sent something. ``has_control``: we may send now."""

    token: Token
    buffer: Buffer
    has_control: bool


@dataclass(frozen=True, slots=True)
class ConversationEnded:
    """It is over; ``status`` is an XATMI code, the buffer the last one of the service."""

    token: Token
    status: int
    code: int = 0
    buffer: Buffer = EMPTY_BUFFER
