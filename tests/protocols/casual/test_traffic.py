from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from itertools import pairwise
from typing import Any

import pytest

from wirelake.codec.content import read_cfield
from wirelake.generate import Event, Traffic, generate
from wirelake.protocols import casual as p

MESSAGES = 9_000


@cache
def traffic(profile: str = "document") -> Traffic:
    return generate("casual", messages=MESSAGES, connections=8, seed=11, profile=profile)


@cache
def events(profile: str = "document") -> list[Event]:
    return list(traffic(profile))


def messages(kind: Any, profile: str = "document") -> list[Any]:
    return [event.message for event in events(profile) if isinstance(event.message, kind)]


def test_connections_begin_with_connect_and_discovery() -> None:
    first: dict[int, list[Any]] = defaultdict(list)
    for event in events():
        first[event.connection.number].append(event.message)
    assert len(first) == 8
    for sent in first.values():
        assert isinstance(sent[0], p.DomainConnectRequest) and isinstance(sent[1], p.DomainConnectReply)
        assert sent[0].correlation == sent[1].correlation and sent[0].execution == sent[1].execution
        if sent[1].protocol.version == 0:
            assert len(sent) == 2
        else:
            assert sent[1].protocol.version == 1000 in sent[0].protocol.versions
            assert isinstance(sent[2], p.DomainDiscoverRequest)


def test_every_reply_answers_a_request_before_it_on_its_connection() -> None:
    open_requests: set[tuple[int, bytes]] = set()
    for event in events():
        key = (event.connection.number, event.message.correlation)
        about = event.message.__message__
        if about["answer"] is not None:
            assert event.direction == "to_server" and key not in open_requests
            open_requests.add(key)
        elif about["kind"] == "response" or isinstance(event.message, p.DomainConnectReply):
            assert event.direction == "to_client"
            open_requests.remove(key)
        else:
            assert about["name"].startswith("conversation_")
    assert 0 < len(open_requests) < len(events()) / 50


def test_replies_overtake_each_other() -> None:
    order = [x for x in traffic().truth.exchanges if x.reply is not None and x.connection == 0]
    assert sum(a.reply > b.reply for a, b in pairwise(order)) > 50


