"""The client's side of CEDA: logs in, subscribes, publishes, asks and answers; after a loss it begins again.

A client never answers a heartbeat: servers do, and two ends that both did would never stop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import count
from typing import Any, Unpack

from ...codec.records import by_id
from ...codec.subscriptions import Subscriptions
from ...errors import DecodeError, EncodeError, LocalProtocolError
from ...protocols.ceda import UNASSIGNED
from ..core.errors import AnswerError, ConnectionLost, LiveError, RequestTimeout
from ..core.link import Link
from ..core.session import CLIENT, SERVER, Answered, Lost, Session, World
from ..core.timers import Requests, earliest
from . import wire
from .connection import LIFE_CYCLE, READY, Conversation
from .data import Blob, Keys, Message, Record, answer_to, check_blob, names, payloads, write_record
from .events import Asked, Delivered, Ready, Refused, SubscriptionResult, TopicsRefused
from .images import IMAGE_TOPIC, BadImage, image_messages, image_request, refused_topics
from .logins import CedaLogin
from .options import CedaClientOptions

MAX_BATCH_BYTES = 60_000
MISSED_HEARTBEATS = 2
REQUEST_SECONDS = 30.0

ImageRequest = tuple[tuple[str, ...], str]
"""Topics, and the service that is asked."""


class CedaClient(Session):
    """Tells Ready when it is logged in, Refused or Lost when it is not any more.

    One link at a time, which is logged in as soon as it is there. Subscriptions may be made at any time, everything
    else only between Ready and Lost.
    """

    def __init__(
        self, login: CedaLogin | None = None, options: CedaClientOptions | None = None, **world: Unpack[World]
    ) -> None:
        super().__init__(**world)
        self.options = options = options or CedaClientOptions()
        self._login = (login or CedaLogin()).payload(options.charset)
        self._requests: Requests[str, None] = Requests()
        """By reply topic."""
        self._keys = Keys(self.chance.getrandbits(32))
        self._subscriptions: Subscriptions[bool] = Subscriptions(wire.TOPICS, options.strict_topics)
        """Ours, with an image (True) and without."""
        self._image_requests: dict[ImageRequest, None] = {}
        self._talk: Conversation | None = None
        self._look_at, self._has_heard, self._missed = 0.0, False, 0
        self._login_until = 0.0
        self._counter = 0
        self._beats: deque[str] = deque()
        """Heartbeats of ours that somebody waits for."""
        self._beat_numbers = count(1)

    @property
    def is_ready(self) -> bool:
        return self._talk is not None and self._talk.states.state == READY

    @property
    def connection_id(self) -> int:
        return UNASSIGNED if self._talk is None else self._talk.number

    @property
    def deadline(self) -> float | None:
        if self._talk is None:
            return self._requests.deadline
        return earliest(self._requests.deadline, self._look_at, None if self.is_ready else self._login_until)

    def connected(self, link: Link, now: float) -> None:
        talk = self._talk = Conversation(self, link, self.options)
        self._look_at, self._has_heard, self._missed = now + self.options.heartbeat_seconds, False, 0
        self._counter = 0
        self._beats.clear()
        self._login_until = now + self.options.login_seconds
        talk.states.sends(CLIENT, "login", is_us=True)
        self._say(talk, self._login)

    def receive(self, link: Link, data: bytes, now: float) -> None:
        talk = self._heard(link)
        if talk is None:
            return
        for batch in talk.reader.read(data):
            if not self._take(talk, batch, now):
                return
        if talk.reader.error is not None:
            self.counts["frame_errors"] += 1
            self._lose(f"the framing is lost: {talk.reader.error.detail}", 1002)

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        talk = self._heard(link)
        if talk is not None:
            self._take(talk, talk.payloads(bodies), now)

    def _heard(self, link: Link) -> Conversation | None:
        if self._talk is None or self._talk.link is not link:
            return None
        self._has_heard = True
        return self._talk

    def disconnected(self, link: Link, now: float) -> None:
        if self._talk is not None and self._talk.link is link:
            self._end()
            self.events.append(Lost("the connection was lost"))

    def tick(self, now: float) -> None:
        for token in self._requests.due(now):
            self._fail(token, RequestTimeout())
        if self._talk is not None and not self.is_ready and now >= self._login_until:
            self._lose(f"no answer to the login within {self.options.login_seconds:g} s")
        if self._talk is not None and now >= self._look_at:
            self._look(self._talk, now)

    def leaving(self, now: float) -> None:
        if self._talk is not None:
            self._talk.states.move(CLIENT, "logout")
            self._say(self._talk, bytes((wire.LOGOUT,)))
            self._lose("logged out")

    def beat(self, now: float) -> str:
        """Send a heartbeat if we are ready: when it returns, as Answered, the server has read all before it."""
        token = f"heartbeat {next(self._beat_numbers)}"
        if self._talk is not None and self.is_ready:
            self._beats.append(token)
            self._beat(self._talk)
        return token

    def forget(self, token: str) -> None:
        """Nobody waits for the reply to this request any more."""
        self._requests.close(token)

    def publish(self, topic: str, record: Record, now: float, *, blob: Blob | None = None) -> None:
        self._send(Message(wire.PUBLISH, topic, self._written(record), blob=blob))

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
        for topics, server_id in requests:
            if left := tuple(topic for topic in topics if topic not in given):
                self._image_requests[left, server_id] = None
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
        timeout: float | None = REQUEST_SECONDS,
        server_id: str = "MQ",
        signal_id: str = "",
        blob: Blob | None = None,
    ) -> str:
        """Asks; Answered comes with this token. ``server_id`` names the wanted service, MQ means any."""
        body, reply_topic = self._written(record), self._reply_topic()
        message = Message(wire.REQUEST, topic, body, self.connection_id, server_id, signal_id, reply_topic, blob)
        return self._ask(message, now, timeout)

    def request_image(self, topics: Iterable[str], now: float, *, server_id: str = "") -> str | None:
        """Ask a service for images of topics, and for what follows, now or when ready, and again after each loss."""
        wanted = (tuple(_checked(topics)), server_id)
        self._image_requests[wanted] = None
        return self._ask_image(wanted, now) if self.is_ready else None

    def reply(self, asked: Message, record: Record, now: float, *, blob: Blob | None = None) -> None:
        """Answers a request, or a p2p with another one."""
        message = answer_to(asked, self._written(record), blob)
        if message is None:
            self.note("warn", "a request without a reply topic cannot be answered", topic=asked.topic)
            return
        self._send(message)

    def p2p(
        self, topic: str, record: Record, now: float, *, server_id: str, signal_id: str = "", blob: Blob | None = None
    ) -> None:
        """To one service, without a reply topic."""
        self._send(Message(wire.P2P, topic, self._written(record), self.connection_id, server_id, signal_id, blob=blob))

    def _take(self, talk: Conversation, batch: list[bytes], now: float) -> bool:
        """Whether the connection is still there afterwards."""
        for payload in batch:
            code = payload[0]
            if code >= wire.PUBLISH and code in wire.NAMES:
                self._data(talk, payload, now)
            elif code == wire.HEARTBEAT and len(payload) == 1:
                self.counts["heartbeats"] += 1
                if self._beats:
                    self.events.append(Answered(self._beats.popleft(), None))
            elif code == wire.LOGOUT and (len(payload) == 1 or talk.reader.reading == wire.CEDA4_WS):
                self._lose("the server logged us out")
            elif code in (wire.SUBSCRIBE, wire.UNSUBSCRIBE, wire.LOGIN) and len(payload) > 1:
                self._control(talk, payload, now)
            else:
                talk.bad("message", payload)
            if self._talk is not talk:
                return False
        return True

    def _data(self, talk: Conversation, payload: bytes, now: float) -> None:
        message = talk.read(payload)
        if message is None:
            return
        if not talk.states.may(SERVER, message.kind):
            self.counts["ignored"] += 1
            return
        whole = talk.merger.take(talk.checked(message, payload), talk.reader.reading, now)
        if whole is None:
            return
        if whole.code == wire.REPLY:
            self._answer(whole)
        else:
            self.events.append(Asked(whole) if whole.code == wire.REQUEST else Delivered(whole))

    def _answer(self, message: Message) -> None:
        """A reply closes its request once; a second one is a message like any other."""
        token = message.topic
        if token in self._requests:
            self._requests.close(token)
            error = self._image(message) if token.startswith(IMAGE_TOPIC) else None
            self.events.append(Answered(token, message, error))
        elif self._subscriptions.route(token):
            self.events.append(Delivered(message))
        else:
            self.counts["replies_dropped"] += 1

    def _image(self, reply: Message) -> LiveError | None:
        """Tells what is in the reply to an image request; gives what is wrong with it."""
        try:
            refused = refused_topics(reply)
            if refused:
                self.events.append(TopicsRefused(refused))
            self.events += map(Delivered, image_messages(reply))
        except BadImage as error:
            self.counts["bad_images"] += 1
            return AnswerError("BAD_REPLY", str(error))
        return None

    def _send(self, message: Message) -> None:
        if not message.topic:
            raise EncodeError("a topic must not be empty", rule="text_empty", path="topic")
        talk = self._talk
        if talk is None:
            raise LocalProtocolError("there is no connection", rule="state")
        if talk.link.unsent > self.options.limits.unsent:
            raise BufferError(f"more than {self.options.limits.unsent} bytes wait to be sent")
        dialect, key = wire.dialect_of(talk.link.framing), ""
        if message.blob is not None:
            check_blob(message.blob, self.options.limits.groups.blob)
            if message.code == wire.PUBLISH and dialect == wire.CEDA4_WS:
                key = self._keys.next(message.topic)
        written = payloads(message, dialect, key)
        talk.states.sends(CLIENT, wire.NAMES[written[0][0]], is_us=True)
        self._warn(talk, written[-1], names(message) if len(written[0]) > wire.JAVA_NAME_BYTES else ())
        for payload in written:
            talk.link.say(payload)

    def _subscribe(self, patterns: list[str], image: bool) -> None:
        """Send both kinds: the deployed server knows none with an image, and ours takes two of a pattern as one."""
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
        assert self._talk is not None
        self._talk.states.sends(CLIENT, wire.NAMES[kind], is_us=True)
        self._say(self._talk, bytes((kind, code)) + self._written({3: text}))

    def _ask(self, message: Message, now: float, timeout: float | None) -> str:
        token, most = message.reply_topic, self.options.limits.requests
        if len(self._requests) >= most:
            raise BufferError(f"{most} requests wait for a reply already")
        self._requests.begin(token, None, None if timeout is None else now + timeout)
        try:
            self._send(message)
        except Exception:
            self._requests.close(token)
            raise
        return token

    def _ask_image(self, wanted: ImageRequest, now: float) -> str:
        topics, server_id = wanted
        reply_topic, body = IMAGE_TOPIC + self._reply_topic(), image_request(topics)
        message = Message(wire.REQUEST, IMAGE_TOPIC, body, self.connection_id, server_id, reply_topic=reply_topic)
        return self._ask(message, now, REQUEST_SECONDS)

    def _reply_topic(self) -> str:
        self._counter += 1
        return f"{self.connection_id}.1.{self._counter}"  # of the first session: we have one per connection

    def _written(self, record: Record) -> bytes:
        return write_record(record, self.options.charset)

    def _control(self, talk: Conversation, payload: bytes, now: float) -> None:
        kind, code = payload[0], payload[1]
        try:
            record = talk.decode(payload).record
        except DecodeError:
            talk.bad("record", payload)
            return
        values = by_id(record)
        if not talk.states.may(SERVER, wire.NAMES[kind]):
            self.counts["ignored"] += 1
        elif kind == wire.LOGIN and code == wire.Do.LOGIN_RESULT:
            self._login_result(talk, values, now)
        elif (kind, code) in ((wire.SUBSCRIBE, wire.Do.SUB_RESULT), (wire.UNSUBSCRIBE, wire.Do.UNSUB_RESULT)):
            ok = values.get(1) == 1
            reason = "" if ok else str(values.get(4, ""))
            self.events.append(SubscriptionResult(str(values.get(3, "")), ok, reason, kind == wire.UNSUBSCRIBE))
        else:
            self.counts["control_ignored"] += 1

    def _login_result(self, talk: Conversation, values: dict[int, Any], now: float) -> None:
        if values.get(1) != 1:
            talk.states.state = LIFE_CYCLE.initial
            self.events.append(Refused(str(values.get(4, ""))))
            talk.link.close("the login was refused")
            self._end()
            return
        talk.states.move(SERVER, "login")
        number = values.get(6)
        talk.number = number if isinstance(number, int) and 0 <= number <= UNASSIGNED else UNASSIGNED
        self.events.append(Ready(talk.number))
        for image in (True, False):
            self._subscribe(list(self._subscriptions.of.get(image, ())), image)
        for wanted in self._image_requests:
            self._ask_image(wanted, now)

    def _say(self, talk: Conversation, payload: bytes) -> None:
        wire.check_sendable(payload, wire.dialect_of(talk.link.framing))
        self._warn(talk, payload)
        talk.link.say(payload)

    def _warn(self, talk: Conversation, payload: bytes, names: tuple[bytes, ...] = ()) -> None:
        """Count what Java peers cannot read; log it the first time."""
        if wire.dialect_of(talk.link.framing) == wire.CEDA4_WS and (warning := wire.java_warning(payload, names)):
            self.counts["java_warnings"] += 1
            if warning not in talk.noted:
                talk.noted.add(warning)
                self.note("warn", warning)

    def _look(self, talk: Conversation, now: float) -> None:
        """Look whether anything has come since the last look. A dead peer takes nothing, so its link is cut off."""
        if self._has_heard or self.is_deaf():
            self._missed = 0
        elif self._missed >= MISSED_HEARTBEATS:
            self._lose(f"nothing came after {MISSED_HEARTBEATS} heartbeats", at_once=True)
            return
        if not self._has_heard:
            self._missed += 1
            self._beat(talk)
            self.counts["heartbeats_sent"] += 1
        self._has_heard = False
        seconds = self.options.heartbeat_seconds
        following = self._look_at + seconds
        self._look_at = following if following > now else now + seconds
        talk.merger.expire(now)

    def _beat(self, talk: Conversation) -> None:
        talk.states.sends(CLIENT, "heartbeat", is_us=True)
        self._say(talk, bytes((wire.HEARTBEAT,)))

    def _lose(self, reason: str, code: int = 1000, *, at_once: bool = False) -> None:
        if self._talk is not None:
            self._talk.link.close(reason, code, at_once=at_once)
        self._end()
        self.events.append(Lost(reason))

    def _end(self) -> None:
        """The connection is over, or is to be: whoever waits for a reply waits in vain."""
        self._talk = None
        for token in list(self._requests.open):
            self._fail(token, ConnectionLost())

    def _fail(self, token: str, error: LiveError) -> None:
        self._requests.close(token)
        self.events.append(Answered(token, None, error))


def _checked(patterns: Iterable[str]) -> list[str]:
    found = list(patterns)
    for pattern in found:
        if not pattern:
            raise EncodeError("a topic must not be empty", rule="text_empty", path="topic")
        if len(pattern.encode()) > 255:
            raise EncodeError(f"{len(pattern.encode())} bytes, at most 255", rule="int_range", path="topic")
    return found
