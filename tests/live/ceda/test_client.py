"""A CEDA client against a server that follows a script: login, heartbeats, requests, images, loss and return."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import wirelake
from tests.live.ceda.play import HEARTBEAT, Peer, control, values
from wirelake.errors import EncodeError, LocalProtocolError
from wirelake.live.ceda.client import CedaClient
from wirelake.live.ceda.data import Blob, Message, payloads, write_record
from wirelake.live.ceda.events import Asked, Delivered, Ready, Refused, SubscriptionResult, TopicsRefused
from wirelake.live.ceda.logins import CedaLogin
from wirelake.live.ceda.options import CedaClientOptions, CedaLimits
from wirelake.live.ceda.wire import CEDA4, CEDA4_WS, FRAMINGS, PUBLISH, REPLY
from wirelake.live.core.errors import ConnectionLost, RequestTimeout
from wirelake.live.core.session import Answered, Lost
from wirelake.protocols import ceda as p
from wirelake.spec import Cell

DIALECTS = (CEDA4, CEDA4_WS)
LOGIN = CedaLogin("demo", "s3cret", "py-1")
SUCCESS = "8219 1304 6200 12040000 4c000700 53756363657373 1200 01000000"
"""Connection id 1042."""


def start(
    login: CedaLogin = LOGIN, now: float = 0.0, websocket: bool = False, **options: Any
) -> tuple[CedaClient, Peer]:
    client = CedaClient(login, CedaClientOptions(**options))
    return client, Peer(client, 1, options.get("dialect", CEDA4_WS), websocket).connect(now)


def ready(**options: Any) -> tuple[CedaClient, Peer]:
    client, server = start(**options)
    server.raw()
    server.say(SUCCESS)
    client.events.clear()
    return client, server


def taken(client: CedaClient) -> list[Any]:
    found, client.events[:] = list(client.events), []
    return found


def ids(topic: str, record: dict[int, Any], **more: Any) -> dict[str, Any]:
    return {
        "topic": topic,
        "connection_id": 1042,
        "server_id": "",
        "signal_id": "",
        "body": write_record(record),
    } | more


# --- login (9.1)


def test_a_login_is_sent_as_in_the_worked_example() -> None:
    client, server = start()
    assert server.raw() == bytes.fromhex("821c 1303 7c000400 70792d31 5c000600 733363726574 4c000400 64656d6f")
    assert not client.is_ready
    server.say(SUCCESS)
    assert client.is_ready and client.connection_id == 1042
    assert taken(client) == [Ready(1042)]


@pytest.mark.parametrize(
    ("login", "code", "record"),
    [(CedaLogin(session_id="sid-1"), 18, {3: "sid-1"}), (CedaLogin(record={100: "x", 101: 5}), 19, {100: "x", 101: 5})],
)
def test_other_ways_to_log_in(login: CedaLogin, code: int, record: dict[int, Any]) -> None:
    _, server = start(login)
    (message,) = server.heard()
    assert (message.control_code, values(message)) == (code, record)


@pytest.mark.parametrize("name", ["user", "password", "client_id"])
def test_names_of_a_login_have_less_than_128_characters(name: str) -> None:
    CedaLogin(**{name: "x" * 127})
    with pytest.raises(ValueError, match=name):
        CedaLogin(**{name: "x" * 128})


def test_secrets_are_not_shown() -> None:
    assert "s3cret" not in repr(LOGIN) and "sid" not in repr(CedaLogin(session_id="sid"))


@pytest.mark.parametrize("record", [{1: 0, 4: "no"}, {1: 2, 4: "no"}, {4: "no"}, {1: "1", 4: "no"}])
def test_a_refused_login_closes(record: dict[int, Any]) -> None:
    client, server = start()
    server.say(control(p.Login, 4, record))
    assert taken(client) == [Refused("no")]
    assert server.is_closed
    server.leave()
    assert taken(client) == []


def test_without_an_answer_the_client_gives_up_after_15_seconds() -> None:
    client, server = start(now=100.0)
    server.raw()
    assert client.deadline == 115.0
    client.tick(114.9)
    assert not server.is_closed
    client.tick(115.0)
    assert server.is_closed and server.raw() == b""
    (lost,) = taken(client)
    assert isinstance(lost, Lost) and "login" in lost.reason


def test_what_comes_before_the_login_result_is_ignored_and_counted() -> None:
    client, server = start()
    server.say(p.Publish(topic="a", body=write_record({1: 1})))
    server.say(control(p.Subscribe, 7, {1: 1}))
    server.say(HEARTBEAT)
    assert taken(client) == [] and client.counts["ignored"] == 2
    server.say(SUCCESS)
    server.say(SUCCESS)
    assert taken(client) == [Ready(1042)] and client.counts["ignored"] == 3


def test_before_ready_nothing_can_be_sent() -> None:
    client = CedaClient(LOGIN)
    calls = (
        lambda: client.publish("a", {1: 1}, 0.0),
        lambda: client.request("a", {1: 1}, 0.0),
        lambda: client.p2p("a", {1: 1}, 0.0, server_id="s"),
    )
    for call in calls:
        with pytest.raises(LocalProtocolError, match="no connection"):
            call()
    Peer(client, 1).connect()
    for call in calls:
        with pytest.raises(LocalProtocolError, match="login_sent"):
            call()
    assert client.deadline == 15.0
    client.tick(14.0)
    assert taken(client) == []


# --- heartbeats (9.2)


def test_a_heartbeat_is_never_answered() -> None:
    client, server = ready()
    for _ in range(5):
        assert server.say(HEARTBEAT) == []
    assert client.counts["heartbeats"] == 5


def test_a_dead_server_is_found_at_the_third_look() -> None:
    client, server = ready()
    beats = []
    for now in range(1, 100):
        client.tick(float(now))
        beats += [now] * len(server.heard())
        if server.is_closed:
            break
    assert (beats, now) == ([30, 45], 60)
    assert [type(event) for event in taken(client)] == [Lost]


def test_anything_that_comes_is_a_sign_of_life() -> None:
    client, server = ready()
    for now in range(1, 500):
        if now % 14 == 0:
            server.say("82" if now % 28 else "0101", float(now))
        client.tick(float(now))
    assert server.heard() == [] and not server.is_closed


def test_an_answered_heartbeat_begins_the_count_again() -> None:
    client, server = ready()
    for now in range(1, 500):
        client.tick(float(now))
        if server.heard():
            server.say(HEARTBEAT, now + 0.5)
    assert not server.is_closed
    assert client.counts["heartbeats_sent"] == 16


def test_a_late_look_does_not_count_twice() -> None:
    client, server = ready()
    client.tick(15.0)
    client.tick(200.0)
    assert len(server.heard()) == 1 and client.deadline == 215.0


# --- publish, subscribe


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_publish_is_written_as_in_the_worked_examples(dialect: str) -> None:
    client, server = ready(dialect=dialect)
    cells = [
        Cell(1, "DOUBLE", 1.085), Cell(2, "FLOAT", 0.5), Cell(3, "STRING", "欧元"), Cell(4, "INT", 100000),
        Cell(6, "LONG", 1718000000000), Cell(7, "SHORT", -2), Cell(8, "BYTES", b"\x01\x02"),
    ]  # fmt: skip
    client.publish("FX.SPOT.EURUSD", cells, 0.0)
    assert server.raw() == bytes.fromhex(
        "8244 61 0e 46582e53504f542e455552555344 1a00 5c8fc2f5285cf13f 2800 0000003f 3c000600 e6aca7e58583"
        " 4200 a0860100 6400 009cc70090010000 7600 feff 8e000200 0102"
    )
    client.publish("NEWS.A", {3: "n" * 200}, 0.0)
    length = b"\xd4\x00" if dialect == CEDA4 else b"\x00\xd4"
    assert server.raw()[:8] == b"\x82\x7e" + length + b"\x61\x06NE"


def test_subscriptions_are_sent_in_batches() -> None:
    client, server = ready()
    client.subscribe(["FX.SPOT.*", "RATES.**"], 0.0)
    assert server.raw() == bytes.fromhex("8218 110d 3c001200 46582e53504f542e2a7c52415445532e2a2a")
    client.unsubscribe(["FX.SPOT.*"], 0.0)
    (message,) = server.heard()
    assert (type(message), message.control_code, values(message)) == (p.Unsubscribe, 14, {3: "FX.SPOT.*"})


def test_a_topic_with_a_bar_goes_alone() -> None:
    client, server = ready()
    client.subscribe(["a", "b|c", "d"], 0.0)
    assert [(m.control_code, values(m)[3]) for m in server.heard()] == [(6, "b|c"), (13, "a|d")]
    client.unsubscribe(["b|c", "a"], 0.0)
    assert [(m.control_code, values(m)[3]) for m in server.heard()] == [(8, "b|c"), (14, "a")]


def test_many_subscriptions_take_several_messages() -> None:
    client, server = ready()
    topics = [f"{'x' * 200}.{i}" for i in range(1000)]
    client.subscribe(topics, 0.0)
    messages = server.heard()
    assert len(messages) == 4
    assert [topic for m in messages for topic in values(m)[3].split("|")] == topics


def test_with_an_image_both_kinds_of_subscription_are_sent() -> None:
    client, server = ready()
    client.subscribe(["a"], 0.0, image=True)
    assert [m.control_code for m in server.heard()] == [20, 13]


def test_what_is_wanted_before_ready_is_said_then() -> None:
    client, server = start()
    client.subscribe(["a", "b"], 0.0)
    client.subscribe(["c"], 0.0, image=True)
    client.unsubscribe(["b"], 0.0)
    server.raw()
    assert [(m.control_code, values(m)[3]) for m in server.say(SUCCESS)] == [(20, "c"), (13, "c"), (13, "a")]


@pytest.mark.parametrize("topic", ["", "x" * 256])
def test_topics_that_cannot_be_are_refused(topic: str) -> None:
    client, server = ready()
    for call in (
        lambda: client.subscribe([topic], 0.0),
        lambda: client.publish(topic, {1: 1}, 0.0),
        lambda: client.request(topic, {1: 1}, 0.0),
    ):
        with pytest.raises(EncodeError):
            call()
    assert server.heard() == [] and len(client._requests) == 0


def test_results_of_subscriptions_are_told() -> None:
    client, server = ready()
    server.say(control(p.Subscribe, 7, {1: 0, 3: "a|b", 4: "no"}))
    server.say(control(p.Unsubscribe, 9, {1: 1, 3: "a"}))
    server.say(control(p.Subscribe, 99, {1: 1}))
    assert taken(client) == [SubscriptionResult("a|b", False, "no"), SubscriptionResult("a", True, "", True)]
    assert client.counts["control_ignored"] == 1


def test_a_message_is_delivered_with_its_record_and_bytes() -> None:
    client, server = ready()
    server.say(p.Publish(topic="a.b", record=(Cell(1, "INT", 5), Cell(1, "INT", 6), Cell(3, "STRING", "x"))))
    (event,) = taken(client)
    assert (event.message.topic, event.message.record, event.message.is_image, event.message.blob) == (
        "a.b",
        {1: 6, 3: "x"},
        False,
        None,
    )
    assert event.message.cells == (Cell(1, "INT", 5), Cell(1, "INT", 6), Cell(3, "STRING", "x"))
    assert event.message.body == write_record(event.message.cells)


def test_a_bad_record_is_delivered_with_its_bytes_and_error() -> None:
    client, server = ready()
    server.say("8207 61 01 61 3c00 ff00" + "8201 70" + "820f 63 01 61 120400 00 00 3c00 0100 ff 00 00")
    first, *rest = taken(client)
    assert (first.message.topic, first.message.body, first.message.cells) == ("a", b"\x3c\x00\xff\x00", ())
    assert first.message.error is not None and first.message.error.rule == "cell_fits"
    assert rest == [] and client.counts["replies_dropped"] == 1
    assert client.counts["record_errors"] == 2 and client.counts["message_errors"] == 1
    assert not server.is_closed


def test_lost_framing_closes() -> None:
    client, server = ready()
    token = client.request("q", {1: 1}, 0.0)
    server.raw()
    server.say("820101 61")
    assert server.is_closed
    answered, lost = taken(client)
    assert answered == Answered(token, None, ConnectionLost()) and "framing" in lost.reason
    server.say(SUCCESS)
    server.leave()
    assert taken(client) == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_client_speaks_as_its_server_does(dialect: str) -> None:
    client, server = ready()
    server.dialect = dialect
    server.say(p.Publish(topic="a", body=write_record({3: "x" * 300})))
    client.publish("a", {3: "y" * 300}, 0.0)
    assert values(server.heard()[0]) == {3: "y" * 300}


def test_over_websocket_payloads_come_and_go_whole() -> None:
    client, server = start(websocket=True)
    assert server.heard()[0].control_code == 3
    server.say(SUCCESS)
    client.publish("a", {3: "x" * 300}, 0.0)
    assert values(server.heard()[0]) == {3: "x" * 300}
    client.receive_messages(server.link, [b"", b"\x61\x01a" + write_record({1: 1})], 0.0)
    assert client.counts["message_errors"] == 1 and taken(client)[-1].message.record == {1: 1}


# --- request and reply (9.5)


def test_a_request_is_written_as_in_the_worked_example_and_closed_once() -> None:
    client, server = ready()
    client.request("skip", {1: 1}, 0.0)
    server.raw()
    token = client.request("QUOTE.GET", {1: "EURUSD"}, 0.0, signal_id="c7")
    assert server.raw() == bytes.fromhex(
        "8227 62 09 51554f54452e474554 120400 024d51 026337 08 313034322e312e32 1c000600 455552555344"
    )
    reply = "8223 63 08 313034322e312e32 120400 024d51 026337 1a00 5c8fc2f5285cf13f 3c000200 6f6b"
    server.say(reply)
    (answered,) = taken(client)
    assert (answered.token, answered.error, answered.reply.record) == (token, None, {1: 1.085, 3: "ok"})
    server.say(reply)
    assert taken(client) == [] and client.counts["replies_dropped"] == 1
    client.subscribe(["1042.**"], 0.0)
    server.say(reply)
    (event,) = taken(client)
    assert isinstance(event, Delivered) and event.message.kind == "reply"


def test_a_request_without_a_reply_in_time_is_told() -> None:
    client, server = ready()
    late = client.request("q", {1: 1}, 0.0, timeout=2.5)
    never = client.request("q", {1: 1}, 0.0, timeout=None)
    first, second = server.heard()
    assert client.deadline == 2.5
    client.tick(2.5)
    assert taken(client) == [Answered(late, None, RequestTimeout())]
    server.say(p.Reply(**ids(first.reply_topic, {1: 1})))
    assert taken(client) == []
    server.say(p.Reply(**ids(second.reply_topic, {1: 1})))
    assert [event.token for event in taken(client)] == [never]
    assert server.heard() == []


def test_open_requests_and_unsent_bytes_are_bounded() -> None:
    client, server = ready(limits=replace(CedaLimits(), requests=2, unsent=1000))
    for _ in range(2):
        client.request("q", {1: 1}, 0.0)
    with pytest.raises(BufferError):
        client.request("q", {1: 1}, 0.0)
    client.publish("a", {1: "x" * 1000}, 0.0)
    with pytest.raises(BufferError):
        client.publish("a", {1: 1}, 0.0)
    server.raw()
    client.publish("a", {1: 1}, 0.0)


def test_a_client_answers_requests_and_p2p() -> None:
    client, server = ready()
    server.say(p.Request(**ids("q", {1: "?"}, connection_id=7, server_id="S", signal_id="s"), reply_topic="7.1.1"))
    (asked,) = taken(client)
    assert isinstance(asked, Asked) and asked.message.record == {1: "?"}
    client.reply(asked.message, {1: "!"}, 0.0)
    (reply,) = server.heard()
    assert (type(reply), reply.topic, reply.connection_id, reply.server_id, reply.signal_id) == (
        p.Reply, "7.1.1", 7, "S", "s",
    )  # fmt: skip
    server.say(p.P2p(**ids("job", {1: "go"}, connection_id=7, server_id="S", signal_id="s")))
    (event,) = taken(client)
    client.reply(event.message, {1: "ok"}, 0.0)
    (back,) = server.heard()
    assert (type(back), back.topic, back.connection_id, values(back)) == (p.P2p, "job", 7, {1: "ok"})


def test_a_request_without_a_reply_topic_is_noted_and_not_answered() -> None:
    client, server = ready()
    server.say(p.Request(**ids("q", {1: "?"}), reply_topic=""))
    client.reply(taken(client)[0].message, {1: "!"}, 0.0)
    assert server.heard() == [] and len(client.notes) == 1


def test_a_p2p_has_the_connection_id_and_no_reply_topic() -> None:
    client, server = ready()
    client.p2p("job", {1: "go"}, 0.0, server_id="JOBS", signal_id="s")
    (message,) = server.heard()
    assert (message.connection_id, message.server_id, message.signal_id) == (1042, "JOBS", "s")


# --- blobs


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_blob_is_published_in_pieces_of_one_type(dialect: str) -> None:
    client, server = ready(dialect=dialect)
    client.publish("d", {5: 2}, 0.0, blob=Blob(3, bytes(100_000)))
    client.publish("d", {5: 2}, 0.0, blob=Blob(3, b"x"))
    messages = server.heard()
    assert [type(message) for message in messages] == [p.GroupPub] * 5
    assert {message.connection_id for message in messages} == {p.UNASSIGNED}
    if dialect == CEDA4_WS:
        process = client._keys._process
        assert [m.reply_topic for m in messages] == [f"d.{process}.1"] * 4 + [f"d.{process}.2"]


def test_a_reply_in_pieces_closes_its_request() -> None:
    client, server = ready()
    token = client.request("q", {1: 1}, 0.0, blob=Blob(2, bytes(40_000)))
    topic = server.heard()[0].reply_topic
    message = Message(REPLY, topic, write_record({1: "ok"}), 1042, "MQ", "", blob=Blob(3, bytes(70_000)))
    for payload in payloads(message, CEDA4_WS):
        assert taken(client) == []
        server.say(FRAMINGS[CEDA4_WS].wrap(payload))
    (answered,) = taken(client)
    assert answered.token == token and answered.reply.pieces == 3 and len(answered.reply.record[3]) == 70_000


def test_a_message_in_pieces_is_delivered_once_and_marked() -> None:
    client, server = ready()
    for payload in payloads(Message(PUBLISH, "d", write_record({5: 2}), blob=Blob(3, bytes(70_000))), CEDA4_WS, "k"):
        server.say(FRAMINGS[CEDA4_WS].wrap(payload))
    (event,) = taken(client)
    assert event.message.blob and event.message.pieces == 3 and event.message.kind == "group_pub"


# --- what Java peers cannot read (10)


def test_java_safe_limits_are_kept_when_sending() -> None:
    client, server = ready()
    client.publish("a", {1: 1}, 0.0)
    assert client.counts["java_warnings"] == 0
    client.publish("x" * 128, {1: 1}, 0.0)
    client.publish("y" * 128, {1: 1}, 0.0)
    client.publish("a", {}, 0.0)
    assert client.counts["java_warnings"] == 3 and len(client.notes) == 2
    assert len(server.heard()) == 4
    with pytest.raises(EncodeError, match="frame_limit"):
        client.publish("a", {1: "x" * 60_000, 2: "y" * 5_521}, 0.0)
    document, _ = ready(dialect=CEDA4)
    document.publish("x" * 255, {1: "x" * 60_000, 2: "y" * 5_267}, 0.0)
    assert document.counts["java_warnings"] == 0


# --- images by request (9.3)


def image_reply(topic: str, record: dict[int, Any], blob: Blob | None = None) -> list[bytes]:
    return payloads(Message(REPLY, topic, write_record(record), 1042, "", "", blob=blob), CEDA4_WS)


def asked_for_image(client: CedaClient, server: Peer) -> Any:
    client.request_image(["a", "b"], 0.0, server_id="IMG")
    (message,) = server.heard()
    return message


def test_an_image_request_is_written_as_the_java_client_does() -> None:
    client, server = ready()
    message = asked_for_image(client, server)
    assert (message.topic, message.reply_topic) == ("API.REQUESTIMAGE", "API.REQUESTIMAGE1042.1.1")
    assert (message.server_id, message.signal_id) == ("IMG", "")
    assert message.record == (Cell(5, "INT", 0), Cell(3, "STRING", '["a","b"]'))


TEXT = json.dumps({"a": {"bid": 1.5, "名": "x"}, "b": [1, "z"]})
ENTRIES = {"a": '{"bid":1.5,"名":"x"}', "b": '[1,"z"]'}


@pytest.mark.parametrize(
    ("record", "blob"),
    [
        ({5: 0, 3: TEXT}, None),
        ({5: 1, 3: gzip.compress(TEXT.encode())}, None),
        ({5: 2}, Blob(3, TEXT.encode())),
        ({5: 3}, Blob(7, gzip.compress(TEXT.encode()))),
        ({5: 0, 3: json.dumps(json.loads(TEXT) | {"SRL": "1"})}, None),
        ({5: 0, 3: json.dumps(ENTRIES | {"SRL": "0"})}, None),
    ],
)
def test_an_image_comes_in_four_ways(record: dict[int, Any], blob: Blob | None) -> None:
    client, server = ready()
    topic = asked_for_image(client, server).reply_topic
    for payload in image_reply(topic, record, blob):
        server.say(FRAMINGS[CEDA4_WS].wrap(payload))
    *images, answered = taken(client)
    assert {image.message.topic: image.message.record for image in images} == {
        t: {5: 0, 3: text} for t, text in ENTRIES.items()
    }
    assert all(image.message.is_image for image in images) and answered.error is None


def test_refused_topics_are_told_and_there_may_be_no_image() -> None:
    client, server = ready()
    topic = asked_for_image(client, server).reply_topic
    server.say(FRAMINGS[CEDA4_WS].wrap(image_reply(topic, {9: '["b"]'})[0]))
    refused, answered = taken(client)
    assert refused == TopicsRefused(("b",)) and answered.error is None


def test_a_value_too_long_for_a_field_comes_as_a_blob() -> None:
    client, server = ready()
    topic = asked_for_image(client, server).reply_topic
    text = json.dumps({"a": "x" * 70_000, "SRL": "0"})
    for payload in image_reply(topic, {5: 2}, Blob(3, text.encode())):
        server.say(FRAMINGS[CEDA4_WS].wrap(payload))
    image, _ = taken(client)
    assert image.message.record == {5: 2, 3: b"x" * 70_000}


@pytest.mark.parametrize(
    "record",
    [
        {5: 0, 3: "no json"},
        {5: 0, 3: "[1]"},
        {5: 0, 3: '{"a": 1, "SRL": "0"}'},
        {5: 0, 3: "[" * 30_000},
        {5: 0, 3: b"x"},
        {5: 0},
        {5: 1, 3: b"not gzip"},
        {5: 1, 3: gzip.compress(b"x" * 1000)[:-10]},
        {5: 2, 3: b"\xff"},
        {5: 7, 3: 1},
        {9: "{}", 5: 0, 3: "{}"},
    ],
)
def test_an_image_that_cannot_be_read_is_told(record: dict[int, Any]) -> None:
    client, server = ready()
    topic = asked_for_image(client, server).reply_topic
    server.say(FRAMINGS[CEDA4_WS].wrap(image_reply(topic, record)[0]))
    answered = taken(client)[-1]
    assert isinstance(answered, Answered) and answered.error
    assert not server.is_closed


def test_a_packed_image_may_not_grow_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wirelake.live.ceda.images.MAX_TEXT", 10_000)
    client, server = ready()
    topic = asked_for_image(client, server).reply_topic
    server.say(FRAMINGS[CEDA4_WS].wrap(image_reply(topic, {5: 1, 3: gzip.compress(bytes(10_001))})[0]))
    assert "too long" in taken(client)[-1].error.detail


# --- the end, and a new beginning (9.6)


def test_a_logout_is_bare_and_closes() -> None:
    client, server = ready()
    token = client.request("q", {1: 1}, 0.0)
    server.raw()
    client.leaving(0.0)
    assert server.raw() == bytes.fromhex("820114") and server.is_closed
    assert taken(client) == [Answered(token, None, ConnectionLost()), Lost("logged out")]
    client.leaving(0.0)
    assert client.deadline is None


@pytest.mark.parametrize("frame", ["820114", "8202 14 05"])
def test_a_logout_of_the_server_closes(frame: str) -> None:
    client, server = ready()
    server.say(frame)
    assert server.is_closed and [type(event) for event in taken(client)] == [Lost]


def test_after_a_loss_everything_begins_again_with_a_new_id() -> None:
    client, server = ready()
    client.subscribe(["a", "b.*"], 0.0)
    client.subscribe(["c"], 0.0, image=True)
    client.request_image(["d"], 0.0, server_id="IMG")
    token = client.request("q", {1: 1}, 0.0)
    old = server.heard()[-1].reply_topic
    server.leave()
    *failed, lost = taken(client)
    assert {event.error for event in failed} == {ConnectionLost()} and token in {event.token for event in failed}
    assert isinstance(lost, Lost) and not client.is_ready and client.connection_id == p.UNASSIGNED
    again = Peer(client, 2).connect(100.0)
    assert [message.control_code for message in again.heard()] == [3]
    messages = again.say(control(p.Login, 4, {6: 2001, 4: "Success", 1: 1}), 100.0)
    assert [getattr(message, "control_code", None) for message in messages] == [20, 13, 13, None]
    assert values(messages[2]) == {3: "a|b.*"}
    assert messages[3].reply_topic == "API.REQUESTIMAGE2001.1.1" and messages[3].connection_id == 2001
    assert taken(client) == [Ready(2001)]
    again.say(p.Reply(**ids(old, {1: 1})))
    assert taken(client) == [] and client.counts["replies_dropped"] == 1
    client.request("q", {1: 1}, 100.0)
    assert again.heard()[0].reply_topic == "2001.1.2"


def test_what_is_taken_back_is_not_asked_for_again() -> None:
    client, server = ready()
    client.request_image(["a", "b"], 0.0)
    client.request_image(["b"], 0.0)
    client.unsubscribe(["b"], 0.0)
    server.leave()
    again = Peer(client, 2).connect(100.0)
    again.raw()
    (message,) = again.say(SUCCESS, 100.0)
    assert values(message)[3] == '["a"]'


def test_what_comes_over_the_old_connection_is_not_heard() -> None:
    client, server = ready()
    again = Peer(client, 2).connect(1.0)
    server.say(p.Publish(topic="a", body=write_record({1: 1})))
    server.leave()
    assert taken(client) == [] and not again.is_closed


# --- anything


@given(st.binary(max_size=300), st.lists(st.integers(1, 40), max_size=20), st.booleans())
def test_any_bytes_do_no_harm_however_they_are_cut(data: bytes, cuts: list[int], is_framed: bool) -> None:
    if is_framed:
        data = b"".join(
            FRAMINGS[CEDA4_WS].wrap(bytes((0x61 + data[i] % 5,)) + data[i : i + 40]) for i in range(0, len(data), 40)
        )
    assert played(data, []) == played(data, cuts)


def played(data: bytes, cuts: list[int]) -> Any:
    client, server = ready()
    client.subscribe(["**"], 0.0)
    client.request("q", {1: 1}, 0.0)
    at = 0
    for cut in (*cuts, len(data)):
        client.receive(server.link, data[at : at + cut], 1.0)
        at += cut
    events = [(type(e), e.message.topic, e.message.body) if isinstance(e, Delivered) else str(e) for e in taken(client)]
    return events, server.raw(), server.is_closed, dict(client.counts)


def test_the_record_codec_reads_what_the_client_writes() -> None:
    client, server = ready()
    client.publish("a.b", {1: 1, 2: 2.5, 3: "drei", 4: b"4", 5: None, 6: 2**40}, 0.0)
    message = wirelake.decode("ceda", server.raw(), dialect=CEDA4_WS)
    assert values(message) == {1: 1, 2: 2.5, 3: "drei", 4: b"4", 5: None, 6: 2**40}


def test_a_server_that_stands_still_is_noticed_within_60_seconds() -> None:
    client, server = ready()
    server.say(HEARTBEAT, 0.1)
    for now in range(1, 61):
        client.tick(float(now))
    assert server.link.closing is not None and server.link.closing.at_once
    assert [type(event) for event in taken(client)][-1] is Lost
