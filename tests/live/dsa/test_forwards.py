"""Invoke and set through a broker: ids, headers, pages, peers that differ from the document."""

from __future__ import annotations

import pytest

from tests.live.dsa.broker_play import Play, Scripted, pack
from wirelake.live.dsa.options import BrokerOptions
from wirelake.live.dsa.permissions import CONFIG, LIST, READ, WRITE, Role
from wirelake.live.dsa.wire import Outgoing, write_headers, write_value
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers

RUN = "downstream/plant/run"


def stage(**more: object) -> tuple[Play, Scripted, Scripted]:
    play = Play(**more)  # type: ignore[arg-type]
    return play, play.link("plant"), play.link("a", is_responder=False)


def test_an_invoke_passes_with_a_new_id_and_all_its_headers() -> None:
    _, plant, one = stage()
    for _ in range(3):
        one.ids += 1
    number = one.invoke(RUN, {"x": 1}, priority=True, no_stream=True, refreshed=True, max_permission=0x30)
    (asked,) = plant.hear()
    assert asked.request_id == 1 != number and asked.body == pack({"x": 1})
    headers = asked.headers
    assert (headers.target_path, headers.priority, headers.no_stream, headers.refreshed) == ("run", True, True, True)
    assert headers.max_permission == 0x30 and headers.alias_count is None
    plant.say(p.INVOKE_R, 1, Headers(status=0, sequence_id=4, skippable=True, refreshed=True), pack([1]))
    plant.say(p.INVOKE_R, 1, Headers(status=0x20), pack([2]))
    first, last = one.hear(number)
    assert (first.status, first.headers.sequence_id, first.headers.skippable) == (0, 4, True)
    assert first.headers.refreshed and first.body == pack([1])
    assert (last.status, last.body) == (0x20, pack([2]))
    plant.say(p.INVOKE_R, 1, Headers(status=0x20))
    assert one.hear(number) == [], "there is one final status"


def test_the_root_of_a_link_is_an_empty_target_path() -> None:
    _, plant, one = stage()
    one.invoke("downstream/plant")
    (asked,) = plant.hear()
    assert asked.headers.target_path == "" and asked.head == b"\x80\x00\x00"


def test_further_input_and_close_follow_the_invoke() -> None:
    _, plant, one = stage()
    number = one.invoke(RUN, {"x": 1})
    one.say(p.INVOKE, number, Headers(target_path=RUN), pack({"x": 2}))
    one.say(p.CLOSE, number)
    first, second, closed = plant.hear()
    assert first.request_id == second.request_id == closed.request_id
    assert second.headers.target_path == "run" and second.body == pack({"x": 2}) and closed.method == p.CLOSE
    plant.say(p.INVOKE_R, first.request_id, Headers(status=0x20))
    assert one.hear(number) == []


def test_pages_of_a_request_are_forwarded_one_by_one() -> None:
    _, plant, one = stage()
    one.say(p.INVOKE, 7, Headers(target_path=RUN, sequence_id=3, page_id=-3), b"a" * 49_152)
    one.say(p.INVOKE, 7, Headers(sequence_id=3, page_id=1), b"b" * 49_152)
    one.say(p.INVOKE, 7, Headers(sequence_id=3, page_id=2), b"c")
    came = plant.hear()
    assert [(each.page_id, each.headers.sequence_id, each.headers.target_path) for each in came] == [
        (-3, 3, "run"),
        (1, 3, None),
        (2, 3, None),
    ]
    assert b"".join(each.body for each in came) == b"a" * 49_152 + b"b" * 49_152 + b"c"
    rid = came[0].request_id
    plant.say(p.INVOKE_R, rid, Headers(status=0, sequence_id=1, page_id=-2), b"d" * 49_152)
    plant.say(p.INVOKE_R, rid, Headers(status=0x20, sequence_id=1, page_id=1), b"e")
    assert [(each.page_id, each.status) for each in one.hear(7)] == [(-2, 0), (1, 0x20)]


def test_a_page_of_nothing_is_ignored() -> None:
    play, plant, one = stage()
    one.say(p.INVOKE, 7, Headers(sequence_id=3, page_id=1), b"b")
    assert plant.hear() == [] and one.hear() == [] and play.broker.counts["pages_ignored"] == 1


@pytest.mark.parametrize("status", [None, 0x00, 0x10])
def test_a_set_ends_with_its_first_reply(status: int | None) -> None:
    _, plant, one = stage()
    number = one.set("downstream/plant/x", 5)
    (asked,) = plant.hear()
    assert (asked.method, asked.body) == (p.SET, write_value(5))
    plant.say(p.SET_R, asked.request_id, Headers(status=status))
    assert [came.status for came in one.hear(number)] == [0x20]
    plant.say(p.SET_R, asked.request_id, Headers(status=0x45))
    assert one.hear(number) == []


def test_a_set_of_an_attribute_says_which() -> None:
    _, plant, one = stage()
    one.set("downstream/plant/x", "K", attribute_field="@unit")
    (asked,) = plant.hear()
    assert asked.headers.attribute_field == "@unit" and asked.headers.target_path == "x"


