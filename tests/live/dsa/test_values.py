"""Merged subscriptions through a broker: options, caches, pages, offline and online again, durable queues."""

from __future__ import annotations

import pytest

from tests.live.dsa.broker_play import Play, Scripted
from wirelake.live.dsa.wire import Received, write_value
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers

TEMP = "downstream/plant/temp"


def plant_and(*names: str, play: Play | None = None) -> tuple[Play, Scripted, list[Scripted]]:
    play = play or Play()
    plant = play.link("plant")
    return play, plant, [play.link(name, is_responder=False) for name in names]


def last_of(link: Scripted) -> Received:
    return link.hear()[-1]


def test_many_subscribers_share_one_subscription_and_the_last_one_closes_it() -> None:
    _, plant, readers = plant_and("a", "b", "c")
    ids = [reader.subscribe(TEMP) for reader in readers]
    (asked,) = plant.hear()
    plant.update(asked, 1)
    for reader, number in zip(readers, ids, strict=True):
        assert reader.values(number) == [(0, 1)]
    for reader, number in zip(readers[:2], ids, strict=False):
        reader.say(p.CLOSE, number)
    plant.update(asked, 2)
    assert [reader.values(number) for reader, number in zip(readers, ids, strict=True)] == [[], [], [(0, 2)]]
    assert plant.hear() == []
    readers[2].say(p.CLOSE, ids[2])
    (closed,) = plant.hear()
    assert (closed.method, closed.request_id, closed.head, closed.body) == (p.CLOSE, asked.request_id, b"", b"")


def test_a_new_subscriber_gets_the_cached_value_at_once() -> None:
    _, plant, (one, two) = plant_and("a", "b")
    one.subscribe(TEMP)
    plant.update(last_of(plant), 7)
    number = two.subscribe(TEMP)
    assert two.values(number) == [(0, 7)] and plant.hear() == []


def test_the_cache_goes_with_the_last_subscriber() -> None:
    _, plant, (one, two) = plant_and("a", "b")
    number = one.subscribe(TEMP)
    plant.update(last_of(plant), 7)
    one.say(p.CLOSE, number)
    number = two.subscribe(TEMP)
    assert two.values(number) == [] and last_of(plant).method == p.SUB


def test_options_upstream_are_the_maxima_and_are_sent_again_on_the_same_id() -> None:
    _, plant, (one, two) = plant_and("a", "b")
    first = one.subscribe(TEMP, qos=1, queue_size=100, queue_duration=600)
    (asked,) = plant.hear()
    assert (asked.headers.qos, asked.headers.queue_size, asked.headers.queue_duration) == (1, 100, 600)
    assert not asked.headers.priority
    second = two.subscribe(TEMP, qos=2, queue_size=50, queue_duration=60, priority=True)
    (again,) = plant.hear()
    assert again.request_id == asked.request_id and again.headers.target_path == "temp"
    assert (again.headers.qos, again.headers.queue_size, again.headers.queue_duration) == (2, 100, 600)
    assert again.headers.priority
    two.say(p.CLOSE, second)
    (again,) = plant.hear()
    assert (again.method, again.headers.qos, again.headers.priority) == (p.SUB, 1, False)
    one.say(p.SUB, first, Headers(target_path=TEMP, qos=3))
    (again,) = plant.hear()
    assert again.headers.qos == 3 and again.request_id == asked.request_id


def test_a_second_request_with_the_same_id_gets_the_current_value() -> None:
    _, plant, (one,) = plant_and("a")
    number = one.subscribe(TEMP)
    plant.update(last_of(plant), 7)
    one.hear()
    one.say(p.SUB, number, Headers(target_path=TEMP))
    assert one.values(number) == [(0, 7)]


def test_the_source_goes_offline_and_comes_back() -> None:
    play, plant, (one, two) = plant_and("a", "b")
    number = one.subscribe(TEMP)
    plant.update(last_of(plant), 7)
    one.hear()
    plant.cut()
    assert one.values(number) == [(0x0E, ...)]
    other = two.subscribe(TEMP)
    assert two.values(other) == [(0x0E, ...)]
    plant = play.link("plant")
    assert plant.welcome is not None and plant.welcome.path == "downstream/plant"
    (asked,) = plant.hear()
    assert (asked.method, asked.headers.target_path) == (p.SUB, "temp")
    plant.update(asked, 8)
    assert one.values(number) == two.values(other) == [(0, 8)]


