"""What a link asks, and what it makes of the replies of a scripted peer: sections 5, 6, 7, 10 and 11."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.dsa.play import Peer, Play, frames
from wirelake.codec.content import write_msgpack
from wirelake.errors import EncodeError
from wirelake.live.dsa import wire
from wirelake.live.dsa.events import ABSENT, Ended, Listed, Resulted, Valued
from wirelake.protocols import dsa as p

META = bytes.fromhex("220081a27473bd323032342d30332d30315431323a30303a30302e3030302b30303a3030")


def pairs(**entries: Any) -> bytes:
    return b"".join(
        wire.write_pair(key.encode(), b"" if value is ABSENT else write_msgpack(value))
        for key, value in entries.items()
    )


def test_the_list_of_the_specification_is_asked_for_and_read() -> None:
    play = Play()
    stream = play.link.list("/plant/boiler 1", play.now)
    play.run()
    (request,) = play.take(p.LIST)
    assert (request.request_id, request.headers.target_path) == (1, "plant/boiler 1")
    body = bytes.fromhex(
        "0300246973 0500a4756e6974 040074656d70 0e0081a52474797065a66e756d626572 03006f6c64 0000".replace(" ", "")
    )
    play.peer.say(p.LIST_R, 1, body, status=0, refreshed=True, pub_path="pub")
    play.run()
    (update,) = play.events(Listed)
    assert update.stream is stream
    assert update.entries == {"$is": "unit", "temp": {"$type": "number"}, "old": ABSENT}
    assert (update.is_refreshed, update.is_partial, update.pub_path) == (True, False, "pub")


def test_a_list_in_parts_is_partial_until_another_status_than_initializing() -> None:
    play = Play()
    play.link.list("", play.now)
    play.run()
    play.peer.say(p.LIST_R, 1, pairs(a={}), status=1, refreshed=True)
    play.peer.say(p.LIST_R, 1, pairs(b={}), status=0)
    play.run()
    assert [update.is_partial for update in play.events(Listed)] == [True, False]


def test_the_subscription_of_the_specification_is_asked_for_and_read() -> None:
    play = Play()
    stream = play.link.subscribe("plant/boiler 1/temp", play.now, qos=2, queue_size=4096, queue_seconds=600)
    play.run()
    (request,) = play.take(p.SUB)
    headers = request.headers
    assert (headers.qos, headers.queue_size, headers.queue_duration) == (2, 4096, 600)
    play.peer.say(p.SUB_R, 1, META + bytes.fromhex("cb4035c00000000000"), status=0)
    play.peer.say(p.SUB_R, 1, status=0x0E)
    play.run()
    first, second = play.events(Valued)
    assert (first.value, first.meta, first.status) == (21.75, {"ts": "2024-03-01T12:00:00.000+00:00"}, 0)
    assert (second.value, second.status) == (ABSENT, 0x0E)
    assert stream.is_open


def test_a_missing_status_counts_as_ok() -> None:
    play = Play()
    play.link.subscribe("a", play.now)
    play.run()
    play.peer.say(p.SUB_R, 1, b"\0\0\x07")
    play.run()
    assert [(update.value, update.status) for update in play.events(Valued)] == [(7, 0)]


@pytest.mark.parametrize(("status", "told"), [(0x41, 0x41), (0x20, 0x20), (0x7A, 0x7A), (0xF3, 0x50)])
def test_a_closing_status_ends_the_stream_without_a_close(status: int, told: int) -> None:
    play = Play()
    play.link.subscribe("a", play.now)
    play.run()
    play.take()
    play.peer.say(p.SUB_R, 1, status=status)
    play.run()
    assert [event.status for event in play.events()[-1:]] == [told]
    assert not play.take(p.CLOSE)
    assert len(play.link.requester) == 0


def test_replies_of_another_method_or_stream_are_ignored() -> None:
    play = Play()
    play.link.subscribe("a", play.now)
    play.run()
    play.events()
    play.peer.say(p.LIST_R, 1, status=0x41)
    play.peer.say(p.SUB_R, 2, status=0x41)
    play.run()
    assert play.events() == []
    assert play.link.counts["replies_ignored"] == 2


def test_closing_sends_a_close_and_ignores_what_is_under_way() -> None:
    play = Play()
    stream = play.link.subscribe("a", play.now)
    play.run()
    play.take()
    play.peer.say(p.SUB_R, 1, b"\0\0\x07", status=0)
    play.link.close(stream, play.now)
    play.run()
    assert [message.request_id for message in play.take(p.CLOSE)] == [1]
    assert not play.events(Valued)


def test_results_of_an_action_come_in_order_and_the_last_one_ends_it() -> None:
    play = Play()
    play.link.invoke("act", {"x": 1}, play.now)
    play.run()
    (request,) = play.take(p.INVOKE)
    assert request.body == write_msgpack({"x": 1})
    play.peer.say(p.INVOKE_R, 1, write_msgpack([1]), status=0)
    play.peer.say(p.INVOKE_R, 1, write_msgpack([2]), status=0, refreshed=True)
    play.peer.say(p.INVOKE_R, 1, write_msgpack([3]), status=0x20)
    play.peer.say(p.INVOKE_R, 1, write_msgpack([4]), status=0x20)
    play.run()
    told = play.events(Resulted, Ended)
    assert [event.value for event in told if isinstance(event, Resulted)] == [[1], [2], [3]]
    assert told[1].is_refreshed
    assert (told[-1].status, told[-1].detail) == (0x20, "")


def test_no_parameters_are_an_empty_body_and_input_goes_to_the_same_stream() -> None:
    play = Play()
    stream = play.link.invoke("act", None, play.now)
    play.link.feed(stream, {"more": 1}, play.now)
    play.run()
    first, second = play.take(p.INVOKE)
    assert first.body == b""
    assert (second.request_id, second.body) == (1, write_msgpack({"more": 1}))


def test_a_result_with_an_error_detail_is_final_whatever_its_status() -> None:
    play = Play()
    play.link.invoke("nowhere", None, play.now)
    play.run()
    play.peer.say(p.INVOKE_R, 1, status=0x0E, error_detail="no such node")
    play.run()
    (ended,) = play.events(Ended)
    assert (ended.status, ended.detail) == (0x50, "no such node")


def test_long_parameters_go_in_pages_and_long_results_are_joined() -> None:
    play = Play()
    play.link.invoke("plant/load", {"csv": "x" * 60_000}, play.now)
    play.run()
    first, last = play.take(p.INVOKE)
    assert (first.page_id, last.page_id, last.headers.target_path) == (-2, 1, None)
    assert (len(first.body), len(first.body) + len(last.body)) == (49152, 60_008)
    half = len(META)
    play.peer.say(p.INVOKE_R, 1, META[2:half], status=0, page_id=-2, sequence_id=9)
    play.peer.say(p.INVOKE_R, 1, b"", status=0x20, page_id=1, sequence_id=9)
    play.run()
    result, ended = play.events(Resulted, Ended)
    assert result.value == {"ts": "2024-03-01T12:00:00.000+00:00"}
    assert ended.status == 0x20


def test_the_simple_action_of_cpp_that_breaks_off_its_pages_ends_without_a_value() -> None:
    play = Play()
    play.link.invoke("act", None, play.now)
    play.run()
    play.peer.say(p.INVOKE_R, 1, b"half", status=0x20, page_id=-2, sequence_id=1)
    play.run()
    assert [event.status for event in play.events(Resulted, Ended)] == [0x20]


def test_pages_that_get_too_long_close_the_stream() -> None:
    play = Play()
    play.link.invoke("act", None, play.now)
    play.run()
    play.take()
    play.peer.say(p.INVOKE_R, 1, bytes(49152), status=0, page_id=-1000, sequence_id=1)
    for page in range(1, 400):
        play.peer.say(p.INVOKE_R, 1, bytes(49152), status=0, page_id=page, sequence_id=1)
        play.run()
    (ended,) = play.events(Ended)
    assert "at most" in ended.detail
    assert len(play.take(p.CLOSE)) == 1


@pytest.mark.parametrize(
    ("headers", "status", "detail"),
    [
        ({"status": 0x20}, 0x20, ""),
        ({}, 0x20, ""),
        ({"status": 0}, 0x20, ""),
        ({"status": 0x45, "error_detail": "unit not known"}, 0x45, "unit not known"),
        ({"status": 0x40}, 0x40, ""),
    ],
)
def test_any_reply_ends_a_set(headers: dict[str, Any], status: int, detail: str) -> None:
    play = Play()
    play.link.set("plant/boiler 1/temp", "K", play.now, attribute="@unit")
    play.run()
    (request,) = play.take(p.SET)
    assert (request.headers.attribute_field, request.body) == ("@unit", b"\0\0\xa1K")
    play.peer.say(p.SET_R, 1, **headers)
    play.run()
    assert [(event.status, event.detail) for event in play.events(Ended)] == [(status, detail)]


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 0x20), ({"error_detail": "no"}, 0x50), ({"status": 0x45, "error_detail": "no"}, 0x45)],
)
def test_the_close_that_java_sends_in_place_of_a_reply_ends_the_request(headers: dict[str, Any], status: int) -> None:
    play = Play()
    play.link.set("a", 1, play.now)
    play.link.subscribe("b", play.now)
    play.run()
    play.peer.say(p.CLOSE, 2, **headers)
    play.peer.say(p.CLOSE, 1, **headers)
    play.run()
    assert [event.status for event in play.events(Ended)] == [status]


def test_once_takes_the_first_complete_reply_as_final_and_closes_if_the_peer_does_not() -> None:
    play = Play()
    play.link.list("a", play.now, once=True)
    play.link.list("b", play.now, once=True)
    play.run()
    assert all(message.headers.no_stream for message in play.take(p.LIST))
    play.peer.say(p.LIST_R, 1, status=1)
    play.peer.say(p.LIST_R, 1, status=0)
    play.peer.say(p.LIST_R, 2, status=0x20)
    play.run()
    assert [event.status for event in play.events(Ended)] == [0x20, 0x20]
    assert [message.request_id for message in play.take(p.CLOSE)] == [1]


def test_a_preflight_has_one_reply() -> None:
    play = Play()
    play.link.preflight("a", play.now)
    play.run()
    play.peer.say(p.PREFLIGHT_R, 1, status=0x40)
    play.run()
    assert [event.status for event in play.events(Ended)] == [0x40]


@pytest.mark.parametrize("body", [b"\0\0\xc1", b"\x05\0\xc0", b"\0"])
def test_a_value_that_cannot_be_read_is_told_and_costs_no_more_than_itself(body: bytes) -> None:
    play = Play()
    play.link.subscribe("a", play.now)
    play.run()
    play.peer.say(p.SUB_R, 1, body, status=0)
    play.peer.say(p.SUB_R, 1, b"\0\0\x07", status=0)
    play.run()
    bad, good = play.events(Valued)
    assert bad.error is not None
    assert bad.value is ABSENT
    assert good.value == 7


@pytest.mark.parametrize(
    "body", [b"\0\0\0\0", b"\x01\0a\x05\0\x01", b"\x01", b"\x01\0a\x01\0\xc1", b"\x01\0a\x02\0\1\1"]
)
def test_a_list_that_cannot_be_read_is_told(body: bytes) -> None:
    play = Play()
    play.link.list("a", play.now)
    play.run()
    play.peer.say(p.LIST_R, 1, body, status=0)
    play.run()
    (update,) = play.events(Listed)
    assert update.error is not None


def test_a_name_that_is_not_utf_8_comes_through() -> None:
    play = Play()
    play.link.list("a", play.now)
    play.run()
    play.peer.say(p.LIST_R, 1, wire.write_pair(b"\xff\xfe", b"\x80"), status=0)
    play.run()
    (update,) = play.events(Listed)
    assert [wire.encode_text(name) for name in update.entries] == [b"\xff\xfe"]


def test_streams_that_last_are_asked_for_again_and_others_end() -> None:
    play = Play()
    for _ in range(2):
        play.link.subscribe("a", play.now, qos=1)
    play.link.list("b", play.now)
    play.link.invoke("c", None, play.now)
    play.link.set("d", 1, play.now)
    play.run()
    before = {(m.method, m.request_id): m.headers for m in play.take(p.SUB, p.LIST)}
    play.events()
    play.cut()
    told = play.events()
    assert [event.status for event in told if isinstance(event, Ended)] == [0x2E, 0x2E]
    assert [event.status for event in told if isinstance(event, Valued | Listed)] == [0x0E, 0x0E, 0x0E]
    play.link.subscribe("e", play.now)
    play.connect()
    again = {(m.method, m.request_id): m.headers for m in play.take()}
    assert before.items() <= again.items()
    assert {message[0] for message in again} == {p.SUB, p.LIST}
    assert len(again) == 4


def test_what_needs_a_connection_is_refused_without_one() -> None:
    play = Play()
    play.cut()
    with pytest.raises(ConnectionError):
        play.link.invoke("c", None, play.now)


def test_what_cannot_be_written_is_refused_at_once() -> None:
    play = Play()
    with pytest.raises(EncodeError):
        play.link.list("x" * 20_000, play.now)
    with pytest.raises(EncodeError):
        play.link.set("a", object(), play.now)
    with pytest.raises(ValueError, match="@"):
        play.link.set("a", 1, play.now, attribute="unit")
    with pytest.raises(ValueError, match="quality"):
        play.link.subscribe("a", play.now, qos=4)
    with pytest.raises(ValueError, match="no name"):
        play.link.list("a?b", play.now)
    play.run()
    assert not play.take()


def test_options_of_a_subscription_change_on_the_same_stream() -> None:
    play = Play()
    stream = play.link.subscribe("a", play.now)
    play.link.change(stream, play.now, qos=2)
    play.run()
    assert [(message.request_id, message.headers.qos) for message in play.take(p.SUB)] == [(1, None), (1, 2)]


def test_the_first_message_after_a_return_acknowledges_what_came_last_and_ids_go_on() -> None:
    play = Play(peer=Peer())
    play.link.subscribe("a", play.now)
    play.run()
    play.peer.say(p.SUB_R, 1, b"\0\0\x07", status=0)
    play.peer.say(p.SUB_R, 1, b"\0\0\x08", status=0)
    play.run()
    play.cut()
    play.sent.clear()
    play.connect()
    after = [message for message in frames(b"".join(play.sent)) if message.method not in (p.F0, p.F2)]
    assert [message.method for message in after] == [p.ACK, p.SUB]
    assert wire.read_ack(after[0]) == 2
    assert after[1].ack_id == 2


def test_a_session_that_was_away_too_long_is_not_resumed() -> None:
    play = Play()
    play.link.subscribe("a", play.now)
    play.run()
    play.peer.say(p.SUB_R, 1, b"\0\0\x07", status=0)
    play.run()
    play.cut()
    play.now += 301
    play.sent.clear()
    play.connect()
    assert p.ACK not in [message.method for message in frames(b"".join(play.sent))]