CLOSES = [
    (Headers(), 0x20),
    (Headers(status=0x00), 0x20),
    (Headers(status=0x45), 0x45),
    (Headers(status=0x00, error_detail="no"), 0x50),
    (Headers(status=0x41, error_detail="no"), 0x41),
]


@pytest.mark.parametrize(("headers", "status"), CLOSES)
@pytest.mark.parametrize("method", [p.SET, p.INVOKE])
def test_a_close_of_the_responder_stands_for_a_reply(method: int, headers: Headers, status: int) -> None:
    _, plant, one = stage()
    number = one.ask(method, "downstream/plant/x", write_value(1))
    (asked,) = plant.hear()
    plant.raw(Outgoing(p.CLOSE, asked.request_id, write_headers(headers)).stamped(0))
    (reply,) = one.hear(number)
    assert (reply.method, reply.status, reply.headers.error_detail) == (method + 0x80, status, None)


def test_a_close_is_first_of_all_one_of_the_senders_own_streams() -> None:
    play, plant, one = stage()
    number = one.set("downstream/plant/x", 1)
    (asked,) = plant.hear()
    other = play.link("other")
    plant.ids = asked.request_id - 1
    plant.list("downstream/other")
    other.hear()
    plant.say(p.CLOSE, asked.request_id)
    assert [came.method for came in other.hear()] == [p.CLOSE] and one.hear(number) == []


def test_an_open_reply_with_an_error_detail_is_final() -> None:
    _, plant, one = stage()
    number = one.invoke(RUN)
    (asked,) = plant.hear()
    plant.say(p.INVOKE_R, asked.request_id, Headers(status=0x0E, error_detail="unknown path"))
    (reply,) = one.hear(number)
    assert (reply.status, reply.headers.error_detail) == (0x50, None), "C++ closes on details, so none are sent"


def test_details_reach_those_who_are_known_to_read_them() -> None:
    _, plant, one = stage(options=BrokerOptions(detail_headers=True))
    number = one.invoke(RUN)
    (asked,) = plant.hear()
    plant.say(p.INVOKE_R, asked.request_id, Headers(status=0x45, error_detail="no", audit_log="who"))
    (reply,) = one.hear(number)
    assert (reply.status, reply.headers.error_detail, reply.headers.audit_log) == (0x45, "no", "who")


def test_who_has_sent_details_gets_them() -> None:
    play, plant, one = stage()
    java = play.link("java")
    one.invoke("downstream/java/x")
    (asked,) = java.hear()
    java.say(p.INVOKE_R, asked.request_id, Headers(status=0x50, error_detail="oh"))
    java.ids = 100
    number = java.invoke(RUN)
    (asked,) = plant.hear()
    plant.say(p.INVOKE_R, asked.request_id, Headers(status=0x45, error_detail="no"))
    assert [came.headers.error_detail for came in java.hear(number)] == ["no"]


def test_requests_to_a_link_that_is_away_end_at_once() -> None:
    _, plant, one = stage()
    running, setting = one.invoke(RUN), one.set("downstream/plant/x", 1)
    plant.cut()
    assert [[came.status for came in one.hear(number)] for number in (running, setting)] == [[0x2E], [0x2E]]
    running, setting = one.invoke(RUN), one.set("downstream/plant/x", 1)
    assert [[came.status for came in one.hear(number)] for number in (running, setting)] == [[0x2E], [0x2E]]


def test_a_requester_that_goes_aborts_what_it_has_begun() -> None:
    play, plant, one = stage()
    one.invoke(RUN)
    one.set("downstream/plant/x", 1)
    invoked, setting = plant.hear()
    one.cut()
    assert [(came.method, came.request_id) for came in plant.hear()] == [(p.CLOSE, invoked.request_id)]
    plant.say(p.SET_R, setting.request_id, Headers(status=0x20))
    assert not play.broker.sessions.peers[plant.dsid].requests


def test_a_responder_that_never_answers_harms_nobody() -> None:
    play, plant, one = stage()
    two = play.link("two", is_responder=False)
    for _ in range(1_000):
        one.invoke(RUN)
    number = two.list("")
    assert two.hear(number) and len(plant.hear()) == 1_000
    one.cut()
    assert len(plant.hear()) == 1_000 and not play.broker.sessions.peers[plant.dsid].requests


def test_more_streams_than_allowed_are_refused_as_busy() -> None:
    _, _, one = stage(options=BrokerOptions(max_streams=3))
    for _ in range(3):
        one.list("")
    assert [came.status for came in one.hear(one.list(""))] == [0x48]
    one.say(p.CLOSE, 1)
    assert [came.status for came in one.hear(one.list(""))] == [0x00]


def test_a_responder_that_reads_nothing_is_not_sent_more() -> None:
    play, plant, one = stage(options=BrokerOptions(max_unsent=1 << 20))
    plant.link.unsent = 1 << 20
    plant.take = lambda: None  # type: ignore[method-assign]
    statuses = []
    for _ in range(30):
        number = one.ask(p.INVOKE, RUN, b"\xc4" * 40_000)
        statuses += [came.status for came in one.hear(number)]
    assert set(statuses) == {0x48} and 10 < len(statuses) < 30
    assert not plant.is_closed and not one.is_closed and play.broker.sessions.peers[plant.dsid].unsent <= 1 << 20


