"""What a broker tells of itself: log stream, audit stream, metrics (sections 7.3, 7.5, 7.6)."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.live.mb.play import Broker, P, Peer, R, Said

AUDIT = "publish:system.message:1.0.0"
LOG = "response:system.log:1.0.0"


def log_reader(broker: Broker, **args: Any) -> Peer:
    reader = broker.join()
    assert reader.system("system.log.subscribe", args).json == {"status": "success"}
    return reader


def records(said: list[Said]) -> list[Any]:
    assert all(one.header == LOG for one in said)
    return [one.json for one in said]


# --- log


def test_a_bad_message_of_another_service_is_logged_as_an_error_with_its_code() -> None:
    broker = Broker()
    reader, other = log_reader(broker), broker.join()
    other.say("nonsense")
    (record,) = records(reader.take())
    assert record["level"] == "error"
    assert record["message"].startswith("[MALFORMED_MESSAGE] ")
    assert record["timestamp"] == "2025-03-01T10:00:00.000Z"
    assert record["serviceId"] == other.id
    assert record["module"]
    assert record["error"]["code"] == "MALFORMED_MESSAGE"


def test_the_record_precedes_the_answer_to_its_own_message() -> None:
    broker = Broker()
    reader = log_reader(broker)
    for body in ("nonsense", "request:system.nonsense:1.0.0\n", f"response:a:1.0.0:{R}\n"):
        record, answer = reader.ask(body)
        assert record.header == LOG
        assert f"[{answer.code}]" in record.json["message"]


def test_only_the_levels_that_were_asked_for_are_sent() -> None:
    broker = Broker()
    silent, warns = log_reader(broker, levels=[]), log_reader(broker, levels=["warn"])
    service, requester = broker.join().subscribe("a", "request"), broker.join()
    requester.say("nonsense", f"request:a:1.0.0:{R}::1\n")
    broker.pass_time(0.001)
    assert silent.take() == []
    assert [record["level"] for record in records(warns.take())] == ["warn"]
    assert service.link.closing is None


def test_all_four_levels_are_delivered() -> None:
    broker = Broker()
    reader = log_reader(broker, levels=["debug", "info", "warn", "error"])
    other = broker.join().subscribe("a", "request")
    other.say("publish:nobody:1.0.0\n", "nonsense", f"request:a:1.0.0:{R}::1\n")
    broker.pass_time(0.001)
    assert {record["level"] for record in records(reader.take())} == {"debug", "info", "warn", "error"}


def test_a_filter_is_searched_in_the_message_and_replaced_by_the_next() -> None:
    broker = Broker()
    reader, other = log_reader(broker, regex=r"INVALID_REQUEST(_ID)?\]"), broker.join()
    bad = ["nonsense", f"response:a:1.0.0:{R}\n", "publish:system.log:1.0.0\n"]
    other.say(*bad)
    codes = [re.findall(r"\[(\w+)\]", record["message"])[0] for record in records(reader.take())]
    assert codes == ["INVALID_REQUEST_ID", "INVALID_REQUEST"]
    reader.system("system.log.subscribe", {"regex": "^.MALFORMED"})
    other.say(*bad)
    assert len(reader.take()) == 1
    reader.system("system.log.subscribe", {})
    other.say(*bad)
    assert len(reader.take()) == 3


def test_a_filter_cannot_make_the_broker_think_for_years() -> None:
    broker = Broker()
    reader, other = log_reader(broker, regex="(a+)+$"), broker.join()
    other.say("publish:" + "a" * 300 + "!:1.0.0\n")
    assert reader.take() == []


def test_the_log_ends_when_it_is_unsubscribed_or_its_reader_is_gone() -> None:
    broker = Broker()
    one, two, other = log_reader(broker), log_reader(broker), broker.join()
    assert one.system("system.log.unsubscribe").json == {"status": "success"}
    assert one.system("system.log.unsubscribe").json == {"status": "success"}
    two.leave()
    other.say("nonsense")
    assert one.take() == []
    assert two.take() == []


def test_reading_the_log_is_a_subscription_among_others() -> None:
    broker = Broker()
    reader = log_reader(broker)
    listed = {"subscriptions": [{"action": "publish", "topic": "system.log"}]}
    assert reader.system("system.service.subscriptions", {}).json == listed
    reader.system("system.log.unsubscribe")
    assert reader.system("system.service.subscriptions", {}).json == {"subscriptions": []}


def test_subscribing_the_topic_of_the_log_alone_brings_nothing() -> None:
    broker = Broker()
    peer = broker.join().subscribe("system.log")
    assert len(peer.ask("nonsense")) == 1


# --- audit


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
    peer = log_reader(broker)
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
    assert broker.session._auditors == ()


def test_an_auditor_that_does_not_read_is_closed_and_nobody_else() -> None:
    broker = Broker()
    audit, peer = auditor(broker), broker.join()
    peer.subscribe("a")
    while audit.link.closing is None:
        peer.ask(b"publish:a:1.0.0\n" + b"x" * 16000)
    assert audit.link.closing.at_once
    assert peer.link.closing is None


# --- metrics

GAUGES = {
    "connection.active",
    *(f"connection.{what}.total" for what in ("connected", "disconnected", "failed", "rejected")),
    *("router.message.count", "router.message.count.error"),
    *(f"router.publish.count{end}" for end in ("", ".dropped", ".error")),
    *(f"router.request.count{end}" for end in ("", ".dropped", ".error", ".timeout")),
    *(f"router.response.count{end}" for end in ("", ".error")),
    *("registry.count", "process.memory.bytes", "system.memory.bytes"),
}
RATES = {
    *(f"connection.{what}.rate" for what in ("connected", "disconnected", "failed", "rejected")),
    *("router.message.rate", "router.message.rate.error"),
    *(f"router.publish.rate{end}" for end in ("", ".dropped", ".error")),
    *(f"router.request.rate{end}" for end in ("", ".dropped", ".error", ".timeout")),
    *(f"router.response.rate{end}" for end in ("", ".error")),
    *(f"registry.{what}.rate" for what in ("discovery", "registration", "unregistration")),
}
OTHERS = {
    "router.message.size.avg": "average",
    "router.message.size.max": "maximum",
    "process.cpu.percent": "percent",
    "process.memory.percent": "percent",
    "process.uptime": "uptime",
    "system.cpu.percent": "percent",
    "system.memory.percent": "percent",
    "system.uptime": "uptime",
}


def metrics(peer: Peer, **args: Any) -> Any:
    return peer.system("system.metrics", args).json["metrics"]


def probe() -> dict[str, float]:
    return {
        "process.cpu.percent": 0.25,
        "process.memory.bytes": 1000.0,
        "system.uptime": 99.9,
        "system.cpu.{core:0}.percent": 0.5,
        "system.cpu.{core:1}.percent": 1,
    }


def test_the_names_and_types_are_those_that_peers_know() -> None:
    broker = Broker(probe=probe)
    peer = broker.join()
    service = f"registry.service.{{serviceid:{peer.id}}}"
    wanted = {
        **dict.fromkeys(GAUGES, "gauge"),
        **dict.fromkeys(RATES, "rate"),
        **OTHERS,
        f"{service}.uptime": "uptime",
        f"{service}.error.rate": "rate",
        "system.cpu.{core:0}.percent": "percent",
        "system.cpu.{core:1}.percent": "percent",
    }
    shown = metrics(peer, showAll=True)
    assert {name: entry["type"] for name, entry in shown.items()} == wanted
    assert all(entry.keys() == {"name", "type", "timestamp", "value"} for entry in shown.values())
    assert all(entry["name"] == name for name, entry in shown.items())
    assert shown["system.uptime"]["value"] == 99
    plain = metrics(peer)
    assert plain.keys() == wanted.keys()
    assert all(isinstance(value, int | float) for value in plain.values())
    assert plain["process.cpu.percent"] == 0.25


def test_messages_are_counted_by_kind_and_fate() -> None:
    broker = Broker()
    one, two = broker.join(), broker.join()
    one.subscribe("a").subscribe("q", "request")
    two.say("publish:a:1.0.0\n" + "x" * 84, "publish:none:1.0.0\n", "publish:system.x:1.0.0\n", "nonsense")
    two.say("request:none:1.0.0\n", f"request:q:1.0.0:{R}::1\n", f"request:q:1.0.0:{R}\n", "response:x:1.0.0\n")
    _, first, second = one.take()
    broker.pass_time(0.001)
    one.say(f"response:q:1.0.0:{second.rid}\nerror:{{}}", f"response:q:1.0.0:{first.rid}\n")
    one.take()
    shown = metrics(one)
    assert shown["router.message.count"] == 12
    assert shown["router.message.count.error"] == 4
    assert [shown[f"router.publish.count{end}"] for end in ("", ".dropped", ".error")] == [3, 1, 1]
    assert [shown[f"router.request.count{end}"] for end in ("", ".dropped", ".error", ".timeout")] == [6, 0, 1, 1]
    assert [shown[f"router.response.count{end}"] for end in ("", ".error")] == [3, 3]
    assert shown["connection.active"] == shown["registry.count"] == shown["connection.connected.total"] == 2
    assert shown["router.message.size.max"] >= 100


def test_a_rate_is_what_happened_in_the_last_full_second() -> None:
    broker = Broker()
    peer = broker.join().subscribe("a")
    broker.pass_time(1.5)
    peer.ask(*["publish:a:1.0.0\n"] * 7)
    assert metrics(peer)["router.publish.rate"] == 0
    broker.pass_time(1)
    shown = metrics(peer)
    assert (shown["router.publish.rate"], shown["router.request.rate"], shown["router.message.rate"]) == (7, 1, 8)
    broker.pass_time(1)
    assert metrics(peer)["router.publish.rate"] == 0
    broker.pass_time(7)
    assert metrics(peer)["router.message.rate"] == 0


def test_the_average_size_is_that_of_messages_without_framing() -> None:
    broker = Broker()
    peer = broker.join()
    peer.ask("publish:a:1.0.0\n" + "x" * 984)
    size = len(f"request:system.metrics:1.0.0:{R}\n{{}}")
    shown = metrics(peer)
    assert shown["router.message.size.max"] == 1000
    assert shown["router.message.size.avg"] == (1000 + size) / 2


def test_each_service_has_its_own_uptime_and_error_rate() -> None:
    broker = Broker()
    one = broker.join()
    broker.pass_time(2.5)
    two = broker.join()
    one.ask("request:system.nonsense:1.0.0\n", "publish:nobody:1.0.0\n")
    broker.pass_time(1)
    shown = metrics(two)
    first, second = (f"registry.service.{{serviceid:{peer.id}}}" for peer in (one, two))
    assert (shown[f"{first}.uptime"], shown[f"{second}.uptime"]) == (3, 1)
    assert (shown[f"{first}.error.rate"], shown[f"{second}.error.rate"]) == (1, 0)
    one.leave()
    assert f"{first}.uptime" not in metrics(two)


def test_a_filter_keeps_only_what_has_all_its_parameters() -> None:
    broker = Broker(probe=probe)
    one, two = broker.join(), broker.join()
    front = f"registry.service.{{serviceid:{two.id}}}"
    for key in ("serviceId", "serviceid", "SERVICEID"):
        assert metrics(one, paramFilter={key: two.id}).keys() == {f"{front}.uptime", f"{front}.error.rate"}
    assert metrics(one, paramFilter={"core": "1"}) == {"system.cpu.{core:1}.percent": 1}
    assert metrics(one, paramFilter={"nonsense": "1"}) == {}
    assert metrics(one, paramFilter={"core": "1", "serviceId": two.id}) == {}
    assert metrics(one, paramFilter={"core": ["1"]}) == {}
    assert len(metrics(one, paramFilter={})) == 6
    assert metrics(one, paramFilter={"core": "0"}, showAll=True)["system.cpu.{core:0}.percent"]["value"] == 0.5


def test_a_probe_that_fails_is_an_internal_error_and_no_more() -> None:
    def broken() -> dict[str, float]:
        raise OSError("no such file")

    peer = Broker(probe=broken).join()
    assert peer.system("system.metrics", {}).code == "INTERNAL_ERROR"
    assert peer.system("system.heartbeat").code is None
