"""A broker and those who talk to it, in memory: what tests of MB sessions share."""

from __future__ import annotations

import json
import random
import re
from typing import Any

from wirelake.live.core.link import Framing, Link
from wirelake.live.core.session import Session
from wirelake.live.drive.websocket import WebSocketFraming
from wirelake.live.mb.options import BrokerOptions
from wirelake.live.mb.server import MbBroker
from wirelake.live.mb.wire import MB_TCP

MB_WS = WebSocketFraming(is_text=True)
R = "3f2b8c1e-6d4a-4b7e-9c05-1a2b3c4d5e6f"
P = "9a1d2c3b-4e5f-4a6b-8c7d-0e1f2a3b4c5d"
F = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
EPOCH = 1_740_823_200.0
"""2025-03-01T10:00:00Z."""
UUID4 = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def frame(body: bytes | str) -> bytes:
    body = body.encode() if isinstance(body, str) else body
    return len(body).to_bytes(4, "big") + body


def unframe(wire: bytes) -> list[bytes]:
    bodies = []
    while wire:
        size = int.from_bytes(wire[:4], "big")
        assert len(wire) >= 4 + size, "a frame is not whole"
        bodies.append(wire[4 : 4 + size])
        wire = wire[4 + size :]
    return bodies


def unframe_websocket(wire: bytes) -> list[bytes]:
    """The messages in unmasked, unfragmented frames."""
    bodies = []
    while wire:
        assert wire[0] in (0x81, 0x82)
        size, start = wire[1], 2
        if size >= 126:
            start = 4 if size == 126 else 10
            size = int.from_bytes(wire[2:start], "big")
        assert len(wire) >= start + size, "a frame is not whole"
        bodies.append(wire[start : start + size])
        wire = wire[start + size :]
    return bodies


class Said:
    """A message that was written."""

    def __init__(self, body: bytes) -> None:
        line, _, self.payload = body.partition(b"\n")
        self.body = body
        self.header = line.decode()
        self.fields = self.header.split(":")
        self.action, self.topic, self.version = self.fields[:3]
        self.rid = self.fields[3] if len(self.fields) > 3 else None

    def __repr__(self) -> str:
        return repr(self.body)

    @property
    def json(self) -> Any:
        return json.loads(self.payload)

    @property
    def code(self) -> str | None:
        """That of the error which it is."""
        value = self.json
        return value["error"]["code"] if "error" in value else None

    @property
    def details(self) -> Any:
        return self.json["error"].get("details")


class Stage:
    """A session, the time, and its connections."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.now = 0.0
        self._numbers = 0

    def link(self, framing: Framing = MB_TCP) -> Link:
        self._numbers += 1
        return self.session.new_link(framing, "server", f"peer{self._numbers}")

    def pass_time(self, seconds: float) -> None:
        """Ticks whenever the session wants it."""
        end = self.now + seconds
        while (due := self.session.deadline) is not None and due <= end:
            self.now = max(self.now, due)
            self.session.tick(self.now)
            after = self.session.deadline
            assert after is None or after > self.now or after > due, "a deadline that stays"
        self.now = end

    def written(self, link: Link) -> bytes:
        """What is to be written; counts as taken by the peer."""
        self.session.changed.clear()
        wire = link.take() if link.out else b""
        link.unsent = 0
        return wire


class Broker(Stage):
    """A broker with its peers."""

    session: MbBroker

    def __init__(self, seed: int = 1, options: BrokerOptions | None = None, **more: Any) -> None:
        super().__init__(MbBroker(options=options, epoch=EPOCH, chance=random.Random(seed), **more))
        self.peers: list[Peer] = []

    def join(self, framing: Framing = MB_TCP, *, silent: bool = True) -> Peer:
        """One more connection; its greeting is taken away if ``silent``."""
        peer = Peer(self, self.link(framing))
        self.peers.append(peer)
        self.session.connected(peer.link, self.now)
        if silent:
            peer.take()
        return peer


class Peer:
    """A connection to the broker: says bodies, takes bodies."""

    def __init__(self, broker: Broker, link: Link) -> None:
        self.broker = broker
        self.link = link

    def feed(self, data: bytes) -> None:
        self.broker.session.receive(self.link, data, self.broker.now)

    def say(self, *bodies: str | bytes) -> None:
        if self.link.framing is MB_TCP:
            self.feed(b"".join(frame(body) for body in bodies))
        else:
            whole = [body.encode() if isinstance(body, str) else body for body in bodies]
            self.broker.session.receive_messages(self.link, whole, self.broker.now)

    def take(self) -> list[Said]:
        wire = self.broker.written(self.link)
        return [Said(body) for body in (unframe if self.link.framing is MB_TCP else unframe_websocket)(wire)]

    def ask(self, *bodies: str | bytes) -> list[Said]:
        self.say(*bodies)
        return self.take()

    def one(self, body: str | bytes) -> Said:
        """The only answer."""
        (said,) = self.ask(body)
        return said

    def system(self, topic: str, args: Any = None) -> Said:
        payload = "" if args is None else json.dumps(args)
        return self.one(f"request:{topic}:1.0.0:{R}\n{payload}")

    def subscribe(self, topic: str, action: str = "publish", **more: Any) -> Peer:
        said = self.system("system.topic.subscribe", {"action": action, "topic": topic, **more})
        assert said.json == {"status": "success"}, said
        return self

    def leave(self) -> None:
        self.broker.session.disconnected(self.link, self.broker.now)

    @property
    def id(self) -> str:
        state = self.link.state
        assert state is not None
        return str(state.id)
