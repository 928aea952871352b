"""What the broker does with messages: sections 2 to 6, 9 and 10 of the protocol's specification."""

from __future__ import annotations

import pytest

from tests.live.mb.play import MB_WS, UUID4, Broker, F, P, Peer, R, Said, frame
from wirelake.codec import subscriptions
from wirelake.live.mb.options import BrokerOptions
from wirelake.live.mb.wire import MB_TCP


def pair() -> tuple[Broker, Peer, Peer]:
    broker = Broker()
    return broker, broker.join(), broker.join()


# --- 2: transports


def test_the_greeting_is_a_publish_of_34_octets() -> None:
    broker = Broker()
    peer = broker.join(silent=False)
    wire = broker.written(peer.link)
    assert wire.hex(" ") == (
        "00 00 00 22 70 75 62 6c 69 73 68 3a 73 79 73 74 65 6d 2e 69 6e 69 74 69 "
        "61 6c 69 7a 65 3a 31 2e 30 2e 30 0a 7b 7d"
    )


def test_the_greeting_over_websocket_is_one_text_frame() -> None:
    broker = Broker()
    peer = broker.join(MB_WS, silent=False)
    assert broker.written(peer.link) == b"\x81\x22publish:system.initialize:1.0.0\n{}"


def test_bytes_may_come_one_by_one_or_all_together() -> None:
    for size in (1, 3, 1000):
        broker = Broker()
        peer = broker.join()
        data = frame(f"request:system.heartbeat:1.0.0:{R}\n") + frame(f"request:system.heartbeat:1.0.0:{P}\n")
        for at in range(0, len(data), size):
            peer.feed(data[at : at + size])
        assert [said.rid for said in peer.take()] == [R, P]


def test_a_frame_of_16751_octets_is_taken_and_a_longer_one_closes_at_once() -> None:
    broker = Broker()
    peer = broker.join()
    longest = b"publish:a:1.0.0\n".ljust(16751, b"x")
    assert peer.one(longest).code == "MALFORMED_MESSAGE"
    assert peer.link.closing is None
    peer.feed((16752).to_bytes(4, "big"))
    assert peer.take() == []
    assert peer.link.closing is not None
    assert broker.session.services == {}


def test_what_follows_a_frame_that_is_too_long_is_ignored() -> None:
    _, peer, other = pair()
    other.subscribe("a")
    peer.feed(frame("publish:a:1.0.0\n1") + b"\xff" * 4 + frame("publish:a:1.0.0\n2"))
    peer.say("publish:a:1.0.0\n3")
    assert [said.payload for said in other.take()] == [b"1"]


def test_an_empty_frame_is_answered_as_malformed_and_the_connection_stays() -> None:
    broker = Broker()
    peer = broker.join()
    said = peer.one(b"")
    assert (said.header, said.code) == ("response:error:1.0.0", "MALFORMED_MESSAGE")
    assert peer.link.closing is None


def test_a_message_to_many_is_framed_once_for_each_kind_of_connection() -> None:
    broker = Broker()
    peers = [broker.join(framing).subscribe("a") for framing in (MB_TCP, MB_TCP, MB_WS, MB_WS)]
    peers[0].say(b"publish:a:1.0.0\nhello")
    wires = [peer.link.out[0] for peer in peers]
    assert wires[0] is wires[1]
    assert wires[2] is wires[3]
    assert wires[2] == MB_WS.wrap(wires[0][4:])


def test_octets_that_are_not_utf8_pass_unchanged_and_make_a_binary_websocket_message() -> None:
    broker = Broker()
    tcp = broker.join().subscribe("a")
    ws = broker.join(MB_WS).subscribe("a")
    (said,) = tcp.ask(b"publish:a:1.0.0\n\xff\xfe\x00")
    assert said.payload == b"\xff\xfe\x00"
    assert broker.written(ws.link)[0] == 0x82


# --- 6.2: publish


def test_a_publish_reaches_a_subscriber_with_a_new_id_and_the_publisher_hears_nothing() -> None:
    broker, publisher, subscriber = pair()
    subscriber.subscribe("ev.one")
    assert publisher.ask('publish:ev.one:1.0.0\n{"k":1}') == []
    wire = broker.written(subscriber.link)
    (said,) = [Said(wire[4:])]
    assert len(wire) == 4 + 65
    assert wire[:4] == (65).to_bytes(4, "big")
    assert said.header.startswith("publish:ev.one:1.0.0:")
    assert UUID4.fullmatch(said.rid or "")
    assert said.payload == b'{"k":1}'


