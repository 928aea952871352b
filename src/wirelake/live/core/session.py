"""What all sessions have in common."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, TypedDict

from ...errors import LocalProtocolError, RemoteProtocolError
from ...spec.nodes import LifeCycle
from .effects import Cancel, Effect, Result
from .errors import LiveError
from .link import Framing, Link, Side

CLIENT: Side = "client"
SERVER: Side = "server"


@dataclass(frozen=True, slots=True)
class Note:
    """Something worth telling to who runs this: goes to the log. ``level`` is debug, info, warn or error."""

    level: str
    text: str
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answered:
    """The end of what was asked, exactly one for each token: a reply, or an error, which may be one of the reply."""

    token: str
    reply: Any
    error: LiveError | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The connection is gone, or about to be. All that was open has ended with an error before."""

    reason: str


class World(TypedDict, total=False):
    """What a session is given of the world: ``epoch``, which makes its seconds the time of day, and ``chance``."""

    epoch: float
    chance: random.Random | None


class Session:
    """One end: a client with one link, or a server with many.

    ``now`` is always monotonic seconds; ``epoch`` added to it is the time of day. All chance comes from ``chance``.
    After each call the owner looks at ``changed`` (links with something to write, or to be closed), ``effects`` (to be
    carried out), ``events`` (for the application) and ``notes``, and empties them; it calls ``tick`` when ``deadline``
    has come.
    """

    most_effects = 1_000
    """Effects of one link that may be outstanding; then nothing is read from it until half of them have completed."""
    most_effects_in_all = 100_000
    """The same for all links together: then nothing is read from those that want more."""

    def __init__(self, *, epoch: float = 0.0, chance: random.Random | None = None) -> None:
        self.epoch = epoch
        self.chance = chance or random.Random(0)
        self.changed: list[Link] = []
        self.effects: list[Effect] = []
        self.events: list[Any] = []
        self.notes: list[Note] = []
        self.counts: Counter[str] = Counter()
        """For metrics: what happened how often, by name."""
        self.outstanding = 0
        """Effects that have not completed."""
        self.is_deaf: Callable[[], bool] = lambda: False
        """Whether the application of a client lets nothing be read just now: then silence is no sign of death."""
        self._full: dict[Link, None] = {}
        self._links = 0

    @property
    def deadline(self) -> float | None:
        return None

    def new_link(self, framing: Framing, side: Side, peer: str = "") -> Link:
        """Return the link of a connection to come. Sessions number them, because they may call and be called."""
        self._links += 1
        return Link(self._links, framing, self.changed, side, peer, counts=self.counts)

    def connected(self, link: Link, now: float) -> None:
        """A connection is there: made, or accepted, as ``link.side`` says."""
        raise NotImplementedError

    def receive(self, link: Link, data: bytes, now: float) -> None:
        """Bytes of a stream came, cut anywhere."""
        raise NotImplementedError

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        """Whole messages came, of a transport that keeps them apart, and lets none through that is too long."""
        raise NotImplementedError

    def writable(self, link: Link, now: float) -> None:
        """A connection takes more, as ``Link.ask_room`` asked. Sessions that hold something back extend this."""

    def disconnected(self, link: Link, now: float) -> None:
        """A connection is gone, however that came about."""
        raise NotImplementedError

    def tick(self, now: float) -> None:
        """Time has passed."""

    def leaving(self, now: float) -> None:
        """All links are about to be closed: the last chance to say something."""

    def want(self, effect: Effect) -> None:
        """Ask for an effect. ``completed`` is called with it later."""
        self.effects.append(effect)
        if type(effect) is Cancel:
            return
        in_all = self.outstanding = self.outstanding + 1
        link = effect.link
        if link is not None:
            of_link = link.outstanding = link.outstanding + 1
            if of_link >= self.most_effects or in_all >= self.most_effects_in_all:
                self._fill(link, is_full=True)

    def completed(self, effect: Effect, result: Result, now: float) -> None:
        """An effect has ended, one way or the other. Sessions that want effects extend this."""
        self.outstanding -= 1
        link = effect.link
        if link is not None:
            link.outstanding -= 1
        if self._full and self.outstanding <= self.most_effects_in_all // 2:
            for full in list(self._full) if self.outstanding == self.most_effects_in_all // 2 else [link]:
                if full is not None and full.is_full and full.outstanding <= self.most_effects // 2:
                    self._fill(full, is_full=False)

    def _fill(self, link: Link, *, is_full: bool) -> None:
        if link.is_full != is_full:
            link.is_full = is_full
            self.changed.append(link)
            if is_full:
                self._full[link] = None
            else:
                del self._full[link]

    def note(self, level: str, text: str, **fields: Any) -> None:
        self.notes.append(Note(level, text, fields))


class States:
    """Where a conversation is in its declared life cycle, and what each side may send there."""

    __slots__ = ("_cycle", "_tables", "state")

    def __init__(self, cycle: LifeCycle) -> None:
        self._cycle = cycle
        self._tables = {CLIENT: cycle.client, SERVER: cycle.server}
        self.state = cycle.initial

    def may(self, side: Side, message: str) -> bool:
        return message in self._tables[side].get(self.state, ())

    def move(self, side: Side, message: str) -> bool:
        """This side sends this message: goes on to the next state, or stays and says that it is forbidden."""
        to = self._tables[side].get(self.state, {}).get(message)
        if to is None:
            return False
        self.state = to
        return True

    def sends(self, side: Side, message: str, *, is_us: bool) -> None:
        """The same, but what is forbidden is an error."""
        state = self.state
        if not self.move(side, message):
            allowed = ", ".join(sorted(self._tables[side].get(state, ()))) or "nothing"
            kind: Callable[..., Exception] = LocalProtocolError if is_us else RemoteProtocolError
            raise kind(f"a {side} may not send {message} when {state}; it may send {allowed}", rule="state")