def test_a_closing_reply_ends_the_streams_of_all() -> None:
    play, plant, (one, two) = plant_and("a", "b")
    ids = one.subscribe(TEMP), two.subscribe(TEMP)
    asked = last_of(plant)
    plant.say(p.SUB_R, asked.request_id, Headers(status=0x41))
    assert one.values(ids[0]) == two.values(ids[1]) == [(0x41, ...)]
    plant.update(asked, 5)
    assert one.hear() == []
    assert not play.broker.sessions.peers[one.dsid].streams
    again = one.subscribe(TEMP)
    assert last_of(plant).method == p.SUB
    one.say(p.CLOSE, again)


def test_a_reserved_status_is_an_internal_error() -> None:
    _, plant, (one,) = plant_and("a")
    number = one.subscribe(TEMP)
    plant.say(p.SUB_R, last_of(plant).request_id, Headers(status=0xF3))
    assert one.values(number) == [(0x50, ...)]


def test_no_stream_is_closed_with_the_first_value() -> None:
    _, plant, (one, two) = plant_and("a", "b")
    number = one.subscribe(TEMP, no_stream=True)
    (asked,) = plant.hear()
    assert not asked.headers.no_stream, "it is not merged"
    plant.update(asked, 7)
    assert one.values(number) == [(0x20, 7)]
    (closed,) = plant.hear()
    assert closed.method == p.CLOSE
    plant.cut()
    number = two.subscribe(TEMP, no_stream=True)
    assert two.values(number) == [(0x20, ...)]


@pytest.mark.parametrize("qos", [4, 255])
def test_an_unknown_quality_is_refused(qos: int) -> None:
    _, plant, (one,) = plant_and("a")
    number = one.subscribe(TEMP, qos=qos)
    assert one.values(number) == [(0x45, ...)] and plant.hear() == []


def test_one_id_may_name_a_subscription_and_another_stream() -> None:
    """Java counts subscriptions separately."""
    _, plant, (one,) = plant_and("a")
    one.say(p.SUB, 1, Headers(target_path=TEMP))
    one.say(p.INVOKE, 1, Headers(target_path="downstream/plant/run"))
    subscribed, invoked = plant.hear()
    assert subscribed.request_id != invoked.request_id
    one.say(p.CLOSE, 1)
    (closed,) = plant.hear()
    assert closed.request_id == invoked.request_id, "the other stream is closed first"
    plant.update(subscribed, 4)
    assert one.values(1) == [(0, 4)]
    one.say(p.CLOSE, 1)
    (closed,) = plant.hear()
    assert closed.request_id == subscribed.request_id


# --- pages


def pages(*bodies: bytes) -> list[tuple[Headers, bytes]]:
    ids = [-len(bodies), *range(1, len(bodies))]
    return [(Headers(status=0, sequence_id=3, page_id=page), body) for page, body in zip(ids, bodies, strict=True)]


def test_pages_are_forwarded_as_they_come_and_kept_for_those_who_come_later() -> None:
    _, plant, (one, two) = plant_and("a", "b")
    number = one.subscribe(TEMP, qos=1)
    (asked,) = plant.hear()
    body = write_value("x" * 120_000)
    parts = [body[at : at + 49_152] for at in range(0, len(body), 49_152)]
    for headers, part in pages(*parts):
        plant.say(p.SUB_R, asked.request_id, headers, part)
    came = one.hear(number)
    assert [(one.page_id, one.headers.sequence_id, one.status) for one in came] == [(-3, 3, 0), (1, 3, 0), (2, 3, 0)]
    assert b"".join(one.body for one in came) == body
    number = two.subscribe(TEMP)
    assert b"".join(one.body for one in two.hear(number)) == body


