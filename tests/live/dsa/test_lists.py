"""Merged lists through a broker, and lists of its own nodes."""

from __future__ import annotations

import tracemalloc

from tests.live.dsa.broker_play import Play, Scripted, pack
from wirelake.live.dsa.permissions import CONFIG, LIST, READ, Role
from wirelake.live.dsa.wire import Received, write_pair
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers

ROOT = "downstream/plant"


def tell(link: Scripted, asked: Received, status: int = 0, *, is_first: bool = False, **entries: object) -> None:
    body = b"".join(
        write_pair(key.replace("S_", "$").encode(), b"" if value is None else pack(value))
        for key, value in entries.items()
    )
    link.say(p.LIST_R, asked.request_id, Headers(status=status, refreshed=is_first), body)


def setting_the_stage(*names: str, **more: object) -> tuple[Play, Scripted, list[Scripted]]:
    play = Play(**more)  # type: ignore[arg-type]
    return play, play.link("plant"), [play.link(name, is_responder=False) for name in names]


def test_listers_share_one_list_and_later_ones_get_the_cached_one() -> None:
    _, plant, (one, two) = setting_the_stage("a", "b")
    first = one.list(f"{ROOT}/x")
    (asked,) = plant.hear()
    tell(plant, asked, is_first=True, S_is="unit", child={})
    assert one.entries(first) == {"$is": "unit", "child": {}}
    tell(plant, asked, child=None, other={"$type": "number"})
    assert one.entries(first) == {"child": None, "other": {"$type": "number"}}
    second = two.list(f"{ROOT}/x")
    (listed,) = two.hear(second)
    assert listed.headers.refreshed and listed.status == 0 and listed.headers.pub_path is None
    two.heard.append(listed)
    assert two.entries(second) == {"$is": "unit", "other": {"$type": "number"}}
    assert plant.hear() == []
    one.say(p.CLOSE, first)
    assert plant.hear() == []
    two.say(p.CLOSE, second)
    assert [came.method for came in plant.hear()] == [p.CLOSE]


def test_a_list_is_complete_when_its_source_says_so() -> None:
    _, plant, (one,) = setting_the_stage("a")
    number = one.list(f"{ROOT}/x")
    (asked,) = plant.hear()
    tell(plant, asked, 0x01, is_first=True, a={})
    assert [came.status for came in one.hear(number)] == [0x01]
    tell(plant, asked, 0x00)
    assert [(came.status, came.body) for came in one.hear(number)] == [(0x00, b"")]


def test_the_root_of_a_link_has_the_dsid_whatever_the_link_says() -> None:
    roles = {"default": Role("default", CONFIG), "few": Role("few", READ)}
    _, plant, (one, two) = setting_the_stage("a", "b", roles=roles)
    one.call(f"sys/clients/{two.dsid}/role")
    setting = one.set(f"sys/clients/{two.dsid}/role", "few")
    assert [came.status for came in one.hear(setting)] == [0x20]
    first, second = one.list(ROOT), two.list(ROOT)
    (asked,) = plant.hear()
    body = write_pair(b"$$dsid", pack("forged")) + write_pair(b"$$more", pack(1)) + write_pair(b"$$$never", pack(2))
    plant.say(p.LIST_R, asked.request_id, Headers(status=0, refreshed=True), body + write_pair(b"$is", pack("x")))
    assert one.entries(first) == {"$$dsid": plant.dsid, "$$more": 1, "$is": "x"}
    assert two.entries(second) == {"$is": "x"}, "only those with config see $$ keys"


def test_the_source_goes_offline_and_its_list_begins_anew_when_it_is_back() -> None:
    play, plant, (one, two) = setting_the_stage("a", "b")
    first = one.list(ROOT)
    (asked,) = plant.hear()
    tell(plant, asked, is_first=True, old={})
    one.hear()
    plant.cut()
    assert [(came.status, came.body) for came in one.hear(first)] == [(0x0E, b"")]
    second = two.list(ROOT)
    (listed,) = two.hear(second)
    assert listed.status == 0x0E
    two.heard.append(listed)
    assert two.entries(second) == {"$$dsid": plant.dsid}
    plant = play.link("plant")
    (asked,) = plant.hear()
    assert (asked.method, asked.headers.target_path) == (p.LIST, "")
    tell(plant, asked, is_first=True, new={})
    for reader, number in ((one, first), (two, second)):
        (listed,) = reader.hear(number)
        assert listed.headers.refreshed and listed.status == 0
        reader.heard.append(listed)
        assert reader.entries(number) == {"new": {}, "$$dsid": plant.dsid}


def test_no_stream_lists_are_closed_when_they_are_complete() -> None:
    _, plant, (one,) = setting_the_stage("a")
    number = one.list(f"{ROOT}/x", no_stream=True)
    (asked,) = plant.hear()
    tell(plant, asked, 0x01, is_first=True, a={})
    tell(plant, asked, 0x00, b={})
    assert [came.status for came in one.hear(number)] == [0x01, 0x20]
    assert [came.method for came in plant.hear()] == [p.CLOSE]
    number = one.list("", no_stream=True)
    assert [came.status for came in one.hear(number)] == [0x20]


