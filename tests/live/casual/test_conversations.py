"""Conversations in both of their forms: served, begun, bridged, and what must not be (sections 13 and 15)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.casual.play import Peer, Play, services_of, uuid, xid
from wirelake.live.casual import events
from wirelake.live.casual.handlers import Answer, ServiceEntry, Services
from wirelake.live.casual.options import PeerSettings
from wirelake.live.casual.wire import NULL_XID, Buffer
from wirelake.live.core.effects import Call, Done
from wirelake.protocols import casual as c

SENDONLY, RECVONLY = 0x800, 0x1000
SVCERR, SVCFAIL, SVCSUCC, EV_SENDONLY = 2, 4, 8, 0x20
THERE = PeerSettings(("there", 1))


def octets(payload: bytes) -> Buffer:
    return c.Buffer("X_OCTET/", payload)


def document(peer: Peer, flags: int, name: str = "talk", xid: c.Xid = NULL_XID, timeout: int = 0) -> tuple[bytes, Any]:
    correlation = peer.next_id()
    service, nodes = c.Service(name, timeout), c.Nodes((11, 12))
    peer.send(
        c.ConversationConnectRequest(correlation, uuid(77), service, c.Parent(""), xid, flags, nodes, octets(b"first"))
    )
    return correlation, peer.heard.popleft() if peer.heard else None


def late(peer: Peer, duplex: int, name: str = "talk") -> tuple[bytes, Any]:
    correlation = peer.next_id()
    service = c.LateService(name, 0)
    peer.send(
        c.ConversationConnectRequestLate(
            correlation, uuid(77), service, c.Parent(""), NULL_XID, duplex, octets(b"first")
        )
    )
    return correlation, peer.heard.popleft() if peer.heard else None


def say(peer: Peer, correlation: bytes, payload: bytes, happened: int = 0) -> None:
    peer.send(c.ConversationSend(correlation, uuid(77), c.Nodes((1,)), happened, 0, octets(payload)))


def conversing() -> tuple[Play, list[Any]]:
    """A domain whose conversations are held: the test is the service."""
    services = Services()
    services.add(ServiceEntry("talk", lambda invocation: Answer(0), "join", is_conversational=True))
    play = Play(services)
    play.holds = (Call,)
    return play, play.events


def test_the_service_replies_and_talks_when_it_has_control() -> None:
    play, _ = conversing()
    peer = play.peer()
    correlation, reply = document(peer, RECVONLY)
    assert (reply.status, reply.route.nodes, len(reply.recording.nodes)) == (0, (11, 12), 1)
    (effect,) = play.held
    token, has_control = effect.request.conversation  # type: ignore[attr-defined]
    assert has_control and effect.request.buffer == octets(b"first")  # type: ignore[attr-defined]
    send = play.session.conversations.send
    assert send(token, octets(b"a"), play.now) and send(token, octets(b"b"), play.now, passes_control=True)
    assert not send(token, octets(b"c"), play.now), "control has passed"
    play.settle()
    assert [(m.events, m.buffer.payload, m.route.nodes) for m in peer.heard] == [
        (0, b"a", (11, 12)),
        (EV_SENDONLY, b"b", (11, 12)),
    ]
    peer.heard.clear()
    say(peer, correlation, b"d")
    say(peer, correlation, b"e", EV_SENDONLY)
    assert play.events[-2:] == [
        events.ConversationHeard(token, octets(b"d"), False),
        events.ConversationHeard(token, octets(b"e"), True),
    ]
    play.held.clear()
    play.complete(effect, Done(Answer(11, 5, octets(b"end"))))
    (end,) = peer.heard
    assert (end.events, end.status, end.buffer.payload) == (SVCFAIL, 11, b"end")
    assert not peer.link.state.conversations


def test_late_peers_are_answered_in_their_form() -> None:
    play, _ = conversing()
    peer = play.peer(versions=(1000, 1001))
    correlation, reply = late(peer, 0)
    assert type(reply) is c.ConversationConnectReplyLate and reply.code.result == 0
    (effect,) = play.held
    token, has_control = effect.request.conversation  # type: ignore[attr-defined]
    assert has_control
    play.session.conversations.send(token, octets(b"a"), play.now)
    play.session.conversations.send(token, octets(b"b"), play.now, passes_control=True)
    play.settle()
    assert [(m.duplex, m.code.result, m.buffer.payload) for m in peer.heard] == [(1, -1, b"a"), (0, -1, b"b")]
    peer.heard.clear()
    play.held.clear()
    play.complete(effect, Done(Answer(0, 5, octets(b"end"))))
    (end,) = peer.heard
    assert (end.duplex, end.code.result, end.code.user, end.buffer.payload) == (2, 0, 5, b"end")
    assert correlation == end.correlation


def test_any_service_can_be_talked_to() -> None:
    play = Play(services_of(echo=lambda value: value))
    peer = play.peer()
    _, reply = document(peer, RECVONLY, "echo")
    (end,) = peer.heard
    assert (reply.status, end.events, end.status, end.buffer) == (0, SVCSUCC, 0, octets(b"first"))
    peer.heard.clear()
    correlation, reply = document(peer, SENDONLY, "echo")
    assert reply.status == 0 and not peer.heard
    say(peer, correlation, b"one")
    say(peer, correlation, b"two", EV_SENDONLY)
    (end,) = peer.heard
    assert (end.events, end.buffer.payload) == (SVCSUCC, b"two")


def test_refusals() -> None:
    play = Play(services_of(echo=lambda value: value))
    peer = play.peer()
    assert document(peer, RECVONLY, "nobody")[1].status == 6
    assert document(peer, 0, "echo")[1].status == document(peer, SENDONLY | RECVONLY, "echo")[1].status == 4
    assert late(peer, 0, "nobody")[1].code.result == 6
    assert not peer.link.state.conversations


def test_sending_without_control_ends_it() -> None:
    play, _ = conversing()
    peer = play.peer()
    correlation, _ = document(peer, RECVONLY)
    say(peer, correlation, b"out of turn")
    (end,) = peer.heard
    assert (end.events, end.status) == (SVCERR, 10) and not peer.link.state.conversations
    assert isinstance(play.events[-1], events.ConversationEnded) and not play.held, "the service is cancelled"


def test_a_disconnect_ends_it_and_its_transaction() -> None:
    play, _ = conversing()
    peer = play.peer()
    correlation, _ = document(peer, RECVONLY, xid=xid(1))
    peer.send(c.ConversationDisconnect(correlation, uuid(77), c.Nodes((1,)), 1))
    assert isinstance(play.events[-1], events.ConversationEnded) and not play.held
    peer.send(c.ConversationDisconnect(correlation, uuid(77), c.Nodes((1,)), 1))
    assert not peer.is_closed
    assert peer.prepare(xid(1)) == 100


def test_time_and_lost_connections_end_it() -> None:
    play, _ = conversing()
    peer = play.peer()
    document(peer, RECVONLY, timeout=1_000_000)
    play.wait(2)
    assert [m.events for m in peer.heard] == [SVCERR] and not play.held
    document(peer, SENDONLY)
    peer.drop()
    assert isinstance(play.events[-1], events.ConversationEnded) and not play.held


# --- we begin


def begun(profile: str) -> tuple[Play, Peer, int, Any]:
    play = Play(peers=[THERE], profile=profile)
    peer = play.served_by()
    token = play.session.conversations.open("talk", octets(b"first"), play.now, peer=THERE.name)
    play.settle()
    return play, peer, token, peer.heard.popleft()


def test_an_initiator_talks_and_hears_the_end() -> None:
    play, peer, token, request = begun("document")
    assert (request.flags, len(request.recording.nodes), request.buffer.payload) == (SENDONLY, 1, b"first")
    peer.send(c.ConversationConnectReply(request.correlation, request.execution, request.recording, c.Nodes((5,)), 0))
    assert play.events[-1] == events.ConversationOpened(token, 0)
    play.session.conversations.send(token, octets(b"a"), play.now, passes_control=True)
    play.settle()
    sent = peer.heard.popleft()
    assert (sent.route.nodes, sent.events) == ((5,), EV_SENDONLY)
    say(peer, request.correlation, b"b")
    assert play.events[-1] == events.ConversationHeard(token, octets(b"b"), False)
    peer.send(
        c.ConversationSend(request.correlation, request.execution, request.recording, SVCFAIL, 11, octets(b"end"))
    )
    assert play.events[-1] == events.ConversationEnded(token, 11, 0, octets(b"end"))


def test_an_initiator_uses_the_form_of_the_profile() -> None:
    play, peer, token, request = begun("late")
    assert type(request) is c.ConversationConnectRequestLate and request.duplex == 1
    peer.send(c.ConversationConnectReplyLate(request.correlation, request.execution, c.Outcome(0)))
    play.session.conversations.send(token, octets(b"a"), play.now, passes_control=True)
    play.settle()
    assert [(m.duplex, m.code.result) for m in peer.heard] == [(0, -1)]
    peer.heard.clear()
    codes = c.OutcomeAndCode(0, 9)
    peer.send(c.ConversationSendLate(request.correlation, request.execution, 2, codes, octets(b"end")))
    assert play.events[-1] == events.ConversationEnded(token, 0, 9, octets(b"end"))


def test_an_initiator_disconnects_whoever_talks_out_of_turn() -> None:
    play, peer, token, request = begun("document")
    peer.send(c.ConversationConnectReply(request.correlation, request.execution, request.recording, c.Nodes((5,)), 0))
    say(peer, request.correlation, b"out of turn")
    (end,) = peer.heard
    assert (type(end), end.events) == (c.ConversationDisconnect, 1)
    assert play.events[-1] == events.ConversationEnded(token, 10)


def test_an_initiator_hears_of_a_refusal_and_of_a_loss() -> None:
    play, peer, token, request = begun("document")
    peer.send(c.ConversationConnectReply(request.correlation, request.execution, request.recording, c.Nodes(()), 6))
    assert play.events[-1] == events.ConversationOpened(token, 6)
    play, peer, token, _ = begun("document")
    peer.drop()
    assert events.ConversationOpened(token, 10) in play.events


@pytest.mark.parametrize("upstream", ["document", "late"])
def test_a_domain_in_the_middle_bridges_both_forms(upstream: str) -> None:
    play = Play(peers=[THERE])
    below = play.served_by()
    above = play.peer(versions=(1000,) if upstream == "document" else (1000, 1001))
    correlation, reply = document(above, SENDONLY) if upstream == "document" else late(above, 1)
    assert reply is None
    below.offer((c.OfferedService("talk", "", 1, 0, 0),))
    request = below.heard.popleft()
    assert (request.service.name, request.flags) == ("talk", SENDONLY)
    below.send(c.ConversationConnectReply(request.correlation, request.execution, request.recording, c.Nodes((5,)), 0))
    reply = above.heard.popleft()
    assert (reply.status if upstream == "document" else reply.code.result) == 0
    if upstream == "document":
        say(above, correlation, b"down", EV_SENDONLY)
    else:
        codes = c.OutcomeAndCode(-1, 0)
        above.send(c.ConversationSendLate(correlation, uuid(77), 0, codes, octets(b"down")))
    passed = below.heard.popleft()
    assert (passed.events, passed.buffer.payload, passed.correlation) == (EV_SENDONLY, b"down", request.correlation)
    say(below, request.correlation, b"up")
    below.send(
        c.ConversationSend(request.correlation, request.execution, request.recording, SVCSUCC, 0, octets(b"end"))
    )
    assert [m.buffer.payload for m in above.heard] == [b"up", b"end"]
    assert not above.link.state.conversations and not below.link.state.conversations
