"""One connection of a client that is kept: made, lost, made again after a while, and closed in the end."""

from __future__ import annotations

import asyncio
import copy
import random
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from ..core.errors import ConnectionFailed, ConnectionLost, LiveError
from ..core.log import log
from ..core.session import Session
from .endpoint import Endpoint
from .failures import explain
from .inbox import Flow
from .pipe import Pipe
from .urls import Target

if TYPE_CHECKING:
    from .client import Client

T = TypeVar("T")

EAGER_BYTES = 1 << 16
"""Unsent bytes at which a sender lets others run, so that they are written."""
CLOSE_SECONDS = 2.0


def unpredictable() -> random.Random:
    """Return a source of chance that no peer can guess."""
    return random.Random(secrets.randbits(256))


@dataclass(frozen=True, slots=True)
class Reconnect:
    """When to try again: after ``seconds``, then after twice that and so on up to ``most_seconds``, each longer or
    shorter by a random share of at most ``jitter``. After ``attempts`` failures in a row it is over; 0 is never. With
    ``step`` each wait is so much longer than the one before, not twice as long. A connection that is lost before
    ``settled_seconds`` counts as one more failure.
    """

    seconds: float = 1.0
    most_seconds: float = 30.0
    attempts: int = 0
    jitter: float = 0.2
    step: float = 0.0
    settled_seconds: float = 0.0

    def delay(self, failures: int, chance: random.Random) -> float:
        longer = self.seconds + failures * self.step if self.step else self.seconds * 2.0 ** min(failures, 64)
        steady = min(longer, self.most_seconds)
        return steady * (1 + self.jitter * chance.uniform(-1, 1))


@dataclass(frozen=True, slots=True)
class Dial:
    target: Target
    context: ssl.SSLContext | None
    timeout: float
    reconnect: Reconnect | None


