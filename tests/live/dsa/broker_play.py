"""A broker in memory, and scripted links that speak to it in frames."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from wirelake.live.core.effects import Dial, Done, Failed, Store
from wirelake.live.core.link import INSIDE, Link
from wirelake.live.dsa import wire
from wirelake.live.dsa.handshake import ClientHandshake, Identity, Welcome
from wirelake.live.dsa.options import BrokerOptions
from wirelake.live.dsa.permissions import CONFIG, Role
from wirelake.live.dsa.server import DsaBroker
from wirelake.live.dsa.store import SCHEMA, BrokerRules
from wirelake.live.dsa.wire import Outgoing, Received, read_value, split_pairs, write_headers, write_value
from wirelake.live.storage.sqlite import SqliteMemory
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers

EPOCH = 1_700_000_000.0
BROKER = Identity(bytes(31) + b"\x07", "broker-")
pack = msgspec.msgpack.encode
unpack = msgspec.msgpack.decode


class Play:
    """One broker and its links. ``disk`` outlives ``restart``; ``failing`` makes stores fail."""

    def __init__(
        self,
        *,
        options: BrokerOptions | None = None,
        roles: dict[str, Role] | None = None,
        allow_all: bool | None = True,
        quarantine: bool | None = None,
        has_store: bool = True,
    ) -> None:
        self.now = 0.0
        self.options, self.allow_all, self.quarantine, self.has_store = options, allow_all, quarantine, has_store
        self.roles = {"default": Role("default", CONFIG)} if roles is None else roles
        self.disk = SqliteMemory(SCHEMA, BrokerRules)
        self.failing = False
        self.is_stuck = False
        """Whether stores wait."""
        self.dials: list[Dial] = []
        self.stores: list[Store] = []
        self.notes: list[Any] = []
        self.links: list[Scripted] = []
        self.start()

    def start(self) -> None:
        self.broker = DsaBroker(
            BROKER,
            self.options,
            roles=self.roles,
            allow_all=self.allow_all,
            quarantine=self.quarantine,
            has_store=self.has_store,
            epoch=EPOCH,
            chance=random.Random(1),
        )
        self.settle()

    def restart(self) -> None:
        """The process is killed and begins again."""
        self.links.clear()
        self.stores.clear()
        self.start()

    def settle(self) -> None:
        """Do what the broker leaves."""
        broker = self.broker
        while broker.effects or broker.changed or (self.stores and not self.is_stuck):
            for effect in broker.effects[:]:
                broker.effects.remove(effect)
                if isinstance(effect, Store):
                    self.stores.append(effect)
                elif isinstance(effect, Dial):
                    self.dials.append(effect)
            while self.stores and not self.is_stuck:
                self.store(self.stores.pop(0))
            for link in broker.changed[:]:
                broker.changed.remove(link)
        self.notes += broker.notes
        broker.notes.clear()
        for one in self.links:
            one.take()

    def store(self, effect: Store) -> None:
        result = Failed(OSError(28, "no space left")) if self.failing else Done(self.disk.apply(effect.request))
        self.broker.completed(effect, result, self.now)

    def wait(self, seconds: float) -> None:
        """Let time pass, tick by tick."""
        end = self.now + seconds
        while (due := self.broker.deadline) is not None and due <= end:
            self.now = max(due, self.now)
            self.broker.tick(self.now)
            self.settle()
        self.now = end

    def link(self, name: str = "link", **more: Any) -> Scripted:
        link = Scripted(self, name, **more)
        link.greet()
        return link


class Scripted:
    """One end of a connection to the broker, which says exactly what a test says."""

    def __init__(
        self,
        play: Play,
        name: str,
        *,
        is_responder: bool = True,
        token: str = "",
        seed: int | None = None,
        peer: str = "1.2.3.4:5",
    ) -> None:
        self.play = play
        self.identity = Identity.make(random.Random(seed if seed is not None else name), f"{name}-")
        salt = random.Random(len(play.links)).randbytes(32)
        self.handshake = ClientHandshake(self.identity, salt, token=token, is_responder=is_responder)
        self.link: Link = play.broker.new_link(wire.DSA_TCP, "server", peer)
        self.heard: list[Received] = []
        self.acks: list[int] = []
        self.welcome: Welcome | None = None
        self.is_silent = False
        """Whether acks are left out."""
        self._reader = wire.Reader()
        self._next_ack = 0
        self._newest = 0
        self.ids = 0
        play.links.append(self)
        play.broker.connected(self.link, play.now)
        play.settle()

    @property
    def dsid(self) -> str:
        return self.identity.dsid

    def greet(self) -> None:
        self.raw(wire.control(p.F0, self.handshake.hello()))
        if self.heard:
            self.raw(wire.control(p.F2, self.handshake.answer(self.heard.pop())))
        if self.heard:
            self.welcome = self.handshake.finish(self.heard.pop(0))

    def raw(self, data: bytes) -> None:
        self.play.broker.receive(self.link, data, self.play.now)
        self.play.settle()

    def take(self) -> None:
        """Read what the broker has written."""
        data = b"".join(self.link.out)
        self.link.out.clear()
        self.link.unsent = 0
        self._reader.read(data, self._heard)
        if self.link.wants_room:
            self.link.wants_room = False
            self.play.broker.writable(self.link, self.play.now)
            self.take()

    def _heard(self, message: Received) -> None:
        if message.method == p.ACK:
            self.acks.append(wire.read_ack(message))
        elif message.method != p.PING:
            self.heard.append(message)
            self._newest = message.ack_id

    def say(self, method: int, request_id: int, headers: Headers | None = None, body: bytes = b"") -> int:
        self._next_ack += 1
        head = write_headers(headers) if headers is not None else b""
        self.raw(Outgoing(method, request_id, head, body).stamped(self._next_ack))
        return self._next_ack

    def ack(self) -> None:
        """Acknowledge everything that came."""
        self.raw(wire.ack(self._newest))

    def cut(self) -> None:
        """The connection is gone."""
        self.play.broker.disconnected(self.link, self.play.now)
        self.link.end()
        if self in self.play.links:
            self.play.links.remove(self)
        self.play.settle()

    @property
    def is_closed(self) -> bool:
        return self.link.closing is not None

    # --- as a requester

    def ask(self, method: int, path: str | None, body: bytes = b"", **headers: Any) -> int:
        self.ids += 1
        self.say(method, self.ids, Headers(target_path=path, **headers), body)
        return self.ids

    def subscribe(self, path: str, **headers: Any) -> int:
        return self.ask(p.SUB, path, **headers)

    def list(self, path: str, **headers: Any) -> int:
        return self.ask(p.LIST, path, **headers)

    def invoke(self, path: str, params: Any = None, **headers: Any) -> int:
        return self.ask(p.INVOKE, path, pack(params) if params is not None else b"", **headers)

    def set(self, path: str, value: Any, **headers: Any) -> int:
        return self.ask(p.SET, path, write_value(value), **headers)

    def call(self, path: str, params: Any = None) -> tuple[int, Any]:
        """Invoke an action of the broker; return status and result."""
        self.hear()
        request_id = self.invoke(path, params or {})
        (reply,) = self.hear(request_id)
        return reply.status, unpack(reply.body) if reply.body else None

    def hear(self, request_id: int | None = None) -> list[Received]:
        """Take what came, of one stream or of all."""
        found = [one for one in self.heard if request_id is None or one.request_id == request_id]
        self.heard = [one for one in self.heard if one not in found]
        return found

    def values(self, request_id: int) -> list[tuple[int, Any]]:
        """Status and value of each update that came; no value is ``...``."""
        return [(one.status, read_value(one.body)[0] if one.body else ...) for one in self.hear(request_id)]

    def entries(self, request_id: int) -> dict[str, Any]:
        """What a list has told, all messages together."""
        found: dict[str, Any] = {}
        for one in self.hear(request_id):
            if one.headers.refreshed:
                found.clear()
            for key, value in split_pairs(one.body):
                found[key.decode()] = unpack(value) if value else None
        return found

    # --- as a responder

    def update(self, request: Received, value: Any, status: int = 0) -> int:
        return self.say(p.SUB_R, request.request_id, Headers(status=status), write_value(value))


INSIDE_PEER = INSIDE
