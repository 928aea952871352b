"""A stage for CEDA sessions: peers that follow a script, and clients tied to a server by pipes that cut at random."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cached_property
from typing import Any

import wirelake
from wirelake.live.ceda.client import CedaClient
from wirelake.live.ceda.data import Blob, Record, write_record
from wirelake.live.ceda.events import Delivered
from wirelake.live.ceda.logins import CedaLogin, LoginAttempt
from wirelake.live.ceda.options import CedaClientOptions, CedaServerOptions
from wirelake.live.ceda.server import CedaServer
from wirelake.live.ceda.wire import CEDA4_WS, CEDA_TCP, FRAMINGS, decode_payload
from wirelake.live.core.effects import Authenticate, Done, Effect, Failed, Result
from wirelake.live.core.link import INSIDE, Link
from wirelake.live.core.session import Session
from wirelake.protocols import ceda as p

HEARTBEAT = "820101"


class Messages:
    """A transport that keeps payloads apart itself."""

    name = "messages"

    def wrap(self, body: bytes) -> bytes:
        return body


CEDA_MESSAGES = Messages()


def control(kind: type, code: int, record: Record, dialect: str = CEDA4_WS) -> bytes:
    return wirelake.encode(kind(control_code=code, body=write_record(record)), dialect=dialect)


class Peer:
    """The other end of a link: says what the script tells it to, and remembers what it hears."""

    def __init__(self, session: Session, number: int, dialect: str = CEDA4_WS, websocket: bool = False) -> None:
        self.session = session
        self.dialect = dialect
        self.websocket = websocket
        self.link = session.new_link(CEDA_MESSAGES if websocket else CEDA_TCP, "server", f"peer{number}")

    def connect(self, now: float = 0.0) -> Peer:
        self.session.connected(self.link, now)
        return self

    def say(self, what: str | bytes | Any, now: float = 0.0) -> list[Any]:
        """Says hex, bytes or a message; gives what it hears then."""
        if isinstance(what, str):
            what = bytes.fromhex(what)
        elif not isinstance(what, bytes):
            what = wirelake.encode(what, dialect=self.dialect)
        if self.websocket:
            self.session.receive_messages(self.link, [_payload(what)], now)
        else:
            self.session.receive(self.link, what, now)
        return self.heard()

    def raw(self) -> bytes:
        """What was written to it since the last look."""
        wire = b"".join(self.link.out)
        self.link.out.clear()
        self.link.unsent = 0
        self.session.changed[:] = [link for link in self.session.changed if link is not self.link or link.closing]
        return wire

    def heard(self) -> list[Any]:
        if self.websocket:
            bodies = list(self.link.out)
            self.raw()
            return [decode_payload(body, CEDA4_WS) for body in bodies]
        decoder = wirelake.StreamDecoder("ceda", dialect=self.dialect)
        events = decoder.feed(self.raw())
        assert decoder.pending == 0
        return [event.message for event in events]

    def login(self, user: str = "demo", password: str = "s3cret", client_id: str = "", now: float = 0.0) -> Peer:
        (result,) = self.say(control(p.Login, 3, {7: client_id, 5: password, 4: user}, self.dialect), now)
        assert values(result)[1] == 1
        return self

    def subscribe(self, *patterns: str, code: int = 13, now: float = 0.0) -> list[Any]:
        return self.say(control(p.Subscribe, code, {3: "|".join(patterns)}, self.dialect), now)

    def unsubscribe(self, *patterns: str, code: int = 14) -> list[Any]:
        return self.say(control(p.Unsubscribe, code, {3: "|".join(patterns)}, self.dialect))

    def publish(self, topic: str, record: Record, now: float = 0.0) -> list[Any]:
        return self.say(p.Publish(topic=topic, body=write_record(record)), now)

    @property
    def is_closed(self) -> bool:
        return self.link.closing is not None

    def leave(self, now: float = 0.0) -> None:
        self.session.disconnected(self.link, now)


def _payload(frame: bytes) -> bytes:
    return frame[4:] if frame[1] == 126 else frame[2:]


def values(message: Any) -> dict[int, Any]:
    return {cell.fid: cell.value for cell in message.record}


class JudgingServer(CedaServer):
    """A server whose logins ``authenticate`` decides at once; it may also leave that for later, with None."""

    def __init__(
        self,
        options: CedaServerOptions | None = None,
        *,
        authenticate: Callable[[LoginAttempt], Any] = lambda attempt: True,
        chance: random.Random | None = None,
    ) -> None:
        super().__init__(options, chance=chance)
        self.authenticate = authenticate
        self.now = 0.0
        self.undecided: list[Authenticate] = []

    def _login(self, connection: Any, code: Any, record: Any, now: float) -> None:
        self.now = now
        super()._login(connection, code, record, now)

    def want(self, effect: Effect) -> None:
        assert isinstance(effect, Authenticate)
        super().want(effect)
        self.effects.remove(effect)
        result: Result
        try:
            result = Done(self.authenticate(effect.attempt))
        except Exception as error:
            result = Failed(error)
        if result == Done(None):
            self.undecided.append(effect)
        else:
            self.completed(effect, result, self.now)

    def decide(self, verdict: bool | str, now: float) -> None:
        self.completed(self.undecided.pop(0), Done(verdict), now)


class Participant:
    """A client of a server in its own process; what either says arrives at once. It has the connection id 1000."""

    def __init__(self, server: CedaServer, name: str = "") -> None:
        self.server = server
        self.client = CedaClient(CedaLogin(name), CedaClientOptions(charset=server.options.charset))
        self.there = server.new_link(CEDA_TCP, "server", INSIDE)
        self.here = self.client.new_link(CEDA_TCP, "client", INSIDE)
        following, server._next_id = server._next_id, 1000
        server.connected(self.there, 0.0)
        server._next_id = following
        self.client.connected(self.here, 0.0)
        self.settle(0.0)
        self.client.events.clear()

    def settle(self, now: float) -> None:
        while self.here.out or self.there.out:
            for link, session, other in (
                (self.here, self.server, self.there),
                (self.there, self.client, self.here),
            ):
                if link.out:
                    data, link.unsent = link.take(), 0
                    session.receive(other, data, now)
        self.server.changed[:] = [link for link in self.server.changed if link is not self.there]

    def listen(self, patterns: list[str]) -> None:
        self.client.subscribe(patterns, 0.0)
        self.settle(0.0)

    def unlisten(self, patterns: list[str]) -> None:
        self.client.unsubscribe(patterns, 0.0)
        self.settle(0.0)

    def publish(self, topic: str, record: Record, now: float, *, blob: Blob | None = None) -> None:
        self.client.publish(topic, record, now, blob=blob)
        self.settle(now)

    def request(self, topic: str, record: Record, now: float, *, timeout: float | None = 30.0) -> str:
        token = self.client.request(topic, record, now, timeout=timeout)
        self.settle(now)
        return token

    def reply(self, asked: Delivered, record: Record, now: float) -> None:
        self.client.reply(asked.message, record, now)
        self.settle(now)

    def events(self, kind: type | None = None) -> list[Any]:
        self.settle(0.0)
        found, self.client.events[:] = list(self.client.events), []
        return [event for event in found if kind is None or isinstance(event, kind)]


class Scene:
    """A server with scripted peers."""

    def __init__(self, server: CedaServer | None = None) -> None:
        self.server = server or JudgingServer()
        self.count = 0

    @cached_property
    def inside(self) -> Participant:
        """Somebody in the server's own process."""
        return Participant(self.server)

    def peer(self, dialect: str = CEDA4_WS, websocket: bool = False, now: float = 0.0) -> Peer:
        self.count += 1
        return Peer(self.server, self.count, dialect, websocket).connect(now)

    def member(self, user: str = "demo", *patterns: str, client_id: str = "", dialect: str = CEDA4_WS) -> Peer:
        """Somebody who is logged in, and has subscribed."""
        peer = self.peer(dialect).login(user, client_id=client_id)
        if patterns:
            peer.subscribe(*patterns)
        return peer


