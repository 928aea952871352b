"""What a link replies for its nodes: lists, values, actions, sets; sections 5.3, 7, 10 to 14."""

from __future__ import annotations

from typing import Any

import pytest

from tests.live.dsa.play import Peer, Play
from wirelake.codec.content import read_msgpack, write_msgpack
from wirelake.errors import EncodeError
from wirelake.live.dsa import wire
from wirelake.live.dsa.events import ABSENT, Aborted, Fed, Invoked, SetDone, SetWanted
from wirelake.live.dsa.nodes import Nodes
from wirelake.live.dsa.wire import Received
from wirelake.protocols import dsa as p


def tree() -> Nodes:
    nodes = Nodes()
    nodes.add("main/boiler", profile="unit")
    nodes.add("main/boiler/temp", value=21.75, writable="write", unit="C")

    @nodes.action("main/boiler/load", params={"csv": "string"}, result="table", permission="write")
    def load(call: Any) -> None: ...

    return nodes


def started(nodes: Nodes | None = None) -> Play:
    play = Play(nodes or tree())
    play.events()
    return play


def ask(play: Play, method: int, request_id: int, path: str | None = None, body: bytes = b"", **headers: Any) -> None:
    play.peer.say(method, request_id, body, target_path=path, **headers)


def replies(play: Play) -> list[tuple[int, int]]:
    play.run()
    return [(message.request_id, message.status) for message in play.take()]


def entries(messages: list[Received]) -> dict[str, Any]:
    return {
        key.decode(): read_msgpack(packed) if packed else ABSENT
        for message in messages
        for key, packed in wire.split_pairs(message.body)
    }


def values(play: Play) -> list[Any]:
    play.run()
    return [wire.read_value(message.body)[0] for message in play.take(p.SUB_R) if message.body]


# --- lists


def test_a_list_has_metadata_attributes_and_summaries_of_children() -> None:
    play = started()
    ask(play, p.LIST, 5, "main/boiler")
    play.run()
    (reply,) = play.take(p.LIST_R)
    assert (reply.request_id, reply.status, reply.headers.refreshed) == (5, 0, True)
    assert reply.headers.status == 0  # Java needs it written
    assert entries([reply]) == {
        "$is": "unit",
        "temp": {"$type": "number", "$writable": "write"},
        "load": {"$invokable": "write"},
    }
    ask(play, p.LIST, 6, "main/boiler/temp")
    play.run()
    assert entries(play.take(p.LIST_R)) == {"$type": "number", "$writable": "write", "@unit": "C"}


def test_the_root_is_listed_without_a_path_and_with_an_empty_one() -> None:
    play = started()
    ask(play, p.LIST, 1)
    ask(play, p.LIST, 2, "")
    ask(play, p.LIST, 3, "/")
    play.run()
    assert [set(entries([reply])) for reply in play.take(p.LIST_R)] == [{"main", "pub", "sys"}] * 3


def test_changes_follow_with_changed_keys_only() -> None:
    play = started()
    ask(play, p.LIST, 1, "main/boiler")
    play.run()
    play.take()
    boiler = play.link.nodes["main/boiler"]
    boiler.add("pressure", value=3)
    boiler.put("@site", "north")
    boiler["temp"].remove()
    play.run()
    (update,) = play.take(p.LIST_R)
    assert entries([update]) == {"pressure": {"$type": "number"}, "@site": "north", "temp": ABSENT}
    assert (update.status, update.headers.refreshed) == (0, False)
    boiler.drop("@site")
    boiler["pressure"].put("$writable", "config")
    play.run()
    assert entries(play.take(p.LIST_R)) == {"@site": ABSENT, "pressure": {"$type": "number", "$writable": "config"}}


def test_secret_metadata_is_never_sent() -> None:
    nodes = tree()
    nodes["main"].put("$$$password", "hunter2")
    play = started(nodes)
    ask(play, p.LIST, 1, "main")
    play.run()
    nodes["main"].put("$$$password", "hunter3")
    play.run()
    assert b"hunter" not in b"".join(play.sent)


def test_the_pub_path_is_told_where_there_are_profiles() -> None:
    nodes = tree()
    nodes.add("pub/unit")
    play = started(nodes)
    ask(play, p.LIST, 1, "main")
    play.run()
    assert [reply.headers.pub_path for reply in play.take(p.LIST_R)] == ["pub"]