def test_all_receivers_get_the_same_id_and_the_next_publish_another() -> None:
    broker = Broker()
    first, second = broker.join().subscribe("a"), broker.join().subscribe("a")
    publisher = broker.join()
    publisher.say("publish:a:1.0.0\n1", "publish:a:1.0.0\n2")
    one, two = first.take(), second.take()
    assert [said.body for said in one] == [said.body for said in two]
    assert one[0].rid != one[1].rid


def test_neither_id_nor_parent_of_a_publish_is_passed_on() -> None:
    _, publisher, subscriber = pair()
    subscriber.subscribe("a")
    publisher.say(f"publish:a:1.0.0:{R}:{P}\n{{}}")
    (said,) = subscriber.take()
    assert len(said.fields) == 4
    assert said.rid not in (R, P)


def test_a_publish_with_an_id_is_confirmed_after_the_publishers_own_copy() -> None:
    broker = Broker()
    peer = broker.join().subscribe("a")
    copy, confirmed = peer.ask(f"publish:a:1.0.0:{R}\n{{}}")
    assert copy.action == "publish"
    assert confirmed.body == f'response:a:1.0.0:{R}\n{{"status":"success"}}'.encode()


def test_a_publish_that_nobody_gets_is_told_even_without_an_id() -> None:
    broker = Broker()
    peer = broker.join()
    said = peer.one("publish:ev.none:1.0.0\n{}")
    assert (said.action, said.topic, said.version) == ("response", "ev.none", "1.0.0")
    assert UUID4.fullmatch(said.rid or "")
    assert said.json["error"].keys() == {"code", "message", "timestamp"}
    assert said.code == "NO_ROUTE_FOUND"
    assert said.json["error"]["timestamp"] == "2025-03-01T10:00:00.000Z"
    assert peer.one(f"publish:ev.none:2.0.0:{R}\n{{}}").header == f"response:ev.none:2.0.0:{R}"


def test_topics_match_without_case_and_are_passed_on_as_sent() -> None:
    _, publisher, subscriber = pair()
    subscriber.subscribe("Ev.ONE")
    publisher.say("PUBLISH:eV.One:1.0.0\n")
    (said,) = subscriber.take()
    assert said.header.startswith("publish:eV.One:1.0.0:")


def test_a_service_whose_patterns_match_twice_gets_one_copy() -> None:
    _, publisher, subscriber = pair()
    for pattern in ("a.b", "a.#", "+.b", "#"):
        subscriber.subscribe(pattern)
    publisher.say("publish:a.b:1.0.0\n")
    assert len(subscriber.take()) == 1


def test_order_is_kept_per_connection() -> None:
    _, publisher, subscriber = pair()
    subscriber.subscribe("a.#")
    publisher.say(*(f"publish:a.t{i % 3}:1.0.0\n{i}" for i in range(50)))
    assert [said.payload for said in subscriber.take()] == [b"%d" % i for i in range(50)]


def test_an_empty_payload_and_one_with_line_ends_pass_untouched() -> None:
    _, publisher, subscriber = pair()
    subscriber.subscribe("a")
    publisher.say("publish:a:1.0.0\n", "publish:a:1.0.0\nx:\n\ny\r\n")
    assert [said.payload for said in subscriber.take()] == [b"", b"x:\n\ny\r\n"]


def test_a_receiver_that_is_closing_is_skipped_and_the_rest_are_served() -> None:
    broker = Broker()
    first, second, publisher = broker.join().subscribe("a"), broker.join().subscribe("a"), broker.join()
    first.link.close("going")
    assert publisher.ask(f"publish:a:1.0.0:{R}\n")[0].json == {"status": "success"}
    assert len(second.take()) == 1
    second.link.close("going")
    assert publisher.one("publish:a:1.0.0\n").code == "INTERNAL_ERROR"


# --- 6.3: request and response