class Wire:
    """Bytes on their way from one link to another session, handed over in random pieces."""

    def __init__(self, source: Link, target: Session, target_link: Link) -> None:
        self.source, self.target, self.target_link = source, target, target_link
        self.waiting = b""
        self.log: list[bytes] = []

    def load(self) -> None:
        if self.source.out:
            wire = self.source.take()
            self.source.unsent = 0
            self.waiting += wire
            self.log.append(wire)

    def step(self, chance: random.Random, now: float) -> bool:
        self.load()
        if not self.waiting:
            return False
        size = min(len(self.waiting), chance.choice((1, 2, 3, 7, 50, 400, 5000, 70_000)))
        piece, self.waiting = self.waiting[:size], self.waiting[size:]
        self.target.receive(self.target_link, piece, now)
        return True


class Tied:
    """A server and clients in memory. Everything that is random comes from the seed."""

    def __init__(self, server: CedaServer, clients: list[CedaClient], seed: int = 1) -> None:
        self.server, self.clients = server, clients
        self.chance = random.Random(seed)
        self.now = 0.0
        self.count = 0
        self.wires: list[Wire] = []
        self.links: dict[int, tuple[Link, Link]] = {}
        for i in range(len(clients)):
            self.connect(i)

    def connect(self, i: int) -> None:
        self.count += 1
        client = self.clients[i]
        here = client.new_link(FRAMINGS[client.options.dialect], "client", "server")
        there = self.server.new_link(CEDA_TCP, "server", f"client{i}")
        self.links[i] = (here, there)
        self.wires += [Wire(here, self.server, there), Wire(there, client, here)]
        self.server.connected(there, self.now)
        client.connected(here, self.now)

    def cut(self, i: int) -> None:
        here, there = self.links[i]
        self.wires = [wire for wire in self.wires if wire.source not in (here, there)]
        self.clients[i].disconnected(here, self.now)
        self.server.disconnected(there, self.now)

    def run(self) -> None:
        """Until nothing is on its way."""
        while True:
            order = self.chance.sample(self.wires, len(self.wires))
            moved = [wire.step(self.chance, self.now) for wire in order]
            if not any(moved):
                return

    def advance(self, seconds: float) -> None:
        """Lets time pass, ticking when somebody wants it."""
        end = self.now + seconds
        while True:
            self.run()
            times = [when for one in (self.server, *self.clients) if (when := one.deadline) is not None]
            due = min(times, default=end)
            if due > end:
                break
            self.now = max(due, self.now)
            for one in (self.server, *self.clients):
                one.tick(self.now)
        self.now = end
        self.run()

    def events(self, i: int, kind: type | None = None) -> list[Any]:
        client = self.clients[i]
        found, client.events[:] = list(client.events), []
        return [event for event in found if kind is None or isinstance(event, kind)]
