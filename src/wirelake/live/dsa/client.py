"""A link: the client's end of a connection to a broker. It asks, and replies for its nodes.

One connection at a time; after a loss the same link goes on with the next one, as its session at the broker does.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Unpack

from ...codec.content import write_msgpack
from ...errors import DecodeError
from ...protocols import dsa as p
from ...protocols.dsa import PROTOCOL
from ...spec.nodes import LifeCycle
from ..core.link import Link
from ..core.session import CLIENT, SERVER, Lost, Session, States, World
from ..core.timers import earliest
from . import wire
from .connection import AckIds, Connection
from .events import Denied, Ready
from .handshake import SALT_BYTES, ClientHandshake, HandshakeRefused, Identity, Welcome, identity_part
from .nodes import Nodes
from .requester import Requester, Stream, check_sizes
from .responder import SESSION_SECONDS, Responder
from .wire import Received

assert PROTOCOL.life_cycle is not None
LIFE_CYCLE: LifeCycle = PROTOCOL.life_cycle
READY = LIFE_CYCLE.server["proved"]["handshake_f3"]
PROVED = LIFE_CYCLE.client["answered"]["handshake_f2"]
MOST_WAITING = 10_000
"""Short replies that wait to be sent; then nothing more is read from the broker."""


@dataclass(frozen=True, slots=True)
class LinkOptions:
    """``is_responder``: whether others see our nodes. ``token`` is what admits us. ``details``: whether errors are
    explained to the broker; None: unless it is one that hangs up then.
    """

    token: str = field(default="", repr=False)
    is_responder: bool = True
    details: bool | None = None


class DsaLink(Session):
    """Tells Ready when the handshake is done, Denied if it fails, Lost when the connection is gone."""

    def __init__(
        self, identity: Identity, nodes: Nodes | None = None, options: LinkOptions | None = None, **world: Unpack[World]
    ) -> None:
        super().__init__(**world)
        self.identity = identity
        self.options = options or LinkOptions()
        self.nodes = nodes or Nodes()
        self.requester = Requester(self.events, self.counts)
        self.responder = Responder(self.nodes, self.events, self.counts)
        self.welcome: Welcome | None = None
        self._connection: Connection | None = None
        self._handshake: ClientHandshake
        self._states = States(LIFE_CYCLE)
        self._ack_ids = AckIds()
        self._newest: int | None = None
        """The highest ack id of the connection before this one."""
        self._lost_at = 0.0
        self._is_paused = False

    @property
    def is_ready(self) -> bool:
        return self._connection is not None and self._connection.is_established

    @property
    def deadline(self) -> float | None:
        if self._connection is None or self._connection.link.closing is not None:
            return self.responder.deadline
        return earliest(self.responder.deadline, self._connection.deadline)

    # --- the connection

    def connected(self, link: Link, now: float) -> None:
        self._connection = connection = Connection(link, self._greet, now, ack_ids=self._ack_ids)
        self._states = States(LIFE_CYCLE)
        self._handshake = ClientHandshake(
            self.identity,
            self.chance.randbytes(SALT_BYTES),
            token=self.options.token,
            is_responder=self.options.is_responder,
        )
        self._states.sends(CLIENT, wire.NAMES[p.F0], is_us=True)
        connection.say(wire.control(p.F0, self._handshake.hello()), now)

    def receive(self, link: Link, data: bytes, now: float) -> None:
        connection = self._connection
        if connection is None or connection.link is not link:
            return
        error = connection.receive(data, now)
        if error is not None:
            self._undecodable(error)
        if self._connection is connection:
            connection.flush(now)
            self._hold_back(connection)

    def receive_messages(self, link: Link, bodies: Iterable[bytes], now: float) -> None:
        self.receive(link, b"".join(bodies), now)

    def writable(self, link: Link, now: float) -> None:
        if self._connection is not None and self._connection.link is link:
            self._connection.flush(now)
            self._hold_back(self._connection)

    def flush(self, now: float) -> None:
        """Send what nodes and streams have."""
        if self._connection is not None:
            self._connection.flush(now)

    def tick(self, now: float) -> None:
        self.responder.tick(now)
        connection = self._connection
        if connection is not None and now >= connection.deadline:
            connection.tick(now, is_deaf=self.is_deaf())

    def disconnected(self, link: Link, now: float) -> None:
        connection = self._connection
        if connection is None or connection.link is not link:
            return
        self._connection = None
        self._is_paused = False
        reason = link.closing.reason if link.closing is not None else "the broker closed it"
        if connection.is_established:
            self._newest, self._lost_at = connection.newest or self._newest, now
            self.requester.detach()
            self.responder.detach(now)
            self.events.append(Lost(reason))
        elif self._states.state == PROVED:
            text = "the broker ended the handshake: it may not admit this link, which needs a token or an entry there"
            self.events.append(Denied(text, 0, is_final=False))

    def _greet(self, message: Received) -> bool:
        """A message of the handshake came, or should have."""
        connection = self._connection
        assert connection is not None
        now = connection.now
        try:
            if not self._states.move(SERVER, wire.NAMES[message.method]):
                raise HandshakeRefused(f"{wire.NAMES[message.method]} came when the handshake was {self._states.state}")
            if message.method == p.F1:
                answer = self._handshake.answer(message)
                self._states.sends(CLIENT, wire.NAMES[p.F2], is_us=True)
                connection.say(wire.control(p.F2, answer), now)
                connection.step(now)
            else:
                self._establish(connection, self._handshake.finish(message), now)
        except HandshakeRefused as error:
            self._connection = None
            self.events.append(Denied(error.detail, error.status, is_final=True))
            connection.link.close(error.detail, 1002, at_once=True)
            return True
        return False

    def _establish(self, connection: Connection, welcome: Welcome, now: float) -> None:
        before, self.welcome = self.welcome, welcome
        connection.on_message = self._message
        connection.establish(now)
        is_same = before is not None and identity_part(before.dsid) == identity_part(welcome.dsid)
        if before is not None and not is_same:
            self.note("warn", "another broker than before", before=before.dsid, now=welcome.dsid)
        if is_same and now - self._lost_at < SESSION_SECONDS:
            connection.resume_ack(self._newest)
        self._newest = None
        self.requester.attach(connection)
        self.responder.attach(connection, now)
        self.events.append(Ready(welcome))
        connection.flush(now)

    def _message(self, message: Received) -> bool:
        connection = self._connection
        assert connection is not None
        method = message.method
        if method >= p.SUB_R:
            self.requester.take(message)
        elif method == p.CLOSE:
            if not self.responder.take_close(message) and not self.requester.take_close(message):
                self.counts["closes_ignored"] += 1
        else:
            details = self.options.details
            self.responder.details = connection.takes_details if details is None else details
            self.responder.take(message, connection.now)
        return False

    def _undecodable(self, error: DecodeError) -> None:
        """Say why the connection ends. The detail of the error is left out: it may show what is secret."""
        fields = {"rule": error.rule, "path": error.path, "offset": error.offset, "bytes": error.excerpt}
        self.note("warn", "the broker sent an undecodable message", **fields)

    def _hold_back(self, connection: Connection) -> None:
        """Read nothing from a broker that asks much and takes no replies."""
        waiting = self.responder.waiting
        if waiting > MOST_WAITING and not self._is_paused:
            self._is_paused = True
            connection.link.pause()
        elif self._is_paused and waiting < MOST_WAITING // 2:
            self._is_paused = False
            connection.link.resume()

    # --- requests

    def subscribe(
        self,
        path: str,
        now: float,
        *,
        qos: int = 0,
        queue_size: int | None = None,
        queue_seconds: int | None = None,
        priority: bool = False,
        once: bool = False,
    ) -> Stream:
        """Ask for the value at a path and its changes; with ``once`` only for the value."""
        check_sizes(queue_size=queue_size, queue_duration=queue_seconds)
        if not 0 <= qos <= 3:
            raise ValueError(f"the quality of service is 0, 1, 2 or 3, not {qos}")
        stream = self.requester.open(
            p.SUB, path, qos=qos or None, queue_size=queue_size, queue_duration=queue_seconds, priority=priority,
            no_stream=once,
        )  # fmt: skip
        self.flush(now)
        return stream

    def change(self, stream: Stream, now: float, **headers: Any) -> None:
        """Change the options of a subscription."""
        self.requester.change(stream, **headers)
        self.flush(now)

    def list(self, path: str, now: float, *, once: bool = False) -> Stream:
        """Ask for everything at a path, and its changes."""
        stream = self.requester.open(p.LIST, path, no_stream=once)
        self.flush(now)
        return stream

    def invoke(
        self,
        path: str,
        value: Any,
        now: float,
        *,
        max_permission: int | None = None,
        priority: bool = False,
        once: bool = False,
    ) -> Stream:
        """Run an action. ``value`` are its parameters, None for none; with ``once`` one result is enough."""
        body = b"" if value is None else write_msgpack(value)
        stream = self.requester.open(
            p.INVOKE, path, body, max_permission=max_permission, priority=priority, no_stream=once
        )
        self.flush(now)
        return stream

    def feed(self, stream: Stream, value: Any, now: float) -> None:
        """Send more input to an action that runs."""
        self.requester.feed(stream, value)
        self.flush(now)

    def set(
        self, path: str, value: Any, now: float, *, attribute: str | None = None, meta: dict[str, Any] | None = None
    ) -> Stream:
        """Set the value at a path, or an attribute of it."""
        if attribute is not None and (not attribute.startswith("@") or len(attribute) < 2):
            raise ValueError(f"{attribute!r} is no attribute: it begins with @")
        stream = self.requester.open(p.SET, path, wire.write_value(value, meta), attribute_field=attribute)
        self.flush(now)
        return stream

    def preflight(self, path: str, now: float) -> Stream:
        """Ask whether a path may be listed. Brokers in C++ hang up on this question."""
        stream = self.requester.open(p.PREFLIGHT, path)
        self.flush(now)
        return stream

    def close(self, stream: Stream, now: float) -> None:
        """Want no more of a stream."""
        self.requester.close(stream)
        self.flush(now)
