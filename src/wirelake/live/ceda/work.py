"""Work that takes long, cut into slices, so that nobody waits for it but who causes it.

A job is a generator that says now and then how much work it has done, in nodes of the tree of patterns, about half a
microsecond each. Most jobs end within their first slice. The others take turns; a connection that causes more work than
its share has to pause afterwards, during which nothing is read from it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from ..core.timers import Timers
from .connection import Connection

FREE = 64
"""What a message may cost without being counted."""
PER_SECOND, MOST_CREDIT = 200_000, 1_000_000
"""What a connection may cause per second, and at once after a while."""
AT_ONCE = 3_000
"""What may be done before others have their turn: about two milliseconds."""
WINDOW_SECONDS = 0.002


class Work:
    """The jobs of all connections. ``go_on`` is called with a connection that has waited for its job."""

    def __init__(self, go_on: Callable[[Connection, float], None]) -> None:
        self._go_on = go_on
        self._busy: deque[Connection] = deque()
        self._chores: deque[Iterator[int]] = deque()
        self._pauses: Timers[Connection] = Timers()
        self._spent, self._until = 0, 0.0

    @property
    def deadline(self) -> float | None:
        return 0.0 if self._busy or self._chores else self._pauses.deadline

    def later(self, chore: Iterator[int]) -> None:
        """Do something that nobody waits for; it has begun when this returns."""
        if next(chore, None) is not None:
            self._chores.append(chore)

    def begin(self, connection: Connection, job: Iterator[int], now: float) -> None:
        """Do a job: now if that is quick, else in turns with others, while the connection waits."""
        if now >= self._until:
            self._spent, self._until = 0, now + WINDOW_SECONDS
        total = 0
        for cost in job:
            total += cost
            if total > FREE and self._spent + total > AT_ONCE:
                self._spent += total
                connection.job = job
                connection.wait()
                self._busy.append(connection)
                self._charge(connection, total, now)
                return
        self._spent += total
        if total > FREE:
            self._charge(connection, total - FREE, now)
            self._pause(connection, now)

    def tick(self, now: float) -> None:
        self._spent, self._until = 0, now + WINDOW_SECONDS
        for connection in self._pauses.due(now):
            self._go_on(connection, now)
        while self._chores and self._spent < AT_ONCE // 2:
            cost = next(self._chores[0], None)
            self._spent += cost or 0
            if cost is None:
                self._chores.popleft()
        while self._busy and self._spent < AT_ONCE:
            self._turn(self._busy.popleft(), now)

    def _turn(self, connection: Connection, now: float) -> None:
        """The next slice of somebody's job."""
        if connection.job is None:
            return
        cost = next(connection.job, None)
        if cost is not None:
            self._spent += cost
            self._charge(connection, cost, now)
            self._busy.append(connection)
            return
        connection.job = None
        if not self._pause(connection, now):
            self._go_on(connection, now)

    def drop(self, connection: Connection) -> None:
        """Give up on the job of a connection that is gone, unless it is nearly done."""
        self._pauses.drop(connection)
        spent = 0
        for cost in connection.job or ():
            spent += cost
            if spent > AT_ONCE:
                break
        connection.job = None

    def _charge(self, connection: Connection, cost: int, now: float) -> None:
        gained = (now - connection.credit_at) * PER_SECOND if connection.credit_at else MOST_CREDIT
        connection.credit = min(connection.credit + gained, MOST_CREDIT) - cost
        connection.credit_at = now or 1e-9

    def _pause(self, connection: Connection, now: float) -> bool:
        if connection.credit >= 0:
            return False
        connection.wait()
        self._pauses.set(connection, now - connection.credit / PER_SECOND)
        return True