def test_a_request_and_its_response_change_ids_on_the_way() -> None:
    _, requester, service = pair()
    service.subscribe("math.add", "request")
    assert requester.ask(f'request:math.add:1.0.0:{R}:{P}:2500\n{{"x":1,"y":2}}') == []
    (asked,) = service.take()
    assert asked.header == f"request:math.add:1.0.0:{asked.rid}"
    assert asked.rid not in (R, P)
    assert asked.payload == b'{"x":1,"y":2}'
    assert service.ask(f'response:math.add:1.0.0:{asked.rid}\n{{"sum":3}}') == []
    (said,) = requester.take()
    assert said.body == f'response:math.add:1.0.0:{R}\n{{"sum":3}}'.encode()


def test_a_response_may_name_any_topic_and_version_but_the_requester_sees_its_own() -> None:
    _, requester, service = pair()
    service.subscribe("a", "request")
    requester.say(f"request:A:2.1.0:{R}\n")
    (asked,) = service.take()
    service.say(f"response:other.topic:9.9.9:{asked.rid}:{P}\nok")
    assert requester.take()[0].header == f"response:A:2.1.0:{R}"


@pytest.mark.parametrize("header", ["response:a:1.0.0", f"response:a:1.0.0:{F}", f"response:a:1.0.0:{R}"])
def test_a_response_without_a_known_id_is_refused(header: str) -> None:
    _, requester, service = pair()
    service.subscribe("a", "request")
    requester.say(f"request:a:1.0.0:{R}\n")
    service.take()
    said = service.one(f"{header}\n")
    assert (said.code, said.json["error"].get("details")) == ("INVALID_REQUEST_ID", None)
    assert requester.take() == []


def test_only_the_service_that_was_asked_may_respond_and_only_once() -> None:
    broker, requester, service = pair()
    other = broker.join()
    service.subscribe("a", "request")
    requester.say(f"request:a:1.0.0:{R}\n")
    (asked,) = service.take()
    assert other.one(f"response:a:1.0.0:{asked.rid}\n").code == "INVALID_REQUEST_ID"
    assert service.ask(f"response:a:1.0.0:{asked.rid}\n1") == []
    assert service.one(f"response:a:1.0.0:{asked.rid}\n2").code == "INVALID_REQUEST_ID"
    assert [said.payload for said in requester.take()] == [b"1"]


def test_the_parent_position_is_no_place_for_the_id_of_a_response() -> None:
    _, requester, service = pair()
    service.subscribe("a", "request")
    requester.say(f"request:a:1.0.0:{R}\n")
    (asked,) = service.take()
    assert service.one(f"response:a:1.0.0:{F}:{asked.rid}\n").code == "INVALID_REQUEST_ID"


def test_a_request_that_nobody_serves_is_told() -> None:
    broker = Broker()
    peer = broker.join().subscribe("a")
    said = peer.one(f"request:a:1.0.0:{R}\n")
    assert (said.rid, said.code) == (R, "NO_ROUTE_FOUND")
    assert UUID4.fullmatch(peer.one("request:a:1.0.0\n").rid or "")


def test_the_highest_priority_is_asked_and_equals_take_turns_by_chance() -> None:
    broker = Broker()
    low, one, two = broker.join(), broker.join(), broker.join()
    requester = broker.join()
    low.subscribe("a", "request", priority=-0.5)
    one.subscribe("a", "request", priority=2)
    two.subscribe("a", "request", priority=2.0)
    requester.say(*(f"request:a:1.0.0:{R}\n" for _ in range(400)))
    assert low.take() == []
    count = len(one.take())
    assert 150 < count < 250
    assert len(two.take()) == 400 - count
    one.leave()
    two.leave()
    requester.say(f"request:a:1.0.0:{R}\n")
    assert len(low.take()) == 1


def test_a_pattern_serves_with_its_best_priority() -> None:
    broker = Broker()
    exact, pattern, requester = broker.join(), broker.join(), broker.join()
    exact.subscribe("a.b", "request", priority=1)
    pattern.subscribe("a.#", "request", priority=0)
    requester.say(f"request:a.b:1.0.0:{R}\n")
    assert (len(exact.take()), len(pattern.take())) == (1, 0)
    pattern.subscribe("+.b", "request", priority=5)
    requester.say(f"request:a.b:1.0.0:{R}\n")
    assert (len(exact.take()), len(pattern.take())) == (0, 1)


