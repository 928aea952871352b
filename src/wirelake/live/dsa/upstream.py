"""Brokers that this broker connects to as a client: their trees hang below ``upstream``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from ..core.effects import Dial, Done, Failed, Result
from .local_calls import Answer
from .peers import Client, Peer
from .permissions import DEFAULT
from .store import Put, Remove

if TYPE_CHECKING:
    from .greetings import Guest
    from .server import DsaBroker

UPSTREAM = "upstream"
"""The kind of fact that upstream brokers are, and the node below which they hang."""
PORT = 4120
MOST_DELAY = 60.0
NOT_SUPPORTED = 0x41


@dataclass(frozen=True, slots=True)
class Upstream:
    """Where the broker is, the token to show it, and the role that it has here."""

    name: str
    host: str
    port: int = PORT
    token: str = field(default="", repr=False)
    role: str = DEFAULT

    @property
    def url(self) -> str:
        return f"dsa://[{self.host}]:{self.port}" if ":" in self.host else f"dsa://{self.host}:{self.port}"


def read_upstream(name: str, url: str, token: str, role: str) -> Upstream:
    """Return the upstream broker at ``dsa://HOST:PORT``. ValueError says what is wrong."""
    parts = urlsplit(url)
    try:
        port = parts.port or PORT
    except ValueError:
        port = 0
    if parts.scheme not in ("dsa", "ds") or not parts.hostname or not port or parts.path.strip("/"):
        raise ValueError("Url has to be dsa://HOST:PORT")
    return Upstream(name, parts.hostname, port, token, role)


@dataclass(slots=True, eq=False)
class Way:
    """The connection to one upstream broker, or the next attempt at one."""

    upstream: Upstream
    peer: Peer
    dial: Dial | None = None
    guest: Guest | None = None
    tries: int = 0
    since: float = 0.0
    """When the connection was there."""


class Upstreams:
    """Keeps all of them connected."""

    def __init__(self, broker: DsaBroker) -> None:
        self._broker = broker
        self._ways: dict[str, Way] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._ways

    def __iter__(self) -> Iterator[Way]:
        return iter(self._ways.values())

    def add(self, upstream: Upstream, answer: Answer) -> None:
        """Connect to one more broker, also after a restart."""
        self.begin(upstream)
        self._broker.desk.keep(Put(UPSTREAM, upstream.name, asdict(upstream)), answer)

    def restore(self, name: str, fact: Any) -> None:
        if name not in self._ways:
            self.begin(Upstream(**fact))

    def begin(self, upstream: Upstream) -> None:
        broker, path = self._broker, f"{UPSTREAM}/{upstream.name}"
        peer = Peer(broker.desk, Client(upstream.name, upstream.role), path, is_responder=True)
        way = self._ways[upstream.name] = Way(upstream, peer)
        broker.routes.places[path] = peer
        broker.tree.root.children[UPSTREAM].add_placeholder(upstream.name)
        broker.system.show_upstream(upstream.name, upstream.url)
        self.dial(way)

    def remove(self, name: str, answer: Answer) -> None:
        broker, way = self._broker, self._ways.pop(name, None)
        if way is not None:
            broker.routes.places.pop(way.peer.path, None)
            broker.tree.root.children[UPSTREAM].remove(name)
            broker.system.hide_upstream(name)
            broker.timers.drop(way)
            way.peer.end(NOT_SUPPORTED)
            if way.guest is not None:
                way.guest.connection.link.close("the upstream broker was removed")
        broker.desk.keep(Remove(UPSTREAM, name), answer)

    def dial(self, way: Way) -> None:
        if self._ways.get(way.upstream.name) is way and way.dial is None and way.guest is None:
            way.dial = Dial((way.upstream.host, way.upstream.port))
            self._broker.want(way.dial)

    def dialled(self, effect: Dial, result: Result) -> None:
        """A connection is made, or not."""
        way = next((way for way in self._ways.values() if way.dial is effect), None)
        link = result.value if isinstance(result, Done) else None
        if way is None:
            if link is not None:
                link.close("nobody wants this connection any more")
            return
        way.dial = None
        if link is not None and link.closing is None:
            self._broker.greetings.greet(link, way)
        else:
            if isinstance(result, Failed):
                self._broker.note("warn", "cannot reach an upstream broker", name=way.upstream.name)
            self._try_later(way)

    def came(self, way: Way) -> None:
        """The handshake is done."""
        way.since = self._broker.desk.now
        self._show(way, is_connected=True)

    def gone(self, way: Way) -> None:
        """The connection is lost, or the handshake failed."""
        way.guest = None
        now = self._broker.desk.now
        if way.since and now - way.since > MOST_DELAY:
            way.tries = 0
        way.since = 0.0
        self._show(way, is_connected=False)
        self._try_later(way)

    def _try_later(self, way: Way) -> None:
        if self._ways.get(way.upstream.name) is way:
            way.tries += 1
            self._broker.timers.set(way, self._broker.desk.now + min(float(way.tries), MOST_DELAY))

    def _show(self, way: Way, *, is_connected: bool) -> None:
        node = self._broker.system.upstream_node(way.upstream.name)
        if node is not None:
            node.children["connected"].set_value(is_connected)