def test_a_long_list_comes_in_parts_of_whole_pairs_made_when_there_is_room() -> None:
    nodes = Nodes()
    for number in range(100_000):
        nodes.root.add(f"node {number:06}", type="number")
    play = started(nodes)
    ask(play, p.LIST, 1, "")
    most = 0
    got: dict[str, Any] = {}
    statuses: list[int] = []
    for _ in range(1000):
        play.link.flush(play.now)
        play.peer.connection.flush(play.now)
        most = max(most, play.ours.unsent)
        play.step()
        play._room()
        for reply in play.take(p.LIST_R):
            assert len(reply.body) <= p.MAX_BODY
            got.update(entries([reply]))
            statuses.append(reply.status)
        if statuses and not statuses[-1]:
            break
    assert len(got) == 100_003
    assert statuses == [1] * (len(statuses) - 1) + [0]
    assert most < 400_000


def test_what_changes_while_a_long_list_is_sent_is_in_it_or_follows() -> None:
    nodes = Nodes()
    for number in range(20_000):
        nodes.root.add(f"node {number:06}")
    play = started(nodes)
    ask(play, p.LIST, 1, "")
    play.peer.connection.flush(play.now)
    play.step()
    nodes.root["node 000000"].remove()
    nodes.root["node 019999"].remove()
    nodes.root.add("new")
    play.run()
    got = entries(play.take(p.LIST_R))
    assert {key for key, value in got.items() if value is not ABSENT} == set(nodes.root.keys())


def test_no_stream_ends_a_list_with_its_data() -> None:
    play = started()
    ask(play, p.LIST, 1, "main", no_stream=True)
    assert replies(play) == [(1, 0x20)]
    play.link.nodes.add("main/new")
    assert replies(play) == []


# --- subscriptions


def test_the_current_value_comes_at_once_and_then_each_change() -> None:
    nodes = Nodes(clock=lambda: 1709294400.0)
    temp = nodes.add("main/temp", value=21.75)
    play = started(nodes)
    ask(play, p.SUB, 6, "main/temp", qos=1)
    play.run()
    (first,) = play.take(p.SUB_R)
    assert wire.read_value(first.body) == (21.75, {"ts": "2024-03-01T12:00:00.000+00:00"})
    temp.set(22)
    temp.set(None)
    assert values(play) == [22, None]


def test_quality_0_sends_the_newest_value_only() -> None:
    play = started()
    ask(play, p.SUB, 1, "main/boiler/temp")
    ask(play, p.SUB, 2, "main/boiler/temp", qos=1)
    play.run()
    play.take()
    play.ours.unsent = 1 << 20
    for number in range(5):
        play.link.nodes["main/boiler/temp"].set(number)
    play.ours.unsent = 0
    play.run()
    got = [(message.request_id, wire.read_value(message.body)[0]) for message in play.take(p.SUB_R)]
    assert [value for rid, value in got if rid == 1] == [4]
    assert [value for rid, value in got if rid == 2] == [0, 1, 2, 3, 4]


def test_an_overflow_drops_all_but_the_last_and_says_so() -> None:
    play = started()
    ask(play, p.SUB, 1, "main/boiler/temp", qos=1, queue_size=100)
    play.run()
    play.take()
    play.ours.unsent = 1 << 20
    for number in range(20):
        play.link.nodes["main/boiler/temp"].set(number)
    play.ours.unsent = 0
    play.run()
    got = play.take(p.SUB_R)
    assert (got[0].status, wire.read_value(got[-1].body)[0]) == (0x10, 19)
    play.link.nodes["main/boiler/temp"].set(20)
    play.run()
    assert [message.status for message in play.take(p.SUB_R)] == [0]


def test_a_second_request_changes_the_options_and_gets_the_value_again() -> None:
    play = started()
    ask(play, p.SUB, 1, "main/boiler/temp")
    ask(play, p.SUB, 1, "main/boiler/temp", qos=1)
    assert values(play)[-1:] == [21.75]
    assert len(play.link.responder) == 1


def test_a_node_without_a_value_yet_sends_it_when_there_is_one() -> None:
    nodes = Nodes()
    node = nodes.add("main/later", type="string")
    play = started(nodes)
    ask(play, p.SUB, 1, "main/later")
    ask(play, p.SUB, 2, "main/later", no_stream=True)
    assert values(play) == []
    node.set("now")
    play.run()
    got = play.take(p.SUB_R)
    assert [(message.request_id, message.status) for message in got] == [(1, 0), (2, 0x20)]


