"""Who may come in, under which name, and what a restart leaves."""

from __future__ import annotations

import pytest

from tests.live.dsa.broker_play import EPOCH, INSIDE_PEER, Play, Scripted
from wirelake.live.dsa import wire
from wirelake.live.dsa.handshake import HASH_CHARACTERS, hash_token
from wirelake.live.dsa.permissions import CONFIG, READ, Role
from wirelake.protocols import dsa as p

ADMIN = {"default": Role("default", CONFIG)}


def token_of(admin: Scripted, **params: object) -> str:
    status, result = admin.call("sys/tokens/add", {key.replace("_", " "): value for key, value in params.items()})
    assert status == 0x20
    token: str = result["Token"]
    assert len(token) == 48 and token.isalnum()
    return token


def test_by_default_strangers_are_in_quarantine() -> None:
    play = Play(allow_all=None, roles={"default": Role("default", CONFIG)})
    stranger = play.link("s")
    assert stranger.welcome is not None
    assert stranger.welcome.path == f"sys/quarantine/{stranger.dsid}" and not stranger.welcome.allow_requester
    for path in ("", "sys", "downstream"):
        assert [came.status for came in stranger.hear(stranger.list(path))] == [0x40]


def test_an_administrator_looks_into_the_quarantine_and_lets_a_client_in() -> None:
    play = Play(allow_all=True)
    admin = play.link("admin", is_responder=False)
    assert admin.hear(admin.set("sys/clients/allow-all", False))[0].status == 0x20
    stranger = play.link("strange")
    assert stranger.dsid in admin.entries(admin.list("sys/quarantine"))
    admin.list(f"sys/quarantine/{stranger.dsid}/main")
    assert [asked.headers.target_path for asked in stranger.hear()] == ["main"]
    assert admin.call("sys/quarantine/authorize", {"Id": "nobody"})[0] == 0x45
    assert admin.call("sys/quarantine/authorize", {"Id": stranger.dsid, "Role": "none such"})[0] == 0x45
    assert admin.call("sys/quarantine/authorize", {"Id": stranger.dsid})[0] == 0x20
    assert stranger.is_closed
    stranger.cut()
    stranger = play.link("strange")
    assert stranger.welcome is not None and stranger.welcome.path == "downstream/strange"
    assert stranger.dsid not in admin.entries(admin.list("sys/quarantine"))


def test_without_quarantine_strangers_are_refused_by_closing() -> None:
    play = Play(allow_all=None, quarantine=False)
    stranger = play.link("s")
    assert stranger.is_closed and stranger.welcome is None and stranger.heard == []


def test_allow_all_is_kept_and_the_settings_count_more() -> None:
    play = Play(allow_all=None, quarantine=False)
    play.broker.admission.switch("allow-all", True, None)
    play.settle()
    play.restart()
    assert play.link("a").welcome is not None
    play.allow_all = False
    play.restart()
    assert play.link("b").welcome is None and play.link("a").welcome is not None, "who is known stays known"


def test_a_token_brings_a_client_with_its_role_until_it_is_used_up() -> None:
    play = Play(roles={**ADMIN, "reader": Role("reader", READ)})
    admin = play.link("admin", is_responder=False)
    token = token_of(admin, Role="reader", Count=2)
    admin.set("sys/clients/allow-all", False)
    one = play.link("one", token=token)
    assert one.welcome is not None and play.broker.admission.clients[one.dsid].role == "reader"
    number = admin.subscribe(f"sys/tokens/{token[:16]}/count")
    assert admin.values(number) == [(0, 1)]
    play.link("two", token=token)
    assert admin.values(number) == [(0, 0)]
    assert play.link("three", token=token).is_closed, "it is used up"
    one.cut()
    assert play.link("one").welcome is not None, "a known client needs no token"
    assert admin.values(admin.subscribe(f"sys/clients/{one.dsid}/from-token")) == [(0, token[:16])]


