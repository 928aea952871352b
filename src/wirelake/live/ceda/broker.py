"""Where the messages of a CEDA server go: publishes to who subscribed, requests to a service, replies to the asker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...errors import EncodeError
from ..core.link import Framing, Link
from .connection import Connection
from .data import Data, Keys, payloads
from .events import Answered, Asked, Delivered, Joined, Left
from .images import Images
from .options import CedaServerOptions
from .records import is_record
from .requests import Requests
from .topics import Subscriptions
from .wire import CEDA4_WS, CEDA_TCP, GROUP_PUB, MAX_PAYLOAD, P2P, PUBLISH, REPLY, REQUEST, dialect_of

if TYPE_CHECKING:
    from ..core.session import Session

ANYBODY = ("", "MQ")
"""Server ids of those who do not mind which service it is."""
LOGIN_TOPIC = "API.ATS.LOGIN"
"""A client's data message on this topic is a login."""
MAX_FORWARDED = MAX_PAYLOAD[CEDA4_WS]
"""A payload up to here can be written to everybody."""
APPLICATION = 1000
"""The connection id of the application in the server's own process."""


class Broker:
    """Knows everybody who is logged in. The application itself is one of them, without a link."""

    def __init__(self, session: Session, options: CedaServerOptions) -> None:
        self._session = session
        self._counts = session.counts
        self._limits = limits = options.limits
        self._cache = options.cache
        self._charset, self._errors = options.charset, options.errors
        self._keys = Keys(session.chance.getrandbits(32))
        self._turns = 0
        self._called: dict[str, dict[Connection, None]] = {}
        self.application = Connection(APPLICATION, Link(0, CEDA_TCP, [], "server"), 0.0, options, session.counts)
        self.application.user = options.name
        self.application.is_ready = True
        self.connections: dict[int, Connection] = {APPLICATION: self.application}
        self.subscriptions: Subscriptions[Connection] = Subscriptions(options.strict_topics)
        self.images = Images(limits.images, limits.image_bytes, session.counts)
        self.requests = Requests(limits.requests)

    def enter(self, connection: Connection) -> None:
        """Somebody has logged in."""
        connection.has_joined = True
        self._session.events.append(
            Joined(connection.number, connection.user, connection.client_id, connection.link.peer)
        )
        for name in {connection.user, connection.client_id} - set(ANYBODY):
            self._called.setdefault(name, {})[connection] = None

    def leave(self, connection: Connection) -> None:
        """Somebody is not logged in any more."""
        self.subscriptions.leave(connection)
        self.unname(connection)
        connection.patterns = 0
        connection.is_ready = False
        if connection.has_joined:
            connection.has_joined = False
            self._session.events.append(Left(connection.number, connection.user, connection.link.peer))

    def close(self, connection: Connection, reason: str, code: int = 1000, *, at_once: bool = False) -> None:
        self.leave(connection)
        connection.link.close(reason, code, at_once=at_once)

    def unname(self, connection: Connection) -> None:
        """Nobody is called so any more."""
        for name in {connection.user, connection.client_id}:
            named = self._called.get(name)
            if named is not None:
                named.pop(connection, None)
                if not named:
                    del self._called[name]

    def forward(self, batch: Iterator[bytes], now: float) -> bytes | None:
        """Forwards the publishes of a batch that need nothing else, one after the other; gives the first payload that
        does. Their records are checked, but not read.
        """
        routes, charset, errors = self.subscriptions.quick, self._charset, self._errors
        published = delivered = 0
        found = None
        for payload in batch:
            if payload[0] != PUBLISH or not 2 <= len(payload) <= MAX_FORWARDED:
                found = payload
                break
            stop = payload[1] + 2
            targets = routes.get(payload[2:stop])
            if targets is None or not is_record(payload, stop, charset, errors):
                found = payload
                break
            published += 1
            framing = None
            wire = b""
            for target in targets:
                link = target.link
                if link.framing is not framing:
                    framing = link.framing
                    wire = framing.wrap(payload)
                link.send(wire)
                target.spoke = now
                delivered += 1
        if published:
            self._counts["published"] += published
            self._counts["delivered"] += delivered
        return found

    def route(self, sender: Connection, message: Data, payload: bytes | None, now: float) -> None:
        """Sends a message of a client on its way. ``payload`` is how it came, if it came in one piece."""
        code = message.code
        if code == REQUEST:
            self.ask(sender, message, now, payload)
        elif code == REPLY:
            self._answer(message, payload, now)
        elif code == P2P:
            self._pass(sender, message, payload, now)
        else:
            self.publish(message, now, cache=self._cache, sender=sender.number, payload=payload)

    def hand_over(self, connection: Connection, message: Data, now: float) -> None:
        """Gives a message of a client to those inside this process, whatever it is about: without a broker that is all.
        Where nobody inside has subscribed its topic, the application gets it.
        """
        message = message if message.code == REPLY else replace(message, connection_id=connection.number)
        inside = self._inside(message)
        if inside:
            self.deliver(message, inside[:1] if message.code == REQUEST else inside, now)
        elif message.code == REPLY and message.connection_id == APPLICATION:
            self.close_request(message)
        elif message.code == REQUEST:
            self._session.events.append(Asked(message))
        else:
            self._session.events.append(Delivered(message))

    def _inside(self, message: Data) -> tuple[Connection, ...]:
        known = self._known(message.connection_id)
        found = self.subscriptions.route(message.topic) if message.code != REPLY else () if known is None else (known,)
        return tuple(one for one in found if one.link.is_inside)

    def publish(
        self, message: Data, now: float, *, cache: bool, sender: int = APPLICATION, payload: bytes | None = None
    ) -> None:
        self._counts["published"] += 1
        targets = self.subscriptions.route(message.topic)
        if not cache and self.application not in targets and message.topic != LOGIN_TOPIC:
            self.subscriptions.quick[message.topic.encode()] = targets
        if self.application in targets:
            self._session.events.append(Delivered(replace(message, connection_id=sender)))
            targets = tuple(target for target in targets if target is not self.application)
        self.deliver(message, targets, now, payload)
        if cache:
            self.images.keep(message)

    def ask(self, sender: Connection, message: Data, now: float, payload: bytes | None = None) -> bool:
        """Gives a request to one service; whether there is one. Whose it is, it need not say itself."""
        target = self._choose(message, sender)
        if target is None:
            self._counts["requests_unrouted"] += 1
            return False
        self._counts["requests"] += 1
        self._give(target, message, payload, sender.number, now)
        return True

    def _answer(self, message: Data, payload: bytes | None, now: float) -> None:
        target = self._known(message.connection_id)
        if target is None:
            self._counts["replies_dropped"] += 1
            return
        self._counts["replies"] += 1
        if target is self.application:
            self.close_request(message)
        else:
            self.deliver(message, (target,), now, payload)

    def _pass(self, sender: Connection, message: Data, payload: bytes | None, now: float) -> None:
        """A p2p with somebody else's connection id is for that one, an answer mostly; else it is for a service."""
        number = message.connection_id
        target = self._known(number) if number != sender.number else None
        if target is None:
            number = sender.number
            target = self._choose(message, sender)
        if target is None:
            self._counts["p2p_unrouted"] += 1
            return
        self._counts["p2p"] += 1
        self._give(target, message, payload, number, now)

    def _known(self, number: int) -> Connection | None:
        found = self.connections.get(number)
        return found if found is not None and found.is_ready else None

    def _choose(self, message: Data, sender: Connection) -> Connection | None:
        """A service for this message: one that subscribes its topic, of several the one it asks for by name, of
        several the one whose turn it is.
        """
        wanted = message.server_id
        found = self.subscriptions.route(message.topic)
        others = [one for one in found if one is not sender]
        candidates = others or list(found)
        if wanted not in ANYBODY:
            named = [one for one in candidates if wanted in (one.user, one.client_id)]
            candidates = named or candidates or list(self._called.get(wanted, ()))
        if not candidates:
            return None
        chosen = min(candidates, key=lambda connection: connection.served)
        self._turns += 1
        chosen.served = self._turns
        return chosen

    def close_request(self, message: Data) -> None:
        """A reply for the application."""
        token = self.requests.close(message.topic)
        if token is not None:
            self._session.events.append(Answered(token, message))
        elif self.application in self.subscriptions.route(message.topic):
            self._session.events.append(Delivered(message))
        else:
            self._counts["replies_dropped"] += 1

    def _give(self, target: Connection, message: Data, payload: bytes | None, number: int, now: float) -> None:
        """Gives a message to one of us, with this connection id."""
        if payload is not None and target is not self.application:
            at = 2 + payload[1]
            self.deliver(message, (target,), now, payload[:at] + number.to_bytes(3, "little") + payload[at + 3 :])
            return
        if message.connection_id != number:
            message = replace(message, connection_id=number)
        if target is self.application:
            self._session.events.append(Asked(message) if message.code == REQUEST else Delivered(message))
        else:
            self.deliver(message, (target,), now)

    def deliver(self, message: Data, targets: tuple[Connection, ...], now: float, payload: bytes | None = None) -> None:
        """Writes a message to each of these, framed once for each kind of frames. ``payload``: as it is written."""
        framed: dict[Framing, list[bytes]] = {}
        if message.code == GROUP_PUB or (payload is not None and len(payload) > MAX_FORWARDED):
            payload = None
        for target in targets:
            link = target.link
            wires = framed.get(link.framing)
            if wires is None:
                wires = [link.framing.wrap(payload)] if payload is not None else self._wires(message, link.framing)
                framed[link.framing] = wires
            if wires:
                for wire in wires:
                    link.send(wire)
                target.spoke = now
                self._counts["delivered"] += 1
                self.bound(target)

    def _wires(self, message: Data, framing: Framing) -> list[bytes]:
        """Nothing if this message cannot be written in the dialect of these frames."""
        dialect = dialect_of(framing)
        is_published = message.code in (PUBLISH, GROUP_PUB)
        try:
            key = ""
            if message.blob is not None and is_published and dialect == CEDA4_WS:
                key = self._keys.next(message.topic)
            return [framing.wrap(payload) for payload in payloads(message, dialect, key)]
        except EncodeError as error:
            self._counts["not_sendable"] += 1
            self._session.note("warn", f"a message cannot be passed on: {error}", topic=message.topic)
            return []

    def bound(self, target: Connection) -> None:
        """Closes the connection of a reader that is too slow."""
        link = target.link
        if link.unsent > self._limits.unsent and link.closing is None:
            self._counts["slow_readers_closed"] += 1
            self._session.note(
                "warn", "closed a connection that does not read", connection=target.number, unsent=link.unsent
            )
            self.close(target, f"more than {self._limits.unsent} bytes wait to be sent", 1008, at_once=True)
