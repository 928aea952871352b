"""Where the messages of a CEDA server go: publishes to who subscribed, requests to a service, replies to the asker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec.structs import replace

from ...codec.subscriptions import Subscriptions
from ...errors import EncodeError
from ..core.link import Framing
from . import wire
from .connection import Connection
from .data import Keys, Message, is_record, names, payloads
from .groups import Pool
from .images import IMAGE_TOPICS, BadImage, Images, asked_topics, refused_topics
from .options import CedaServerOptions
from .wire import CEDA4_WS, GROUP_PUB, JAVA_NAME_BYTES, P2P, PUBLISH, REPLY, REQUEST, is_pattern, is_stream

if TYPE_CHECKING:
    from .server import CedaServer

ANYBODY = ("", "MQ")
"""Server ids of those who do not mind which service it is."""
_ANYBODY = tuple(name.encode() for name in ANYBODY)
MAX_TOPIC_BYTES = 255
MAX_IMAGE_REQUESTS = 256
MANY = 100
"""Subscriptions that are taken back in slices."""
LOGIN_TOPIC = "API.ATS.LOGIN"
"""A client's data message on this topic is a login."""
SPECIAL = (LOGIN_TOPIC, *IMAGE_TOPICS)
"""Topics whose messages have to be looked at."""
MAX_FORWARDED = wire.MAX_PAYLOAD[CEDA4_WS]
"""A payload up to here can be written to everybody."""