def test_calls_end_in_every_way() -> None:
    calls = [x for x in traffic().truth.exchanges if x.message == "service_call_request"]
    assert {(x.outcome, x.status) for x in calls} >= {
        ("ok", 0),
        ("error", 6),
        ("error", 10),
        ("error", 11),
        ("timeout", None),
        ("unanswered", None),
        ("unanswered", "no reply wanted"),
    }
    late = [x for x in calls if x.outcome == "timeout" and x.reply is not None]
    assert late and all((x.latency_us or 0) >= x.limit_us for x in late)
    latencies = sorted(x.latency_us for x in calls if x.outcome == "ok" and x.latency_us is not None)
    assert latencies[0] > 100 and latencies[len(latencies) * 9 // 10] > 4 * latencies[len(latencies) // 2]


def test_statuses_are_those_of_the_truth() -> None:
    for x in traffic().truth.exchanges:
        if x.reply is not None and x.message == "service_call_request":
            reply = events()[x.reply].message
            assert reply.call.status == x.status
            assert (reply.call.status == 0) == (x.outcome == "ok" or (x.outcome == "timeout" and x.status == 0))


def test_transactions_end_as_their_branches_say() -> None:
    truth = traffic().truth
    assert set(Counter(one.outcome for one in truth.transactions)) >= {
        "committed",
        "rolled_back",
        "read_only",
        "in_doubt",
    }
    seen: dict[tuple[int, bytes, bytes], dict[str, list[Any]]] = defaultdict(lambda: defaultdict(list))
    for event in events():
        if isinstance(event.message, p.ResourceRequest | p.ResourceReply):
            xid = event.message.xid
            name = event.message.__message__["name"].removeprefix("resource_")
            seen[event.connection.number, xid.gtrid, xid.bqual][name].append(event.message)
    checked = 0
    for one in truth.transactions:
        for branch in one.branches:
            wire = seen[branch.connection, one.gtrid, branch.bqual]
            assert len(wire["prepare_request"]) == int(branch.prepare_sent)
            assert [reply.resource.state for reply in wire["prepare_reply"]] == [
                vote for vote in (branch.vote,) if vote is not None
            ]
            decided = wire["commit_request"] + wire["rollback_request"]
            assert len(decided) == int(branch.decision != "")
            if decided:
                assert (decided[0].flags == 0x40000000) == branch.one_phase
                assert isinstance(decided[0], p.ResourceCommitRequest) == (branch.decision == "commit")
            ends = wire["commit_reply"] + wire["rollback_reply"]
            assert [reply.resource.state for reply in ends] == [r for r in (branch.result,) if r is not None]
            checked += 1
    assert checked == len(seen) > 300
    assert any(branch.one_phase for one in truth.transactions for branch in one.branches)
    assert any(len(one.branches) == 2 for one in truth.transactions)
    assert {one.format for one in truth.transactions} == {42, 131077}


def test_a_branch_is_committed_only_if_every_branch_voted_for_it() -> None:
    for one in traffic().truth.transactions:
        if any(branch.decision == "commit" and not branch.one_phase for branch in one.branches):
            assert all(branch.vote in (0, 3) for branch in one.branches)


def test_no_message_is_dequeued_that_was_not_enqueued() -> None:
    stored = {reply.id for reply in messages(p.QueueEnqueueReply)}
    assert p.NIL in stored
    taken = [message for reply in messages(p.QueueDequeueReply) for message in reply.message]
    assert taken and all(message.id in stored for message in taken)
    assert any(message.redelivered for message in taken)
    assert any(not reply.message for reply in messages(p.QueueDequeueReply))


def test_one_domain_calls_on_in_the_execution_of_its_caller() -> None:
    calls: dict[bytes, list[Any]] = defaultdict(list)
    for event in events():
        if isinstance(event.message, p.ServiceCallRequest):
            calls[event.message.execution].append(event)
    nested = [found for found in calls.values() if any(event.message.parent.name for event in found)]
    assert nested
    for first, second, *_ in nested:
        if second.message.parent.name:
            assert second.message.parent.name == first.message.service.name
            assert second.connection is not first.connection


@pytest.mark.parametrize(
    ("profile", "connect", "send", "end"),
    [
        ("document", p.ConversationConnectRequest, p.ConversationSend, p.ConversationDisconnect),
        ("late", p.ConversationConnectRequestLate, p.ConversationSendLate, p.ConversationDisconnectLate),
    ],
)
def test_conversations_use_the_messages_of_the_profile(profile: str, connect: Any, send: Any, end: Any) -> None:
    assert all(messages(kind, profile) for kind in (connect, send, end))
    other = {p.ConversationConnectRequest, p.ConversationConnectRequestLate} - {connect}
    assert not messages(other.pop(), profile)


def test_only_the_side_with_control_sends_in_a_conversation() -> None:
    control: dict[bytes, str] = {}
    for event in events():
        message = event.message
        if isinstance(message, p.ConversationConnectRequest):
            control[message.correlation] = "to_server" if message.flags & 0x0800 else "to_client"
        elif isinstance(message, p.ConversationSend):
            assert control[message.correlation] == event.direction
            if message.events & 0x20:
                control[message.correlation] = "to_client" if event.direction == "to_server" else "to_server"
            elif message.events & 0x0E:
                assert event.direction == "to_client"
                del control[message.correlation]


def test_late_peers_count_in_nanoseconds() -> None:
    limits = {call.service.timeout for call in messages(p.ServiceCallRequest, "late")}
    assert limits == {0, 2_000_000_000, 5_000_000_000, 30_000_000_000}
    assert {call.service.timeout for call in messages(p.ServiceCallRequest)} == {0, 2_000_000, 5_000_000, 30_000_000}


def test_java_domains_pad_their_calls() -> None:
    padded: dict[int, set[tuple[str, ...]]] = defaultdict(set)
    for event in events():
        if isinstance(event.message, p.ServiceCallRequest):
            padded[event.connection.number].add(event.message.notes)
            if event.message.notes:
                assert event.frame.endswith(bytes(8))
    names = {session.connection: session.facts["client_domain"] for session in traffic().truth.sessions}
    for number, notes in padded.items():
        assert notes == ({("java_padding",)} if names[number].startswith("shop") else {()})


def test_fielded_buffers_can_be_read() -> None:
    buffers = [call.buffer for call in messages(p.ServiceCallRequest)]
    assert {buffer.type for buffer in buffers} >= {".json/", "CFIELD/", "X_OCTET/", "CSTRING/", "NULL"}
    assert all(len(read_cfield(buffer.payload)) == 4 for buffer in buffers if buffer.type == "CFIELD/")