class Connection:
    """The connection of a client, which hears of every loss, and of the end."""

    def __init__(self, dial: Dial, session: Session, client: Client[Any, Any]) -> None:
        self.target, self._context = dial.target, dial.context
        self._timeout, self._reconnect = dial.timeout, dial.reconnect
        self.flow = Flow(lambda: bool(client._open))
        self.generation = 0
        """Counts the connections: what belongs to an earlier one is void."""
        self.error: LiveError | None = None
        self.over = asyncio.Event()
        self.is_closing = False
        self._client = client
        self._loop = asyncio.get_running_loop()
        self._endpoint = Endpoint(
            session,
            client.framing,
            protocol=dial.target.protocol,
            on_events=client._handle,
            on_lost=self._gone,
            on_room=self._room,
        )
        self._pipe: Pipe | None = None
        self._attempt: asyncio.Future[None] | None = None
        self._usable = asyncio.Event()
        self._is_ready = False
        self._returning: asyncio.Task[None] | None = None
        self._will_flush = False
        self._failures = 0
        self._ready_at = self._lasted = 0.0
        """When the connection was there, and how long the last one lasted."""
        self._chance = unpredictable()

    @property
    def is_ready(self) -> bool:
        return self._is_ready and self._pipe is not None and self._pipe.link.closing is None

    async def open(self) -> None:
        """The first attempt. What goes wrong is raised, and it is over."""
        try:
            await self._try()
        except LiveError as error:
            self._finish(error)
            raise
        except BaseException:
            self._finish(ConnectionFailed("opening it was given up"))
            raise

    async def _try(self) -> None:
        """One attempt, up to the point where the session is ready."""
        self._attempt = self._loop.create_future()
        try:
            async with asyncio.timeout(self._timeout):
                if self.target.enter is not None:
                    await self.target.enter(self._make_pipe)
                else:
                    where = (self.target.host, self.target.port)
                    await self._loop.create_connection(self._make_pipe, *where, ssl=self._context)
                await self._attempt
        except LiveError:
            raise
        except TimeoutError:
            raise ConnectionFailed(f"{self.target}: nothing was said within {self._timeout:g} s") from None
        except OSError as error:
            raise ConnectionFailed(f"cannot connect to {self.target}: {explain(error)}") from None
        finally:
            self._attempt.cancel()
            self._attempt = None
            if not self._is_ready:
                self._drop()

    def _make_pipe(self) -> Pipe:
        self.generation += 1
        self._pipe = self._client._pipe(self._endpoint)
        return self._pipe

    def _drop(self) -> None:
        """Cuts off what is there, and hears no more of it."""
        pipe, self._pipe = self._pipe, None
        self._is_ready = False
        self.flow.attach(None)
        if pipe is not None and pipe.transport is not None:
            pipe.transport.abort()

    def ready(self) -> None:
        assert self._pipe is not None
        self._is_ready = True
        self._ready_at = self._loop.time()
        self._usable.set()
        self.flow.attach(self._pipe)
        if self._attempt is not None and not self._attempt.done():
            self._attempt.set_result(None)

    def fail(self, error: LiveError) -> None:
        """The attempt failed for this reason. Once the session was ready it is an error that ends everything."""
        if self._attempt is None:
            self._finish(error)
        elif not self._attempt.done():
            self._attempt.set_exception(error)

    def _room(self, is_there: bool) -> None:
        if not is_there:
            self._usable.clear()
        elif self.is_ready:
            self._usable.set()

    def _gone(self, pipe: Pipe, error: Exception | None) -> None:
        if pipe is not self._pipe:
            return
        closing = pipe.link.closing
        reason = closing.reason if closing is not None else explain(error) if error else "the peer closed it"
        was_ready, self._is_ready = self._is_ready, False
        self._pipe = None
        self._usable.set()  # who waits for room looks again
        self._usable.clear()
        self.flow.attach(None)
        if was_ready:
            self._lasted = self._loop.time() - self._ready_at
            log.info("connection lost", to=str(self.target), reason=reason)
            self._client._lost(reason)
        if self._attempt is not None:
            self.fail(ConnectionFailed(f"{self.target}: the connection ended at once: {reason}"))
        elif self.is_closing or self.error is not None:
            pass
        elif self._reconnect is None:
            self._finish(ConnectionLost(f"the connection to {self.target} is lost: {reason}"))
        else:
            self._returning = self._loop.create_task(self._return(self._reconnect, reason))

    async def _return(self, policy: Reconnect, reason: str) -> None:
        failures = self._failures = self._failures + 1 if self._lasted < policy.settled_seconds else 0
        while not policy.attempts or failures < policy.attempts:
            await asyncio.sleep(policy.delay(failures, self._chance))
            try:
                await self._try()
            except ConnectionFailed as error:
                failures = self._failures = failures + 1
                reason = error.detail
                log.info("no connection yet", to=str(self.target), reason=reason)
            except LiveError as error:
                self._finish(error)
                return
            else:
                log.info("connected again", to=str(self.target))
                return
        self._finish(ConnectionLost(f"the connection to {self.target} is lost, {failures} attempts failed: {reason}"))

    def _finish(self, error: LiveError) -> None:
        if self.error is None:
            self.error = error
            self.over.set()
            self._usable.set()
            self._drop()
            self._client._over(error)

    async def usable(self) -> None:
        """Waits while the connection is full or away; away at most as long as the time-out says."""
        while self.error is not None or not self._usable.is_set() or not self.is_ready:
            if self.error is not None:
                raise copy.copy(self.error)
            if not self.is_ready:
                self._usable.clear()
            try:
                async with asyncio.timeout(None if self.is_ready else self._timeout):
                    await self._usable.wait()
            except TimeoutError:
                raise ConnectionLost(f"no connection to {self.target} for {self._timeout:g} s") from None

    def has_room(self) -> bool:
        """Whether more can be written; writes what there is if it is much. One that is away has room: for nothing."""
        self._flush_much()
        return self._usable.is_set() or not self.is_ready

    async def drained(self) -> None:
        """Waits while the connection is full, but not while it is away."""
        while not self.has_room():
            await self._usable.wait()

    def do(self, call: Callable[[float], T]) -> T:
        """Calls the session; what it wants to be written is written with all that is done before others run."""
        result = call(self._loop.time())
        if not self._will_flush:
            self._will_flush = True
            self._loop.call_soon(self._flush)
        return result

    async def send(self, call: Callable[[float], Any]) -> None:
        """Call the session once the connection is usable; let others run if much is to be written."""
        await self.usable()
        self.do(call)
        if self._flush_much():
            await asyncio.sleep(0)

    def _flush_much(self) -> bool:
        is_much = self._pipe is not None and self._pipe.link.unsent >= EAGER_BYTES
        if is_much:
            self._flush()
        return is_much

    def _flush(self) -> None:
        self._will_flush = False
        self._endpoint.settle()

    async def close(self) -> None:
        self.is_closing = True
        self.flow.open()
        if self._returning is not None:
            self._returning.cancel()
            await asyncio.wait([self._returning])
        await self._endpoint.close(CLOSE_SECONDS)
        self._finish(ConnectionLost("the client is closed"))