def test_a_service_may_be_asked_by_itself() -> None:
    broker = Broker()
    peer = broker.join().subscribe("a", "request")
    (asked,) = peer.ask(f"request:a:1.0.0:{R}\nq")
    (said,) = peer.ask(f"response:a:1.0.0:{asked.rid}\nr")
    assert (said.rid, said.payload) == (R, b"r")


def test_publish_and_request_subscriptions_do_not_mix() -> None:
    _, sender, receiver = pair()
    receiver.subscribe("a")
    assert sender.one(f"request:a:1.0.0:{R}\n").code == "NO_ROUTE_FOUND"
    receiver.subscribe("b", "request")
    assert sender.one(f"publish:b:1.0.0:{R}\n").code == "NO_ROUTE_FOUND"


@pytest.mark.parametrize(("timeout", "seconds"), [("", 5.0), ("::2500", 2.5), ("::1", 0.001), ("::3600000", 3600.0)])
def test_a_request_without_a_response_times_out(timeout: str, seconds: float) -> None:
    broker = Broker(options=BrokerOptions(heartbeat_seconds=1e6, deregister_seconds=2e6))
    requester, service = broker.join(), broker.join()
    service.subscribe("math.add", "request")
    requester.say(f"request:math.add:1.0.0:{R}{timeout}\n")
    (asked,) = service.take()
    broker.pass_time(seconds - 0.0005)
    assert requester.take() == []
    broker.pass_time(0.0005)
    (said,) = requester.take()
    assert said.header == f"response:math.add:1.0.0:{R}"
    assert said.code == "TIMEOUT"
    assert said.details == {"targetServiceId": service.id}
    assert service.one(f"response:math.add:1.0.0:{asked.rid}\n").code == "INVALID_REQUEST_ID"
    assert requester.take() == []


def test_the_time_in_a_timeout_is_that_of_its_end() -> None:
    broker, requester, service = pair()
    service.subscribe("math.add", "request")
    requester.say(f"request:math.add:1.0.0:{R}:{P}:2500\n")
    broker.pass_time(2.5)
    assert requester.take()[0].json["error"]["timestamp"] == "2025-03-01T10:00:02.500Z"


def test_a_request_without_an_id_is_delivered_but_its_response_is_swallowed() -> None:
    _, requester, service = pair()
    service.subscribe("a", "request")
    requester.say("request:a:1.0.0\nq")
    (asked,) = service.take()
    assert UUID4.fullmatch(asked.rid or "")
    assert service.ask(f'response:a:1.0.0:{asked.rid}\n{{"error":{{}}}}') == []
    assert requester.take() == []
    assert service.one(f"response:a:1.0.0:{asked.rid}\n").code == "INVALID_REQUEST_ID"


def test_an_error_of_form_b_reaches_a_requester_without_an_id_under_an_invented_one() -> None:
    _, requester, service = pair()
    service.subscribe("a", "request")
    requester.say("request:a:1.0.0\nq")
    (asked,) = service.take()
    service.say(f"response:a:1.0.0:{asked.rid}\nerror:{{}}")
    (said,) = requester.take()
    assert said.payload == b"error:{}"
    assert UUID4.fullmatch(said.rid or "")
    assert said.rid != asked.rid


@pytest.mark.parametrize("payload", ["Error:{}", " error:{}", "err"])
def test_only_exactly_error_and_a_colon_is_form_b(payload: str) -> None:
    _, requester, service = pair()
    service.subscribe("a", "request")
    requester.say("request:a:1.0.0\nq")
    (asked,) = service.take()
    service.say(f"response:a:1.0.0:{asked.rid}\n{payload}")
    assert requester.take() == []


def test_a_request_without_an_id_is_forgotten_silently_after_the_default_timeout() -> None:
    broker, requester, service = pair()
    service.subscribe("a", "request")
    requester.say("request:a:1.0.0:::60000\nq")
    (asked,) = service.take()
    broker.pass_time(5.0)
    assert requester.take() == []
    assert service.one(f"response:a:1.0.0:{asked.rid}\n").code == "INVALID_REQUEST_ID"


def test_one_id_may_be_used_for_several_requests_in_flight() -> None:
    _, requester, service = pair()
    service.subscribe("a", "request")
    requester.say(f"request:a:1.0.0:{R}\n1", f"request:a:1.0.0:{R}\n2")
    first, second = service.take()
    service.say(f"response:a:1.0.0:{second.rid}\ntwo", f"response:a:1.0.0:{first.rid}\none")
    assert [(said.rid, said.payload) for said in requester.take()] == [(R, b"two"), (R, b"one")]


