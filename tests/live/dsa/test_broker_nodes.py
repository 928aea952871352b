"""Nodes of the broker itself: sys with its actions, home with aliases, pub; paths and aliases that lead nowhere."""

from __future__ import annotations

import pytest

from tests.live.dsa.broker_play import Play, Scripted, pack
from wirelake.live.dsa.options import BrokerOptions
from wirelake.live.dsa.permissions import CONFIG, LIST, READ, WRITE, Role
from wirelake.live.dsa.wire import write_value
from wirelake.protocols import dsa as p
from wirelake.protocols.dsa import Headers


def stage(**more: object) -> tuple[Play, Scripted]:
    play = Play(**more)  # type: ignore[arg-type]
    return play, play.link("admin", is_responder=False)


def status(link: Scripted, request_id: int) -> int:
    (reply,) = link.hear(request_id)
    return reply.status


def test_sys_shows_what_there_is() -> None:
    _, admin = stage()
    assert {"clients", "tokens", "roles", "quarantine", "upstream"} <= set(admin.entries(admin.list("sys")))
    clients = admin.entries(admin.list("sys/clients"))
    assert {"allow-all", admin.dsid} <= set(clients)
    assert clients["allow-all"] == {"$is": "2.0/node", "$type": "bool", "$writable": "config"}
    shown = {"role", "path", "max-session", "current-session", "from-token", "remove"}
    assert shown <= set(admin.entries(admin.list(f"sys/clients/{admin.dsid}")))
    add = admin.entries(admin.list("sys/tokens/add"))
    assert add["$invokable"] == "config"
    assert [param["name"] for param in add["$params"]] == ["Role", "Time Range", "Count", "Max Session", "Managed"]


def test_values_of_sys_are_told_when_they_change() -> None:
    play, admin = stage()
    number = admin.subscribe("sys/clients/allow-all")
    assert admin.values(number) == [(0, True)]
    assert status(admin, admin.set("sys/clients/allow-all", False)) == 0x20
    assert admin.values(number) == [(0, False)] and not play.broker.admission.allows_all
    assert status(admin, admin.set("sys/clients/allow-all", "maybe")) == 0x45
    link = play.link("x")
    sessions = admin.subscribe(f"sys/clients/{link.dsid}/current-session")
    assert admin.hear(sessions)[-1].status == 0x41, "it is in quarantine, and no client"


def test_roles_and_rules_are_added_and_kept() -> None:
    play, admin = stage()
    assert admin.call("sys/roles/add-role", {"Name": "operator"})[0] == 0x20
    assert admin.call("sys/roles/add-role", {"Name": "operator"})[0] == 0x45
    assert admin.call("sys/roles/add-role", {"Name": "a/b"})[0] == 0x45
    assert admin.call("sys/roles/operator/add-rule", {"Path": "downstream/plant", "Permission": "write"})[0] == 0x20
    assert admin.call("sys/roles/operator/add-rule", {"Path": "a//b", "Permission": "write"})[0] == 0x45
    assert admin.call("sys/roles/operator/add-rule", {"Path": "a", "Permission": "all"})[0] == 0x45
    assert status(admin, admin.set("sys/roles/operator/level", "list")) == 0x20
    assert status(admin, admin.set("sys/roles/operator/fallback", "nobody")) == 0x45
    assert status(admin, admin.set("sys/roles/operator/fallback", "default")) == 0x20
    play.restart()
    role = play.broker.roles.get("operator")
    assert role == Role("operator", LIST, "default", {"downstream/plant": WRITE})
    admin = play.link("admin", is_responder=False)
    assert admin.values(admin.subscribe("sys/roles/operator/rules")) == [(0, {"downstream/plant": "write"})]
    assert admin.call("sys/roles/operator/remove-rule", {"Path": "downstream/plant"})[0] == 0x20
    assert admin.call("sys/roles/operator/remove")[0] == 0x20
    assert admin.call("sys/roles/default/remove")[0] == 0x45
    play.restart()
    assert "operator" not in play.broker.roles


def test_rules_that_were_added_to_a_role_of_the_settings_are_kept_and_its_level_is_that_of_the_settings() -> None:
    play, admin = stage(roles={"default": Role("default", CONFIG)})
    admin.call("sys/roles/default/add-rule", {"Path": "downstream/plant", "Permission": "read"})
    play.roles = {"default": Role("default", WRITE)}
    play.restart()
    assert play.broker.roles.get("default") == Role("default", WRITE, "", {"downstream/plant": READ})


def test_an_action_replies_when_it_is_stored() -> None:
    play, admin = stage()
    play.is_stuck = True
    number = admin.invoke("sys/roles/add-role", {"Name": "x"})
    assert admin.hear(number) == []
    play.is_stuck = False
    play.settle()
    assert status(admin, number) == 0x20