def test_a_long_value_goes_in_pages() -> None:
    nodes = Nodes()
    nodes.add("main/blob", value=b"x" * 200_000)
    play = started(nodes)
    ask(play, p.SUB, 1, "main/blob")
    play.run()
    got = play.take(p.SUB_R)
    assert [message.page_id for message in got] == [-5, 1, 2, 3, 4]
    assert wire.read_value(b"".join(message.body for message in got))[0] == b"x" * 200_000


def test_durable_values_wait_for_the_connection_by_path() -> None:
    play = started()
    temp = play.link.nodes["main/boiler/temp"]
    for rid, qos in ((1, 1), (2, 2)):
        ask(play, p.SUB, rid, "main/boiler/temp", qos=qos)
    play.run()
    play.take()
    play.cut()
    temp.set(1)
    temp.set(2)
    play.connect()
    ask(play, p.SUB, 7, "main/boiler/temp", qos=2)
    assert values(play)[-2:] == [1, 2]
    temp.set(3)
    assert values(play) == [3]


def test_durable_values_that_were_not_acknowledged_come_again() -> None:
    play = started()
    temp = play.link.nodes["main/boiler/temp"]
    ask(play, p.SUB, 1, "main/boiler/temp", qos=2)
    play.run()
    play.take()
    temp.set(1)
    play.link.flush(play.now)
    play.ours.out.clear()  # lost on the way
    play.ours.unsent = 0
    play.cut()
    play.connect()
    ask(play, p.SUB, 1, "main/boiler/temp", qos=2)
    assert values(play) == [1]


def test_a_durable_queue_waits_60_seconds_for_its_request_and_300_for_its_connection() -> None:
    play = started()
    ask(play, p.SUB, 1, "main/boiler/temp", qos=2)
    play.run()
    play.cut()
    play.wait(299)
    play.connect()
    play.wait(59)
    assert len(play.link.nodes["main/boiler/temp"].subscribers) == 1
    play.wait(2)
    assert not play.link.nodes["main/boiler/temp"].subscribers
    play = started()
    ask(play, p.SUB, 1, "main/boiler/temp", qos=2)
    play.run()
    play.cut()
    play.wait(301)
    assert not play.link.nodes["main/boiler/temp"].subscribers


# --- refusals


@pytest.mark.parametrize("method", [p.SUB, p.LIST, p.INVOKE, p.SET, p.PREFLIGHT])
@pytest.mark.parametrize(
    ("path", "headers", "status"),
    [
        ("nowhere", {}, 0x41),
        ("a//b", {}, 0x44),
        ("a/", {}, 0x44),
        ("main/$x", {}, 0x44),
        ("a?b", {}, 0x44),
        ("main/..", {}, 0x44),
        ("main/\udcff\udcfe", {}, 0x41),
        ("main/boiler/temp", {"permission_token": "t"}, 0x40),
    ],
)
def test_what_cannot_be_is_refused_by_its_status(method: int, path: str, headers: dict[str, Any], status: int) -> None:
    play = started()
    body = b"\0\0\xc0" if method == p.SET else b""
    ask(play, method, 9, path, body, **headers)
    play.run()
    (reply,) = play.take()
    assert (reply.method, reply.request_id, reply.status) == (method | 0x80, 9, status)
    assert len(play.link.responder) == 0


def test_a_leading_slash_is_forgiven() -> None:
    play = started()
    ask(play, p.PREFLIGHT, 1, "/main/boiler")
    assert replies(play) == [(1, 0x20)]


def test_a_node_without_a_value_cannot_be_subscribed_to_and_no_quality_is_above_3() -> None:
    play = started()
    ask(play, p.SUB, 1, "main/boiler")
    ask(play, p.SUB, 2, "main/boiler/temp", qos=4)
    assert replies(play) == [(1, 0x41), (2, 0x45)]


def test_a_node_that_is_removed_ends_its_streams() -> None:
    play = started()
    ask(play, p.SUB, 1, "main/boiler/temp")
    ask(play, p.LIST, 2, "main/boiler")
    play.run()
    play.take()
    play.link.nodes["main/boiler"].remove()
    assert sorted(replies(play)) == [(1, 0x41), (2, 0x41)]
    assert len(play.link.responder) == 0


# --- closing


