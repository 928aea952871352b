"""A domain in memory, and peers that speak to it message by message: every rule can be played without a socket."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from wirelake.codec import encode
from wirelake.codec.stream import Decoded, StreamDecoder
from wirelake.live.casual.handlers import ServiceEntry, Services
from wirelake.live.casual.options import DomainOptions, PeerSettings, QueueSettings
from wirelake.live.casual.session import CasualSession
from wirelake.live.casual.stores import MemoryStore
from wirelake.live.casual.wire import CASUAL_REVERSE, CASUAL_TCP, NIL, NULL_XID
from wirelake.live.core.effects import Call, Cancel, Cancelled, Dial, Done, Effect, Failed, Result, Store
from wirelake.live.core.link import Link
from wirelake.live.core.session import CLIENT, SERVER
from wirelake.protocols import casual as c

EPOCH = 1_700_000_000.0
NO_NODES = c.Nodes(())


def uuid(number: int) -> bytes:
    return number.to_bytes(16, "big")


def xid(number: int, branch: int = 1, form: int = 42) -> c.Xid:
    return c.Xid(form, uuid(number), uuid(branch))


class Play:
    """A domain. ``is_held``: calls and stores wait in ``held`` until ``let_go``."""

    def __init__(
        self,
        services: Services | None = None,
        queues: Iterable[QueueSettings] = (QueueSettings("q", retries=1), QueueSettings("other")),
        peers: Iterable[PeerSettings] = (),
        store: MemoryStore | None = None,
        **options: Any,
    ) -> None:
        self.now = 100.0
        self.store = store or MemoryStore(queues)
        entries: dict[str, ServiceEntry] = {} if services is None else services.services
        self.session = CasualSession(
            DomainOptions(name="us", **options),
            services=entries,
            queues=queues,
            peers=peers,
            epoch=EPOCH,
            chance=random.Random(7),
        )
        self.dials: list[Dial] = []
        self.held: deque[Effect] = deque()
        self.holds: tuple[type, ...] = ()
        self.disk_is_full = False
        self.events: list[Any] = []
        self.peers: dict[Link, Peer] = {}
        self.session.open(self.now)
        self.settle()

    def settle(self) -> None:
        session = self.session
        while session.changed or session.effects or session.events:
            for link in session.changed[:]:
                if link in self.peers:
                    self.peers[link].take()
            session.changed.clear()
            effects = session.effects[:]
            session.effects.clear()
            for effect in effects:
                self._begin(effect)
            self.events += session.events
            session.events.clear()

    def _begin(self, effect: Effect) -> None:
        match effect:
            case Cancel(effect=taken_back):
                if taken_back in self.held:
                    self.held.remove(taken_back)
                    self.complete(taken_back, Cancelled())
            case Dial():
                self.dials.append(effect)
            case _ if isinstance(effect, self.holds):
                self.held.append(effect)
            case _:
                self.carry_out(effect)

    def carry_out(self, effect: Effect) -> None:
        match effect:
            case Store() if self.disk_is_full:
                self.complete(effect, Failed(OSError(28, "no space left on device")))
            case Store(request=request):
                (result,) = self.store.run([request])
                self.complete(effect, result)
            case Call(handler=handler, request=request):
                try:
                    result = Done(handler(request))
                except Exception as error:
                    result = Failed(error)
                self.complete(effect, result)

    def complete(self, effect: Effect, result: Result) -> None:
        self.session.completed(effect, result, self.now)
        self.settle()

    def let_go(self) -> None:
        """Carry out what is held."""
        while self.held:
            self.carry_out(self.held.popleft())

    def wait(self, seconds: float) -> None:
        """Let time pass, tick by tick."""
        end = self.now + seconds
        while (deadline := self.session.deadline) is not None and deadline <= end:
            self.now = max(self.now, deadline)
            self.session.tick(self.now)
            self.settle()
        self.now = end

    def peer(self, *, greets: bool = True, versions: tuple[int, ...] = (1000,)) -> Peer:
        """Somebody dials us, and asks."""
        made = Peer(self, self.session.new_link(CASUAL_TCP, SERVER, "peer"))
        if greets:
            made.greet(versions)
        return made

    def reverse(self) -> Peer:
        """Somebody dials us, and serves."""
        return Peer(self, self.session.new_link(CASUAL_REVERSE, SERVER, "peer"))

    def answer_dial(self, place: int = 0) -> Peer:
        """Somebody is there whom we dial."""
        dial = self.dials.pop(place)
        made = Peer(self, self.session.new_link(CASUAL_TCP, CLIENT, "peer"))
        self.complete(dial, Done(made.link))
        return made

    def served_by(self, place: int = 0, name: str = "them") -> Peer:
        """The same, and it has introduced itself."""
        made = self.answer_dial(place)
        made.welcome(name)
        return made

    def restart(self, **more: Any) -> Play:
        """The process dies, and starts again with the same disk. Its volatile work is gone."""
        again = Play.__new__(Play)
        again.__dict__.update(self.__dict__)
        again.session = CasualSession(
            self.session.options,
            services=self.session.services,
            queues=[QueueSettings(name, retries) for name, retries in self.session.queues.retries.items()],
            peers=self.session._settings,
            epoch=EPOCH,
            chance=random.Random(8),
        )
        again.dials, again.held, again.events, again.peers = [], deque(), [], {}
        again.session.open(again.now)
        again.settle()
        return again


class Peer:
    """The other end of a connection."""

    def __init__(self, play: Play, link: Link) -> None:
        self.play, self.link = play, link
        self.heard: deque[Any] = deque()
        self._decoder = StreamDecoder("casual")
        self._count = 0
        play.peers[link] = self
        play.session.connected(link, play.now)
        play.settle()

    @property
    def is_closed(self) -> bool:
        return self.link.closing is not None

    def take(self) -> None:
        if self.link.out:
            for event in self._decoder.feed(self.link.take()):
                assert isinstance(event, Decoded), event
                self.heard.append(event.message)

    def next_id(self) -> bytes:
        self._count += 1
        return uuid(self.link.number << 32 | self._count)

    def send_bytes(self, data: bytes) -> None:
        self.play.session.receive(self.link, data, self.play.now)
        self.play.settle()

    def send(self, message: Any) -> None:
        self.send_bytes(encode(message))

    def say(self, kind: Callable[..., Any], *fields: Any) -> Any:
        """Send a request with fresh ids; return the one reply that is there, or None."""
        message = kind(self.next_id(), uuid(77), *fields)
        self.send(message)
        return self.reply_to(message)

    def reply_to(self, message: Any) -> Any:
        found = [one for one in self.heard if one.correlation == message.correlation]
        assert len(found) < 2, found
        for one in found:
            self.heard.remove(one)
            assert one.execution == message.execution
        return found[0] if found else None

    def greet(self, versions: tuple[int, ...] = (1000,)) -> Any:
        return self.say(c.DomainConnectRequest, c.Domain(uuid(99), "them"), c.Offer(versions))

    def welcome(self, name: str = "them", version: int = 1000) -> None:
        """Reply to the introduction of a domain that asks us, and to its first discovery."""
        hello = self.heard.popleft()
        assert isinstance(hello, c.DomainConnectRequest), hello
        self.send(c.DomainConnectReply(hello.correlation, hello.execution, c.Domain(uuid(5), name), c.Chosen(version)))
        if self.heard:
            self.offer()

    def offer(self, services: tuple[Any, ...] = (), queues: tuple[Any, ...] = ()) -> Any:
        """Reply to a discovery."""
        asked = self.heard.popleft()
        assert isinstance(asked, c.DomainDiscoverRequest), asked
        self.send(
            c.DomainDiscoverReply(asked.correlation, asked.execution, c.Domain(uuid(5), "them"), services, queues)
        )
        return asked

    def answer(self, kind: Callable[..., Any], *fields: Any) -> Any:
        """Reply to the next request; return it."""
        asked = self.heard.popleft()
        self.send(kind(asked.correlation, asked.execution, *fields))
        return asked

    def drop(self) -> None:
        """The connection is lost."""
        del self.play.peers[self.link]
        self.play.session.disconnected(self.link, self.play.now)
        self.link.end()
        self.play.settle()

    # --- usual requests

    def call(
        self,
        service: str,
        payload: bytes = b"",
        *,
        xid: c.Xid = NULL_XID,
        timeout: int = 0,
        flags: int = 0,
        kind: str = "X_OCTET/",
    ) -> Any:
        named, buffer = c.Service(service, timeout), c.Buffer(kind, payload)
        return self.say(c.ServiceCallRequest, named, c.Parent(""), xid, flags, buffer)

    def enqueue(
        self,
        queue: str = "q",
        payload: bytes = b"x",
        *,
        xid: c.Xid = NULL_XID,
        id: bytes = NIL,
        properties: str = "",
        available: int = 0,
    ) -> Any:
        message = c.Enqueued(id, properties, "", available, "X_OCTET/", payload)
        reply = self.say(c.QueueEnqueueRequest, queue, xid, message)
        return None if reply is None else reply.id

    def dequeue(
        self,
        queue: str = "q",
        *,
        xid: c.Xid = NULL_XID,
        block: bool = False,
        id: bytes = NIL,
        properties: str = "",
    ) -> Any:
        """Return the messages, or None while there is no reply."""
        reply = self.say(c.QueueDequeueRequest, queue, xid, c.Selector(properties, id), block)
        return None if reply is None else reply.message

    def _resource(self, kind: Any, xid: c.Xid, flags: int) -> int | None:
        reply = self.say(kind, xid, c.Resource(-3), flags)
        if reply is None:
            return None
        assert reply.xid == xid and reply.resource.id == -3
        return int(reply.resource.state)

    def prepare(self, xid: c.Xid) -> int | None:
        return self._resource(c.ResourcePrepareRequest, xid, 0)

    def commit(self, xid: c.Xid, flags: int = 0) -> int | None:
        return self._resource(c.ResourceCommitRequest, xid, flags)

    def commit_one_phase(self, xid: c.Xid) -> int | None:
        return self.commit(xid, 0x40000000)

    def rollback(self, xid: c.Xid) -> int | None:
        return self._resource(c.ResourceRollbackRequest, xid, 0)


def services_of(**handlers: Callable[[Any], Any]) -> Services:
    made = Services()
    for name, handler in handlers.items():
        made.service(name, transaction="join")(handler)
    return made