def test_details_of_a_refusal_reach_those_who_may_be_sent_them() -> None:
    _, admin = stage(options=BrokerOptions(detail_headers=True))
    (reply,) = admin.hear(admin.invoke("sys/roles/add-role", {}))
    assert (reply.status, reply.headers.error_detail) == (0x45, "Name has to be a text")


@pytest.mark.parametrize("level", [0x00, LIST, READ, WRITE])
def test_sys_is_closed_to_all_without_config(level: int) -> None:
    _, one = stage(roles={"default": Role("default", level)})
    for number in (
        one.list("sys"),
        one.list("sys/clients"),
        one.subscribe("sys/clients/allow-all"),
        one.set("sys/clients/allow-all", False),
        one.invoke("sys/tokens/add", {}),
        one.ask(p.PREFLIGHT, "sys"),
        one.list("sys/nothing"),
    ):
        assert status(one, number) == 0x40


@pytest.mark.parametrize("body", [b"\xc1", b"\x93\x01", b"\x01", pack([1]), b"\x81\x81\x01\x02\x03"])
def test_parameters_that_are_no_map_are_refused(body: bytes) -> None:
    _, admin = stage()
    assert status(admin, admin.ask(p.INVOKE, "sys/roles/add-role", body)) == 0x45
    assert not admin.is_closed


@pytest.mark.parametrize("body", [b"", b"\x00", b"\xff\xff\x01", b"\x00\x00\xc1"])
def test_a_set_without_a_value_is_refused(body: bytes) -> None:
    _, admin = stage()
    assert status(admin, admin.ask(p.SET, "sys/clients/allow-all", body)) == 0x45


def test_parameters_may_come_in_pages() -> None:
    play, admin = stage()
    body = pack({"Name": "paged", "more": "x" * 60_000})
    admin.say(p.INVOKE, 9, Headers(target_path="sys/roles/add-role", page_id=-2, sequence_id=1), body[:49_152])
    assert admin.hear(9) == []
    admin.say(p.INVOKE, 9, Headers(page_id=1, sequence_id=1), body[49_152:])
    assert status(admin, 9) == 0x20 and "paged" in play.broker.roles


@pytest.mark.parametrize("path", ["a/", "a//b", "//a", "a/./b", "x/@y", "$is", 'a"b', "a%zz", "a\x01"])
def test_an_invalid_path_is_refused_in_every_method(path: str) -> None:
    _, one = stage()
    requests = (one.list(path), one.subscribe(path), one.invoke(path), one.set(path, 1), one.ask(p.PREFLIGHT, path))
    assert [status(one, number) for number in requests] == [0x44] * 5


@pytest.mark.parametrize(
    "path", ["nothing", "downstream/nobody", "downstream/nobody/x", "sys/clients/x", "upstream/y/z"]
)
def test_a_node_that_is_not_there_is_refused_in_every_method(path: str) -> None:
    _, one = stage()
    requests = (one.list(path), one.subscribe(path), one.invoke(path), one.set(path, 1), one.ask(p.PREFLIGHT, path))
    assert [status(one, number) for number in requests] == [0x41] * 5


def test_what_a_node_cannot_do_is_refused() -> None:
    _, one = stage()
    requests = (one.subscribe("sys"), one.invoke("sys"), one.set("sys", 1), one.set("sys/tokens/add", 1))
    assert [status(one, number) for number in requests] == [0x41] * 4
    assert status(one, one.set("sys", 1, attribute_field="@x")) == 0x41
    assert status(one, one.ask(p.PREFLIGHT, "sys")) == 0x20


def test_one_leading_slash_is_taken_off() -> None:
    play, one = stage()
    plant = play.link("plant")
    one.list("/downstream/plant/x")
    assert [asked.headers.target_path for asked in plant.hear()] == ["x"]


def test_a_path_that_is_not_utf_8_reaches_its_link_unchanged() -> None:
    play, one = stage()
    plant = play.link("plant")
    raw = b"\x80" + (19).to_bytes(2, "little") + b"downstream/plant/\xff\xfe"
    frame = (15 + len(raw)).to_bytes(4, "little") + (15 + len(raw)).to_bytes(2, "little") + b"\x02"
    one.raw(frame + (1).to_bytes(4, "little") + (1).to_bytes(4, "little") + raw)
    (asked,) = plant.hear()
    assert asked.head == b"\x80\x02\x00\xff\xfe" and not one.is_closed


# --- home and aliases