def test_messages_of_other_streams_go_between_pages_but_none_of_the_same() -> None:
    _, plant, (one,) = plant_and("a")
    big, small = one.subscribe(TEMP, qos=1), one.subscribe("downstream/plant/other")
    asked_big, asked_small = plant.hear()
    first, second = pages(b"a" * 49_152, b"b")
    plant.say(p.SUB_R, asked_big.request_id, *first)
    plant.update(asked_small, 1)
    plant.say(p.SUB_R, asked_big.request_id, *second)
    plant.update(asked_big, 2)
    assert [(came.request_id, came.page_id) for came in one.hear()] == [(big, -2), (small, 0), (big, 1), (big, 0)]


def test_a_group_that_ends_early_is_no_value() -> None:
    _, plant, (one, two) = plant_and("a", "b")
    one.subscribe(TEMP, qos=1)
    (asked,) = plant.hear()
    first, _ = pages(b"a" * 100, b"b")
    plant.say(p.SUB_R, asked.request_id, *first)
    plant.update(asked, 5)
    number = two.subscribe(TEMP)
    assert two.values(number) == [(0, 5)]


def test_a_closing_status_on_a_page_that_is_not_the_last_ends_the_stream() -> None:
    _, plant, (one,) = plant_and("a")
    number = one.subscribe(TEMP, qos=1)
    (asked,) = plant.hear()
    headers, body = pages(b"a" * 100, b"b")[0]
    plant.say(p.SUB_R, asked.request_id, Headers(status=0x20, page_id=headers.page_id, sequence_id=3), body)
    assert [(came.status, came.body) for came in one.hear(number)][-1] == (0x20, b"")


# --- slow readers


def test_only_the_newest_value_waits_for_a_slow_reader() -> None:
    _, plant, (one,) = plant_and("a")
    number = one.subscribe(TEMP)
    (asked,) = plant.hear()
    one.link.unsent = 1 << 20
    play_take, one.take = one.take, lambda: None  # type: ignore[method-assign]
    for value in range(50):
        plant.update(asked, value)
    one.take = play_take  # type: ignore[method-assign]
    one.link.out.clear()
    one.link.unsent = 0
    one.link.wants_room = True
    one.take()
    assert one.values(number) == [(0, 49)]


def test_a_slow_reader_of_all_values_is_told_what_was_lost() -> None:
    play, plant, (one,) = plant_and("a")
    number = one.subscribe(TEMP, qos=1, queue_size=200)
    (asked,) = plant.hear()
    one.link.unsent = 1 << 20
    play_take, one.take = one.take, lambda: None  # type: ignore[method-assign]
    for value in range(50):
        plant.update(asked, value)
    one.take = play_take  # type: ignore[method-assign]
    one.link.unsent = 0
    one.link.wants_room = True
    one.take()
    came = one.values(number)
    assert came[0][0] == 0x10 and [status for status, _ in came[1:]] == [0] * (len(came) - 1)
    values = [value for _, value in came]
    assert values == list(range(values[0], 50)) and play.broker.counts["values_dropped"] == values[0]


# --- durable queues


def test_a_durable_queue_collects_while_its_requester_is_away() -> None:
    play, plant, (one,) = plant_and("a")
    number = one.subscribe(TEMP, qos=2)
    (asked,) = plant.hear()
    plant.update(asked, 1)
    assert one.values(number) == [(0, 1)]
    one.ack()
    one.cut()
    plant.update(asked, 2)
    plant.update(asked, 3)
    assert plant.hear() == [], "the subscription stays"
    play.wait(50)
    one = play.link("a", is_responder=False)
    number = one.subscribe(TEMP, qos=2)
    assert one.values(number) == [(0, 2), (0, 3)]


def test_what_was_not_acknowledged_is_sent_again_with_new_ack_ids() -> None:
    play, plant, (one,) = plant_and("a")
    one.subscribe(TEMP, qos=2)
    (asked,) = plant.hear()
    plant.update(asked, 1)
    one.ack()
    plant.update(asked, 2)
    before = one.heard[-1].ack_id
    one.cut()
    one = play.link("a", is_responder=False)
    number = one.subscribe(TEMP, qos=2)
    (again,) = one.hear(number)
    assert again.ack_id > before, "the counter belongs to the session"
    one.heard.append(again)
    assert one.values(number) == [(0, 2)]