def test_a_requester_that_reads_nothing_is_closed() -> None:
    play, plant, one = stage(options=BrokerOptions(max_unsent=1 << 20))
    one.invoke(RUN)
    (asked,) = plant.hear()
    one.link.unsent = 1 << 20
    one.take = lambda: None  # type: ignore[method-assign]
    for _ in range(40):
        plant.say(p.INVOKE_R, asked.request_id, Headers(status=0), b"x" * 40_000)
    assert one.is_closed and not plant.is_closed
    assert play.broker.counts["slow_readers_closed"] == 1


def test_skippable_replies_are_replaced_by_newer_ones_while_they_wait() -> None:
    _, plant, one = stage()
    number = one.invoke(RUN)
    (asked,) = plant.hear()
    one.link.unsent = 1 << 20
    take, one.take = one.take, lambda: None  # type: ignore[method-assign]
    for value in range(20):
        plant.say(p.INVOKE_R, asked.request_id, Headers(status=0, skippable=value % 5 != 0), pack(value))
    one.take = take  # type: ignore[method-assign]
    one.link.unsent, one.link.wants_room = 0, True
    one.take()
    assert [came.body[0] for came in one.hear(number)] == [0, 5, 10, 15, 19]


# --- permissions


LEVELS = {"none": 0x00, "list": LIST, "read": READ, "write": WRITE, "config": CONFIG}
NEEDED = {"list": LIST, "preflight": LIST, "subscribe": READ, "invoke": LIST, "set": WRITE, "attribute": WRITE}


@pytest.mark.parametrize("name", NEEDED)
@pytest.mark.parametrize("level", LEVELS.values(), ids=LEVELS)
def test_each_level_permits_what_it_should(name: str, level: int) -> None:
    _, plant, one = stage(roles={"default": Role("default", level)})
    number = {
        "list": lambda: one.list("downstream/plant/x"),
        "preflight": lambda: one.ask(p.PREFLIGHT, "downstream/plant/x"),
        "subscribe": lambda: one.subscribe("downstream/plant/x"),
        "invoke": lambda: one.invoke("downstream/plant/x"),
        "set": lambda: one.set("downstream/plant/x", 1),
        "attribute": lambda: one.set("downstream/plant/x", 1, attribute_field="@a"),
    }[name]()
    came, asked = one.hear(number), plant.hear()
    if level < NEEDED[name]:
        assert [reply.status for reply in came] == [0x40] and not asked
    elif name == "preflight":
        assert [reply.status for reply in came] == [0x20] and not asked, "C++ closes on a preflight, so none is sent"
    else:
        assert came == [] and len(asked) == 1
        if name == "invoke":
            assert asked[0].headers.max_permission == (None if level == CONFIG else level)


@pytest.mark.parametrize(("cap", "sent"), [(0x40, 0x30), (0x30, 0x30), (0x25, 0x20), (0x10, 0x10), (0x00, None)])
def test_an_invoke_is_capped_by_what_it_carries(cap: int, sent: int | None) -> None:
    _, plant, one = stage(roles={"default": Role("default", WRITE)})
    number = one.invoke(RUN, max_permission=cap)
    if sent is None:
        assert [came.status for came in one.hear(number)] == [0x40]
    else:
        assert [asked.headers.max_permission for asked in plant.hear()] == [sent]


def test_a_permission_token_is_refused_where_nobody_is_known_to_read_it() -> None:
    _, plant, one = stage()
    for ask in (one.list, one.subscribe, one.invoke):
        number = ask("downstream/plant/x", permission_token="t")
        assert [came.status for came in one.hear(number)] == [0x40]
    assert plant.hear() == []


def test_a_permission_token_is_checked_by_a_preflight_before_a_stream_is_merged() -> None:
    _, plant, one = stage(options=BrokerOptions(preflight=("downstream/plant",)))
    number = one.subscribe("downstream/plant/x", permission_token="t")
    (asked,) = plant.hear()
    assert (asked.method, asked.headers.target_path, asked.headers.permission_token) == (p.PREFLIGHT, "x", "t")
    plant.say(p.PREFLIGHT_R, asked.request_id, Headers(status=0x20))
    (asked,) = plant.hear()
    assert (asked.method, asked.headers.permission_token) == (p.SUB, None)
    plant.update(asked, 5)
    assert one.values(number) == [(0, 5)]
    number = one.list("downstream/plant/x", permission_token="bad")
    (asked,) = plant.hear()
    plant.say(p.PREFLIGHT_R, asked.request_id, Headers(status=0x40))
    assert [came.status for came in one.hear(number)] == [0x40] and plant.hear() == []
    one.invoke(RUN, permission_token="t")
    assert [asked.headers.permission_token for asked in plant.hear()] == ["t"]