def test_one_request_too_many_evicts_the_oldest_under_its_own_id() -> None:
    broker = Broker(options=BrokerOptions(max_outstanding=2))
    requester, service = broker.join(), broker.join()
    service.subscribe("a", "request")
    ids = [f"00000000-0000-4000-8000-00000000000{i}" for i in range(3)]
    said = requester.ask(*(f"request:a:1.0.0:{rid}\n" for rid in ids))
    assert [(one.rid, one.code) for one in said] == [(ids[0], "SERVICE_UNAVAILABLE")]
    assert said[0].details is None
    asked = service.take()
    assert len(asked) == 3
    assert service.one(f"response:a:1.0.0:{asked[0].rid}\n").code == "INVALID_REQUEST_ID"
    assert service.ask(f"response:a:1.0.0:{asked[2].rid}\n") == []
    assert [one.rid for one in requester.take()] == [ids[2]]


def test_requests_at_a_service_that_is_gone_time_out() -> None:
    broker, requester, service = pair()
    service.subscribe("a", "request")
    requester.say(f"request:a:1.0.0:{R}\n")
    gone = service.id
    service.leave()
    assert requester.take() == []
    broker.pass_time(5)
    (said,) = requester.take()
    assert (said.code, said.details) == ("TIMEOUT", {"targetServiceId": gone})
    assert requester.one(f"request:a:1.0.0:{R}\n").code == "NO_ROUTE_FOUND"


def test_a_response_for_a_requester_that_is_gone_is_dropped_silently() -> None:
    broker, requester, service = pair()
    service.subscribe("a", "request")
    requester.say(f"request:a:1.0.0:{R}\n", f"request:a:1.0.0:{P}\n")
    asked, late = service.take()
    requester.leave()
    assert service.ask(f"response:a:1.0.0:{asked.rid}\n") == []
    broker.pass_time(5)
    assert service.one(f"response:a:1.0.0:{late.rid}\n").code == "INVALID_REQUEST_ID"
    assert broker.session.changed == []


def test_a_request_whose_service_is_closing_is_an_internal_error() -> None:
    _, requester, service = pair()
    service.subscribe("a", "request")
    service.link.close("going")
    assert requester.one(f"request:a:1.0.0:{R}\n").code == "INTERNAL_ERROR"


# --- 6.4: subscriptions


def test_a_connection_that_is_gone_leaves_nothing_behind() -> None:
    broker = Broker()
    peer, other = broker.join(), broker.join()
    for topic in ("a", "a.#", "+"):
        peer.subscribe(topic).subscribe(topic, "request")
    peer.leave()
    assert other.one("publish:a:1.0.0\n").code == "NO_ROUTE_FOUND"
    assert other.one("request:a:1.0.0\n").code == "NO_ROUTE_FOUND"
    assert other.system("system.topic.list").json == {"topics": []}
    assert broker.session.topics.published.holders == {}
    peer.leave()


def test_routes_follow_subscriptions() -> None:
    _, publisher, subscriber = pair()
    for pattern in ("a.b", "a.+", "a.#", "#"):
        assert publisher.one("publish:a.b:1.0.0\n").code == "NO_ROUTE_FOUND"
        subscriber.subscribe(pattern)
        assert publisher.ask("publish:a.b:1.0.0\n") == []
        assert len(subscriber.take()) == 1
        answer = subscriber.system("system.topic.unsubscribe", {"action": "publish", "topic": pattern.upper()})
        assert answer.json == {"status": "success"}


def test_patterns_never_get_messages_of_system_topics() -> None:
    _, sender, receiver = pair()
    for pattern in ("#", "+.heartbeat", "+.#"):
        receiver.subscribe(pattern).subscribe(pattern, "request")
    sender.say(f"request:system.heartbeat:1.0.0:{R}\n", "publish:system.heartbeat:1.0.0\n")
    assert receiver.take() == []


