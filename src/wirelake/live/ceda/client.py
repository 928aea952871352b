"""The client's side of CEDA: subscribes, publishes, asks and answers; after a loss it begins again."""

from __future__ import annotations

import random
from collections.abc import Iterable

from msgspec.structs import replace

from ...errors import EncodeError, LocalProtocolError
from ..core.link import Link
from ..core.session import CLIENT, SERVER
from . import wire
from .data import BadMessage, Blob, Data, Keys, answer_to, check_blob, names, payloads, read_data
from .events import Answered, Asked, Delivered, TopicsRefused
from .images import IMAGE_TOPIC, BadImage, image_messages, image_request, refused_topics
from .login import CedaConnected, CedaLogin
from .options import CedaClientOptions
from .records import Record, is_record, write_record
from .topics import Subscriptions

MAX_BATCH_BYTES = 60_000
SESSION = 1
"""One session per connection: part of reply topics."""

ImageRequest = tuple[tuple[str, ...], str, str]


class CedaClient(CedaConnected):
    """Tells Ready when it is logged in, Refused or Lost when it is not any more.

    Subscriptions may be made at any time, everything else only between Ready and Lost.
    """

    def __init__(
        self,
        login: CedaLogin | None = None,
        options: CedaClientOptions | None = None,
        *,
        epoch: float = 0.0,
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(login or CedaLogin(), options or CedaClientOptions(), epoch=epoch, chance=chance)
        self._keys = Keys(self.chance.getrandbits(32))
        self._subscriptions: Subscriptions[bool] = Subscriptions(self.options.strict_topics)
        """Ours, with an image (True) and without."""
        self._image_requests: dict[ImageRequest, float | None] = {}
        self._counter = 0

    def publish(self, topic: str, record: Record, now: float, *, blob: Blob | None = None) -> None:
        self._send(Data(wire.PUBLISH, topic, self._written(record), blob=blob))

    def subscribe(self, patterns: Iterable[str], now: float, *, image: bool = False) -> None:
        """Wants these topics, also after a loss; with their image, from servers that have one."""
        wanted = _checked(patterns)
        for pattern in wanted:
            self._subscriptions.add(image, pattern)
        if self.is_ready:
            self._subscribe(wanted, image)

    def unsubscribe(self, patterns: Iterable[str], now: float) -> None:
        """Takes back exactly these patterns, also from image requests."""
        given = _checked(patterns)
        requests, self._image_requests = self._image_requests, {}
        for (topics, server_id, signal_id), timeout in requests.items():
            left = tuple(topic for topic in topics if topic not in given)
            if left:
                self._image_requests[left, server_id, signal_id] = timeout
        for pattern in given:
            self._subscriptions.remove(True, pattern)
            self._subscriptions.remove(False, pattern)
        if self.is_ready:
            self._tell(wire.UNSUBSCRIBE, wire.Do.UNSUB, wire.Do.UNSUB_BATCH, given)

    def request(
        self,
        topic: str,
        record: Record,
        now: float,
        *,
        timeout: float | None = 30.0,
        server_id: str = "MQ",
        signal_id: str = "",
        blob: Blob | None = None,
    ) -> int:
        """Asks; Answered comes with this token. ``server_id`` names the wanted service, MQ means any."""
        body, reply_topic = self._written(record), self._reply_topic()
        message = Data(wire.REQUEST, topic, body, self.connection_id, server_id, signal_id, reply_topic, blob)
        return self._ask(message, now, timeout)

    def request_image(
        self,
        topics: Iterable[str],
        now: float,
        *,
        server_id: str = "",
        signal_id: str = "",
        timeout: float | None = 30.0,
    ) -> int | None:
        """Asks a service for the last values of topics, which come as images, and for what follows; again after each
        loss. Before Ready it is only remembered.
        """
        wanted = (tuple(_checked(topics)), server_id, signal_id)
        self._image_requests[wanted] = timeout
        return self._ask_image(wanted, now) if self.is_ready else None

    def reply(self, asked: Delivered, record: Record, now: float, *, blob: Blob | None = None) -> None:
        """Answers a request, or a p2p with another one."""
        message = answer_to(asked.message, self._written(record), blob)
        if message is None:
            self.note("warn", "a request without a reply topic cannot be answered", topic=asked.topic)
            return
        self._send(message)

    def p2p(
        self, topic: str, record: Record, now: float, *, server_id: str, signal_id: str = "", blob: Blob | None = None
    ) -> None:
        """To one service, without a reply topic."""
        self._send(Data(wire.P2P, topic, self._written(record), self.connection_id, server_id, signal_id, blob=blob))

    def connected(self, link: Link, now: float) -> None:
        self._counter = 0
        super().connected(link, now)

    def _entered(self, now: float) -> None:
        """Says again what this client wants."""
        for image in (True, False):
            self._subscribe(list(self._subscriptions.of.get(image, ())), image)
        for wanted in self._image_requests:
            self._ask_image(wanted, now)

    def _data(self, payload: bytes, now: float) -> None:
        reading, options = self._reader.reading, self.options
        try:
            message = read_data(payload, reading == wire.CEDA4_WS, options.charset, options.errors)
        except BadMessage:
            self._bad("message", payload)
            return
        if not self._states.may(SERVER, message.kind):
            self.counts["ignored"] += 1
            return
        if not is_record(message.body, 0, options.charset, options.errors):
            message = replace(message, is_bad=True)
            self._bad("record", payload)
        whole = self._merger.take(message, reading, now)
        if whole is None:
            return
        if whole.code == wire.REPLY:
            self._answer(whole)
        else:
            self.events.append(Asked(whole) if whole.code == wire.REQUEST else Delivered(whole))

    def _answer(self, message: Data) -> None:
        """A reply closes its request once; a second one is a message like any other."""
        token = self._requests.close(message.topic)
        if token is not None:
            error = self._image(message) if message.topic.startswith(IMAGE_TOPIC) else ""
            self.events.append(Answered(token, message, error))
        elif self._subscriptions.route(message.topic):
            self.events.append(Delivered(message))
        else:
            self.counts["replies_dropped"] += 1

    def _image(self, reply: Data) -> str:
        """Tells what is in the reply to an image request; gives what is wrong with it."""
        try:
            refused = refused_topics(reply)
            if refused:
                self.events.append(TopicsRefused(refused))
            self.events += [Delivered(message, is_image=True) for message in image_messages(reply)]
        except BadImage as error:
            self.counts["bad_images"] += 1
            return str(error)
        return ""

    def _send(self, message: Data) -> None:
        if not message.topic:
            raise EncodeError("a topic must not be empty", rule="text_empty", path="topic")
        link = self._link
        if link is None:
            raise LocalProtocolError("there is no connection", rule="state")
        if link.unsent > self.options.limits.unsent:
            raise BufferError(f"more than {self.options.limits.unsent} bytes wait to be sent")
        dialect, key = wire.dialect_of(link.framing), ""
        if message.blob is not None:
            check_blob(message.blob, self.options.limits.groups.blob)
            if message.code == wire.PUBLISH and dialect == wire.CEDA4_WS:
                key = self._keys.next(message.topic)
        written = payloads(message, dialect, key)
        self._states.sends(CLIENT, wire.NAMES[written[0][0]], is_us=True)
        if dialect == wire.CEDA4_WS:
            longest = names(message) if len(written[0]) > wire.JAVA_NAME_BYTES else ()
            wire.warn_once(self, self._noted, wire.java_warning(written[-1], longest))
        for payload in written:
            link.say(payload)

    def _subscribe(self, patterns: list[str], image: bool) -> None:
        """The deployed server does not know subscriptions with an image, and for ours a second one is the same as one:
        so both kinds are sent.
        """
        if image:
            self._tell(wire.SUBSCRIBE, wire.Do.SUB, wire.Do.SUBSCRIBE_WITH_IMAGE, patterns)
        self._tell(wire.SUBSCRIBE, wire.Do.SUB, wire.Do.SUB_BATCH, patterns)

    def _tell(self, kind: int, one: wire.Do, batch: wire.Do, patterns: list[str]) -> None:
        """Control messages with these patterns, as many as it takes; one with a | goes alone."""
        waiting: list[str] = []
        size = 0
        for pattern in patterns:
            if "|" in pattern:
                self._control_out(kind, one, pattern)
                continue
            if waiting and size + len(pattern.encode()) > MAX_BATCH_BYTES:
                self._control_out(kind, batch, "|".join(waiting))
                waiting, size = [], 0
            waiting.append(pattern)
            size += len(pattern.encode()) + 1
        if waiting:
            self._control_out(kind, batch, "|".join(waiting))

    def _control_out(self, kind: int, code: wire.Do, text: str) -> None:
        self._states.sends(CLIENT, wire.NAMES[kind], is_us=True)
        self._say(bytes((kind, code)) + self._written({3: text}))

    def _ask(self, message: Data, now: float, timeout: float | None) -> int:
        token = self._requests.open(message.reply_topic, None if timeout is None else now + timeout)
        try:
            self._send(message)
        except Exception:
            self._requests.close(message.reply_topic)
            raise
        return token

    def _ask_image(self, wanted: ImageRequest, now: float) -> int:
        topics, server_id, signal_id = wanted
        reply_topic = IMAGE_TOPIC + self._reply_topic()
        body = image_request(topics)
        message = Data(wire.REQUEST, IMAGE_TOPIC, body, self.connection_id, server_id, signal_id, reply_topic)
        return self._ask(message, now, self._image_requests[wanted])

    def _reply_topic(self) -> str:
        self._counter += 1
        return f"{self.connection_id}.{SESSION}.{self._counter}"

    def _written(self, record: Record) -> bytes:
        return write_record(record, self.options.charset)


def _checked(patterns: Iterable[str]) -> list[str]:
    found = list(patterns)
    for pattern in found:
        if not pattern:
            raise EncodeError("a topic must not be empty", rule="text_empty", path="topic")
        if len(pattern.encode()) > 255:
            raise EncodeError(f"{len(pattern.encode())} bytes, at most 255", rule="int_range", path="topic")
    return found
