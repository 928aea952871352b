"""A domain as programs use it: calls, queues, discovery and transactions that can be awaited, or used from threads."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from ....protocols.casual import Dequeued
from ...core.errors import AnswerError, ConnectionLost, LiveError, RequestTimeout
from ...core.session import Session
from .. import events
from ..errors import InDoubt, NotEnqueued, RolledBack, ServiceFailed, status_name
from ..handlers import MODES, Invocation, Reply, current
from ..store import NIL, QueueMessage
from ..values import to_buffer, to_value
from ..wire import HEURISTIC, OK, TPESVCFAIL, TPETIME, Buffer
from .talk import ConversationEnd, Talk

if TYPE_CHECKING:
    from ...drive.endpoint import Endpoint
    from ..branches import Branch
    from ..session import CasualSession

T = TypeVar("T")
JOIN: Any = object()
"""The transaction in which the caller runs, if there is one."""
_running: contextvars.ContextVar[Transaction | None] = contextvars.ContextVar("casual_transaction", default=None)


@dataclass(frozen=True, slots=True)
class Message:
    """A dequeued message. ``redelivered``: how often a dequeue of it was rolled back."""

    id: str
    value: Any
    type: str
    payload: bytes
    properties: str = ""
    reply: str = ""
    available: datetime | None = None
    redelivered: int = 0
    enqueued: datetime | None = None


@dataclass(frozen=True, slots=True)
class OfferedService:
    """A service of another domain. ``hops`` 1 is that domain itself."""

    name: str
    peer: str
    category: str
    transaction: str
    timeout: float
    hops: int


@dataclass(frozen=True, slots=True)
class OfferedQueue:
    name: str
    peer: str
    retries: int


@dataclass(frozen=True, slots=True)
class Offers:
    """What other domains offer of what was asked."""

    services: tuple[OfferedService, ...]
    queues: tuple[OfferedQueue, ...]


class Transaction(AbstractAsyncContextManager["Transaction"]):
    """``async with domain.transaction()``: what is called, enqueued and dequeued inside belongs to it.

    It is committed at the end of the block, and rolled back if the block raises. ``RolledBack`` is raised if it could
    not be committed, ``InDoubt`` if domains disagree.
    """

    def __init__(self, application: Application) -> None:
        self._application = application
        self._token = 0
        self._is_over = False
        self.branch: Branch | None = None
        self.outcome: Literal["", "committed", "rolled_back", "unknown"] = ""

    async def __aenter__(self) -> Transaction:
        self._token, self.branch = self._application._do(lambda session, now: session.requests.begin(now))
        self._outer = _running.set(self)
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        _running.reset(self._outer)
        if not self._is_over:
            if kind is None:
                await self.commit()
            else:
                await self.rollback()

    async def commit(self) -> None:
        """Commit now."""
        ended = await self._end(commits=True)
        if ended.outcome == "rolled_back" and not ended.codes:
            raise RolledBack(f"the transaction was rolled back: {ended.reason}")
        doubts = {name: code for name, code in ended.codes.items() if code in HEURISTIC or ended.outcome == "unknown"}
        if doubts or ended.outcome == "unknown":
            raise InDoubt("domains disagree about the outcome of the transaction", doubts)

    async def rollback(self) -> None:
        """Roll back now."""
        await self._end(commits=False)

    async def _end(self, *, commits: bool) -> events.TransactionEnded:
        if self._is_over:
            raise RuntimeError(f"the transaction is over: {self.outcome}")
        self._is_over = True
        token = self._token

        def end(session: CasualSession, now: float) -> int:
            session.requests.end(token, now, commits=commits)
            return token

        ended: events.TransactionEnded = await asyncio.shield(self._application._ask(end))
        self.outcome = ended.outcome
        return ended

    def spoil(self) -> None:
        """It can only be rolled back from now on."""
        assert self.branch is not None
        self.branch.spoil()


class Application:
    """What a served domain and a client have in common. Made for an endpoint whose session is a casual domain.

    ``peer`` of a request is the address of the domain it goes to; by default it goes where the service or the queue is.
    ``transaction`` is that of the ``async with`` block, or of the service that runs; None: none.
    """

    def __init__(self) -> None:
        self._endpoint: Endpoint | None = None
        self._session: CasualSession
        self._loop: asyncio.AbstractEventLoop
        self._open: dict[int, asyncio.Future[Any]] = {}
        self._abandoned: dict[tuple[Any, ...], list[int]] = {}
        """Dequeues whose callers gave up, and that may still bring a message: the next one like it gets that."""
        self._early: dict[int, Any] = {}
        """What they brought before somebody asked again."""
        self._talks: dict[int, Talk] = {}
        self._default_peer: str | None = None
        self._timeout: float | None = None

    def attach(self, endpoint: Endpoint) -> None:
        """Use the session of an endpoint, and begin."""
        session: Session = endpoint.session
        self._endpoint, self._session, self._loop = endpoint, session, endpoint.loop  # type: ignore[assignment]
        endpoint.on_events = self._handle
        endpoint.run(self._session.open)

    @property
    def blocking(self) -> Blocking:
        """The same for threads: ``domain.blocking.call("echo", 1)`` returns when the reply is there."""
        return Blocking(self)

    def _do(self, command: Callable[[CasualSession, float], T]) -> T:
        if self._endpoint is None:
            raise RuntimeError("the domain is not served: use it inside its services, or connect to it")
        result: T = self._endpoint.run(lambda now: command(self._session, now))
        return result

    async def _ask(self, command: Callable[[CasualSession, float], int]) -> Any:
        """Give a command to the session, and wait for its event."""
        if self._endpoint is None:
            raise RuntimeError("the domain is not served: use it inside its services, or connect to it")
        future: asyncio.Future[Any] = self._loop.create_future()
        token = command(self._session, self._loop.time())
        self._open[token] = future
        self._endpoint.settle()
        try:
            return await future
        finally:
            self._open.pop(token, None)

    def _handle(self, happened: list[Any]) -> None:
        for event in happened:
            match event:
                case events.PeerReady() | events.PeerLost():
                    self._peer_changed(event)
                case events.ConversationHeard() | events.ConversationEnded():
                    self._talk(event.token)._hear(event)
                case _:
                    future = self._open.get(event.token)
                    if future is not None and not future.done():
                        future.set_result(event)
                    elif future is None:
                        self._unclaimed(event)

    def _talk(self, token: int, service: str = "") -> Talk:
        """Return our end of a conversation; a service may hear of it before it runs."""
        if token not in self._talks:
            self._talks[token] = Talk(self, service, token)
        return self._talks[token]

    def _peer_changed(self, event: events.PeerReady | events.PeerLost) -> None:
        """A peer came or went."""

    def _unclaimed(self, event: Any) -> None:
        """Something ended whose caller has given up."""
        if isinstance(event, events.DequeueEnded):
            if event.messages:
                self._early[event.token] = event
            else:
                for tokens in self._abandoned.values():
                    if event.token in tokens:
                        tokens.remove(event.token)

    def _branch(self, transaction: Any) -> Branch | None:
        if transaction is JOIN:
            running, invocation = _running.get(), current.get()
            if running is not None:
                return running.branch
            return invocation.branch if invocation is not None else None
        return None if transaction is None else transaction.branch

    async def call(
        self,
        service: str,
        value: Any = None,
        *,
        type: str = "",
        timeout: float | None = None,
        transaction: Transaction | None = JOIN,
        peer: str | None = None,
        no_reply: bool = False,
    ) -> Reply:
        """Call a service, and return its reply.

        ``type`` is that of the buffer; by default bytes go as X_OCTET/, anything else as .json/. ``timeout``: seconds,
        by default those that the running service has left. Raises ServiceFailed if the service returned failure,
        RequestTimeout if it took too long, AnswerError with the XATMI code else. With ``no_reply`` nothing comes back.
        """
        branch, buffer = self._branch(transaction), to_buffer(value, type)
        invocation: Invocation | None = current.get()
        if timeout is None:
            timeout = self._timeout
            if invocation is not None and invocation.deadline is not None:
                timeout = max(invocation.deadline - self._loop.time(), 0.001)
        parent = invocation.service if invocation is not None else ""
        execution = invocation.execution if invocation is not None else None
        ended: events.CallEnded = await self._ask(
            lambda session, now: session.requests.call(
                service,
                buffer,
                now,
                timeout=timeout,
                branch=branch,
                peer=peer or self._default_peer,
                no_reply=no_reply,
                parent=parent,
                execution=execution,
            )
        )
        if ended.status in (OK, TPESVCFAIL):
            reply = Reply(to_value(ended.buffer), ended.code, ended.status != OK, ended.buffer.type)
            if reply.failed:
                raise ServiceFailed(service, reply)
            return reply
        if ended.status == TPETIME:
            raise RequestTimeout(f"{service} did not reply in time")
        raise AnswerError(status_name(ended.status), f"the call of {service} failed")

    async def enqueue(
        self,
        queue: str,
        value: Any = None,
        *,
        type: str = "",
        properties: str = "",
        reply: str = "",
        available: datetime | None = None,
        id: str = "",
        transaction: Transaction | None = JOIN,
        peer: str | None = None,
    ) -> str:
        """Enqueue a message and return its id: without a transaction it is durable then, else with the commit.

        NotEnqueued if it is refused, ConnectionLost if nobody knows.
        """
        buffer: Buffer = to_buffer(value, type)
        at = 0 if available is None else int(available.timestamp() * 1_000_000) * 1_000
        ident = bytes.fromhex(id.replace("-", "")) if id else NIL
        message = QueueMessage(ident, properties, reply, at, buffer.type, buffer.payload)
        branch = self._branch(transaction)
        ended: events.EnqueueEnded = await self._ask(
            lambda session, now: session.requests.enqueue(
                queue, message, now, branch=branch, peer=peer or self._default_peer
            )
        )
        if ended.is_lost:
            raise ConnectionLost(f"nobody knows whether the message is in {queue}: no reply came")
        if ended.id == NIL:
            raise NotEnqueued(f"{queue}: {ended.reason}")
        return ended.id.hex()

    async def dequeue(
        self,
        queue: str,
        *,
        block: bool = False,
        id: str = "",
        properties: str = "",
        transaction: Transaction | None = JOIN,
        peer: str | None = None,
    ) -> Message | None:
        """Take the next message that fits, or None. With ``block``, wait until there is one.

        Without a transaction the message is gone with this; in one it comes back if that is rolled back.
        """
        branch = self._branch(transaction)
        ident = bytes.fromhex(id.replace("-", "")) if id else NIL
        where, invocation = peer or self._default_peer, current.get()
        token = 0

        def begin(session: CasualSession, now: float) -> int:
            nonlocal token
            token = session.requests.dequeue(
                queue,
                now,
                message_id=ident,
                properties=properties,
                blocks=block,
                branch=branch,
                peer=where,
                connection=invocation.connection if invocation is not None else None,
            )
            return token

        like = (queue, ident, properties, where)
        early = self._again(like) if branch is None else None
        try:
            ended = await (self._ask(begin) if early is None else early)
        except asyncio.CancelledError:
            if token and branch is None:
                self._abandoned.setdefault(like, []).append(token)
            raise
        if ended.is_lost:
            raise ConnectionLost(f"no message of {queue}: no reply came")
        return _message(ended.messages[0]) if ended.messages else None

    def _again(self, like: tuple[Any, ...]) -> Coroutine[Any, Any, Any] | None:
        """Go on with a dequeue that somebody gave up, if there is one like it."""
        tokens = self._abandoned.get(like)
        if not tokens:
            return None
        token = tokens.pop(0)
        if not tokens:
            del self._abandoned[like]

        async def go_on() -> Any:
            if token in self._early:
                return self._early.pop(token)
            try:
                return await self._ask(lambda session, now: token)
            except asyncio.CancelledError:
                self._abandoned.setdefault(like, []).insert(0, token)
                raise

        return go_on()

    async def discover(
        self, services: Iterable[str] = (), queues: Iterable[str] = (), *, peer: str | None = None
    ) -> Offers:
        """Ask other domains which of these services and queues they offer."""
        asked = tuple(services), tuple(queues)
        found: events.Discovered = await self._ask(
            lambda session, now: session.requests.discover(*asked, now, peer=peer or self._default_peer)
        )
        return Offers(
            tuple(
                OfferedService(
                    offer.name, where, offer.category, _mode(offer.transaction), offer.timeout / 1e9, offer.hops
                )
                for where, offer in found.services
            ),
            tuple(OfferedQueue(offer.name, where, offer.retries) for where, offer in found.queues),
        )

    def transaction(self) -> Transaction:
        """Begin a transaction: ``async with domain.transaction() as tx``."""
        return Transaction(self)

    async def conversation(
        self,
        service: str,
        value: Any = None,
        *,
        type: str = "",
        receive: bool = False,
        timeout: float | None = None,
        transaction: Transaction | None = JOIN,
        peer: str | None = None,
    ) -> Talk:
        """Open a conversation with a service. We may send first, or with ``receive`` the service may."""
        branch, buffer = self._branch(transaction), to_buffer(value, type)
        talk = Talk(self, service)

        def begin(session: CasualSession, now: float) -> int:
            talk.token = session.conversations.open(
                service,
                buffer,
                now,
                receives=receive,
                timeout=timeout if timeout is not None else self._timeout,
                branch=branch,
                peer=peer or self._default_peer,
            )
            self._talks[talk.token] = talk
            return talk.token

        opened: events.ConversationOpened = await self._ask(begin)
        if opened.status != OK:
            self._talks.pop(talk.token, None)
            raise AnswerError(status_name(opened.status), f"{service} did not accept the conversation")
        talk.has_control = not receive
        return talk

    def _fail_all(self, error: LiveError) -> None:
        for future in list(self._open.values()):
            if not future.done():
                future.set_exception(error)
        self._open.clear()
        for talk in list(self._talks.values()):
            talk._hear(events.ConversationEnded(talk.token, 10))


class Blocking:
    """The requests of an application for threads other than that of its event loop."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        context = contextvars.copy_context()
        loop = self._application._loop
        return asyncio.run_coroutine_threadsafe(_in_context(context, coroutine), loop).result()

    def call(self, service: str, value: Any = None, **options: Any) -> Reply:
        return self._wait(self._application.call(service, value, **options))

    def enqueue(self, queue: str, value: Any = None, **options: Any) -> str:
        return self._wait(self._application.enqueue(queue, value, **options))

    def dequeue(self, queue: str, **options: Any) -> Message | None:
        return self._wait(self._application.dequeue(queue, **options))

    def discover(self, services: Iterable[str] = (), queues: Iterable[str] = (), **options: Any) -> Offers:
        return self._wait(self._application.discover(services, queues, **options))


async def _in_context(context: contextvars.Context, coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine with the context variables of the thread that asks: its transaction is one of them."""
    return await asyncio.get_running_loop().create_task(coroutine, context=context)


def _message(raw: Dequeued) -> Message:
    buffer = Buffer(raw.type, raw.payload)
    return Message(
        raw.id.hex(),
        to_value(buffer),
        raw.type,
        raw.payload,
        raw.properties,
        raw.reply,
        _moment(raw.available),
        raw.redelivered,
        _moment(raw.timestamp),
    )


def _moment(nanoseconds: int) -> datetime | None:
    try:
        return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if nanoseconds > 0 else None
    except (ValueError, OverflowError, OSError):
        return None


def _mode(number: int) -> str:
    return MODES[number] if 0 <= number < len(MODES) else str(number)


__all__ = ["Application", "Blocking", "ConversationEnd", "Message", "Offers", "Transaction"]