def test_wrong_tokens_are_refused_even_where_all_are_allowed() -> None:
    play = Play()
    admin = play.link("admin", is_responder=False)
    token = token_of(admin)
    for wrong in (token[:-1] + "!", "x" * 48, token[:16] + "y" * 32):
        assert play.link("bad", token=wrong).is_closed
    replayed = hash_token("somebody-else", token)
    link = Scripted(play, "bad")
    link.handshake._token = replayed
    link.greet()
    assert link.is_closed, "the hash is that of another dsId"
    link = Scripted(play, "java")
    link.handshake._token = token
    link.greet()
    assert link.is_closed, "a token never travels"
    assert play.link("good", token=token).welcome is not None


@pytest.mark.parametrize(
    ("time_range", "is_good"),
    [
        ("2023-01-01T00:00:00Z/2024-01-01T00:00:00Z", True),
        ("2023-01-01T00:00:00Z/", True),
        ("/2024-01-01T00:00:00+00:00", True),
        ("2022-01-01/2023-01-01", False),
        ("2024-01-01/", False),
    ],
)
def test_a_token_has_its_time(time_range: str, is_good: bool) -> None:
    assert EPOCH == 1_700_000_000, "that is November 2023"
    play = Play()
    admin = play.link("admin", is_responder=False)
    token = token_of(admin, Time_Range=time_range)
    assert (play.link("x", token=token).welcome is not None) is is_good


@pytest.mark.parametrize(
    "params",
    [
        {"Role": 5},
        {"Role": "none such"},
        {"Count": "many"},
        {"Time Range": "tomorrow"},
        {"Time Range": "a/b"},
        {"Max Session": 0},
        {"Managed": 1},
    ],
)
def test_bad_parameters_of_a_token_are_refused(params: dict[str, object]) -> None:
    play = Play()
    admin = play.link("admin", is_responder=False)
    assert admin.call("sys/tokens/add", params)[0] == 0x45 and not play.broker.admission.tokens


def test_the_clients_of_a_managed_token_go_with_it() -> None:
    play = Play()
    admin = play.link("admin", is_responder=False)
    token = token_of(admin, Managed=True, Count=-1)
    one, two = play.link("one", token=token), play.link("two", token=token)
    number = admin.list("downstream/one")
    admin.hear()
    removing = admin.invoke(f"sys/tokens/{token[:16]}/remove")
    assert one.is_closed and two.is_closed
    assert [came.status for came in admin.hear(number)] == [0x41]
    assert [came.status for came in admin.hear(removing)] == [0x20]
    assert [came.status for came in admin.hear(admin.list("downstream/one"))] == [0x41]
    play.restart()
    assert not play.broker.admission.tokens and set(play.broker.admission.clients) == {admin.dsid}


def test_names_are_prefixes_of_dsids_and_longer_ones_where_they_are_taken() -> None:
    play = Play()
    first, second = play.link("boiler", seed=1), play.link("boiler", seed=2)
    third = play.link("boiler", seed=3)
    assert [each.welcome.path for each in (first, second, third) if each.welcome is not None] == [
        "downstream/boiler",
        "downstream/boiler-",
        f"downstream/{third.dsid[:8]}",
    ]
    short = play.link("a")
    assert short.welcome is not None and short.welcome.path == f"downstream/{short.dsid[:3]}"
    assert len(short.dsid) == HASH_CHARACTERS + 2


def test_names_are_the_same_after_a_restart_whoever_comes_first() -> None:
    play = Play()
    paths = {}
    for seed in (1, 2, 3):
        link = play.link("boiler", seed=seed)
        assert link.welcome is not None
        paths[seed] = link.welcome.path
    play.restart()
    for seed in (3, 1, 2):
        link = play.link("boiler", seed=seed)
        assert link.welcome is not None and link.welcome.path == paths[seed]


def test_a_client_is_welcome_when_it_is_stored_and_not_before() -> None:
    play = Play()
    play.is_stuck = True
    link = Scripted(play, "late")
    link.greet()
    assert link.welcome is None and not link.is_closed
    link.raw(wire.PING)
    assert link.is_closed, "nothing may be said before the handshake is done"
    link = Scripted(play, "other")
    link.greet()
    play.is_stuck = False
    play.settle()
    (welcome,) = link.heard
    assert link.handshake.finish(welcome).path == "downstream/other"