class Broker:
    """Knows everybody who is logged in."""

    def __init__(self, session: CedaServer, options: CedaServerOptions) -> None:
        self._session = session
        self._counts = session.counts
        self._limits = limits = options.limits
        self._cache = options.cache
        self._charset, self._errors = options.charset, options.errors
        self._keys = Keys(session.chance.getrandbits(32))
        self._turns = 0
        self._called: dict[str, dict[Connection, None]] = {}
        self.pool = Pool()
        self.connections: dict[int, Connection] = {}
        self.subscriptions: Subscriptions[Connection] = Subscriptions(wire.TOPICS, options.strict_topics)
        self.images = Images(limits.images, limits.image_bytes, session.counts)

    def enter(self, connection: Connection) -> None:
        for name in {connection.user, connection.client_id} - set(ANYBODY):
            self._called.setdefault(name, {})[connection] = None

    def leave(self, connection: Connection, *, is_over: bool = False) -> None:
        """Somebody is not logged in any more, or is gone for good."""
        if is_over and len(self.subscriptions.of.get(connection, ())) > MANY:
            self._session.later(self.subscriptions.leave_slowly(connection))
        else:
            self.subscriptions.leave(connection)
        self.unname(connection)
        connection.patterns = 0
        connection.is_ready = False

    def close(self, connection: Connection, reason: str, code: int = 1000, *, at_once: bool = False) -> None:
        self.leave(connection, is_over=True)
        connection.link.close(reason, code, at_once=at_once)

    def unname(self, connection: Connection) -> None:
        """Nobody is called so any more."""
        for name in {connection.user, connection.client_id}:
            named = self._called.get(name, {})
            named.pop(connection, None)
            if not named:
                self._called.pop(name, None)

    def subscribe(self, connection: Connection, text: str) -> str | None:
        """Subscribe something; return why not, empty if it is done now, None if it was already."""
        if self.subscriptions.has(connection, text):
            return None
        refusal = self._refusal(connection, text)
        if refusal:
            self._counts["subscriptions_refused"] += 1
        else:
            self.subscriptions.add(connection, text)
            connection.patterns += is_pattern(text)
        return refusal

    def unsubscribe(self, connection: Connection, text: str) -> None:
        if self.subscriptions.remove(connection, text):
            connection.patterns -= is_pattern(text)

    def _refusal(self, connection: Connection, text: str) -> str:
        """Why a connection may not subscribe this; empty if it may."""
        limits, subscriptions = self._limits, self.subscriptions
        if len(text.encode("utf-8", "replace")) > MAX_TOPIC_BYTES:
            return f"a topic has at most {MAX_TOPIC_BYTES} bytes"
        if not is_pattern(text):
            count = len(subscriptions.of.get(connection, ())) - connection.patterns
            if count >= limits.topics:
                return f"at most {limits.topics} topics"
            return "the server has too many topics" if subscriptions.topics >= limits.all_topics else ""
        if connection.patterns >= limits.patterns:
            return f"at most {limits.patterns} patterns"
        if text.count(".") >= limits.segments:
            return f"a pattern has at most {limits.segments} segments"
        return "the server has too many patterns" if subscriptions.patterns >= limits.all_patterns else ""

    def forward(self, sender: Connection, batch: Iterator[bytes], now: float) -> bytes | None:
        """Forward the messages of a batch that need nothing else, one after the other; return the first payload that
        does. Their records are checked, but not read. Publishes in a row that go to the same readers go out together.
        """
        routes, charset, errors = self.subscriptions.quick, self._charset, self._errors
        readers: tuple[Connection, ...] = ()
        run: list[bytes] = []
        found = None
        for payload in batch:
            if payload[0] != PUBLISH:
                if run:
                    self._send(readers, run, now)
                    run = []
                if self._pass_on(sender, payload, now):
                    continue
                found = payload
                break
            if not 2 <= len(payload) <= MAX_FORWARDED:
                found = payload
                break
            stop = payload[1] + 2
            targets = routes.get(payload[2:stop])
            if targets is None or not is_record(payload, stop, charset, errors):
                found = payload
                break
            if targets is not readers:
                if run:
                    self._send(readers, run, now)
                    run = []
                readers = targets
            run.append(payload)
        if run:
            self._send(readers, run, now)
        return found

    def _send(self, readers: tuple[Connection, ...], run: list[bytes], now: float) -> None:
        """Writes publishes to their readers: in a stream as one piece, else each as a message of its own."""
        framing = None
        wires: list[bytes] = []
        for target in readers:
            link = target.link
            if link.framing is not framing:
                framing = link.framing
                wires = [framing.wrap(payload) for payload in run]
                if is_stream(framing) and len(wires) > 1:
                    wires = [b"".join(wires)]
            for written in wires:
                link.send(written)
            target.spoke = now
        self._counts["published"] += len(run)
        self._counts["delivered"] += len(run) * len(readers)

    def _pass_on(self, sender: Connection, payload: bytes, now: float) -> bool:
        """Forward a request for any service, or a reply, as bytes; False if it has to be looked at closely: it may be
        a piece, its names or its record may be wrong or unusual, or nobody is known for it.
        """
        code = payload[0]
        if (code != REQUEST and code != REPLY) or len(payload) > MAX_FORWARDED:
            return False
        try:
            at = payload[1] + 2
            signal = at + 4 + payload[at + 3]
            body = signal + 1 + payload[signal]
            if code == REQUEST:
                body += 1 + payload[body]
        except IndexError:
            return False
        if not payload[1:at].isascii() or not payload[at + 3 : body].isascii():  # names above 127 bytes are not either
            return False
        if payload.find(b"\x0e\0", body) >= 0 or payload.find(b"\x0f\0", body) >= 0:
            return False
        if not is_record(payload, body, self._charset, self._errors):
            return False
        target: Connection | None
        if code == REQUEST:
            targets = self.subscriptions.quick.get(payload[2:at])
            if not targets or payload[at + 4 : signal] not in _ANYBODY:
                return False
            target = self._next(targets, sender)
            payload = payload[:at] + sender.tag + payload[at + 3 :]
            self._counts["requests"] += 1
        else:
            target = self.connections.get(payload[at] | payload[at + 1] << 8 | payload[at + 2] << 16)
            if target is None or not target.is_ready or target.image_requests:
                return False
            self._counts["replies"] += 1
        self._counts["delivered"] += 1
        link = target.link
        link.send(link.framing.wrap(payload))
        target.spoke = now
        return True

    def route(self, sender: Connection, message: Message, payload: bytes | None, now: float) -> None:
        """Sends a message of a client on its way. ``payload`` is how it came, if it came in one piece."""
        code = message.code
        if message.is_bad:  # it costs deployed readers everything that comes with it
            self._counts["undecodable_dropped"] += 1
        elif code == REQUEST:
            if message.topic in IMAGE_TOPICS:
                self._remember(sender, message)
            self._give("requests", self._choose(message, sender), message, payload, sender.number, now)
        elif code == REPLY:
            self._answer(message, payload, now)
        elif code == P2P:
            self._pass(sender, message, payload, now)
        else:
            self._publish(message, payload, now)

    def _remember(self, sender: Connection, message: Message) -> None:
        """Whoever replies to an image request cannot subscribe the client here: so we shall."""
        try:
            topics = asked_topics(message)
        except BadImage:
            return
        if len(sender.image_requests) >= MAX_IMAGE_REQUESTS:
            del sender.image_requests[next(iter(sender.image_requests))]
        sender.image_requests[message.reply_topic] = topics

    def _subscribe_image(self, target: Connection, reply: Message) -> None:
        topics = target.image_requests.pop(reply.topic, ())
        try:
            refused = refused_topics(reply)
        except BadImage:
            return
        for topic in topics:
            if topic and topic not in refused:
                self.subscribe(target, topic)

    def hand_over(self, connection: Connection, message: Message, now: float) -> None:
        """Give a message to those inside this process who have subscribed its topic: without a broker that is all."""
        message = message if message.code == REPLY else replace(message, connection_id=connection.number)
        known = self._known(message.connection_id)
        found = self.subscriptions.route(message.topic) if message.code != REPLY else () if known is None else (known,)
        inside = tuple(one for one in found if one.link.is_inside)
        if inside:
            self.deliver(message, inside[:1] if message.code == REQUEST else inside, now)
            return
        self._counts["unheard"] += 1
        if "unheard" not in connection.noted:
            connection.noted.add("unheard")
            text = "messages are dropped: the server is no broker, and no service of the hub has subscribed them"
            self._session.note("warn", text, connection=connection.number, topic=message.topic)

    def _publish(self, message: Message, payload: bytes | None, now: float) -> None:
        self._counts["published"] += 1
        self.deliver(message, self._targets(message.topic), now, payload)
        if self._cache:
            self.images.keep(message)

    def _targets(self, topic: str) -> tuple[Connection, ...]:
        """Everybody who wants a topic. What can be forwarded without a look is remembered, if it still holds."""
        targets = self.subscriptions.route(topic)
        name = topic.encode()
        is_plain = not self._cache and len(name) <= JAVA_NAME_BYTES and topic not in SPECIAL
        if is_plain and topic in self.subscriptions.routes:
            self.subscriptions.quick[name] = targets
        return targets

    def _answer(self, message: Message, payload: bytes | None, now: float) -> None:
        target = self._known(message.connection_id)
        if target is None:
            self._counts["replies_dropped"] += 1
            return
        self._counts["replies"] += 1
        if message.topic in target.image_requests:
            self._subscribe_image(target, message)
        self.deliver(message, (target,), now, payload)

    def _pass(self, sender: Connection, message: Message, payload: bytes | None, now: float) -> None:
        """A p2p with somebody else's connection id is for that one, an answer mostly; else it is for a service."""
        number = message.connection_id
        target = self._known(number) if number != sender.number else None
        if target is None:
            number = sender.number
            target = self._choose(message, sender)
        self._give("p2p", target, message, payload, number, now)

    def _known(self, number: int) -> Connection | None:
        found = self.connections.get(number)
        return found if found is not None and found.is_ready else None

    def _choose(self, message: Message, sender: Connection) -> Connection | None:
        """Return whose turn it is, of those that subscribe the topic, or that have the name it asks for."""
        wanted = message.server_id
        found = self._targets(message.topic)
        if wanted not in ANYBODY:
            named = [one for one in found if wanted in (one.user, one.client_id)]
            found = tuple(named or self._called.get(wanted, ()))
        return self._next(found, sender) if found else None

    def _next(self, found: tuple[Connection, ...], sender: Connection) -> Connection:
        """Whose turn it is: the sender's own only if there is nobody else."""
        if len(found) > 1:
            found = tuple(one for one in found if one is not sender)
            chosen = min(found, key=lambda connection: connection.served)
        else:
            chosen = found[0]
        self._turns += 1
        chosen.served = self._turns
        return chosen

    def _give(
        self, kind: str, target: Connection | None, message: Message, payload: bytes | None, number: int, now: float
    ) -> None:
        """Gives a message to one of us, if there is one for it, with this connection id, whatever the sender said."""
        if target is None:
            self._counts[f"{kind}_unrouted"] += 1
            return
        self._counts[kind] += 1
        if payload is not None:
            at = 2 + payload[1]
            payload = payload[:at] + number.to_bytes(3, "little") + payload[at + 3 :]
        if message.connection_id != number:
            message = replace(message, connection_id=number)
        self.deliver(message, (target,), now, payload)

    def deliver(
        self, message: Message, targets: tuple[Connection, ...], now: float, payload: bytes | None = None
    ) -> None:
        """Writes a message to each of these, framed once for each kind of frames. ``payload``: as it is written."""
        framed: dict[Framing, list[bytes]] = {}
        if message.code == GROUP_PUB or (payload is not None and len(payload) > MAX_FORWARDED):
            payload = None
        for target in targets:
            link = target.link
            wires = framed.get(link.framing)
            if wires is None:
                wires = framed[link.framing] = self._wires(message, link.framing, payload)
            if wires:
                for written in wires:
                    link.send(written)
                target.spoke = now
                self._counts["delivered"] += 1
                self.bound(target)

    def _wires(self, message: Message, framing: Framing, payload: bytes | None) -> list[bytes]:
        """Nothing if this message cannot be written in the dialect of these frames, or not be read: of a name that is
        too long, deployed readers lose everything that came with it.
        """
        dialect, key = wire.dialect_of(framing), ""
        try:
            if message.blob is not None and message.code in (PUBLISH, GROUP_PUB) and dialect == CEDA4_WS:
                key = self._keys.next(message.topic)
            if dialect == CEDA4_WS and any(len(name) > JAVA_NAME_BYTES for name in (key.encode(), *names(message))):
                raise EncodeError(f"a name has more than {JAVA_NAME_BYTES} bytes", rule="int_range", path="topic")
            written = [payload] if payload is not None else payloads(message, dialect, key)
            return [framing.wrap(part) for part in written]
        except EncodeError as error:
            self._counts["not_sendable"] += 1
            self._session.note("warn", f"a message cannot be passed on: {error}", topic=message.topic)
            return []

    def bound(self, target: Connection) -> None:
        link = target.link
        if link.unsent > self._limits.unsent and link.closing is None:
            self._counts["slow_readers_closed"] += 1
            text = "closed a connection that does not read"
            self._session.note("warn", text, connection=target.number, unsent=link.unsent)
            self.close(target, f"more than {self._limits.unsent} bytes wait to be sent", 1008, at_once=True)
