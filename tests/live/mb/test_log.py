"""The log stream (section 7.3)."""

from __future__ import annotations

import re
import time
from typing import Any

from tests.live.mb.play import Broker, Peer, R, Said, frame
from wirelake.live.mb.log import MAX_WORK
from wirelake.live.mb.options import BrokerOptions

LOG = "response:system.log:1.0.0"


def log_reader(broker: Broker, **args: Any) -> Peer:
    reader = broker.join()
    assert reader.system("system.log.subscribe", args).json == {"status": "success"}
    return reader


def records(said: list[Said]) -> list[Any]:
    assert all(one.header == LOG for one in said)
    return [one.json for one in said]


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


def test_three_readers_with_the_worst_filters_leave_the_broker_free() -> None:
    """The worst: steps that all stay possible. A filter that costs more than its share misses records for a while."""
    broker = Broker(options=BrokerOptions(max_unsent=1 << 30))
    worst = "(?:a?){30}(?:a|b|c|d|e|f){30}!"
    readers = [log_reader(broker, levels=["error"], regex=worst) for _ in range(3)]
    plain, other = log_reader(broker, levels=["error"]), broker.join()
    bad = frame("publish:" + "abcdef" * 50 + "_:1.0.0\n") * 500
    free = Broker(options=BrokerOptions(max_unsent=1 << 30))
    log_reader(free, levels=["error"])
    took = []
    for speaker in (free.join(), other):
        start = time.thread_time()
        speaker.feed(bad)
        took.append(time.thread_time() - start)
    work = sum(reading.work for reading in broker.session.log.readers.values())
    assert work <= MAX_WORK + 4 * 250 * 400
    assert broker.session.counts["log.skipped"] > 0
    assert len(plain.take()) == 500
    assert took[1] < 3 * took[0]
    broker.pass_time(0.05)
    readers[0].take()
    plain.say("nonsense!")
    assert len(readers[0].take()) == 0
    assert all(reading.work > 0 for reading in broker.session.log.readers.values())


def test_a_reader_that_has_used_its_share_gets_records_again_in_the_next_while() -> None:
    broker = Broker(options=BrokerOptions(max_unsent=1 << 30))
    reader, other = log_reader(broker, regex="[A-Z]{100}|MALFORMED"), broker.join()
    other.feed(frame("x" * 300) * 3000)
    assert 0 < len(reader.take()) < 3000
    other.say("nonsense")
    assert reader.take() == []
    broker.pass_time(0.05)
    other.say("nonsense")
    assert len(reader.take()) == 1


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