def test_values_of_lower_quality_are_not_kept() -> None:
    play, plant, (one,) = plant_and("a")
    one.subscribe(TEMP, qos=1)
    (asked,) = plant.hear()
    one.cut()
    (closed,) = plant.hear()
    assert closed.method == p.CLOSE and closed.request_id == asked.request_id
    assert not play.broker.sessions.peers[one.dsid].waiting


def test_a_durable_queue_that_nobody_asks_for_is_discarded_after_a_minute() -> None:
    play, plant, (one,) = plant_and("a")
    one.subscribe(TEMP, qos=2)
    plant.hear()
    one.cut()
    one = play.link("a", is_responder=False)
    for _ in range(3):
        play.wait(20)
        plant.raw(b"\x07\x00\x00\x00\x07\x00\xf9")
        one.raw(b"\x07\x00\x00\x00\x07\x00\xf9")
    play.wait(1)
    assert [came.method for came in plant.hear()] == [p.CLOSE]
    assert play.disk.rules._load().queues == []  # type: ignore[attr-defined]


def test_a_session_is_destroyed_after_five_minutes() -> None:
    play, plant, (one,) = plant_and("a")
    one.subscribe(TEMP, qos=3)
    plant.hear()
    one.cut()
    for _ in range(16):
        play.wait(20)
        plant.raw(b"\x07\x00\x00\x00\x07\x00\xf9")
    assert [came.method for came in plant.hear()] == [p.CLOSE]
    assert play.broker.counts["sessions_expired"] == 1 and play.disk.rules._load().queues == []  # type: ignore[attr-defined]


@pytest.mark.parametrize("qos", [2, 3])
def test_a_durable_queue_survives_the_broker(qos: int) -> None:
    play, plant, (one,) = plant_and("a")
    one.subscribe(TEMP, qos=qos)
    (asked,) = plant.hear()
    one.cut()
    for value in (1, 2):
        plant.update(asked, value)
    play.restart()
    plant = play.link("plant")
    (asked,) = plant.hear()
    assert (asked.headers.target_path, asked.headers.qos) == ("temp", qos), "it is asked for before anybody is back"
    plant.update(asked, 3)
    one = play.link("a", is_responder=False)
    number = one.subscribe(TEMP, qos=qos)
    assert one.values(number) == [(0, 1), (0, 2), (0, 3)]
    one.ack()
    play.restart()
    play.link("plant")
    one = play.link("a", is_responder=False)
    number = one.subscribe(TEMP, qos=qos)
    assert one.values(number) == [], "what was acknowledged is forgotten"


def test_a_durable_value_is_acknowledged_to_its_source_when_it_is_stored() -> None:
    play, plant, (one,) = plant_and("a")
    one.subscribe(TEMP, qos=3)
    (asked,) = plant.hear()
    plant.acks.clear()
    play.is_stuck = True
    ack_id = plant.update(asked, 1)
    assert ack_id not in plant.acks
    other = plant.say(p.SUB_R, 999, Headers(status=0))
    assert other not in plant.acks, "an ack of a later message would cover it"
    play.is_stuck = False
    play.settle()
    assert plant.acks[-1] == other


def test_a_value_that_cannot_be_stored_is_not_acknowledged_and_stored_later() -> None:
    play, plant, (one,) = plant_and("a")
    number = one.subscribe(TEMP, qos=3)
    (asked,) = plant.hear()
    play.failing = True
    ack_id = plant.update(asked, 1)
    assert ack_id not in plant.acks and one.values(number) == [(0, 1)], "the subscriber need not wait"
    play.failing = False
    play.wait(1.5)
    assert plant.acks[-1] == ack_id
    assert play.broker.counts["stores_failed"] >= 1
    assert any("no space left" in note.text for note in play.notes)


def test_clients_with_several_sessions_have_no_durable_queues() -> None:
    _, plant, (one,) = plant_and("a")
    assert one.call(f"sys/clients/{one.dsid}/role")[0] == 0x41
    one.hear()
    setting = one.set(f"sys/clients/{one.dsid}/max-session", 2)
    assert [came.status for came in one.hear(setting)] == [0x20]
    one.subscribe(TEMP, qos=3)
    (asked,) = plant.hear()
    assert asked.headers.qos == 1
