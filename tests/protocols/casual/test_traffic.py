from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from tests.protocols.casual.played import events, messages, traffic
from wirelake.codec.content import read_cfield
from wirelake.protocols import casual as p


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
        ("no_reply_wanted", None),
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