def test_a_repeated_request_subscription_replaces_the_priority() -> None:
    broker = Broker()
    one, two, requester = broker.join(), broker.join(), broker.join()
    one.subscribe("a", "request", priority=3)
    two.subscribe("a", "request", priority=1)
    one.subscribe("a", "request")
    requester.say(f"request:a:1.0.0:{R}\n")
    assert (len(one.take()), len(two.take())) == (0, 1)


def test_wildcards_can_be_switched_off() -> None:
    broker = Broker(options=BrokerOptions(wildcard_subscriptions=False))
    peer = broker.join()
    said = peer.system("system.topic.subscribe", {"action": "publish", "topic": "a.#"})
    assert (said.code, said.details) == ("INVALID_REQUEST", {"topic": "a.#"})


# --- 6.5: heartbeat


def test_a_silent_service_is_asked_once_and_then_dropped_with_its_connection() -> None:
    broker = Broker()
    peer = broker.join().subscribe("a")
    broker.pass_time(29.9)
    assert peer.take() == []
    broker.pass_time(0.1)
    (said,) = peer.take()
    assert said.body == b"request:system.heartbeat:1.0.0\n{}"
    broker.pass_time(29.9)
    assert peer.take() == []
    assert peer.link.closing is None
    broker.pass_time(0.1)
    assert peer.take() == []
    assert peer.link.closing is not None
    assert broker.session.services == {}
    assert broker.join().one("publish:a:1.0.0\n").code == "NO_ROUTE_FOUND"
    assert broker.session.deadline is not None
    broker.session.disconnected(peer.link, broker.now)


@pytest.mark.parametrize(
    "body",
    [
        "response:system.heartbeat:1.0.0\n{}",
        f"response:system.heartbeat:1.0.0:{R}\nnot JSON",
        "publish:nobody:1.0.0\n",
        f"response:a:1.0.0:{R}\n",
        "request:system.nonsense:1.0.0\n",
        "publish:a:1.0.0\n" + "x" * 16385,
    ],
)
def test_every_message_whose_header_is_good_is_a_sign_of_life(body: str) -> None:
    broker = Broker()
    peer = broker.join()
    for _ in range(5):
        broker.pass_time(20)
        peer.say(body)
    assert "request:system.heartbeat:1.0.0" not in [said.header for said in peer.take()]
    broker.pass_time(30)
    assert [said.header for said in peer.take()] == ["request:system.heartbeat:1.0.0"]
    peer.say(body)
    broker.pass_time(59)
    assert peer.link.closing is None
    broker.pass_time(1)
    assert peer.link.closing is not None


def test_malformed_headers_and_what_is_sent_to_a_service_are_no_sign_of_life() -> None:
    broker = Broker()
    peer, other = broker.join().subscribe("a"), broker.join()
    for _ in range(5):
        broker.pass_time(10)
        peer.say("nonsense")
        other.say("publish:a:1.0.0\n")
    broker.pass_time(10)
    assert peer.link.closing is not None
    assert other.link.closing is None


def test_a_heartbeat_response_is_not_answered_and_a_request_is() -> None:
    broker = Broker()
    peer = broker.join()
    assert peer.ask("response:system.heartbeat:1.0.0\n{}") == []
    said = peer.one(f"request:system.heartbeat:1.0.0:{R}\n\xff not JSON")
    assert said.body == f'response:system.heartbeat:1.0.0:{R}\n{{"status":"success"}}'.encode()


def test_a_connection_that_only_dribbles_is_dropped() -> None:
    broker = Broker()
    peer = broker.join()
    for octet in frame("publish:a:1.0.0\n" + "x" * 200)[:120]:
        peer.feed(bytes((octet,)))
        broker.pass_time(0.5)
    assert peer.link.closing is not None


# --- 6.6: limits


def test_a_reader_that_leaves_8_mib_unread_is_closed_at_once() -> None:
    broker = Broker()
    slow, quick, publisher = broker.join().subscribe("a"), broker.join().subscribe("a"), broker.join()
    sent = 0
    while slow.link.closing is None:
        sent += 1
        assert sent < 600
        publisher.say("publish:a:1.0.0\n" + "x" * 16000)
        quick.take()
    assert slow.link.closing.at_once
    assert 8 << 20 < slow.link.unsent < (8 << 20) + 17000
    assert publisher.ask(f"publish:a:1.0.0:{R}\n")[0].json == {"status": "success"}