def test_users_add_folders_values_and_attributes_that_are_kept() -> None:
    play, one = stage(roles={"default": Role("default", WRITE)})
    assert one.call("home/add-folder", {"Name": "mine"})[0] == 0x20
    assert one.call("home/mine/add-value", {"Name": "note", "Type": "string", "Value": "hello"})[0] == 0x20
    assert status(one, one.set("home/mine/note", "bye")) == 0x20
    assert status(one, one.set("home/mine/note", "red", attribute_field="@colour")) == 0x20
    assert status(one, one.set("home/mine/note", "red", attribute_field="colour")) == 0x45
    assert one.call("home/add-folder", {"Name": "mine"})[0] == 0x45
    play.restart()
    one = play.link("admin", is_responder=False)
    assert one.values(one.subscribe("home/mine/note")) == [(0, "bye")]
    assert one.entries(one.list("home/mine/note"))["@colour"] == "red"
    number = one.list("home/mine/note")
    assert one.call("home/remove", {"Name": "mine"})[0] == 0x20
    assert one.hear(one.list("home/mine"))[0].status == 0x41
    assert number
    play.restart()
    assert "mine" not in play.broker.home.top.children


def test_readers_cannot_add_anything() -> None:
    _, one = stage(roles={"default": Role("default", READ)})
    assert one.call("home/add-folder", {"Name": "mine"})[0] == 0x40


def test_an_alias_leads_to_its_target_and_is_counted() -> None:
    play, one = stage()
    plant = play.link("plant")
    assert one.call("home/add-alias", {"Name": "boiler", "Target": "downstream/plant/boiler 1"})[0] == 0x20
    number = one.invoke("home/boiler/run")
    (asked,) = plant.hear()
    assert (asked.headers.target_path, asked.headers.alias_count) == ("boiler 1/run", 1)
    plant.say(p.INVOKE_R, asked.request_id, Headers(status=0x20))
    assert status(one, number) == 0x20
    one.invoke("home/boiler", alias_count=5)
    assert plant.hear()[0].headers.alias_count == 6
    one.subscribe("home/boiler/temp")
    one.list("home/boiler")
    assert [asked.headers.alias_count for asked in plant.hear()] == [None, None], "merged streams carry no count"
    play.restart()
    plant, one = play.link("plant"), play.link("admin", is_responder=False)
    one.set("home/boiler/temp", 1)
    assert plant.hear()[0].headers.target_path == "boiler 1/temp"


def test_a_loop_of_aliases_is_refused_in_every_method() -> None:
    _, one = stage()
    one.call("home/add-alias", {"Name": "a", "Target": "home/b"})
    one.call("home/add-alias", {"Name": "b", "Target": "home/a"})
    one.call("home/add-alias", {"Name": "self", "Target": "home/self/more"})
    for path in ("home/a", "home/b/x", "home/self"):
        requests = (one.list(path), one.subscribe(path), one.invoke(path), one.set(path, 1), one.ask(p.PREFLIGHT, path))
        assert [status(one, number) for number in requests] == [0x61] * 5


def test_more_aliases_than_allowed_are_refused_wherever_they_were() -> None:
    play, one = stage()
    plant = play.link("plant")
    one.call("home/add-alias", {"Name": "a", "Target": "downstream/plant"})
    assert status(one, one.invoke("home/a/x", alias_count=16)) == 0x61
    one.invoke("home/a/x", alias_count=15)
    assert plant.hear()[0].headers.alias_count == 16
    assert status(one, one.invoke("downstream/plant/x", alias_count=17)) == 0x61


def test_an_alias_gives_no_permission_that_its_target_does_not_give() -> None:
    roles = {"default": Role("default", CONFIG, "", {"downstream/plant/secret": 0x00})}
    play, one = stage(roles=roles)
    plant = play.link("plant")
    one.call("home/add-alias", {"Name": "a", "Target": "downstream/plant/secret"})
    assert status(one, one.subscribe("home/a")) == 0x40 and plant.hear() == []


def test_a_removed_node_ends_its_streams() -> None:
    _, one = stage()
    one.call("home/add-value", {"Name": "v", "Type": "number", "Value": 1})
    value, listing = one.subscribe("home/v"), one.list("home/v")
    one.hear()
    one.invoke("home/remove", {"Name": "v"})
    assert [one.hear(number)[-1].status for number in (value, listing)] == [0x41, 0x41]


def test_pub_has_the_standard_profiles_for_all_who_may_list() -> None:
    _, one = stage(roles={"default": Role("default", None, "", {"pub": LIST})})
    assert "2.0" in one.entries(one.list("pub"))
    assert "node" in one.entries(one.list("pub/2.0"))


# --- upstream brokers