def test_a_list_that_ends_ends_for_all_with_what_it_told_last() -> None:
    _, plant, (one,) = setting_the_stage("a")
    number = one.list(f"{ROOT}/x")
    (asked,) = plant.hear()
    tell(plant, asked, 0x20, is_first=True, a={})
    (listed,) = one.hear(number)
    assert listed.status == 0x20 and listed.body
    tell(plant, asked, 0, b={})
    assert one.hear(number) == []


def test_a_list_that_cannot_be_read_ends_with_an_error_and_its_link_stays() -> None:
    _, plant, (one,) = setting_the_stage("a")
    number = one.list(f"{ROOT}/x")
    (asked,) = plant.hear()
    plant.say(p.LIST_R, asked.request_id, Headers(status=0, refreshed=True), b"\xff\xff\x01")
    assert [came.status for came in one.hear(number)] == [0x50]
    assert [came.method for came in plant.hear()] == [p.CLOSE] and not plant.is_closed


def test_a_hundred_thousand_children_pass_in_messages_of_bounded_size() -> None:
    _, plant, (one, two) = setting_the_stage("a", "b")
    first = one.list(f"{ROOT}/x")
    (asked,) = plant.hear()
    names = [b"child-%06d" % number for number in range(100_000)]
    for at in range(0, len(names), 2_000):
        body = b"".join(write_pair(name, b"\x80") for name in names[at : at + 2_000])
        status = 0 if at + 2_000 >= len(names) else 1
        plant.say(p.LIST_R, asked.request_id, Headers(status=status, refreshed=at == 0), body)
    came = one.hear(first)
    assert [one.status for one in came] == [1] * (len(came) - 1) + [0]
    tracemalloc.start()
    second = two.list(f"{ROOT}/x")
    came = two.hear(second)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [one.headers.refreshed for one in came] == [True] + [False] * (len(came) - 1)
    assert all(len(one.body) <= p.MAX_BODY for one in came)
    assert [one.status for one in came] == [1] * (len(came) - 1) + [0]
    found = [key for one in came for key in _keys(one.body)]
    assert sorted(found) == sorted(names) and len(set(found)) == len(names)
    assert peak < 12_000_000


def _keys(body: bytes) -> list[bytes]:
    from wirelake.live.dsa.wire import split_pairs

    return [key for key, _ in split_pairs(body)]


def test_a_slow_lister_gets_an_entry_once_as_it_is_in_the_end() -> None:
    _, plant, (one,) = setting_the_stage("a")
    number = one.list(f"{ROOT}/x")
    (asked,) = plant.hear()
    tell(plant, asked, is_first=True, a=1)
    one.hear()
    one.link.unsent = 1 << 20
    take, one.take = one.take, lambda: None  # type: ignore[method-assign]
    for value in range(50):
        tell(plant, asked, a=value, b=value)
    tell(plant, asked, b=None)
    one.take = take  # type: ignore[method-assign]
    one.link.unsent, one.link.wants_room = 0, True
    one.take()
    (listed,) = one.hear(number)
    one.heard.append(listed)
    assert one.entries(number) == {"a": 49, "b": None}


# --- nodes of the broker


def test_the_root_has_five_children() -> None:
    _, _, (one,) = setting_the_stage("a")
    number = one.list("")
    (listed,) = one.hear(number)
    assert listed.status == 0 and listed.headers.refreshed
    one.heard.append(listed)
    children = [key for key in one.entries(number) if not key.startswith("$")]
    assert sorted(children) == ["downstream", "home", "pub", "sys", "upstream"]


def test_a_missing_target_path_means_the_root() -> None:
    _, _, (one,) = setting_the_stage("a")
    one.say(p.LIST, 9)
    assert "downstream" in one.entries(9)


def test_downstream_lists_links_and_keeps_those_that_are_gone() -> None:
    play, plant, (one,) = setting_the_stage("a")
    number = one.list("downstream")
    assert {key for key in one.entries(number) if key[0] != "$"} == {"plant"}
    other = play.link("other")
    assert one.entries(number) == {"other": {}}
    plant.cut()
    other.cut()
    assert one.hear(number) == []
    play.restart()
    one = play.link("a", is_responder=False)
    number = one.list("downstream")
    assert {key for key in one.entries(number) if key[0] != "$"} == {"plant", "other"}


def test_names_of_others_are_hidden_from_those_who_may_not_list() -> None:
    roles = {"default": Role("default", None, "", {"downstream/plant": LIST})}
    _, plant, (one,) = setting_the_stage("a", roles=roles)
    assert [came.status for came in one.hear(one.list(""))] == [0x40]
    one.list(ROOT)
    assert [came.method for came in plant.hear()] == [p.LIST]


def test_a_million_names_in_a_list_leave_the_broker_alive() -> None:
    play, plant, (one,) = setting_the_stage("a")
    play.broker.desk.options = type(play.broker.options)(max_list_entries=50_000)
    number = one.list(f"{ROOT}/x")
    (asked,) = plant.hear()
    for at in range(0, 60_000, 2_000):
        body = b"".join(write_pair(b"n%d" % (at + each), b"\x80") for each in range(2_000))
        plant.say(p.LIST_R, asked.request_id, Headers(status=1, refreshed=at == 0), body)
    assert one.hear(number)[-1].status == 0x50
    assert not plant.is_closed and not one.is_closed
    assert [came.method for came in plant.hear()] == [p.CLOSE]