def test_the_second_connection_of_a_dsid_wins() -> None:
    play = Play()
    first = play.link("a")
    second = play.link("a")
    assert first.is_closed and not second.is_closed
    first.cut()
    assert play.broker.sessions.peers[second.dsid].connection is not None
    reader = play.link("r", is_responder=False)
    reader.list("downstream/a-")
    reader.list(play.broker.sessions.peers[second.dsid].path)
    assert [asked.method for asked in second.hear()] == [p.LIST] and first.hear() == []


def test_a_client_with_several_sessions_keeps_them() -> None:
    play = Play()
    admin = play.link("admin", is_responder=False)
    token = token_of(admin, **{"Max Session": 2})
    first, second = (play.link("multi", is_responder=False, token=token) for _ in range(2))
    assert not first.is_closed and not second.is_closed
    assert admin.values(admin.subscribe(f"sys/clients/{first.dsid}/current-session")) == [(0, 2)]
    for link in (first, second):
        assert link.hear(link.list(""))
    third = play.link("multi", is_responder=False)
    assert first.is_closed and not third.is_closed, "the new one wins"


def test_a_client_of_this_process_is_trusted_and_leaves_nothing() -> None:
    play = Play(allow_all=None, quarantine=False, roles={})
    inside = play.link("service", peer=INSIDE_PEER)
    assert inside.welcome is not None and inside.welcome.path == "downstream/service"
    assert "clients" in inside.entries(inside.list("sys"))
    inside.cut()
    again = play.link("service", seed=9, peer=INSIDE_PEER)
    assert again.welcome is not None and again.welcome.path == "downstream/service"
    assert not play.broker.admission.clients


def test_a_removed_client_is_cut_off_and_forgotten() -> None:
    play = Play()
    admin, victim = play.link("admin", is_responder=False), play.link("victim")
    listing, value = admin.list("downstream/victim"), admin.subscribe("downstream/victim/x")
    removing = admin.invoke(f"sys/clients/{victim.dsid}/remove")
    assert victim.is_closed
    assert [admin.hear(number)[-1].status for number in (listing, value, removing)] == [0x41, 0x41, 0x20]
    play.restart()
    assert victim.dsid not in play.broker.admission.clients


# --- handshakes that are wrong


def test_no_second_hello_no_other_method_and_no_silence() -> None:
    play = Play()
    twice = Scripted(play, "twice")
    hello = wire.control(p.F0, twice.handshake.hello())
    twice.raw(hello)
    twice.raw(hello)
    other = Scripted(play, "other")
    other.raw(wire.PING)
    silent = Scripted(play, "silent")
    slow = Scripted(play, "slow")
    play.wait(10)
    slow.raw(wire.control(p.F0, slow.handshake.hello()))
    play.wait(6)
    assert twice.is_closed and other.is_closed and silent.is_closed and not slow.is_closed
    play.wait(10)
    assert slow.is_closed, "each step has 15 seconds"


def test_a_refusal_says_nothing_unless_it_is_asked_for() -> None:
    from wirelake.live.dsa.options import BrokerOptions

    play = Play(allow_all=None, quarantine=False, options=BrokerOptions(refusal_status=True))
    link = Scripted(play, "x")
    link.raw(wire.control(p.F0, link.handshake.hello()))
    link.raw(wire.control(p.F2, link.handshake.answer(link.heard.pop())))
    (refusal,) = link.heard
    assert (refusal.method, refusal.status, refusal.body) == (p.F3, 0x40, b"")


def test_a_proof_for_another_connection_is_refused() -> None:
    play = Play()
    first = Scripted(play, "x")
    first.raw(wire.control(p.F0, first.handshake.hello()))
    answer = first.handshake.answer(first.heard.pop())
    second = Scripted(play, "x")
    second.raw(wire.control(p.F0, first.handshake.hello()))
    second.raw(wire.control(p.F2, answer))
    assert second.is_closed, "the salt of the broker is new for each connection"
    first.raw(wire.control(p.F2, answer))
    assert not first.is_closed


def test_connections_before_the_store_is_read_wait_for_it() -> None:
    play = Play()
    play.link("plant")
    play.is_stuck = True
    play.restart()
    link = Scripted(play, "plant")
    assert not link.link.is_readable
    play.is_stuck = False
    play.settle()
    assert link.link.is_readable
    link.greet()
    assert link.welcome is not None and link.welcome.path == "downstream/plant"
