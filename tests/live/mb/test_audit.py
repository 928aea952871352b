"""The audit stream (section 7.5)."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.live.mb.play import Broker, P, Peer, R, Said, frame
from wirelake.codec.content import json_line, read_json
from wirelake.errors import DecodeError

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
)
AUDIT = "publish:system.message:1.0.0"


def auditor(broker: Broker) -> Peer:
    peer = broker.join()
    peer.say(f'request:system.topic.subscribe:1.0.0:{R}\n{{"action":"publish","topic":"system.message"}}')
    peer.take()
    return peer


def copies(said: list[Said]) -> list[Any]:
    return [one.json for one in said if one.header == AUDIT]


def test_a_publish_is_copied_as_it_came_and_as_it_went_out() -> None:
    broker = Broker()
    audit, subscriber, publisher = auditor(broker), broker.join(), broker.join()
    subscriber.subscribe("a")
    audit.take()
    publisher.say(f'publish:a:1.0.0:{R}:{P}\n{{"k": 1}}')
    (forwarded,) = subscriber.take()
    came, forward, answer = copies(audit.take())
    when = "2025-03-01T10:00:00.000Z"
    header = {"action": "publish", "topic": "a", "version": "1.0.0"}
    assert came == {
        "timestamp": when,
        "timeout": 5000,
        "from": publisher.id,
        "message": {"header": {**header, "requestId": R, "parentRequestId": P}, "payload": {"k": 1}},
    }
    assert forward == {
        "timestamp": when,
        "to": subscriber.id,
        "message": {"header": {**header, "requestId": forwarded.rid}, "payload": {"k": 1}},
        "maskedId": R,
    }
    assert answer == {
        "timestamp": when,
        "to": publisher.id,
        "message": {"header": {**header, "action": "response", "requestId": R}, "payload": {"status": "success"}},
    }


def test_the_ids_of_both_legs_of_a_request_meet_in_the_copy_of_its_forward() -> None:
    broker = Broker()
    audit, service, requester = auditor(broker), broker.join(), broker.join()
    service.subscribe("a", "request")
    audit.take()
    requester.say(f"request:a:1.0.0:{R}::77\nq")
    (asked,) = service.take()
    service.say(f"response:a:1.0.0:{asked.rid}\n")
    came, forward, response, back = copies(audit.take())
    assert (came["timeout"], came["message"]["header"]["timeout"]) == (77, 77)
    assert (forward["message"]["header"]["requestId"], forward["maskedId"]) == (asked.rid, R)
    assert "timeout" not in forward["message"]["header"]
    assert response["from"] == service.id
    assert (back["to"], back["message"]["header"]["requestId"], "maskedId" in back) == (requester.id, R, False)


def test_a_message_without_an_id_has_no_masked_one() -> None:
    broker = Broker()
    audit, peer = auditor(broker), broker.join()
    peer.subscribe("a")
    audit.take()
    peer.say("publish:a:1.0.0\n")
    came, forward = copies(audit.take())
    assert "requestId" not in came["message"]["header"]
    assert "maskedId" not in forward


def test_greetings_heartbeats_errors_and_log_records_are_copied_but_no_copies() -> None:
    broker = Broker()
    audit = auditor(broker)
    peer = broker.join()
    peer.system("system.log.subscribe", {})
    audit.take()
    broker.join()
    assert [copy["message"]["header"]["topic"] for copy in copies(audit.take())] == ["system.initialize"]
    peer.say("nonsense")
    assert [copy["message"]["header"]["topic"] for copy in copies(audit.take())] == ["system.log", "error"]
    broker.pass_time(30)
    assert {copy["message"]["header"]["topic"] for copy in copies(audit.take())} == {"system.heartbeat"}


def test_a_copy_precedes_what_the_message_causes_and_follows_what_was_sent() -> None:
    broker = Broker()
    audit = auditor(broker)
    said = audit.ask(f"request:system.heartbeat:1.0.0:{R}\n")
    assert [one.header for one in said] == [AUDIT, f"response:system.heartbeat:1.0.0:{R}", AUDIT]
    assert "from" in said[0].json
    assert "to" in said[2].json


@pytest.mark.parametrize(
    ("payload", "shown"),
    [
        (b'{"a":[1,2,{"b":null}]}', '{"a":[1,2,{"b":null}]}'),
        (b"", '""'),
        (b"null", "null"),
        (b"plain text", '"plain text"'),
        (b"$& $1", '"$& $1"'),
        (b'{\n "a": 1\r\n}', '{  "a": 1  }'),
        (b"1.000", "1.000"),
        (b"12345678901234567890123", "12345678901234567890123"),
        (b"1e400", "1e400"),
        (b"\xff", '"\ufffd"'),
        (b'"payload":null', '"\\"payload\\":null"'),
        (b'{"payload":null}', '{"payload":null}'),
        (b"NaN", '"NaN"'),
    ],
)
def test_a_payload_is_shown_as_json_if_it_is_json_else_as_text(payload: bytes, shown: str) -> None:
    broker = Broker()
    audit, peer = auditor(broker), broker.join()
    audit.take()
    peer.say(b"publish:a:1.0.0\n" + payload)
    said = audit.take()[0]
    assert f'"payload":{shown}}}}}'.encode() in said.payload
    assert b"\n" not in said.payload
    json.loads(said.payload)


@given(
    st.binary(max_size=40) | st.text(max_size=40).map(str.encode) | JSON_VALUES.map(lambda v: json.dumps(v).encode())
)
def test_any_payload_is_shown_as_the_codec_reads_it(payload: bytes) -> None:
    shown = json.loads(json_line(payload))
    try:
        value = read_json(payload)
    except DecodeError:
        value = payload.decode("utf-8", "replace")
    assert shown == ("" if value is msgspec.UNSET else value)


@pytest.mark.parametrize("payload", [b"[" * 200 + b"]" * 200, b"[" * 300 + b"]" * 300, b'["\\ud83d"]', b"[" * 300])
def test_deep_and_odd_payloads_are_shown_as_the_codec_reads_them(payload: bytes) -> None:
    test_any_payload_is_shown_as_the_codec_reads_it.hypothesis.inner_test(payload)  # type: ignore[attr-defined]


def test_an_auditor_makes_a_publish_cost_little_more() -> None:
    """It gets two copies of each, so three times as much is what two more messages cost."""

    def seconds(broker: Broker, publisher: Peer) -> float:
        data = frame(b'publish:a:1.0.0\n{"number":17,"name":"somebody","items":[1,2,3],"note":"and so on"}') * 500
        start = time.thread_time()
        publisher.feed(data)
        took = time.thread_time() - start
        for peer in broker.peers:
            broker.written(peer.link)
        return took

    plain, audited = Broker(), Broker()
    auditor(audited)
    publishers = []
    for broker in (plain, audited):
        broker.join().subscribe("a")
        publishers.append(broker.join())
    measured = [(seconds(plain, publishers[0]), seconds(audited, publishers[1])) for _ in range(30)]
    assert min(audit for _, audit in measured) / min(alone for alone, _ in measured) < 3


def test_a_malformed_header_is_not_copied_but_its_answer_is() -> None:
    broker = Broker()
    audit, peer = auditor(broker), broker.join()
    audit.take()
    peer.say("nonsense")
    (copy,) = copies(audit.take())
    assert copy["to"] == peer.id


def test_no_copies_are_made_when_the_last_auditor_is_gone() -> None:
    broker = Broker()
    audit, peer = auditor(broker), broker.join()
    audit.take()
    audit.leave()
    peer.say("publish:a:1.0.0\n")
    assert audit.take() == []
    assert broker.session.outbox.auditors == ()


def test_an_auditor_that_does_not_read_is_closed_and_nobody_else() -> None:
    broker = Broker()
    audit, peer = auditor(broker), broker.join()
    peer.subscribe("a")
    while audit.link.closing is None:
        peer.ask(b"publish:a:1.0.0\n" + b"x" * 16000)
    assert audit.link.closing.at_once
    assert peer.link.closing is None
