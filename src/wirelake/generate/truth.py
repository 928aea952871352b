"""What really happened in generated traffic: what tables made from it are checked against."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from .corruption import Corruption

Direction = Literal["to_server", "to_client"]
Outcome = Literal["ok", "error", "timeout", "unanswered", "no_reply_wanted"]
TransactionOutcome = Literal["committed", "rolled_back", "read_only", "in_doubt", "open"]


def opposite(direction: Direction) -> Direction:
    return "to_client" if direction == "to_server" else "to_server"


@dataclass(slots=True)
class Exchange:
    """A request and what became of it. ``request`` and ``reply`` are numbers of events, counted over the whole traffic.

    ``timeout``: the requester's own limit passed first (a reply may still have come, late). ``unanswered``: the
    connection or the traffic ended before. ``no_reply_wanted``: nobody waits for a reply, and none came. ``replies``
    counts all replies, where a request has a stream of them; ``reply`` is the first. A reply in pages is one, and comes
    with its last page.
    """

    protocol: str
    connection: int
    direction: Direction
    message: str
    address: str
    correlation: str
    request: int
    request_us: int
    limit_us: int = 0
    reply: int | None = None
    reply_us: int | None = None
    reply_message: str = ""
    replies: int = 0
    outcome: Outcome = "unanswered"
    status: Any = None
    other_leg: int | None = None
    """Number of the request that a broker made of this one, or of which it made this one."""

    @property
    def latency_us(self) -> int | None:
        """Time to the first reply."""
        return None if self.reply_us is None else self.reply_us - self.request_us


@dataclass(slots=True)
class Branch:
    """The part of a transaction that one peer has. Numbers are XA return codes; None: no such reply came."""

    connection: int
    bqual: bytes
    calls: int = 0
    vote: int | None = None
    prepare_sent: bool = False
    decision: Literal["commit", "rollback", ""] = ""
    one_phase: bool = False
    result: int | None = None


@dataclass(slots=True)
class Transaction:
    """One global transaction and its branches."""

    format: int
    gtrid: bytes
    begun_us: int
    branches: list[Branch] = field(default_factory=list)
    ended_us: int | None = None

    @property
    def outcome(self) -> TransactionOutcome:
        """``in_doubt``: a branch was prepared and its end was not seen. ``open``: not prepared, and no end seen."""
        outcomes = {_outcome(branch) for branch in self.branches}
        worst_first: tuple[TransactionOutcome, ...] = ("in_doubt", "open", "rolled_back", "committed")
        return next((outcome for outcome in worst_first if outcome in outcomes), "read_only")


XA_OK, XA_RDONLY = 0, 3
_ROLLED_BACK = range(100, 108)


def _outcome(branch: Branch) -> TransactionOutcome:
    if branch.vote == XA_RDONLY or (branch.one_phase and branch.result == XA_RDONLY):
        return "read_only"
    if branch.vote in _ROLLED_BACK or (branch.one_phase and branch.result in _ROLLED_BACK):
        return "rolled_back"
    if branch.decision and branch.result == XA_OK:
        return "committed" if branch.decision == "commit" else "rolled_back"
    prepared = branch.vote == XA_OK or (branch.decision == "commit" and branch.result is None)
    return "in_doubt" if prepared else "open"


@dataclass(slots=True)
class Session:
    """One connection: its peers, times and counts, and the facts that the peers state about themselves."""

    connection: int
    protocol: str
    client: tuple[str, int]
    server: tuple[str, int]
    opened_us: int
    closed_us: int | None = None
    ended: Literal["closed", "reset", ""] = ""
    messages_to_server: int = 0
    messages_to_client: int = 0
    bytes_to_server: int = 0
    bytes_to_client: int = 0
    facts: dict[str, Any] = field(default_factory=dict)


Rule = Literal["state", "unexpected_reply", "duplicate_request", "duplicate_reply", "page_order", "group_order"]


@dataclass(frozen=True, slots=True)
class Violation:
    """A valid message out of sequence: the message of an event that breaks a rule of its protocol. Rules, by name:

    - ``state``: the declared life-cycle table does not allow this message from this side in the present state, which
      then stays as it is. Such a message is not judged by the other rules; a request may still get a reply.
    - ``unexpected_reply``: a reply, and the other side has sent no request with its correlation on this connection
      (dsa: its request id with its method), not even one that has ended since. Not in mb: replies without an id, and
      error replies to a client, for which a broker may have made up the id.
    - ``duplicate_reply``: a reply, and all requests with its correlation have got their last reply. Where a request
      has a stream of replies (dsa), that is the one with a closing status; what is under way when the requester closes
      is no breach.
    - ``duplicate_request`` (casual): a request, and one with the same correlation and direction has no reply yet.
    - ``page_order`` (dsa): a page that is not the next one of an open group of its stream, or that begins a group while
      another is unfinished. Pages that follow a breach are ignored until a group begins.
    - ``group_order`` (ceda): the same of the pieces of a split message, by the key of its group.
    """

    protocol: str
    connection: int
    direction: Direction
    event: int
    rule: Rule
    ts_us: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class Missing:
    """Bytes of a stream that were sent and are not in the capture."""

    connection: int
    direction: Direction
    offset: int
    length: int


@dataclass(slots=True)
class Truth:
    exchanges: list[Exchange] = field(default_factory=list)
    transactions: list[Transaction] = field(default_factory=list)
    sessions: list[Session] = field(default_factory=list)
    corruptions: dict[int, Corruption] = field(default_factory=dict)
    """By number of the event."""
    violations: list[Violation] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    """Filled where a capture is written: only there it shows what gets lost."""
