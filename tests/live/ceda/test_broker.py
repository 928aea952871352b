"""Messages through a CEDA server: publishes, images, requests and replies, p2p, blobs, and participants inside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from msgspec.structs import replace as with_

import wirelake
from tests.live.ceda.play import JudgingServer, Participant, Peer, Scene, control, values
from wirelake.live.ceda.data import Blob, Message, payloads, read_data, write_record
from wirelake.live.ceda.events import Asked, Delivered
from wirelake.live.ceda.options import CedaLimits, CedaServerOptions
from wirelake.live.ceda.wire import CEDA4, CEDA4_WS, FRAMINGS, PUBLISH, REQUEST
from wirelake.live.core.session import Answered
from wirelake.protocols import ceda as p

DIALECTS = (CEDA4, CEDA4_WS)


def scene(**options: Any) -> Scene:
    return Scene(JudgingServer(CedaServerOptions(**options)))


def request(topic: str, reply_topic: str, server_id: str = "MQ", number: int = p.UNASSIGNED, **more: Any) -> Any:
    body = write_record(more.pop("record", {1: "EURUSD"}))
    return p.Request(
        topic=topic, connection_id=number, server_id=server_id, signal_id="c7", reply_topic=reply_topic, body=body
    )


def p2p(topic: str, server_id: str, number: int) -> Any:
    return p.P2p(topic=topic, connection_id=number, server_id=server_id, signal_id="s", body=write_record({1: "go"}))


def answer(asked: Any, record: dict[int, Any]) -> Any:
    return p.Reply(
        topic=asked.reply_topic,
        connection_id=asked.connection_id,
        server_id=asked.server_id,
        signal_id=asked.signal_id,
        body=write_record(record),
    )


# --- publish (9.4)


@pytest.mark.parametrize("mine", DIALECTS)
@pytest.mark.parametrize("theirs", DIALECTS)
@pytest.mark.parametrize("size", [10, 125, 126, 5000])
def test_a_publish_goes_to_everybody_who_subscribed_as_it_came(mine: str, theirs: str, size: int) -> None:
    stage = scene()
    publisher = stage.member("p", dialect=mine)
    reader = stage.peer(theirs).login("u" * 127, "p" * 127)
    reader.subscribe("FX.*")
    record = {3: "x" * size}
    publisher.publish("FX.EURUSD", record)
    publisher.publish("FX.EURUSD", record)
    wire = wirelake.encode(p.Publish(topic="FX.EURUSD", body=write_record(record)), dialect=theirs)
    assert reader.raw() == wire * 2


def test_a_publish_goes_once_to_each_connection_the_sender_too() -> None:
    stage = scene()
    sender = stage.member("s", "a.b", "a.*", "**")
    other = stage.member("o", "a.**", "a.b")
    nobody = stage.member("n", "b.*")
    for _ in range(2):
        sender.publish("a.b", {1: 5})
        sender.raw()
    sender.publish("a.b", {1: 5})
    assert len(other.heard()) == 3
    assert nobody.heard() == []
    assert stage.server.counts["published"] == 3 and stage.server.counts["delivered"] == 6


def test_the_order_of_publishes_is_kept() -> None:
    stage = scene()
    reader = stage.member("r", "a.*", "b")
    publisher = stage.member()
    frames = [
        wirelake.encode(p.Publish(topic=topic, body=write_record({1: i})), dialect=CEDA4_WS)
        for i, topic in enumerate(("a.1", "b", "a.1", "a.2", "c", "b", "a.1") * 5)
        if topic != "c"
    ]
    publisher.say(b"".join(frames))
    assert reader.raw() == b"".join(frames)


@pytest.mark.parametrize(
    ("pattern", "topic", "matches"),
    [
        ("a.*", "a.b", True),
        ("a.*", "a.b.c", False),
        ("a.*", "a", True),
        ("a.*.c", "a.b", True),
        ("*.*.*", "a", False),
        ("a.**", "a", True),
        ("a.**", "a.b.c.d", True),
        ("a.b.c.**", "a", True),
        ("a.**.z", "a.x.y", True),
        ("**", "x", True),
        ("a.b*", "a.bc", False),
        ("a.b", "a", False),
    ],
)
def test_every_surprise_of_matching_holds_for_publishes(pattern: str, topic: str, matches: bool) -> None:
    stage = scene()
    reader = stage.member("r", pattern)
    publisher = stage.member()
    for _ in range(2):
        publisher.publish(topic, {1: 12345})
        assert bool(reader.heard()) == matches


def test_strict_topics_can_be_chosen() -> None:
    stage = scene(strict_topics=True)
    reader = stage.member("r", "a.*")
    publisher = stage.member()
    for topic in ("a", "a.b", "a.b.c"):
        publisher.publish(topic, {1: 1})
    assert [message.topic for message in reader.heard()] == ["a.b"]


def test_a_route_changes_with_its_subscriptions() -> None:
    stage = scene()
    one, two, publisher = stage.member("1"), stage.member("2"), stage.member("p")
    heard = []
    for step in (
        lambda: one.subscribe("a.b"),
        lambda: two.subscribe("a.*"),
        lambda: one.unsubscribe("a.b"),
        two.leave,
        lambda: one.subscribe("**"),
        lambda: one.say("820114"),
    ):
        step()
        publisher.publish("a.b", {1: 1})
        heard.append((len(one.heard()), len(two.heard())))
    assert heard == [(1, 0), (1, 1), (0, 1), (0, 0), (1, 0), (0, 0)]


def test_a_topic_that_is_empty_goes_nowhere() -> None:
    stage = scene()
    reader = stage.member("r", "**", "*")
    stage.member().publish("", {1: 1})
    assert reader.heard() == [] and stage.server.counts["published"] == 1


def test_what_is_too_long_for_deployed_peers_goes_to_the_others() -> None:
    stage = scene()
    deployed, document = stage.member("1", "a"), stage.peer(CEDA4).login("u" * 127, "p" * 127)
    document.subscribe("a")
    publisher = stage.member("p", dialect=CEDA4)
    payload = b"\x61\x01a" + write_record({1: "x" * 60000, 2: "y" * 5521})
    assert len(payload) == 65532
    for _ in range(2):
        publisher.say(FRAMINGS[CEDA4].wrap(payload))
    assert deployed.heard() == [] and len(document.heard()) == 2
    assert stage.server.counts["not_sendable"] == 2


def test_without_a_broker_everything_goes_to_participants() -> None:
    stage = scene(broker=False)
    stage.inside.listen(["**"])
    reader, sender = stage.member("r", "**"), stage.member("s")
    sender.publish("a", {1: 1})
    sender.say(request("q", "r.1"))
    sender.say(p.P2p(topic="x", connection_id=7, server_id="", signal_id="", body=write_record({1: "p2p"})))
    sender.say(p.Reply(topic="y", connection_id=1000, server_id="", signal_id="", body=write_record({1: "reply"})))
    events = stage.inside.events(Delivered)
    assert [(event.message.topic, event.message.kind) for event in events] == [
        ("a", "publish"),
        ("q", "request"),
        ("x", "p2p"),
        ("y", "reply"),
    ]
    assert events[1].message.connection_id == events[2].message.connection_id == 1002
    assert isinstance(events[1], Asked) and reader.heard() == []
    stage.inside.reply(events[1], {1: "done"}, 0.0)
    (reply,) = sender.heard()
    assert (reply.topic, values(reply)) == ("r.1", {1: "done"})


def test_without_a_broker_and_a_participant_messages_are_dropped_and_that_is_told() -> None:
    stage = scene(broker=False)
    for peer in (stage.member("1"), stage.member("2")):
        for _ in range(3):
            peer.publish("a", {1: 1})
    assert stage.server.counts["unheard"] == 6
    assert len(stage.server.notes) == 2
    stage.inside.listen(["a"])
    peer.publish("a", {1: 1})
    assert len(stage.inside.events(Delivered)) == 1 and stage.server.counts["unheard"] == 6


@pytest.mark.parametrize("size", [127, 128, 200, 255])
def test_a_name_that_deployed_readers_cannot_take_goes_only_to_others(size: int) -> None:
    stage = scene()
    topic = "x" * size
    deployed, document = stage.member("1", "**"), stage.peer(CEDA4).login("u" * 127, "p" * 127)
    document.subscribe(topic)
    publisher = stage.member("p")
    for _ in range(3):
        publisher.publish(topic, {1: 1})
    assert len(document.heard()) == 3
    assert len(deployed.heard()) == (3 if size <= 127 else 0)
    assert stage.server.counts["not_sendable"] == (0 if size <= 127 else 3)
    publisher.say(request("q", "r" * size))
    publisher.say(request("q", "r"))
    assert len(deployed.heard()) == (2 if size <= 127 else 1)


@pytest.mark.parametrize("websocket", [False, True])
def test_publishes_in_a_row_arrive_as_messages_of_their_own(websocket: bool) -> None:
    stage = scene()
    publisher = stage.member("p")
    readers = [stage.peer(websocket=websocket).login(f"r{i}") for i in range(2)]
    for reader in readers:
        reader.subscribe("a", "b")
    publisher.publish("a", {1: 0})
    publisher.publish("b", {1: 0})
    for reader in readers:
        reader.raw()
    payloads = [b"\x61\x01" + topic + write_record({1: i}) for i, topic in enumerate((b"a", b"a", b"b"))]
    publisher.say(b"".join(map(FRAMINGS[CEDA4_WS].wrap, payloads)))
    for reader in readers:
        assert [(m.topic, values(m)[1]) for m in reader.heard()] == [("a", 0), ("a", 1), ("b", 2)]
    assert stage.server.counts["published"] == 5 and stage.server.counts["delivered"] == 10


# --- images (9.3)


def test_an_image_is_laid_over_field_by_field_and_sent_first() -> None:
    stage = scene(cache=True)
    publisher = stage.member()
    publisher.publish("a.x", {1: 1, 2: "two"})
    publisher.publish("a.x", {2: 2.5, 3: b"three"})
    publisher.publish("a.y", {1: 9})
    publisher.publish("b", {1: 8})
    late = stage.member("late")
    images = late.subscribe("a.*")
    assert {message.topic: values(message) for message in images} == {"a.x": {1: 1, 2: 2.5, 3: b"three"}, "a.y": {1: 9}}
    assert all(isinstance(message, p.Publish) for message in images)
    publisher.publish("a.x", {1: 2})
    assert [values(message) for message in late.heard()] == [{1: 2}]


def test_an_image_is_sent_once_however_many_patterns_ask_for_it() -> None:
    stage = scene(cache=True)
    stage.member().publish("a.x", {1: 1})
    peer = stage.member("late")
    assert len(peer.subscribe("a.x", "a.*", "**")) == 1
    assert peer.subscribe("a.x", "a.*") == []
    assert len(peer.subscribe("a.x", code=20)) == 1


def test_by_default_nothing_is_kept() -> None:
    stage = scene()
    stage.member().publish("a", {1: 1})
    peer = stage.member("late")
    assert peer.subscribe("a") == [] and peer.subscribe("a", code=20) == []


def test_images_may_be_sent_only_to_who_asks() -> None:
    stage = scene(cache=True, image_on_subscribe=False)
    stage.member().publish("a", {1: 1})
    peer = stage.member("late")
    assert peer.subscribe("a") == []
    assert len(peer.subscribe("a", code=20)) == 1


def test_an_image_may_have_a_blob() -> None:
    stage = scene(cache=True)
    stage.inside.publish("a", {1: 1, 3: "old"}, 0.0, blob=Blob(3, bytes(40_000)))
    stage.inside.publish("a", {2: 2}, 0.0)
    peer = stage.member("late")
    pieces = peer.subscribe("a")
    assert [type(message) for message in pieces] == [p.GroupPub, p.GroupPub]
    assert pieces[0].group.total_length == 40_000 and {1, 2} <= set(values(pieces[0]))
    stage.inside.publish("a", {3: "new"}, 0.0)
    assert [values(message) for message in stage.member("later").subscribe("a")] == [{1: 1, 2: 2, 3: "new"}]


def test_an_image_that_grows_too_long_begins_again() -> None:
    stage = scene(cache=True)
    for fid in range(1, 4):
        stage.inside.publish("a", {fid: "x" * 30_000}, 0.0)
    assert [sorted(values(message)) for message in stage.member("late").subscribe("a")] == [[3]]
    assert stage.server.counts["images_restarted"] == 1


def test_images_are_bounded() -> None:
    stage = scene(cache=True, limits=replace(CedaLimits(), images=3, image_bytes=50_000))
    for i in range(5):
        stage.inside.publish(f"a.{i}", {1: i}, 0.0)
    stage.inside.publish("a.0", {2: "x" * 60_000}, 0.0)
    found = stage.member("late").subscribe("a.*")
    assert [message.topic for message in found] == ["a.0", "a.1", "a.2"] and values(found[0]) == {1: 0}
    assert stage.server.counts["images_refused"] == 3


def test_a_record_that_is_wrong_is_not_kept() -> None:
    stage = scene(cache=True)
    stage.member().say("8207 61 01 61 3c00 ff00")
    assert stage.member("late").subscribe("a") == []


def test_who_asks_for_images_again_and_again_without_reading_is_closed() -> None:
    stage = scene(cache=True, limits=replace(CedaLimits(), unsent=100_000))
    for i in range(100):
        stage.inside.publish(f"a.{i}", {1: "x" * 10_000}, 0.0)
    peer = stage.member("late")
    stage.server.receive(peer.link, control(p.Subscribe, 20, {3: "a.*"}) * 50, 0.0)
    assert peer.is_closed and peer.link.unsent < 120_000


# --- request and reply (9.5)


def test_a_request_and_its_reply_go_through_as_in_the_worked_example() -> None:
    stage = scene()
    stage.server._next_id = 1042
    asker, service = stage.member("asker"), stage.member("service", "QUOTE.*")
    wire = bytes.fromhex("8227 62 09 51554f54452e474554 120400 024d51 026337 08 313034322e312e32 1c000600 455552555344")
    stage.server.receive(asker.link, wire, 0.0)
    assert service.raw() == wire
    reply = bytes.fromhex("8223 63 08 313034322e312e32 120400 024d51 026337 1a00 5c8fc2f5285cf13f 3c000200 6f6b")
    stage.server.receive(service.link, reply, 0.0)
    assert asker.raw() == reply


def test_the_connection_id_of_a_request_is_not_trusted() -> None:
    stage = scene()
    asker, service, victim = stage.member("asker"), stage.member("service", "q"), stage.member("victim")
    for number in (p.UNASSIGNED, 1003, 0):
        asker.say(request("q", "x", number=number))
        (asked,) = service.heard()
        assert asked.connection_id == 1001
        service.say(answer(asked, {1: 1}))
        assert len(asker.heard()) == 1 and victim.heard() == []


@pytest.mark.parametrize("number", [1000, 1099, 0, p.UNASSIGNED])
def test_a_reply_to_nobody_is_dropped_and_counted(number: int) -> None:
    stage = scene()
    service = stage.member("service")
    service.say(p.Reply(topic="x", connection_id=number, server_id="", signal_id="", body=write_record({1: "x"})))
    assert stage.server.counts["replies_dropped"] == 1 and not service.is_closed


def test_a_reply_to_somebody_who_is_not_logged_in_is_dropped() -> None:
    stage = scene()
    service, other = stage.member("service"), stage.peer()
    service.say(p.Reply(topic="x", connection_id=1002, server_id="", signal_id="", body=write_record({1: "x"})))
    assert stage.server.counts["replies_dropped"] == 1 and other.heard() == []


def test_a_request_that_nobody_serves_is_counted() -> None:
    stage = scene()
    assert stage.member().say(request("q", "x")) == []
    assert stage.server.counts["requests_unrouted"] == 1


def test_services_take_turns() -> None:
    stage = scene()
    asker = stage.member("asker")
    services = [stage.member(f"s{i}", "q.*" if i else "q.x") for i in range(3)]
    turns = []
    for _ in range(9):
        asker.say(request("q.x", "r"))
        turns.append([len(service.heard()) for service in services].index(1))
    assert sorted(turns[:3]) == [0, 1, 2] and turns == turns[:3] * 3


def test_the_server_id_selects_the_service_by_client_id_or_user() -> None:
    stage = scene()
    asker = stage.member("asker")
    one = stage.member("alice", "q", client_id="PRICES")
    two = stage.member("ORDERS", "q")
    three = stage.member("carol", "q")

    def asked(server_id: str) -> list[int]:
        for _ in range(3):
            asker.say(request("q", "r", server_id))
        return [len(peer.heard()) for peer in (one, two, three)]

    assert asked("PRICES") == [3, 0, 0]
    assert asked("ORDERS") == [0, 3, 0]
    assert asked("MQ") == asked("") == [1, 1, 1]
    assert asked("nobody") == [0, 0, 0] and stage.server.counts["requests_unrouted"] == 3


def test_a_service_may_be_called_by_name_without_a_subscription() -> None:
    stage = scene()
    asker, service = stage.member("asker"), stage.member("x", client_id="PRICES")
    asker.say(request("q", "r", "PRICES"))
    assert len(service.heard()) == 1
    service.say(control(p.Login, 3, {4: "x", 7: "OTHER"}))
    asker.say(request("q", "r", "PRICES"))
    assert service.heard() == [] and stage.server.counts["requests_unrouted"] == 1


def test_the_asker_serves_itself_only_if_nobody_else_does() -> None:
    stage = scene()
    asker = stage.member("asker", "**")
    assert len(asker.say(request("q", "r"))) == 1
    other = stage.member("other", "q")
    for _ in range(3):
        assert asker.say(request("q", "r")) == []
    assert len(other.heard()) == 3


def test_an_image_request_through_the_broker_subscribes_what_the_service_did_not_refuse() -> None:
    stage = scene()
    asker, service = stage.member("asker"), stage.member("service", "API.REQUESTIMAGE")
    for reply_topic in ("API.REQUESTIMAGE1001.1.1", "API.REQUESTIMAGE1001.1.2"):
        asker.say(request("API.REQUESTIMAGE", reply_topic, record={5: 0, 3: '["a.b", "secret", "c.*"]'}))
        (asked,) = service.heard()
        service.publish("a.b", {1: 1})
        assert asker.heard() == [] or reply_topic.endswith("2")
        service.say(answer(asked, {9: '["secret"]', 5: 0, 3: '{"a.b": 1}'}))
        assert [message.topic for message in asker.heard()] == [reply_topic]
    for topic in ("a.b", "secret", "c.d"):
        service.publish(topic, {1: 2})
    assert [message.topic for message in asker.heard()] == ["a.b", "c.d"]


def test_an_image_request_that_makes_no_sense_subscribes_nothing() -> None:
    stage = scene()
    asker, service = stage.member("asker"), stage.member("service", "API.REQUESTIMAGE")
    for asked_for, refused in (("no JSON", "[]"), ("{}", "[]"), ('["a"]', "no JSON"), ('["", 5]', "[]")):
        asker.say(request("API.REQUESTIMAGE", "r", record={5: 0, 3: asked_for}))
        service.say(answer(service.heard()[0], {9: refused}))
        assert len(asker.heard()) == 1
    assert len(stage.server._broker.subscriptions.of) == 1


@pytest.mark.parametrize("name", ["q.\u00e4", "q.x"])
def test_requests_and_replies_are_the_same_however_often_they_pass(name: str) -> None:
    stage = scene()
    asker, service = stage.member("asker"), stage.member("service", "q.*")
    for n in range(4):
        asker.say(request(name, f"r.{n}", record={1: n, 3: "\u00e4"}))
        (asked,) = service.heard()
        assert (asked.topic, asked.connection_id, asked.reply_topic, values(asked)[1]) == (
            name,
            1001,
            f"r.{n}",
            n,
        )
        service.say(answer(asked, {1: n}))
        (reply,) = asker.heard()
        assert (reply.topic, reply.signal_id, values(reply)) == (f"r.{n}", "c7", {1: n})
    assert stage.server.counts["requests"] == stage.server.counts["replies"] == 4
    assert stage.server.counts["delivered"] == 8


# --- p2p


def test_a_p2p_goes_to_one_service_and_its_answer_back() -> None:
    stage = scene()
    asker, service = stage.member("asker"), stage.member("service", "job", client_id="JOBS")
    for number in (1001, p.UNASSIGNED, 1077):
        message = p.P2p(
            topic="job", connection_id=number, server_id="JOBS", signal_id="s", body=write_record({1: "go"})
        )
        asker.say(message)
        (got,) = service.heard()
        assert (got.connection_id, got.signal_id) == (1001, "s")
        back = p.P2p(topic="job", connection_id=1001, server_id="JOBS", signal_id="s", body=write_record({1: "ok"}))
        service.say(back)
        (answered,) = asker.heard()
        assert values(answered) == {1: "ok"}
    assert stage.server.counts["p2p"] == 6


def test_a_p2p_for_nobody_is_counted() -> None:
    stage = scene()
    stage.member().say(
        p.P2p(topic="job", connection_id=1001, server_id="X", signal_id="", body=write_record({1: "go"}))
    )
    assert stage.server.counts["p2p_unrouted"] == 1


# --- blobs


def blobs(message: Message, dialect: str, key: str = "k") -> bytes:
    return b"".join(FRAMINGS[dialect].wrap(one) for one in payloads(message, dialect, key))


@pytest.mark.parametrize("mine", DIALECTS)
@pytest.mark.parametrize("theirs", DIALECTS)
def test_a_published_blob_is_passed_on_whole_in_the_readers_dialect(mine: str, theirs: str) -> None:
    stage = scene()
    publisher = stage.peer(mine).login()
    reader = stage.peer(theirs).login("u" * 127, "p" * 127)
    reader.subscribe("d.*")
    stage.inside.listen(["d.*"])
    message = Message(PUBLISH, "d.x", write_record({5: 2}), blob=Blob(3, bytes(range(256)) * 300))
    publisher.say(blobs(message, mine, "d.x.0.1"))
    pieces = reader.heard()
    assert [type(one) for one in pieces] == [p.GroupPub] * 3
    assert b"".join(values(one)[3] for one in pieces) == bytes(range(256)) * 300
    assert {one.reply_topic for one in pieces} == (
        {None} if theirs == CEDA4 else {f"d.x.{stage.server._broker._keys._process}.1"}
    )
    (event,) = stage.inside.events(Delivered)
    assert event.message.blob and event.message.record == message.record and event.message.pieces == 3


def test_a_blob_that_a_java_client_publishes_arrives() -> None:
    stage = scene()
    publisher, reader = stage.member("p"), stage.member("r", "d")
    publisher.publish("d", {1: 1})
    start, *rest = payloads(Message(PUBLISH, "d", b"", blob=Blob(3, bytes(70_000))), CEDA4_WS, "d.0.1")
    quirk = [FRAMINGS[CEDA4_WS].wrap(b"\x61\x01d" + read_data(one, CEDA4_WS).body) for one in rest]
    reader.raw()
    publisher.say(FRAMINGS[CEDA4_WS].wrap(start) + b"".join(quirk))
    assert [one.group.piece_length for one in reader.heard()] == [32768, 32768, 4464]


def test_all_pieces_of_a_request_go_to_one_service() -> None:
    stage = scene()
    asker = stage.member("asker")
    services = [stage.member(f"s{i}", "DOC.PUT") for i in range(2)]
    message = Message(REQUEST, "DOC.PUT", write_record({5: "a.txt"}), 7, "MQ", "k", "r.1", Blob(1, bytes(100_000)))
    for _ in range(2):
        asker.say(blobs(message, CEDA4_WS))
    got = [service.heard() for service in services]
    assert [len(one) for one in got] == [4, 4]
    assert {one.connection_id for one in got[0] + got[1]} == {1001}
    assert got[0][0].signal_id == "k" and got[0][1].signal_id == ""


def test_pieces_that_stop_coming_are_forgotten() -> None:
    stage = scene()
    peer = stage.member()
    first = payloads(Message(PUBLISH, "d", b"", blob=Blob(3, bytes(70_000))), CEDA4_WS, "d.0.1")[0]
    peer.say(FRAMINGS[CEDA4_WS].wrap(first), 10.0)
    for now in range(10, 80, 5):
        peer.say("820101", float(now))
        stage.server.tick(float(now))
    assert stage.server.counts["groups_expired"] == 1
    assert peer.link.state.merger.held == 0


def test_a_blob_on_a_topic_too_long_for_a_key_is_counted() -> None:
    stage = scene()
    topic = "x" * 195
    reader = stage.member("r", topic)
    publisher = stage.member("p", dialect=CEDA4)
    publisher.say(blobs(Message(PUBLISH, topic, b"", blob=Blob(3, bytes(70_000))), CEDA4))
    assert reader.heard() == [] and stage.server.counts["not_sendable"] == 1


# --- participants in the server's own process


def test_a_participant_answers_requests() -> None:
    stage = scene()
    inside = Participant(stage.server, "PRICES")
    inside.listen(["QUOTE.*"])
    asker = stage.member("asker")
    asker.say(request("QUOTE.GET", "1001.1.1", "PRICES"))
    (asked,) = inside.events(Asked)
    message = asked.message
    assert (message.topic, message.record, message.connection_id) == ("QUOTE.GET", {1: "EURUSD"}, 1001)
    inside.reply(asked, {1: 1.085, 3: "ok"}, 0.0)
    (reply,) = asker.heard()
    assert (reply.topic, reply.connection_id, reply.server_id, reply.signal_id) == ("1001.1.1", 1001, "PRICES", "c7")
    assert values(reply) == {1: 1.085, 3: "ok"}
    inside.unlisten(["QUOTE.*"])
    asker.say(request("QUOTE.GET", "1001.1.2"))
    assert inside.events(Asked) == []


def test_a_reply_to_somebody_who_is_gone_is_counted() -> None:
    stage = scene()
    stage.inside.listen(["q"])
    asker = stage.member()
    asker.say(request("q", "r"))
    asker.leave()
    stage.inside.reply(stage.inside.events(Asked)[0], {1: 1}, 0.0)
    assert stage.server.counts["replies_dropped"] == 1


def test_a_participant_answers_a_p2p_with_another() -> None:
    stage = scene()
    inside = Participant(stage.server, "JOBS")
    inside.listen(["job"])
    asker = stage.member()
    asker.say(p.P2p(topic="job", connection_id=1001, server_id="JOBS", signal_id="s", body=write_record({1: "go"})))
    (event,) = inside.events(Delivered)
    inside.reply(event, {1: "ok"}, 0.0)
    (got,) = asker.heard()
    assert (type(got), got.topic, values(got)) == (p.P2p, "job", {1: "ok"})


def test_a_participant_hears_publishes_beside_the_clients() -> None:
    stage = scene()
    stage.inside.listen(["a.*"])
    reader, sender = stage.member("r", "a.b"), stage.member("s")
    for i in range(3):
        sender.publish("a.b", {1: i})
    assert [event.message.record for event in stage.inside.events(Delivered)] == [{1: i} for i in range(3)]
    assert len(reader.heard()) == 3


def test_a_participant_asks_services_among_the_clients() -> None:
    stage = scene()
    service = stage.member("service", "q")
    token = stage.inside.request("q", {1: "?"}, 0.0)
    (asked,) = service.heard()
    assert asked.connection_id == 1000
    service.say(answer(asked, {1: "!"}))
    service.say(answer(asked, {1: "again"}))
    (answered,) = stage.inside.events(Answered)
    assert answered.token == token and answered.reply is not None and answered.reply.record == {1: "!"}
    assert stage.inside.client.counts["replies_dropped"] == 1


def test_a_participant_may_ask_itself() -> None:
    stage = scene()
    stage.inside.listen(["q"])
    token = stage.inside.request("q", {1: 1}, 0.0)
    (asked,) = stage.inside.events(Asked)
    stage.inside.reply(asked, {1: 2}, 0.0)
    (answered,) = stage.inside.events(Answered)
    assert answered.token == token and answered.reply is not None and answered.reply.record == {1: 2}


def test_a_message_can_be_built_anew_from_an_event() -> None:
    stage = scene()
    stage.inside.listen(["a"])
    peer: Peer = stage.member()
    peer.publish("a", {1: 1})
    (event,) = stage.inside.events(Delivered)
    assert with_(event.message, topic="b").record == {1: 1}