def test_close_ends_another_stream_before_a_subscription_of_the_same_number() -> None:
    play = started()
    ask(play, p.SUB, 1, "main/boiler/temp", qos=1)
    ask(play, p.LIST, 1, "main/boiler")
    play.run()
    play.take()
    assert len(play.link.responder) == 2
    play.peer.say(p.CLOSE, 1)
    play.run()
    play.link.nodes["main/boiler/temp"].set(1)
    play.link.nodes["main/boiler"].put("@x", 1)
    play.run()
    assert [message.method for message in play.take()] == [p.SUB_R]
    play.peer.say(p.CLOSE, 1)
    play.peer.say(p.CLOSE, 1)
    play.peer.say(p.CLOSE, 77)
    play.run()
    assert len(play.link.responder) == 0
    assert not play.link.nodes["main/boiler/temp"].subscribers


# --- sets


def test_a_set_changes_the_value_and_is_told() -> None:
    play = started()
    ask(play, p.SUB, 1, "main/boiler/temp", qos=1)
    ask(play, p.SET, 2, "main/boiler/temp", wire.write_value(30))
    play.run()
    got = play.take()
    assert [(m.request_id, m.status) for m in got if m.method == p.SET_R] == [(2, 0x20)]
    assert [wire.read_value(m.body)[0] for m in got if m.method == p.SUB_R] == [21.75, 30]
    assert [(event.node.path, event.value) for event in play.events(SetDone)] == [("main/boiler/temp", 30)]


def test_an_attribute_is_set_on_any_node() -> None:
    play = started()
    ask(play, p.SET, 1, "main/boiler", wire.write_value("north"), attribute_field="@site")
    assert replies(play) == [(1, 0x20)]
    assert play.link.nodes["main/boiler"].get("@site") == "north"


@pytest.mark.parametrize(
    ("path", "body", "attribute", "status"),
    [
        ("main/boiler", wire.write_value(1), None, 0x41),
        ("main/boiler/temp", wire.write_value("hot"), None, 0x45),
        ("main/boiler/temp", wire.write_value(True), None, 0x45),
        ("main/boiler/temp", wire.write_value(1), "$type", 0x45),
        ("main/boiler/temp", wire.write_value(1), "@", 0x45),
        ("main/boiler/temp", b"\0\0\xc1", None, 0x44),
        ("main/boiler/temp", b"\x05\0\x01", None, 0x44),
    ],
)
def test_a_set_that_cannot_be_is_refused(path: str, body: bytes, attribute: str | None, status: int) -> None:
    play = started()
    ask(play, p.SET, 1, path, body, attribute_field=attribute)
    assert replies(play) == [(1, status)]
    assert play.link.nodes["main/boiler/temp"].value == 21.75


def test_a_set_in_pages_is_joined() -> None:
    nodes = Nodes()
    nodes.add("main/text", value="", writable="write")
    play = started(nodes)
    body = wire.write_value("x" * 60_000)
    ask(play, p.SET, 1, "main/text", body[:49152], page_id=-2)
    ask(play, p.LIST, 2, "main")
    ask(play, p.SET, 1, None, body[49152:], page_id=1)
    assert replies(play) == [(2, 0), (1, 0x20)]
    assert len(nodes["main/text"].value) == 60_000


def test_a_node_with_a_function_for_sets_leaves_the_decision_to_it() -> None:
    nodes = Nodes()
    nodes.add("main/limit", value=1, writable="write", on_set=lambda node, value: None)
    play = started(nodes)
    ask(play, p.SET, 1, "main/limit", wire.write_value(2))
    assert replies(play) == []
    (wanted,) = play.events(SetWanted)
    assert wanted.request.value == 2
    wanted.request.end(0x45, "too much")
    wanted.request.end()
    play.run()
    (reply,) = play.take()
    assert (reply.status, reply.headers.error_detail) == (0x45, "too much")


# --- actions


def invoke(play: Play, request_id: int = 1, body: bytes = b"", **headers: Any) -> Any:
    ask(play, p.INVOKE, request_id, "main/boiler/load", body, **headers)
    play.run()
    invoked = play.events(Invoked)
    return invoked[0].invocation if invoked else None


def test_an_action_sends_results_until_it_ends() -> None:
    play = started()
    call = invoke(play, 3, write_msgpack({"csv": "a,b"}))
    assert call.value == {"csv": "a,b"}
    call.send({"rows": [[1]]})
    call.send({"rows": [[2]]}, is_refreshed=True)
    call.end({"rows": [[3]]})
    call.send({"rows": [[4]]})
    call.end()
    play.run()
    got = play.take(p.INVOKE_R)
    assert [(m.request_id, m.status, m.headers.refreshed) for m in got] == [
        (3, 0, False),
        (3, 0, True),
        (3, 0x20, False),
    ]
    assert [read_msgpack(message.body)["rows"] for message in got] == [[[1]], [[2]], [[3]]]


