"""Settings of a hub: what is right is taken, what is wrong is refused with the key and what would be right."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from pathlib import Path

import pytest

from wirelake.live.ceda.service import CedaSettings
from wirelake.live.core.address import parse_address
from wirelake.live.dsa.service import DsaSettings
from wirelake.live.hub.hub import SettingsError, default_settings, load_settings, read_settings, with_listeners
from wirelake.live.hub.settings import HubSettings
from wirelake.live.mb.service import MbSettings
from wirelake.live.records import LIVE, TRANSPORTS

OTHERS = ("log", "memory", "metrics", "shutdown", "tap", "tls")
EXAMPLE = Path(__file__).parents[3] / "examples" / "hub.toml"


def read(text: str) -> HubSettings:
    return read_settings(tomllib.loads(text), "hub.toml", Path("/etc/hub"))


def test_without_anything_every_protocol_is_served_on_this_machine_only() -> None:
    settings = default_settings()
    assert {name: one.listeners for name, one in settings.services.items()} == {
        "mb": {"tcp": ("127.0.0.1", 3001), "ws": ("127.0.0.1", 3000)},
        "ceda": {"tcp": ("127.0.0.1", 8088), "ws": ("127.0.0.1", 8089)},
        "dsa": {"tcp": ("127.0.0.1", 4120), "ws": ("127.0.0.1", 4121)},
    }
    assert settings.metrics.listen is None and settings.tap.directory is None
    assert read("") == dataclasses.replace(settings, directory=Path("/etc/hub"))


def test_only_protocols_with_a_table_are_served() -> None:
    assert list(read("[ceda]").services) == ["ceda"]
    assert read("[ceda]").services["ceda"].listeners == default_settings().services["ceda"].listeners
    only = read('[mb]\ntcp = "*:0"')
    assert {name: one.listeners for name, one in only.services.items()} == {"mb": {"tcp": ("*", 0)}}


def test_listeners_of_flags_replace_all_others_and_nothing_else() -> None:
    settings = read('[mb]\ntcp = "1"\nws = "2"\nconnections = 7\n[ceda]\nslow_reader = "slow"')
    changed = with_listeners(settings, {"mb": {"ws": ("::1", 5)}})
    assert list(changed.services) == ["mb"]
    assert changed.services["mb"].listeners == {"ws": ("::1", 5)}
    assert changed.services["mb"].connections == 7
    with pytest.raises(SettingsError, match="mb over tls needs a certificate"):
        with_listeners(settings, {"mb": {"tls": ("::1", 5)}})


def test_the_example_is_right() -> None:
    settings = load_settings(EXAMPLE)
    assert set(settings.services) == set(LIVE)
    ceda = settings.services["ceda"]
    assert isinstance(ceda, CedaSettings) and ceda.users == {"demo": "s3cret"}


def uncommented() -> str:
    """The example with everything switched on that does not exclude what is on already."""
    lines = [re.sub(r"^#(?=[a-z_\[])", "", line) for line in EXAMPLE.read_text().splitlines()]
    return "\n".join(line for line in lines if not line.startswith(("users_file", "authenticator")))


def test_the_example_shows_every_setting_and_its_default() -> None:
    settings = read(uncommented())
    shown = tomllib.loads(uncommented())
    for name, live in LIVE.items():
        absent = {"users_file", "authenticator"} | {name for name in TRANSPORTS if name not in live.transports}
        known = {one.name for one in dataclasses.fields(live.service)} - absent
        assert set(shown[name]) == known
    mb, ceda, dsa = (settings.services[name] for name in ("mb", "ceda", "dsa"))
    assert isinstance(dsa, DsaSettings)
    assert dataclasses.replace(dsa.options, preflight=()) == DsaSettings().options
    assert set(shown["dsa"]["options"]) == {one.name for one in dataclasses.fields(dsa.options)}
    assert isinstance(mb, MbSettings) and isinstance(ceda, CedaSettings)
    assert mb.options == MbSettings().options
    assert set(shown["mb"]["options"]) == {one.name for one in dataclasses.fields(mb.options)}
    assert ceda.options == CedaSettings().options
    assert set(shown["ceda"]["options"]) == {one.name for one in dataclasses.fields(ceda.options)}
    assert set(shown["ceda"]["options"]["limits"]) == {one.name for one in dataclasses.fields(ceda.options.limits)}
    for key in ("connections", "handshake_seconds", "slow_reader", "stall_seconds"):
        assert getattr(mb, key) == getattr(MbSettings(), key)
    assert settings.memory == default_settings().memory
    assert settings.log == default_settings().log and settings.shutdown == default_settings().shutdown
    assert settings.tls is not None and settings.tls.client_ca == Path("/etc/hub/clients.pem")
    assert settings.tap.directory == Path("/etc/hub/captures")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[mqtt]", f"mqtt: no such key; there are {', '.join(sorted((*LIVE, *OTHERS)))}"),
        ("mb = 3", "mb: has to be a table, not 3"),
        (
            "[mb]\nport = 3001",
            "mb.port: no such key; there are connections, handshake_seconds, options, origins, services, slow",
        ),
        ("[mb]\ntcp = 3001", "mb.tcp: has to be HOST:PORT, as a text, not 3001"),
        ('[mb]\ntcp = "here"', "mb.tcp: 'here' is no address: write HOST:PORT"),
        ('[mb]\ntcp = "::1:3001"', "mb.tcp: '::1:3001': an IPv6 address is written in brackets, such as [::1]:3001"),
        ('[mb]\ntcp = ":3001"', "mb.tcp: ':3001' has no host: write 127.0.0.1:3001 for this machine only, or *:3001"),
        ('[casual]\npeers = ["casual://a:1"]', "casual.peers[0].address: 'casual://a:1' is a URL: write HOST:PORT"),
        ('[mb]\ntcp = "a:70000"', "mb.tcp: 'a:70000' is no address"),
        ("[mb]\nconnections = -1", "mb.connections: has to be 0 or more, not -1"),
        ("[mb]\nconnections = 1.5", "mb.connections: has to be a whole number, not 1.5"),
        ("[mb]\nconnections = true", "mb.connections: has to be a whole number, not true"),
        ("[mb]\nstall_seconds = nan", "mb.stall_seconds: has to be 0.001 or more, not nan"),
        ('[mb]\nslow_reader = "wait"', "mb.slow_reader: has to be drop or slow, not 'wait'"),
        ('[mb]\norigins = "a"', "mb.origins: has to be a list of texts, not 'a'"),
        ("[mb]\norigins = [1]", "mb.origins[0]: has to be a text, not 1"),
        ("[mb.options]\nmax_outstanding = 0", "mb.options.max_outstanding: has to be 1 or more, not 0"),
        ("[mb.options]\nmax_unsent = 0", "mb.options.max_unsent: has to be 1 or more, not 0"),
        ("[mb.options]\nderegister_seconds = 0", "mb.options.deregister_seconds: has to be 0.001 or more, not 0"),
        ("[ceda.options]\nheartbeat_seconds = 0", "ceda.options: heartbeat_seconds has to be more than 0, not 0"),
        ("[ceda.options.limits]\nunsent = 0", "ceda.options.limits.unsent: has to be 1 or more, not 0"),
        ("[mb.options]\nmax_connections = 1", "mb.options.max_connections: no such key; there are"),
        ("[mb.options]\nwildcard_subscriptions = 1", "wildcard_subscriptions: has to be true or false, not 1"),
        ('[mb]\ntls = "1"', "mb.tls: needs a certificate and its key in [tls]"),
        ('[ceda.options]\ndialect = "ceda9"', "ceda.options: a dialect is one of ceda4"),
        ('[ceda.options]\ncharset = "klingon"', "ceda.options: unknown encoding: klingon"),
        ("[ceda.users]\ndemo = 1", "ceda.users.demo: has to be a text, not 1"),
        ('[ceda]\nusers = {}\nauthenticator = "a:b"', "ceda: users, users_file and authenticator exclude each other"),
        ('[tls]\ncertificate = "a"', "tls.key: is missing"),
        ('[tls]\nclient_ca = "a"', "tls.certificate: is missing"),
        ('[log]\nlevel = "loud"', "log.level: has to be debug or info or warn or error, not 'loud'"),
        ("[memory]\nshare = 7", "memory: share is at most 1"),
        ("[tap]\ndirectory = []", "tap.directory: has to be a path, as a text, not a list"),
    ],
)
def test_what_is_wrong_is_refused_with_what_would_be_right(text: str, told: str) -> None:
    with pytest.raises(SettingsError) as caught:
        read(text)
    assert str(caught.value).startswith("hub.toml: ")
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "hub.toml"
    with pytest.raises(SettingsError, match=r"cannot read .*hub\.toml: No such file"):
        load_settings(path)
    path.write_text("[mb\n")
    with pytest.raises(SettingsError, match=r"hub\.toml: .*line 1"):
        load_settings(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=r"hub\.toml: not a text in UTF-8"):
        load_settings(path)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:3001", ("127.0.0.1", 3001)),
        ("[::1]:0", ("::1", 0)),
        ("*:80", ("*", 80)),
        ("3001", ("127.0.0.1", 3001)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_addresses_are_read_as_people_write_them(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address


def test_passwords_are_not_shown() -> None:
    assert "s3cret" not in repr(load_settings(EXAMPLE))
