"""The client against a scripted broker: ours, and what the known one does differently."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from tests.live.mb.play import EPOCH, MB_WS, UUID4, F, P, R, Said, Stage, frame, unframe
from wirelake.errors import EncodeError, LocalProtocolError
from wirelake.live.core.errors import AnswerError, ConnectionLost, LiveError, RequestTimeout
from wirelake.live.core.link import Link
from wirelake.live.core.session import Answered, Lost
from wirelake.live.mb.client import MbClient
from wirelake.live.mb.events import Message, Ready, Refused, Request
from wirelake.live.mb.options import ClientOptions

GREETING = "publish:system.initialize:1.0.0\n{}"
SUCCESS = '{"status":"success"}'
NO_ERROR = "what follows error: is no error object"


def form_a(code: str, **more: Any) -> str:
    return json.dumps({"error": {"code": code, "message": "m", "timestamp": "2025-03-01T10:00:00.000Z", **more}})


class Client(Stage):
    """A client whose broker is the test."""

    session: MbClient

    def __init__(self, **options: Any) -> None:
        super().__init__(MbClient(options=ClientOptions(**options), epoch=EPOCH, chance=random.Random(7)))
        self.connection: Link

    def connect(self, *, greet: bool = True) -> Client:
        self.connection = self.link()
        self.session.connected(self.connection, self.now)
        if greet:
            self.hear(GREETING)
        return self

    def hear(self, *bodies: str | bytes) -> None:
        self.session.receive(self.connection, b"".join(frame(body) for body in bodies), self.now)

    def said(self) -> list[Said]:
        return [Said(body) for body in unframe(self.written(self.connection))]

    def events(self) -> list[Any]:
        found = list(self.session.events)
        self.session.events.clear()
        return found

    def accept_all(self) -> None:
        """Answers every request with success."""
        for said in self.said():
            if said.action == "request":
                self.hear(f"response:{said.topic}:1.0.0:{said.rid}\n{SUCCESS}")

    def lose(self) -> None:
        self.session.disconnected(self.connection, self.now)


def ready(**options: Any) -> Client:
    client = Client(**options).connect()
    client.accept_all()
    client.events()
    return client


# --- introduction


def test_it_waits_for_the_greeting_then_registers_then_subscribes_then_is_ready() -> None:
    client = Client(name="alpha", description="demo")
    assert client.session.subscribe("ev.#", 0.0) is None
    assert client.session.subscribe("math.add", 0.0, "request", 2) is None
    client.connect(greet=False)
    assert client.said() == []
    client.hear(GREETING)
    register, publish, request = client.said()
    assert (
        register.body
        == f'request:system.service.register:1.0.0:{register.rid}\n{{"name":"alpha","description":"demo"}}'.encode()
    )
    assert publish.topic == request.topic == "system.topic.subscribe"
    assert publish.json == {"action": "publish", "topic": "ev.#"}
    assert request.json == {"action": "request", "topic": "math.add", "priority": 2}
    assert client.events() == []
    for said in (register, publish, request):
        assert UUID4.fullmatch(said.rid or "")
        client.hear(f"response:{said.topic}:1.0.0:{said.rid}\n{SUCCESS}")
    assert client.events() == [Ready()]
    assert client.session.is_ready


def test_a_client_without_a_name_does_not_register() -> None:
    client = Client().connect()
    assert client.said() == []
    assert client.events() == [Ready()]


def test_without_a_greeting_it_goes_on_after_five_seconds() -> None:
    client = Client(name="n").connect(greet=False)
    client.pass_time(4.9)
    assert client.said() == []
    client.pass_time(0.1)
    assert [said.topic for said in client.said()] == ["system.service.register"]
    client.hear(GREETING)
    assert client.said() == []


def test_a_refused_wildcard_and_a_refused_name_are_told_and_it_is_ready_all_the_same() -> None:
    client = Client(name="n" * 40)
    client.session.subscribe("a.#", 0.0)
    client.connect()
    register, subscribe = client.said()
    client.hear(f"response:system.service.register:1.0.0:{register.rid}\n{form_a('INVALID_REQUEST')}")
    client.hear(
        f"response:system.topic.subscribe:1.0.0:{subscribe.rid}\n{form_a('INVALID_REQUEST', details={'topic': 'a.#'})}"
    )
    first, second, last = client.events()
    assert (first.what, first.topic, first.error.code) == ("registration", "n" * 40, "INVALID_REQUEST")
    assert (second.what, second.topic, second.error.details) == ("subscription", "a.#", {"topic": "a.#"})
    assert last == Ready()


def test_an_introduction_that_is_never_answered_ends_by_itself() -> None:
    client = Client(name="n").connect()
    client.pass_time(7)
    refused, last = client.events()
    assert (refused.what, refused.error) == ("registration", RequestTimeout())
    assert last == Ready()


def test_subscribing_later_gives_a_token_that_is_answered() -> None:
    client = ready()
    token = client.session.subscribe("a.b", 0.0)
    (said,) = client.said()
    assert said.rid == token
    client.hear(f"response:system.topic.subscribe:1.0.0:{token}\n{SUCCESS}")
    assert client.events() == [Answered(str(token), SUCCESS.encode())]
    token = client.session.unsubscribe("A.b", 0.0)
    (said,) = client.said()
    assert (said.topic, said.json) == ("system.topic.unsubscribe", {"action": "publish", "topic": "A.b"})
    client.hear(f'response:system.topic.unsubscribe:1.0.0:{token}\n{{"status":"failure"}}')
    assert client.events() == [Answered(str(token), b'{"status":"failure"}')]


def test_a_subscription_that_fails_without_an_error_is_refused_too() -> None:
    client = ready()
    token = client.session.subscribe("a", 0.0, "request", 0)
    client.hear(f'response:system.topic.subscribe:1.0.0:{token}\n{{"status":"failure"}}')
    refused, answered = client.events()
    assert (refused.what, refused.topic) == ("subscription", "a")
    assert answered.error is not None


# --- publish, request, answer


def test_a_publish_is_written_as_short_as_it_can_be() -> None:
    client = ready()
    assert client.session.publish("ev.one", b'{"k":1}', 0.0) is None
    assert client.session.publish("ev.one", b"", 0.0, version="2.0.0", parent=P) is None
    token = client.session.publish("ev.one", b"x", 0.0, confirm=True)
    both = client.session.publish("ev.one", b"x", 0.0, confirm=True, parent=P)
    assert [said.body for said in client.said()] == [
        b'publish:ev.one:1.0.0\n{"k":1}',
        f"publish:ev.one:2.0.0::{P}\n".encode(),
        f"publish:ev.one:1.0.0:{token}\nx".encode(),
        f"publish:ev.one:1.0.0:{both}:{P}\nx".encode(),
    ]
    client.hear(f"response:ev.one:1.0.0:{token}\n{SUCCESS}")
    client.hear(f"response:ev.one:1.0.0:{both}\n{form_a('NO_ROUTE_FOUND')}")
    good, bad = client.events()
    assert good == Answered(str(token), SUCCESS.encode())
    assert (bad.token, bad.error.code) == (both, "NO_ROUTE_FOUND")


def test_a_request_is_written_with_what_it_has() -> None:
    client = ready()
    session = client.session
    tokens = [
        session.request("math.add", b"{}", 0.0),
        session.request("math.add", b"{}", 0.0, timeout_ms=2500),
        session.request("math.add", b"{}", 0.0, timeout_ms=2500, parent=P, version="1.2.3"),
        session.request("system.service.list", b"{}", 0.0),
        session.request("system.metrics", b'{"showAll":true}', 0.0),
    ]
    assert [said.body.decode() for said in client.said()] == [
        f"request:math.add:1.0.0:{tokens[0]}\n{{}}",
        f"request:math.add:1.0.0:{tokens[1]}::2500\n{{}}",
        f"request:math.add:1.2.3:{tokens[2]}:{P}:2500\n{{}}",
        f"request:system.service.list:1.0.0:{tokens[3]}\n{{}}",
        f'request:system.metrics:1.0.0:{tokens[4]}\n{{"showAll":true}}',
    ]


def test_a_response_ends_a_request_whatever_topic_it_names() -> None:
    client = ready()
    token = client.session.request("a", b"", 0.0)
    client.hear(f"response:a:1.0.0:{token}\n\x00any")
    client.hear(f"response:a:1.0.0:{token}\nagain")
    assert client.events() == [Answered(token, b"\x00any")]


@pytest.mark.parametrize(
    ("payload", "error"),
    [
        (form_a("TIMEOUT", details={"targetServiceId": R}), RequestTimeout("no answer in time: m")),
        (form_a("BAD", details={"a": 1}), AnswerError("BAD", "m", {"a": 1})),
        ('error:{"code":"BAD","message":"m","timestamp":"t"}', AnswerError("BAD", "m")),
        ('error:{"code":"BAD","message":"m"}', AnswerError("MALFORMED_MESSAGE", NO_ERROR)),
        ("error:nonsense", AnswerError("MALFORMED_MESSAGE", NO_ERROR)),
    ],
)
def test_both_forms_of_errors_are_recognised(payload: str, error: LiveError) -> None:
    client = ready()
    token = client.session.request("a", b"", 0.0)
    client.hear(f"response:a:1.0.0:{token}\n{payload}")
    (answered,) = client.events()
    assert answered == Answered(token, payload.encode(), error)


@pytest.mark.parametrize(
    "payload", ['{"error":null}', '{"error":{"code":5}}', '"error"', '["error"]', "{}", "Error:{}"]
)
def test_other_payloads_are_no_errors(payload: str) -> None:
    client = ready()
    token = client.session.request("a", b"", 0.0)
    client.hear(f"response:a:1.0.0:{token}\n{payload}")
    assert client.events() == [Answered(token, payload.encode())]


def test_a_question_is_answered_with_its_own_id() -> None:
    client = ready()
    client.hear(f'request:math.add:1.0.0:{F}\n{{"x":1}}')
    (asked,) = client.events()
    assert asked == Request("math.add", b'{"x":1}', "1.0.0", F, 1)
    assert client.session.answer(asked, b'{"sum":3}', 0.0)
    assert client.session.answer_error(asked, "BAD", "no", 2.5, details={"x": 1})
    good, bad = client.said()
    assert good.body == f'response:math.add:1.0.0:{F}\n{{"sum":3}}'.encode()
    assert bad.json == {
        "error": {"code": "BAD", "message": "no", "timestamp": "2025-03-01T10:00:02.500Z", "details": {"x": 1}}
    }


def test_a_question_of_a_lost_connection_is_not_answered_on_the_next() -> None:
    client = ready()
    client.hear(f"request:a:1.0.0:{F}\n")
    (asked,) = client.events()
    client.lose()
    assert not client.session.answer(asked, b"", 0.0)
    client.connect()
    assert not client.session.answer(asked, b"", 0.0)
    assert client.said() == []


def test_a_publish_is_delivered() -> None:
    client = ready()
    client.hear(f"publish:ev.one:1.0.0:{F}\n\xff", "publish:system.message:1.0.0\n{}")
    assert client.events() == [
        Message("ev.one", "\xff".encode(), "1.0.0", F),
        Message("system.message", b"{}", "1.0.0"),
    ]


def test_records_of_the_log_are_delivered() -> None:
    client = ready()
    client.hear('response:system.log:1.0.0\n{"level":"error"}')
    assert client.events() == [Message("system.log", b'{"level":"error"}', "1.0.0")]


@pytest.mark.parametrize("size", [16752, 100_000, 16 << 20])
def test_what_a_broker_sends_may_be_larger_than_what_it_takes(size: int) -> None:
    client = ready()
    token = client.session.request("system.service.list", b"{}", 0.0)
    header = f"response:system.service.list:1.0.0:{token}\n".encode()
    wire = frame(header + b"x" * (size - len(header)))
    for at in range(0, len(wire), 65536):
        client.session.receive(client.connection, wire[at : at + 65536], 0.0)
    (answered,) = client.events()
    assert len(answered.reply) == size - len(header)


def test_a_frame_above_16_mib_loses_the_connection() -> None:
    client = ready()
    client.session.receive(client.connection, ((16 << 20) + 1).to_bytes(4, "big"), 0.0)
    (lost,) = client.events()
    assert isinstance(lost, Lost)
    assert client.connection.closing is not None
    client.lose()
    assert client.events() == []


def test_an_answer_that_nobody_waits_for_any_more_is_not_told() -> None:
    client = ready()
    token = client.session.request("a", b"", 0.0)
    client.session.forget(token)
    client.session.forget(token)
    client.hear(f"response:a:1.0.0:{token}\nx")
    client.pass_time(10)
    assert client.events() == []


# --- what cannot be sent


@pytest.mark.parametrize(
    ("topic", "more"),
    [
        ("a..b", {}),
        ("a.+", {}),
        ("a.b.c.d.e.f", {}),
        ("", {}),
        ("a", {"version": "1.0"}),
        ("a", {"version": "1.0.0-123456789012345"}),
        ("a", {"parent": "x"}),
        ("a", {"parent": R.upper()}),
    ],
)
def test_what_a_broker_would_refuse_is_not_sent(topic: str, more: Any) -> None:
    client = ready()
    with pytest.raises(EncodeError):
        client.session.publish(topic, b"", 0.0, confirm=True, **more)
    with pytest.raises(EncodeError):
        client.session.request(topic, b"", 0.0, **more)
    assert client.said() == []
    client.lose()
    assert [type(event) for event in client.events()] == [Lost]


@pytest.mark.parametrize("timeout", [0, -1, 3_600_001])
def test_a_timeout_has_its_limits(timeout: int) -> None:
    with pytest.raises(EncodeError, match="timeout"):
        ready().session.request("a", b"", 0.0, timeout_ms=timeout)


def test_a_payload_has_its_limit() -> None:
    client = ready()
    client.session.publish("a", b"x" * 16384, 0.0)
    with pytest.raises(EncodeError, match="payload_too_large"):
        client.session.publish("a", b"x" * 16385, 0.0)


@pytest.mark.parametrize("pattern", ["", "a.*", "a.#.b", "a.b.c.d.e.#"])
def test_a_bad_pattern_is_not_asked_for(pattern: str) -> None:
    with pytest.raises(EncodeError):
        ready().session.subscribe(pattern, 0.0)


@pytest.mark.parametrize("priority", [float("nan"), float("inf")])
def test_a_priority_has_to_be_finite(priority: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        ready().session.subscribe("a", 0.0, "request", priority)


def test_nothing_can_be_sent_without_a_connection() -> None:
    client = Client()
    for call in (client.session.publish, client.session.request):
        with pytest.raises(LocalProtocolError):
            call("a", b"", 0.0)
    client.connect()
    client.session.link.close("done")
    with pytest.raises(LocalProtocolError):
        client.session.publish("a", b"", 0.0)
    client.hear("request:system.heartbeat:1.0.0\n{}")
    assert client.said() == []


def test_open_requests_are_limited() -> None:
    client = ready(max_open=2)
    client.session.request("a", b"", 0.0)
    client.session.request("a", b"", 0.0)
    with pytest.raises(LocalProtocolError):
        client.session.request("a", b"", 0.0)
    client.session.publish("a", b"", 0.0)


# --- time


def test_the_brokers_heartbeat_is_answered() -> None:
    client = ready()
    client.hear("request:system.heartbeat:1.0.0\n{}")
    (said,) = client.said()
    assert said.body == b"response:system.heartbeat:1.0.0\n{}"


def test_it_sends_its_own_heartbeat_after_20_seconds_without_sending() -> None:
    client = ready()
    client.pass_time(15)
    client.session.publish("a", b"", client.now)
    client.said()
    client.pass_time(19.9)
    assert client.said() == []
    client.pass_time(0.1)
    (said,) = client.said()
    assert (said.action, said.topic) == ("request", "system.heartbeat")
    client.pass_time(4.9)
    client.hear(f"response:system.heartbeat:1.0.0:{said.rid}\n{SUCCESS}")
    assert client.events() == []
    client.pass_time(15.2)
    assert len(client.said()) == 1


def test_a_heartbeat_that_is_not_answered_in_5_seconds_loses_the_connection() -> None:
    client = ready()
    token = client.session.request("a", b"", 0.0, timeout_ms=100_000)
    client.pass_time(24.9)
    assert client.events() == []
    client.pass_time(0.1)
    answered, lost = client.events()
    assert (answered.token, answered.error) == (token, ConnectionLost())
    assert isinstance(lost, Lost)
    assert client.connection.closing is not None
    assert client.connection.closing.at_once
    assert client.session.deadline is None
    client.lose()
    assert client.events() == []


def test_a_request_that_the_broker_forgets_ends_after_a_grace() -> None:
    client = ready()
    token = client.session.request("a", b"", 0.0, timeout_ms=1000)
    client.pass_time(1.4)
    assert client.events() == []
    client.pass_time(0.1)
    (answered,) = client.events()
    assert (answered.token, answered.error) == (token, RequestTimeout())
    client.hear(f"response:a:1.0.0:{token}\nlate")
    assert client.events() == []


def test_heartbeats_may_be_rarer_than_their_answers() -> None:
    client = ready(heartbeat_seconds=1, answer_seconds=10)
    client.pass_time(9)
    assert len(client.said()) == 1
    client.pass_time(2)
    assert [type(event) for event in client.events()] == [Lost]


# --- loss and return


def test_after_a_loss_it_registers_and_subscribes_again() -> None:
    client = Client(name="n", description="d")
    client.session.subscribe("a", 0.0)
    client.session.subscribe("b", 0.0)
    client.connect()
    client.accept_all()
    assert client.events() == [Ready()]
    client.session.subscribe("c", 0.0, "request", 1)
    client.session.unsubscribe("B", 0.0)
    client.accept_all()
    client.events()
    token = client.session.request("x", b"", 0.0)
    client.lose()
    answered, lost = client.events()
    assert (answered.token, answered.error) == (token, ConnectionLost())
    assert lost == Lost("the connection was closed")
    client.connect()
    said = client.said()
    assert [one.json.get("topic", "register") for one in said] == ["register", "a", "c"]
    for one in said:
        client.hear(f"response:{one.topic}:1.0.0:{one.rid}\n{SUCCESS}")
    assert client.events() == [Ready()]


def test_what_comes_on_an_old_connection_is_ignored() -> None:
    client = ready()
    old = client.connection
    client.lose()
    client.connect()
    client.events()
    client.session.receive(old, frame("publish:a:1.0.0\n"), 0.0)
    client.session.disconnected(old, 0.0)
    assert client.events() == []
    assert client.session.link is client.connection


def test_half_a_frame_of_an_old_connection_does_not_spoil_the_next() -> None:
    client = ready()
    client.session.receive(client.connection, frame("publish:a:1.0.0\nold")[:9], 0.0)
    client.lose()
    client.connect()
    client.hear("publish:a:1.0.0\nnew")
    assert [event.payload for event in client.events() if isinstance(event, Message)] == [b"new"]


# --- what other brokers do


def test_an_error_under_an_unknown_id_is_told_but_ends_nothing() -> None:
    client = ready()
    token = client.session.request("other", b"", 0.0)
    client.hear(
        f"response:ev.none:1.0.0:{F}\n{form_a('NO_ROUTE_FOUND')}",
        f"response:error:1.0.0\n{form_a('MALFORMED_MESSAGE')}",
    )
    first, second = client.events()
    assert (first.what, first.topic, first.error.code) == ("message", "ev.none", "NO_ROUTE_FOUND")
    assert isinstance(second, Refused)
    assert second.topic == "error"
    client.hear(f"response:other:1.0.0:{token}\nok")
    assert client.events() == [Answered(token, b"ok")]


def test_an_eviction_under_an_unknown_id_ends_the_oldest_request_of_that_topic() -> None:
    client = ready()
    other = client.session.request("b", b"", 0.0)
    oldest = client.session.request("A", b"", 0.0)
    client.session.request("A", b"", 0.0)
    client.hear(f"response:A:1.0.0:{F}\n{form_a('SERVICE_UNAVAILABLE')}")
    (answered,) = client.events()
    assert (answered.token, answered.error.code) == (oldest, "SERVICE_UNAVAILABLE")
    assert answered.token != other


def test_answers_that_nobody_asked_for_are_ignored() -> None:
    client = ready()
    client.hear(
        f"response:a:1.0.0:{F}\nok", "response:system.heartbeat:1.0.0\n{}", "response:a:1.0.0\n", "request:a:1.0.0\n"
    )
    assert client.events() == []
    assert client.connection.closing is None


def test_a_bad_header_of_ours_is_matched_by_the_id_if_the_broker_kept_it() -> None:
    client = ready()
    token = client.session.request("a", b"", 0.0)
    client.hear(f"response:error:1.0.0:{token}\n{form_a('MALFORMED_MESSAGE')}")
    (answered,) = client.events()
    assert (answered.token, answered.error.code) == (token, "MALFORMED_MESSAGE")


def test_what_only_the_known_broker_accepts_is_read_and_counted() -> None:
    client = ready()
    odd = "3f2b8c1e-6d4a-1b7e-0c05-1a2b3c4d5e6f"
    client.hear(f"publish:a: v1.0.0 :{odd}\nx", f"request:q:v2.0.0:{F}\n")
    delivered, asked = client.events()
    assert delivered == Message("a", b"x", " v1.0.0 ", odd)
    assert client.session.counts["nonconforming"] == 2
    assert client.session.answer(asked, b"ok", 0.0)
    assert client.said()[0].header == f"response:q:1.0.0:{F}"


def test_what_nobody_accepts_is_noted_and_the_connection_stays() -> None:
    client = ready()
    client.hear("nonsense", "publish:a:1\n", b"", "publish:b:1.0.0\n")
    assert [event.topic for event in client.events()] == ["b"]
    assert client.session.counts["malformed"] == 3
    assert {note.level for note in client.session.notes} == {"warn"}


# --- WebSocket


def test_over_websocket_it_takes_whole_messages() -> None:
    client = Client()
    link = client.link(MB_WS)
    client.session.connected(link, 0.0)
    client.session.receive_messages(link, [GREETING.encode(), b"publish:a:1.0.0\nx"], 0.0)
    assert client.events() == [Ready(), Message("a", b"x", "1.0.0")]
    client.session.publish("a", b"y", 0.0)
    assert client.written(link) == b"\x81\x11publish:a:1.0.0\ny"
