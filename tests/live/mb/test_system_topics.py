"""The topics that the broker answers itself: section 7 of the protocol's specification, and the traps of JSON."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.live.mb.play import UUID4, Broker, P, Peer, R
from wirelake.live.mb.options import BrokerOptions

SUCCESS = {"status": "success"}
FAILURE = {"status": "failure"}
READS_ARGS = (
    "system.service.register",
    "system.service.subscriptions",
    "system.topic.subscribe",
    "system.topic.unsubscribe",
    "system.log.subscribe",
    "system.metrics",
)
READS_NOTHING = (
    "system.heartbeat",
    "system.service.list",
    "system.topic.list",
    "system.topic.subscriptions",
    "system.log.unsubscribe",
)


def peer() -> Peer:
    return Broker().join()


# --- rules for all


@pytest.mark.parametrize("topic", [*READS_ARGS, "system.service.list", "system.nonsense", "system.initialize"])
@pytest.mark.parametrize("action", ["publish", "response"])
def test_only_requests_are_allowed_whether_the_topic_exists_or_not(topic: str, action: str) -> None:
    said = peer().one(f"{action}:{topic}:1.0.0:{R}\n{{}}")
    assert (said.header, said.code) == (f"response:{topic}:1.0.0:{R}", "INVALID_REQUEST")
    assert said.details == {"action": action, "topic": topic}


def test_a_heartbeat_may_be_a_request_or_a_response_but_no_publish() -> None:
    said = peer().one("publish:system.heartbeat:1.0.0\n")
    assert (said.code, said.details) == ("INVALID_REQUEST", {"action": "publish", "topic": "system.heartbeat"})


@pytest.mark.parametrize("topic", ["system.initialize", "system.log", "system.message", "system.a.b.c.d"])
def test_a_request_to_an_unknown_system_topic_is_not_supported(topic: str) -> None:
    said = peer().one(f"request:{topic}:1.0.0:{R}\n{{}}")
    assert (said.code, said.details) == ("TOPIC_NOT_SUPPORTED", None)


def test_the_word_system_alone_is_an_ordinary_topic() -> None:
    one = peer().subscribe("system")
    assert one.ask("publish:system:1.0.0\n")[0].action == "publish"


def test_system_topics_are_told_by_their_lower_case_and_answered_as_they_were_sent() -> None:
    one = peer()
    said = one.one(f"request:System.Heartbeat:2.0.0:{R}\n")
    assert (said.header, said.json) == (f"response:System.Heartbeat:2.0.0:{R}", SUCCESS)
    said = one.system("system.topic.subscribe", {"action": "publish", "topic": "SYSTEM.metrics"})
    assert (said.code, said.details) == ("INVALID_REQUEST", {"topic": "SYSTEM.metrics"})


@pytest.mark.parametrize("topic", READS_NOTHING)
@pytest.mark.parametrize("payload", ["", "null", "{", "\xff", "[1]", "error:{}"])
def test_topics_without_arguments_do_not_look_at_the_payload(topic: str, payload: str) -> None:
    assert peer().one(f"request:{topic}:1.0.0:{R}\n{payload}").code is None


@pytest.mark.parametrize("topic", READS_ARGS)
@pytest.mark.parametrize("payload", ["", "null"])
def test_missing_arguments_are_an_invalid_request(topic: str, payload: str) -> None:
    said = peer().one(f"request:{topic}:1.0.0:{R}\n{payload}")
    assert (said.code, said.details) == ("INVALID_REQUEST", {})


@pytest.mark.parametrize("topic", READS_ARGS)
@pytest.mark.parametrize(
    "payload",
    [
        "{",
        "{'a':1}",
        '{"a":1,}',
        '{"a":NaN}',
        "Infinity",
        "// x\n{}",
        "\ufeff{}",
        '{"a":"\t"}',
        "[" * 5000 + "]" * 5000,
        "[" * 10000,
        "\x0c{}",
    ],
)
def test_arguments_that_are_not_json_are_malformed(topic: str, payload: str) -> None:
    said = peer().one(f"request:{topic}:1.0.0:{R}\n{payload}")
    assert (said.rid, said.code) == (R, "MALFORMED_MESSAGE")
    assert said.details == {"payload": payload}


def test_octets_that_are_not_utf8_are_replaced_before_json_is_read() -> None:
    one = peer()
    said = one.one(f"request:system.service.register:1.0.0:{R}\n".encode() + b'{"name":"\xff","description":"d"}')
    assert said.json == SUCCESS
    assert one.system("system.service.list").json["services"][0]["name"] == "\ufffd"
    said = one.one(b"request:system.metrics:1.0.0\n{\xff")
    assert said.details == {"payload": "{\ufffd"}


def test_utf16_is_not_json() -> None:
    said = peer().one(b"request:system.metrics:1.0.0\n" + "{}".encode("utf-16"))
    assert said.code == "MALFORMED_MESSAGE"


@pytest.mark.parametrize("payload", ["[]", "5", '"text"', "true", "[1,2]"])
def test_json_that_is_no_object_has_no_arguments(payload: str) -> None:
    one = peer()
    said = one.one(f"request:system.service.register:1.0.0:{R}\n{payload}")
    assert (said.code, said.details) == ("INVALID_REQUEST", {})
    said = one.one(f"request:system.service.subscriptions:1.0.0:{R}\n{payload}")
    assert said.json == {"subscriptions": []}


def test_the_last_of_equal_keys_counts_and_unknown_ones_do_not() -> None:
    one = peer()
    args = '{"name":1,"name":"n","description":"d","more":[{}]}'
    assert one.one(f"request:system.service.register:1.0.0:{R}\n{args}").json == SUCCESS


def test_a_bad_error_object_sent_to_a_system_topic_is_malformed() -> None:
    one = peer()
    said = one.one('request:system.metrics:1.0.0\nerror:{"code":"X"}')
    assert (said.code, said.details) == ("MALFORMED_MESSAGE", {"error": {"code": "X"}})
    assert one.one("request:system.metrics:1.0.0\nerror:{").code == "MALFORMED_MESSAGE"
    assert one.one("request:system.metrics:1.0.0\nerror:").code == "MALFORMED_MESSAGE"
    good = 'error:{"code":"X","message":"m","timestamp":"t"}'
    assert one.one(f"request:system.metrics:1.0.0\n{good}").code == "INVALID_REQUEST"


def test_answers_to_requests_without_an_id_carry_an_invented_one() -> None:
    one = peer()
    first, second = one.ask("request:system.heartbeat:1.0.0\n", "request:system.nonsense:1.0.0\n")
    assert UUID4.fullmatch(first.rid or "")
    assert UUID4.fullmatch(second.rid or "")
    assert first.rid != second.rid


def test_parent_and_timeout_are_never_echoed() -> None:
    said = peer().one(f"request:system.heartbeat:1.0.0:{R}:{P}:7\n")
    assert said.header == f"response:system.heartbeat:1.0.0:{R}"


# --- services


def test_register_as_in_the_worked_example() -> None:
    one = peer()
    body = f'request:system.service.register:1.0.0:{R}\n{{"name":"alpha","description":"demo"}}'
    assert len(body) == 112
    said = one.one(body)
    assert said.body == f'response:system.service.register:1.0.0:{R}\n{{"status":"success"}}'.encode()
    assert len(said.body) == 96


@pytest.mark.parametrize(
    ("args", "details"),
    [
        ({}, {}),
        ({"name": "a"}, {"name": "a"}),
        ({"name": "", "description": "d"}, {"name": "", "description": "d"}),
        ({"name": "n", "description": None}, {"name": "n", "description": None}),
        ({"name": 5, "description": ["d"]}, {"name": 5, "description": ["d"]}),
        ({"name": "n" * 37, "description": "d"}, {"name": "n" * 37}),
        ({"name": "😀" * 19, "description": "d"}, {"name": "😀" * 19}),
        ({"name": "n" * 37, "description": "d" * 1025}, {"name": "n" * 37}),
        ({"name": "n", "description": "d" * 1025}, {"description": "d" * 1025}),
    ],
)
def test_bad_registrations_are_told_what_was_wrong(args: Any, details: Any) -> None:
    said = peer().system("system.service.register", args)
    assert (said.code, said.details) == ("INVALID_REQUEST", details)


def test_names_count_utf16_units_and_may_be_changed_and_shared() -> None:
    broker = Broker()
    one, two = broker.join(), broker.join()
    for name, description in (("😀" * 18, "d" * 1024), ("n" * 36, "😀" * 512), ("same", "x")):
        assert one.system("system.service.register", {"name": name, "description": description}).json == SUCCESS
    assert two.system("system.service.register", {"name": "same", "description": "y"}).json == SUCCESS
    assert [s["name"] for s in one.system("system.service.list").json["services"]] == ["same", "same"]


def test_a_name_with_half_a_character_is_kept_as_it_is() -> None:
    one = peer()
    payload = '{"name":"\\ud83d","description":"d"}'
    assert one.one(f"request:system.service.register:1.0.0:{R}\n{payload}").json == SUCCESS
    assert one.system("system.service.list").json["services"][0]["name"] == "\ud83d"


def test_the_list_of_services_is_in_order_of_connection() -> None:
    broker = Broker()
    first = broker.join()
    broker.pass_time(1.25)
    second = broker.join()
    first.system("system.service.register", {"name": "b", "description": "B"})
    broker.pass_time(2)
    said = second.system("system.service.list")
    assert said.json == {
        "services": [
            {
                "id": first.id,
                "name": "b",
                "description": "B",
                "connectedAt": "2025-03-01T10:00:00.000Z",
                "lastHeartbeat": "2025-03-01T10:00:01.250Z",
            },
            {
                "id": second.id,
                "name": "",
                "description": "",
                "connectedAt": "2025-03-01T10:00:01.250Z",
                "lastHeartbeat": "2025-03-01T10:00:03.250Z",
            },
        ]
    }


def test_a_bad_header_does_not_move_the_last_heartbeat() -> None:
    broker = Broker()
    one, two = broker.join(), broker.join()
    broker.pass_time(1)
    one.ask("nonsense")
    assert two.system("system.service.list").json["services"][0]["lastHeartbeat"] == "2025-03-01T10:00:00.000Z"


def test_subscriptions_of_a_service_are_sorted_by_topic_then_action() -> None:
    broker = Broker()
    one, two = broker.join(), broker.join()
    one.subscribe("B.b", "request", priority=1.5).subscribe("b.B").subscribe("a.#", "request").subscribe("c")
    wanted = [
        {"action": "request", "topic": "a.#", "priority": 0},
        {"action": "publish", "topic": "b.b"},
        {"action": "request", "topic": "b.b", "priority": 1.5},
        {"action": "publish", "topic": "c"},
    ]
    assert one.system("system.service.subscriptions", {}).json == {"subscriptions": wanted}
    assert one.system("system.service.subscriptions", {"serviceId": None}).json == {"subscriptions": wanted}
    assert two.system("system.service.subscriptions", {"serviceId": one.id}).json == {"subscriptions": wanted}
    assert two.system("system.service.subscriptions", {}).json == {"subscriptions": []}


@pytest.mark.parametrize("wrong", ["", "x", R.upper(), 5, [], R + "\n", False])
def test_a_service_id_has_to_be_a_uuid(wrong: Any) -> None:
    said = peer().system("system.service.subscriptions", {"serviceId": wrong})
    assert (said.code, said.details) == ("INVALID_REQUEST", {"serviceId": wrong})


def test_an_unknown_service_is_unavailable() -> None:
    one = peer()
    for unknown in (R, "00000000-0000-0000-0000-000000000000"):
        said = one.system("system.service.subscriptions", {"serviceId": unknown})
        assert (said.code, said.details) == ("SERVICE_UNAVAILABLE", None)


# --- topics


@pytest.mark.parametrize("topic", ["system.topic.subscribe", "system.topic.unsubscribe"])
@pytest.mark.parametrize("action", [None, "", "both", "all", "PUBLISH", 5, ["publish"]])
def test_the_action_of_a_subscription_is_checked_first(topic: str, action: Any) -> None:
    said = peer().system(topic, {"action": action, "topic": "..", "priority": "x"})
    assert (said.code, said.details) == ("INVALID_REQUEST", {"action": action})
    assert peer().system(topic, {"topic": "a"}).details == {}


@pytest.mark.parametrize("topic", ["system.topic.subscribe", "system.topic.unsubscribe"])
@pytest.mark.parametrize(
    "wrong",
    [None, "", 5, "a..b", ".a", "a.", "1a", "a b", "a.b\n", "a.*", "a.#.b", "a+", "a.b.c.d.e.f", "ä", "a" * 256],
)
def test_then_the_topic(topic: str, wrong: Any) -> None:
    said = peer().system(topic, {"action": "publish", "topic": wrong, "priority": "x"})
    assert (said.code, said.details) == ("INVALID_REQUEST", {"topic": wrong})


def test_a_missing_topic_is_left_out_of_the_details() -> None:
    assert peer().system("system.topic.subscribe", {"action": "publish"}).details == {}


@pytest.mark.parametrize(
    "restricted", ["system.metrics", "system.heartbeat", "system.x", "system.#", "system.+", "System.Initialize"]
)
def test_other_system_topics_cannot_be_subscribed(restricted: str) -> None:
    for topic in ("system.topic.subscribe", "system.topic.unsubscribe"):
        said = peer().system(topic, {"action": "publish", "topic": restricted, "priority": "x"})
        assert (said.code, said.details) == ("INVALID_REQUEST", {"topic": restricted})


@pytest.mark.parametrize("action", ["publish", "request"])
def test_five_system_topics_can_be_subscribed_and_two_of_them_unsubscribed(action: str) -> None:
    one = peer()
    for name in ("log", "message", "service.register", "topic.subscribe", "topic.unsubscribe"):
        args = json.dumps({"action": action, "topic": f"system.{name}"})
        said = one.ask(f"request:system.topic.subscribe:1.0.0:{R}\n{args}")
        assert [s.json for s in said if s.rid == R] == [SUCCESS]
        said = one.ask(f"request:system.topic.unsubscribe:1.0.0:{R}\n{args}")
        (answer,) = [s for s in said if s.rid == R]
        if name in ("service.register", "topic.subscribe"):
            assert answer.json == SUCCESS
        else:
            assert answer.details == {"topic": f"system.{name}"}


@pytest.mark.parametrize("wrong", ["1", None, True, False, [], {}])
def test_a_priority_has_to_be_a_number(wrong: Any) -> None:
    for action in ("publish", "request", "response"):
        said = peer().system("system.topic.subscribe", {"action": action, "topic": "a", "priority": wrong})
        assert (said.code, said.details) == ("INVALID_REQUEST", {"priority": wrong})


@pytest.mark.parametrize("wrong", ["1e400", "-1e400", "1" + "0" * 400, "9" * 5000])
def test_a_priority_has_to_be_finite(wrong: str) -> None:
    said = peer().one(f'request:system.topic.subscribe:1.0.0\n{{"action":"request","topic":"a","priority":{wrong}}}')
    assert said.code == "INVALID_REQUEST"
    assert said.details.keys() == {"priority"}


@pytest.mark.parametrize(("given", "shown"), [("5", 5), ("-1.5", -1.5), ("2.0", 2), ("1e3", 1000), ("-0.0", 0)])
def test_any_finite_priority_will_do(given: str, shown: float) -> None:
    one = peer()
    args = f'{{"action":"request","topic":"a","priority":{given}}}'
    assert one.one(f"request:system.topic.subscribe:1.0.0\n{args}").json == SUCCESS
    (entry,) = one.system("system.service.subscriptions", {}).json["subscriptions"]
    assert entry["priority"] == shown
    assert isinstance(entry["priority"], type(shown))


def test_responses_cannot_be_subscribed_but_asking_is_no_error() -> None:
    one = peer()
    for topic in ("system.topic.subscribe", "system.topic.unsubscribe"):
        assert one.system(topic, {"action": "response", "topic": "a"}).json == FAILURE
    assert one.system("system.service.subscriptions", {}).json == {"subscriptions": []}


def test_subscribing_twice_succeeds_and_unsubscribing_what_is_not_subscribed_fails() -> None:
    one = peer().subscribe("A.b").subscribe("a.B")
    args = {"action": "publish", "topic": "a.b"}
    assert one.system("system.topic.unsubscribe", {**args, "action": "request"}).json == FAILURE
    assert one.system("system.topic.unsubscribe", {**args, "topic": "a.#"}).json == FAILURE
    assert one.system("system.topic.unsubscribe", args).json == SUCCESS
    assert one.system("system.topic.unsubscribe", args).json == FAILURE


def test_an_unsubscribe_without_an_action_fails() -> None:
    said = peer().subscribe("a").system("system.topic.unsubscribe", {"topic": "a"})
    assert (said.code, said.details) == ("INVALID_REQUEST", {})


@pytest.mark.parametrize(
    ("topic", "key"), [("system.topic.list", "topics"), ("system.topic.subscriptions", "subscriptions")]
)
def test_topics_are_listed_with_their_subscribers(topic: str, key: str) -> None:
    broker = Broker()
    one, two = broker.join(), broker.join()
    one.subscribe("b").subscribe("a", "request", priority=1)
    two.subscribe("B").subscribe("a", "request", priority=2).subscribe("a")
    assert one.system(topic).json == {
        key: [
            {"action": "publish", "topic": "a", "subscribers": [{"serviceId": two.id}]},
            {
                "action": "request",
                "topic": "a",
                "subscribers": [{"serviceId": two.id, "priority": 2}, {"serviceId": one.id, "priority": 1}],
            },
            {"action": "publish", "topic": "b", "subscribers": [{"serviceId": one.id}, {"serviceId": two.id}]},
        ]
    }


def crowd(size: int, most: int = 8 << 20) -> tuple[Broker, Peer]:
    """A broker with so many subscriptions, and somebody else."""
    broker = Broker(options=BrokerOptions(max_subscriptions=0, max_unsent=most))
    for i in range(4):
        peer = broker.join()
        bodies = [
            f'request:system.topic.subscribe:1.0.0\n{{"action":"{action}","topic":"t{i}.x{n % 97}.y{n}"}}'
            for n in range(size // 8)
            for action in ("publish", "request")
        ]
        for at in range(0, len(bodies), 1000):
            peer.ask(*bodies[at : at + 1000])
    return broker, broker.join()


def seconds_of(peer: Peer, body: str) -> float:
    start = time.thread_time()
    peer.say(body)
    took = time.thread_time() - start
    peer.take()
    return took


def test_listing_many_subscriptions_does_not_hold_up_others() -> None:
    """Also when a subscription changes before each listing."""
    broker, peer = crowd(50_000)
    body = f"request:system.topic.list:1.0.0:{R}\n"
    anew = seconds_of(peer, body)
    took = []
    for n in range(6):
        broker.pass_time(1.1)
        peer.subscribe(f"n{n}.z")
        took.append(seconds_of(peer, body))
    assert min(took) < anew / 2


def test_the_list_is_the_same_after_any_changes() -> None:
    broker = Broker()
    peers = [broker.join() for _ in range(40)]
    for n, peer in enumerate(peers):
        peer.subscribe("all").subscribe("some", "request", priority=n % 3).subscribe(f"own{n}")
    before = peers[0].system("system.topic.list").json["topics"]
    assert [(entry["topic"], entry["action"]) for entry in before][:2] == [("all", "publish"), ("own0", "publish")]
    assert [one["priority"] for one in before[-1]["subscribers"]] == [2] * 13 + [1] * 13 + [0] * 14
    for peer in peers[1:]:
        peer.leave()
    after = peers[0].system("system.topic.list").json["topics"]
    one = [{"serviceId": peers[0].id}]
    assert [entry["subscribers"] for entry in after] == [one, one, [{**one[0], "priority": 0}]]


def test_a_client_that_asks_for_lists_all_the_time_is_refused_for_the_rest_of_the_second() -> None:
    broker, peer = crowd(20_000)
    body = f"request:system.topic.list:1.0.0:{R}\n"
    said = [peer.one(body) for _ in range(5)]
    assert [one.code if one.payload.startswith(b'{"error') else None for one in said][-1] == "SERVICE_UNAVAILABLE"
    assert peer.system("system.heartbeat").json == SUCCESS
    assert peer.subscribe("still.works")
    assert "topics" in broker.join().one(body).json
    broker.pass_time(1.1)
    assert "topics" in peer.one(body).json


def test_a_list_larger_than_a_connection_may_hold_is_refused_and_nobody_is_closed() -> None:
    _, peer = crowd(800, most=20_000)
    said = peer.system("system.topic.list")
    assert said.code == "SERVICE_UNAVAILABLE"
    assert peer.link.closing is None


def test_all_services_together_have_a_limit_of_subscriptions_that_shuts_nobody_out() -> None:
    broker = Broker(options=BrokerOptions(max_all_subscriptions=20))
    one, two = broker.join(), broker.join()
    for n in range(20):
        one.subscribe(f"a{n}")
    more = {"action": "request", "topic": "more"}
    assert one.system("system.topic.subscribe", more).code == "SERVICE_UNAVAILABLE"
    one.subscribe("a0")
    for n in range(16):
        two.subscribe(f"b{n}")
    assert two.system("system.topic.subscribe", more).code == "SERVICE_UNAVAILABLE"
    one.system("system.topic.unsubscribe", {"action": "publish", "topic": "a0"})
    assert one.system("system.topic.subscribe", more).code == "SERVICE_UNAVAILABLE"
    one.leave()
    two.subscribe("more")


# --- the arguments of system.log.subscribe


@pytest.mark.parametrize(
    ("args", "details"),
    [
        ({"levels": None}, {"levels": None}),
        ({"levels": False}, {"levels": False}),
        ({"levels": 0}, {"levels": 0}),
        ({"levels": "error"}, {"levels": "error"}),
        ({"levels": {}}, {"levels": {}}),
        ({"levels": ["error", "fatal"]}, {"level": "fatal"}),
        ({"levels": [5, "x"]}, {"level": 5}),
        ({"levels": [["error"]]}, {"level": ["error"]}),
        ({"levels": ["fatal"], "regex": 5}, {"level": "fatal"}),
        ({"regex": 5}, {"regex": 5}),
        ({"regex": ["a"]}, {"regex": ["a"]}),
        ({"regex": "["}, {"regex": "["}),
        ({"regex": "(a"}, {"regex": "(a"}),
        ({"regex": "*"}, {"regex": "*"}),
        ({"regex": "(" * 2000 + ")" * 2000}, {"regex": "(" * 2000 + ")" * 2000}),
    ],
)
def test_bad_log_filters_are_refused(args: Any, details: Any) -> None:
    broker = Broker()
    one = broker.join()
    said = one.system("system.log.subscribe", args)
    assert (said.code, said.details) == ("INVALID_REQUEST", details)
    one.ask("nonsense")
    assert broker.join().link.closing is None


@pytest.mark.parametrize("args", [{}, {"levels": []}, {"regex": ""}, {"regex": None}, {"levels": ["debug", "debug"]}])
def test_good_log_filters_are_accepted(args: Any) -> None:
    assert peer().system("system.log.subscribe", args).json == SUCCESS


def test_the_limit_of_subscriptions_does_not_stop_asking_for_lists() -> None:
    broker = Broker(options=BrokerOptions(max_subscriptions=1))
    one = broker.join().subscribe("a")
    assert len(one.system("system.topic.list").json["topics"]) == 1