def test_answers_count_against_the_limit_of_unsent_bytes_too() -> None:
    broker = Broker(options=BrokerOptions(max_unsent=1000))
    peer = broker.join()
    peer.say(*(f"request:system.heartbeat:1.0.0:{R}\n" for _ in range(100)))
    assert peer.link.closing is not None
    assert len(peer.link.out) < 15


def test_subscriptions_of_one_connection_are_limited() -> None:
    broker = Broker(options=BrokerOptions(max_subscriptions=3))
    peer = broker.join().subscribe("a").subscribe("b", "request").subscribe("c")
    peer.subscribe("a").subscribe("b", "request", priority=3)
    said = peer.system("system.topic.subscribe", {"action": "publish", "topic": "d"})
    assert said.code == "SERVICE_UNAVAILABLE"
    peer.system("system.topic.unsubscribe", {"action": "publish", "topic": "a"})
    peer.subscribe("d")


def test_rates_may_be_limited_by_service_and_by_topic() -> None:
    broker = Broker(options=BrokerOptions(messages_per_second=3, messages_per_topic=4))
    one, two = broker.join().subscribe("t"), broker.join()
    broker.pass_time(1)
    said = one.ask(*["publish:t:1.0.0\n"] * 4, "request:system.heartbeat:1.0.0\n")
    assert [s.code if s.action == "response" else "got" for s in said] == ["got"] * 3 + ["SERVICE_UNAVAILABLE", None]
    said = two.ask(*["publish:t:1.0.0\n"] * 2)
    assert [s.code for s in said] == ["SERVICE_UNAVAILABLE"]
    broker.pass_time(1)
    assert two.ask("publish:t:1.0.0\n") == []


# --- 3.2 and 5: errors of headers

LONG = "a" * 400


@pytest.mark.parametrize(
    ("body", "details"),
    [
        ("publish:a:1.0.0", None),
        ("publish:a:1.0.0" + LONG + "\n", None),
        ("publish:a\n", None),
        ("publish:a:1.0.0::::\n", None),
        ("subscribe:a:1.0.0\n", {"validActions": ["publish", "request", "response"]}),
        (":a:1.0.0\n", {"validActions": ["publish", "request", "response"]}),
        ("publish:a..b:1.0.0\n", {"topic": "a..b"}),
        ("publish:a.b.c.d.e.f:1.0.0\n", {"topic": "a.b.c.d.e.f"}),
        ("publish:a.+:1.0.0\n", {"topic": "a.+"}),
        (b"publish:a\xff:1.0.0\n", {"topic": "a\ufffd"}),
        ("publish:" + "a" * 256 + ":1.0.0\n", {"topic": "a" * 256}),
        ("publish:a:1.0\n", {"version": "1.0"}),
        ("publish:a:v1.0.0\n", {"version": "v1.0.0"}),
        ("publish:a:1.0.0\r\n", {"version": "1.0.0\r"}),
        ("publish:a:1.0.0-123456789012345\n", {"version": "1.0.0-123456789012345"}),
        ("publish:a:9007199254740992.0.0\n", {"version": "9007199254740992.0.0"}),
        ("publish:a:1.0.0:x\n", {"requestId": "x"}),
        (f"publish:a:1.0.0:{R.upper()}\n", {"requestId": R.upper()}),
        (
            "publish:a:1.0.0:3f2b8c1e-6d4a-1b7e-9c05-1a2b3c4d5e6f\n",
            {"requestId": "3f2b8c1e-6d4a-1b7e-9c05-1a2b3c4d5e6f"},
        ),
        ("publish:a:1.0.0::x\n", {"parentRequestId": "x"}),
        ("Publish:a:1.0.0:::5\n", {"action": "publish"}),
        ("response:a:1.0.0:::x\n", {"action": "response"}),
        ("request:a:1.0.0:::0\n", {"timeout": 0}),
        ("request:a:1.0.0:::-5\n", {"timeout": -5}),
        ("request:a:1.0.0:::3600001\n", {"timeout": 3600001}),
        ("request:a:1.0.0:::5000ms\n", {"timeout": 5000}),
        ("request:a:1.0.0:::0x10\n", {"timeout": 16}),
        ("request:a:1.0.0:::1e3\n", {"timeout": 1}),
        ("request:a:1.0.0::: 7\n", {"timeout": 7}),
        ("request:a:1.0.0:::00000005\n", {"timeout": 5}),
        ("request:a:1.0.0:::x\n", {"timeout": None}),
        ("request:a:1.0.0:::0x\n", {"timeout": None}),
        ("request:a:1.0.0:::" + "9" * 20 + "\n", {"timeout": 1e20}),
        ("bad:a..b:1\n", {"validActions": ["publish", "request", "response"]}),
    ],
)
def test_a_bad_header_is_answered_with_the_leftmost_fault(body: str | bytes, details: object) -> None:
    broker = Broker()
    peer = broker.join()
    said = peer.one(body)
    assert said.header == "response:error:1.0.0"
    error = said.json["error"]
    assert error["code"] == "MALFORMED_MESSAGE"
    assert error["message"]
    assert error["timestamp"] == "2025-03-01T10:00:00.000Z"
    assert error.get("details") == details
    assert ("details" in error) == (details is not None)
    assert peer.link.closing is None