def test_more_input_reaches_a_running_action_and_a_close_aborts_it() -> None:
    play = started()
    call = invoke(play)
    assert call.value == {}
    ask(play, p.INVOKE, 1, "main/boiler/load", write_msgpack("more"))
    play.peer.say(p.CLOSE, 1)
    play.run()
    fed, aborted = play.events(Fed, Aborted)
    assert (fed.invocation, fed.value) == (call, "more")
    assert aborted.invocation is call
    call.end("late")
    assert replies(play) == []


def test_parameters_in_pages_are_joined_and_results_are_cut_with_others_between() -> None:
    play = started()
    body = write_msgpack({"csv": "x" * 60_000})
    ask(play, p.INVOKE, 1, "main/boiler/load", body[:49152], page_id=-2, sequence_id=3)
    ask(play, p.INVOKE, 1, None, body[49152:], page_id=1, sequence_id=3)
    play.run()
    (invoked,) = play.events(Invoked)
    assert len(invoked.invocation.value["csv"]) == 60_000
    invoked.invocation.end(b"y" * 120_000)
    ask(play, p.LIST, 2, "main/boiler")
    play.run()
    got = play.take()
    assert [(m.request_id, m.page_id, m.status) for m in got] == [(1, -3, 0), (1, 1, 0), (1, 2, 0x20), (2, 0, 0)]
    assert read_msgpack(b"".join(m.body for m in got[:3])) == b"y" * 120_000


@pytest.mark.parametrize(("cap", "status"), [(0x00, 0x40), (0x10, 0x40), (0x2F, 0x40), (0x30, 0), (0x3F, 0), (0x40, 0)])
def test_max_permission_caps_what_may_be_invoked(cap: int, status: int) -> None:
    play = started()
    call = invoke(play, max_permission=cap)
    assert (call is None) == bool(status)
    assert replies(play) == ([(1, status)] if status else [])


def test_only_actions_can_be_invoked_and_bodies_must_be_readable() -> None:
    play = started()
    ask(play, p.INVOKE, 1, "main/boiler/temp")
    ask(play, p.INVOKE, 2, "main/boiler/load", b"\xc1")
    assert replies(play) == [(1, 0x41), (2, 0x44)]
    assert not play.events(Invoked)


def test_no_stream_ends_an_action_with_its_first_result() -> None:
    play = started()
    call = invoke(play, no_stream=True)
    call.send(1)
    call.send(2)
    play.run()
    assert [(m.status, read_msgpack(m.body)) for m in play.take(p.INVOKE_R)] == [(0x20, 1)]


def test_errors_are_explained_only_to_peers_that_bear_it() -> None:
    for first, detail in ((0, "no"), (1, None)):
        play = Play(tree(), peer=Peer(), is_up=False)
        play.peer.ack_ids.last = first  # C++ counts from 2
        play.connect()
        call = invoke(play)
        call.end(status=0x45, detail="no")
        play.run()
        (reply,) = play.take(p.INVOKE_R)
        assert (reply.status, reply.headers.error_detail) == (0x45, detail)


def test_actions_end_with_the_connection() -> None:
    play = started()
    call = invoke(play)
    play.cut()
    assert [event.invocation for event in play.events(Aborted)] == [call]
    play.connect()
    call.end(1)
    assert replies(play) == []


# --- what a program may declare


def test_names_types_and_sizes_are_checked_when_they_are_declared() -> None:
    nodes = Nodes()
    with pytest.raises(ValueError, match="cannot be the name"):
        nodes.add("main/a?b")
    with pytest.raises(ValueError, match="already"):
        nodes.add("main")
    with pytest.raises(ValueError, match="a type has to be"):
        nodes.add("main/x", type="integer")
    with pytest.raises(ValueError, match="writable has to be"):
        nodes.add("main/x", value=1, writable="read")
    with pytest.raises(ValueError, match="permission has to be"):
        nodes.action("main/x", permission="all")
    with pytest.raises(ValueError, match="neither"):
        nodes["main"].put("unit", 1)
    with pytest.raises(EncodeError):
        nodes["main"].put("@long", "x" * 40_000)
    with pytest.raises(ValueError, match="has no value"):
        nodes["main"].set(1)
    with pytest.raises(TypeError, match="takes a number, not string"):
        nodes.add("main/x", value=1).set("1")
    with pytest.raises(ValueError, match="root"):
        nodes.root.remove()
