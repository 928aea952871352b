"""Sessions: the peers behind dsIds, where their trees hang, and when they end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .peers import Client, Peer

if TYPE_CHECKING:
    from .server import DsaBroker

DOWNSTREAM, QUARANTINE = "downstream", "sys/quarantine"
NOT_SUPPORTED = 0x41


class Sessions:
    """All sessions of a broker, but for those of upstream brokers."""

    def __init__(self, broker: DsaBroker) -> None:
        self._broker = broker
        self.peers: dict[str, Peer] = {}
        """The session of each dsId."""
        self.others: dict[str, list[Peer]] = {}
        """Further sessions of clients that may have several."""
        self.quarantined: dict[str, Peer] = {}

    def quarantine(self, dsid: str) -> Peer:
        """Return the session of a client that is in quarantine, which may have one already."""
        path = f"{QUARANTINE}/{dsid}"
        peer = self.quarantined.get(dsid)
        if peer is None:
            peer = self.quarantined[dsid] = Peer(self._broker.desk, Client(dsid), path)
            peer.is_quarantined = True
            self._broker.routes.places[path] = peer
            self._broker.system.quarantine.add_placeholder(dsid)
        elif peer.connection is not None:
            self.displace(peer)
        return peer

    def session_of(self, client: Client) -> Peer:
        peer = self.peers.get(client.dsid)
        if peer is None:
            path = f"{DOWNSTREAM}/{client.name}" if client.name else ""
            peer = self.peers[client.dsid] = Peer(self._broker.desk, client, path)
        elif client.name:
            peer.path = f"{DOWNSTREAM}/{client.name}"
        return peer

    def place(self, client: Client) -> None:
        """Hang the tree of a responder into ours, where it stays also while the link is away."""
        if client.name:
            peer = self.session_of(client)
            self._broker.routes.places[peer.path] = peer
            node = self._broker.tree.root.children[DOWNSTREAM]
            if client.name not in node.children:
                node.add_placeholder(client.name)

    def another_session(self, peer: Peer) -> Peer:
        """The client is connected already: it may have several sessions, or the new one wins."""
        client = peer.client
        others = self.others.setdefault(client.dsid, [])
        if len(others) + 1 < client.max_session:
            other = Peer(self._broker.desk, client, "")
            others.append(other)
            return other
        self.displace(peer)
        return peer

    def displace(self, peer: Peer) -> None:
        connection = peer.connection
        assert connection is not None
        peer.go()
        connection.link.close("another connection of the same dsId came")

    def count(self, dsid: str) -> int:
        peer = self.peers.get(dsid)
        return (peer is not None and peer.connection is not None) + len(self.others.get(dsid, ()))

    def left(self, peer: Peer) -> None:
        """The connection of a peer is gone; its session stays for a while."""
        peer.go()
        client = peer.client
        self._broker.note("info", "disconnected", **peer.facts)
        if peer.is_trusted:
            self._remove(peer)
            self._broker.admission.unname(client)
        elif peer.is_quarantined:
            self._leave_quarantine(peer)
        elif peer in self.others.get(client.dsid, ()):
            self.others[client.dsid].remove(peer)
            peer.end(NOT_SUPPORTED)
        elif self.peers.get(client.dsid) is peer:
            self._broker.timers.set(("session", peer), self._broker.desk.now + self._broker.options.session_seconds)
        if client.dsid in self._broker.admission.clients:
            self._broker.system.show_client(client, self.count(client.dsid))

    def expire(self, peer: Peer) -> None:
        if peer.connection is None:
            self._broker.counts["sessions_expired"] += 1
            peer.forget_waiting()
            if not peer.client.name and not peer.values and not peer.lists:
                self.peers.pop(peer.client.dsid, None)

    def _leave_quarantine(self, peer: Peer) -> None:
        self.quarantined.pop(peer.client.dsid, None)
        self._broker.routes.places.pop(peer.path, None)
        self._broker.system.quarantine.remove(peer.client.dsid)
        peer.end(NOT_SUPPORTED)

    def release(self, dsid: str) -> None:
        """A client need not be in quarantine any more: it connects again, and is known then."""
        peer = self.quarantined.get(dsid)
        if peer is not None:
            self._close(peer, "authorized")
            self._leave_quarantine(peer)

    def expel(self, dsid: str) -> None:
        """A client is no longer known: its sessions end, and its tree is gone."""
        for peer in (*self.others.pop(dsid, ()), *filter(None, (self.peers.get(dsid),))):
            self._close(peer, "the client was removed")
            self._remove(peer)

    def _close(self, peer: Peer, reason: str) -> None:
        if peer.connection is not None:
            peer.connection.link.close(reason)

    def _remove(self, peer: Peer) -> None:
        client = peer.client
        if self.peers.get(client.dsid) is peer:
            del self.peers[client.dsid]
        if self._broker.routes.places.get(peer.path) is peer:
            del self._broker.routes.places[peer.path]
            self._broker.tree.root.children[DOWNSTREAM].remove(client.name)
        for timer in ("session", "resume"):
            self._broker.timers.drop((timer, peer))
        peer.end(NOT_SUPPORTED)
