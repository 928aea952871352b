"""casual conversations: one side has control and sends, passes control, and at last the service ends it.

Two families of messages for the same thing: those of the document, and those that peers have sent since 2021.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...generate.simulation import Link, Process
from . import messages as p
from .conduct import TPNOTRAN

if TYPE_CHECKING:
    from .traffic import Peer, Play

TPSENDONLY, TPRECVONLY = map(p.XATMI_FLAGS.code, ("TPSENDONLY", "TPRECVONLY"))
TPEV_DISCONIMM, TPEV_SVCFAIL, TPEV_SVCSUCC, TPEV_SENDONLY = map(
    p.XATMI_EVENTS.code, ("TPEV_DISCONIMM", "TPEV_SVCFAIL", "TPEV_SVCSUCC", "TPEV_SENDONLY")
)
TPENOENT, TPESVCFAIL = map(p.XATMI_ERROR.code, ("TPENOENT", "TPESVCFAIL"))
SEND, RECEIVE, TERMINATED = 0, 1, 2
LIMIT_US = 30_000_000


def converse(play: Play, link: Link, peer: Peer) -> Process:
    """A whole conversation."""
    stage, rng = play.stage, play.rng
    service = stage.pick(peer.server.services)
    words = (LateWords if play.late else DocumentWords)(play, service.name)
    ours = stage.chance(0.5)
    """Whether the initiator has control."""
    padded = peer.client.java and play.late
    exchange = play.ask(link, words.connect(ours), service.name, limit_us=LIMIT_US, padded=padded)
    yield stage.delay(service.median_us)
    refused = stage.chance(0.05)
    status = TPENOENT if refused else 0
    link.reply(exchange, words.connected(status), "error" if refused else "ok", status)
    if refused:
        return
    for turn in range(1 + int(rng.random() * 4)):
        for _ in range(int(rng.random() * 3)):
            yield stage.delay(2_000)
            link.send("to_server" if ours else "to_client", words.data(ours, passes_control=False))
        yield stage.delay(2_000)
        if turn and stage.chance(0.1):
            link.send("to_server", words.disconnect(), padded=padded)
            return
        link.send("to_server" if ours else "to_client", words.data(ours, passes_control=True))
        ours = not ours
    if ours:
        yield stage.delay(2_000)
        link.send("to_server", words.data(ours, passes_control=True))
    yield stage.delay(4_000)
    link.send("to_client", words.end(failed=stage.chance(0.1)))


class Words:
    """The messages of a conversation."""

    def __init__(self, play: Play, service: str) -> None:
        self.play = play
        self.service = service
        self.ids = play.ids()


class DocumentWords(Words):
    """3200 .. 3203: events, and routes of opaque node addresses."""

    def __init__(self, play: Play, service: str) -> None:
        super().__init__(play, service)
        self.our_node, self.their_node = play.rng.getrandbits(63), play.rng.getrandbits(63)

    def connect(self, ours: bool) -> Any:
        return p.ConversationConnectRequest(
            **self.ids,
            service=p.Service(self.service, LIMIT_US),
            parent=p.Parent(""),
            xid=p.NULL_XID,
            flags=TPNOTRAN | (TPSENDONLY if ours else TPRECVONLY),
            recording=p.Nodes((self.our_node,)),
            buffer=self.play.buffer(self.service),
        )

    def connected(self, status: int) -> Any:
        route, recording = p.Nodes((self.our_node,)), p.Nodes((self.their_node,) if status == 0 else ())
        return p.ConversationConnectReply(**self.ids, route=route, recording=recording, status=status)

    def data(self, ours: bool, *, passes_control: bool) -> Any:
        return self._send(self.their_node if ours else self.our_node, TPEV_SENDONLY if passes_control else 0, 0)

    def end(self, *, failed: bool) -> Any:
        return self._send(self.our_node, TPEV_SVCFAIL if failed else TPEV_SVCSUCC, TPESVCFAIL if failed else 0)

    def _send(self, node: int, events: int, status: int) -> Any:
        buffer = self.play.buffer(self.service)
        return p.ConversationSend(**self.ids, route=p.Nodes((node,)), events=events, status=status, buffer=buffer)

    def disconnect(self) -> Any:
        return p.ConversationDisconnect(**self.ids, route=p.Nodes((self.their_node,)), events=TPEV_DISCONIMM)


class LateWords(Words):
    """3210 .. 3213: what the receiver may do next, and no routes."""

    def connect(self, ours: bool) -> Any:
        return p.ConversationConnectRequestLate(
            **self.ids,
            service=p.LateService(self.service, LIMIT_US * self.play.unit),
            parent=p.Parent(""),
            xid=p.NULL_XID,
            duplex=RECEIVE if ours else SEND,
            buffer=self.play.buffer(self.service),
        )

    def connected(self, status: int) -> Any:
        return p.ConversationConnectReplyLate(**self.ids, code=p.Outcome(status))

    def data(self, ours: bool, *, passes_control: bool) -> Any:
        return self._send(SEND if passes_control else RECEIVE, -1, 0)

    def end(self, *, failed: bool) -> Any:
        return self._send(TERMINATED, TPESVCFAIL if failed else 0, 7 if failed else 0)

    def _send(self, duplex: int, result: int, user: int) -> Any:
        code, buffer = p.OutcomeAndCode(result, user), self.play.buffer(self.service)
        return p.ConversationSendLate(**self.ids, duplex=duplex, code=code, buffer=buffer)

    def disconnect(self) -> Any:
        return p.ConversationDisconnectLate(**self.ids)