def two_brokers() -> tuple[Play, Play]:
    """The first connects to the second."""
    lower, upper = Play(), Play()
    from wirelake.live.dsa.handshake import Identity

    upper.broker.identity = Identity(bytes(31) + b"\x09", "upper-")
    return lower, upper


def carry(lower: Play, upper: Play) -> None:
    """Connect what the lower broker dials, and pass bytes until nobody has anything to say."""
    from wirelake.live.core.effects import Done
    from wirelake.live.dsa.wire import DSA_TCP

    for dial in lower.dials[:]:
        lower.dials.remove(dial)
        ours = lower.broker.new_link(DSA_TCP, "client", "upper")
        theirs = upper.broker.new_link(DSA_TCP, "server", "lower")
        lower.broker.connected(ours, lower.now)
        upper.broker.connected(theirs, upper.now)
        lower.broker.completed(dial, Done(ours), lower.now)
        lower.ends = (ours, theirs)  # type: ignore[attr-defined]
    ours, theirs = lower.ends  # type: ignore[attr-defined]
    for _ in range(50):
        lower.settle()
        upper.settle()
        if not ours.out and not theirs.out:
            return
        for source, target, play in ((ours, theirs, upper), (theirs, ours, lower)):
            if source.out:
                data = source.take()
                source.unsent = 0
                play.broker.receive(target, data, play.now)


def test_a_broker_hangs_into_another_and_each_reaches_the_tree_of_the_other() -> None:
    lower, upper = two_brokers()
    admin = lower.link("admin", is_responder=False)
    assert admin.call("sys/upstream/add", {"Name": "up", "Url": "dsa://upper.example:4120"})[0] == 0x20
    assert lower.dials[0].address == ("upper.example", 4120)
    carry(lower, upper)
    assert admin.values(admin.subscribe("sys/upstream/up/connected")) == [(0, True)]
    plant = lower.link("plant")
    above = upper.link("above", is_responder=False)
    number = above.subscribe("downstream/broker/downstream/plant/temp")
    carry(lower, upper)
    (asked,) = plant.hear()
    assert asked.headers.target_path == "temp"
    plant.update(asked, 21)
    carry(lower, upper)
    assert above.values(number) == [(0, 21)]
    number = admin.invoke("upstream/up/sys/roles/add-role", {"Name": "from below"})
    carry(lower, upper)
    assert status(admin, number) == 0x20 and "from below" in upper.broker.roles
    listing = admin.list("upstream")
    assert "up" in admin.entries(listing)


def test_an_upstream_broker_is_dialled_again_later_and_later() -> None:
    from wirelake.live.core.effects import Failed

    lower, upper = two_brokers()
    admin = lower.link("admin", is_responder=False)
    admin.call("sys/upstream/add", {"Name": "up", "Url": "dsa://upper"})
    times = []
    for _ in range(4):
        (dial,) = lower.dials
        lower.dials.clear()
        lower.broker.completed(dial, Failed(OSError()), lower.now)
        lower.settle()
        before = lower.now
        while not lower.dials:
            lower.wait(0.5)
            admin.raw(b"\x07\x00\x00\x00\x07\x00\xf9")
        times.append(lower.now - before)
    assert times == [1.0, 2.0, 3.0, 4.0]
    carry(lower, upper)
    ours, theirs = lower.ends  # type: ignore[attr-defined]
    number = admin.list("upstream/up")
    carry(lower, upper)
    assert admin.hear(number)
    lower.broker.disconnected(ours, lower.now)
    upper.broker.disconnected(theirs, upper.now)
    lower.settle()
    assert [came.status for came in admin.hear(number)] == [0x0E]
    lower.restart()
    assert lower.dials, "it is kept"


@pytest.mark.parametrize("params", [{"Url": "x"}, {"Name": "a/b", "Url": "dsa://h"}, {"Name": "a", "Url": "mb://h"}])
def test_an_upstream_broker_that_makes_no_sense_is_refused(params: dict[str, str]) -> None:
    play, admin = stage()
    assert admin.call("sys/upstream/add", params)[0] == 0x45 and not play.dials


def test_a_removed_upstream_broker_is_gone() -> None:
    lower, upper = two_brokers()
    admin = lower.link("admin", is_responder=False)
    admin.call("sys/upstream/add", {"Name": "up", "Url": "dsa://upper"})
    carry(lower, upper)
    assert admin.call("sys/upstream/up/remove")[0] == 0x20
    assert status(admin, admin.list("upstream/up")) == 0x41
    lower.restart()
    assert not lower.dials


def test_values_have_the_time_of_day() -> None:
    _, one = stage()
    (came,) = one.hear(one.subscribe("sys/clients/allow-all"))
    assert came.body == write_value(True, {"ts": "2023-11-14T22:13:20.000+00:00"})