@pytest.mark.parametrize(
    "header", [f"nonsense:a:1.0.0:{R}", f"publish:a:1:{R}", f"publish:a:1.0.0:{R}:x", f"publish:a:1.0.0:{R}::5:6:7"]
)
def test_the_id_of_a_bad_header_is_kept_if_it_can_be_read(header: str) -> None:
    assert Broker().join().one(f"{header}\n").header == f"response:error:1.0.0:{R}"


def test_an_id_without_a_line_end_is_not_looked_for() -> None:
    assert Broker().join().one(f"nonsense:a:1.0.0:{R}").header == "response:error:1.0.0"


def test_a_payload_that_is_too_large_is_refused_under_the_headers_own_name() -> None:
    broker = Broker()
    peer = broker.join().subscribe("a")
    assert len(peer.ask("publish:a:1.0.0\n" + "x" * 16384)) == 1
    said = peer.one(f"publish:a:1.0.0:{R}\n" + "x" * 16385)
    assert (said.header, said.code) == (f"response:a:1.0.0:{R}", "MALFORMED_MESSAGE")
    assert said.details == {"payloadLength": 16385}
    assert UUID4.fullmatch(peer.one("publish:a:1.0.0\n" + "x" * 16700).rid or "")


@pytest.mark.parametrize(
    "header",
    [
        "publish:a:1.0.0:::",
        "PuBlIsH:a:1.0.0",
        f"publish:a:1.0.0::{P}",
        f"publish:a:1.0.0:{R}:{P}:",
        "publish:a:1.0.0-beta.1+x.y",
        "publish:a:9007199254740991.0.0",
    ],
)
def test_unusual_headers_that_are_good_are_routed(header: str) -> None:
    broker = Broker()
    subscriber, publisher = broker.join().subscribe("a"), broker.join()
    publisher.say(f"{header}\nx")
    (said,) = subscriber.take()
    assert (said.action, said.payload) == ("publish", b"x")
    assert said.version == header.split(":")[2]


def test_the_longest_header_has_366_octets() -> None:
    topic = ".".join(["t" * 51] * 4 + ["t" * 47])
    header = f"response:{topic}:1.0.0-abcdefghijklmn:{R}:{P}:"
    broker = Broker()
    peer = broker.join()
    request = header.replace("response", "request") + "3600000"
    assert len(request) == 366
    assert peer.one(request + "\n").code == "NO_ROUTE_FOUND"
    assert peer.one(f"x{request}\n").header == "response:error:1.0.0"


# --- memory


def test_what_is_remembered_of_headers_and_routes_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "MAX_ROUTES", 4096)
    broker = Broker()
    peer = broker.join()
    for i in range(10_000):
        peer.say(f"publish:t{i}:1.0.0\n")
        if i % 1000 == 0:
            peer.take()
    session = broker.session
    assert len(session._heads.known) <= 2048
    assert len(session.topics.published.routes) <= 4096


def test_timers_of_answered_requests_do_not_pile_up() -> None:
    broker = Broker()
    peer = broker.join().subscribe("a", "request")
    for _ in range(2000):
        (asked,) = peer.ask(f"request:a:1.0.0:{R}::3600000\n")
        peer.ask(f"response:a:1.0.0:{asked.rid}\n")
    assert len(broker.session._timers._heap) < 200
    assert broker.session.requests.open == {}
