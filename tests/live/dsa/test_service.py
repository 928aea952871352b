"""Settings of the broker: what is right is taken, what is wrong is said in one line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from wirelake.live.core.settings import SettingsError
from wirelake.live.dsa.permissions import CONFIG, LIST, READ, Role
from wirelake.live.dsa.server import DsaBroker
from wirelake.live.dsa.service import DsaSettings
from wirelake.live.hub.hub import read_settings
from wirelake.live.storage.database import StorageError

SETTINGS = """
[dsa]
allow_all = true
key_file = "broker.key"
store = "dsa.db"
[dsa.roles.default]
level = "config"
[dsa.roles.guest]
level = "list"
fallback = "default"
rules = { "downstream/plant" = "read", "/home" = "none" }
[dsa.upstream.head]
url = "dsa://head.example:5000"
token = "a secret token"
[dsa.options]
preflight = ["downstream/plant"]
"""


def read(text: str, directory: Path) -> DsaSettings:
    settings = read_settings(tomllib.loads(text), "hub.toml", directory).services["dsa"]
    assert isinstance(settings, DsaSettings)
    return settings


def test_settings_become_a_broker_with_the_same_key_each_time(tmp_path: Path) -> None:
    settings = read(SETTINGS, tmp_path)
    assert "secret" not in repr(settings)
    brokers = []
    for _ in range(2):
        served = settings.serve(tmp_path)
        assert served.storage is not None and isinstance(served.session, DsaBroker)
        served.storage.close()
        brokers.append(served.session)
    broker = brokers[0]
    assert broker.identity.dsid == brokers[1].identity.dsid and broker.identity.dsid.startswith("broker-")
    assert broker.roles.get("guest") == Role("guest", LIST, "default", {"downstream/plant": READ, "home": 0})
    assert broker.roles.get("default") == Role("default", CONFIG)
    assert broker.admission.allows_all and broker.admission.has_quarantine
    assert {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == dict.fromkeys(
        ("broker.key", "dsa.db", "dsa.db.lock"), 0o600
    )


def test_without_settings_strangers_are_in_quarantine_and_nothing_is_written(tmp_path: Path) -> None:
    served = DsaSettings().serve(tmp_path)
    assert isinstance(served.session, DsaBroker) and served.storage is None
    assert not served.session.admission.allows_all and served.session.admission.has_quarantine
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (SETTINGS.replace('"config"', '"all"'), "dsa.roles.default.level: has to be none or list or read"),
        (SETTINGS.replace("allow_all", "allow_everything"), "dsa.allow_everything: no such key"),
        (SETTINGS.replace('/plant" = "read', '//plant" = "read'), "dsa.roles.guest: rules: 'downstream//plant'"),
        (SETTINGS.replace('= "read"', '= "see"'), "'see' is no permission: there are none, list"),
        (SETTINGS.replace('"default"', '"nobody"'), "dsa: roles.guest: there is no role 'nobody' to fall back on"),
        (SETTINGS.replace("dsa://head", "http://head"), "dsa.upstream.head: Url has to be dsa://HOST:PORT"),
        (SETTINGS.replace("upstream.head", "upstream.'a/b'"), "dsa: upstream: 'a/b' cannot be the name of a node"),
        ("[dsa]\nroles = 5", "dsa.roles: has to be a table of tables, not 5"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(settings: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        read(settings, tmp_path)
    assert text in str(caught.value) and "\n" not in str(caught.value) and "secret" not in str(caught.value)


def test_a_key_file_that_is_none_is_refused_without_its_content(tmp_path: Path) -> None:
    (tmp_path / "broker.key").write_text("nonsense")
    (tmp_path / "broker.key").chmod(0o600)
    with pytest.raises(SettingsError, match="is no key file") as caught:
        read(SETTINGS, tmp_path).serve(tmp_path)
    assert "nonsense" not in str(caught.value)
    (tmp_path / "broker.key").chmod(0o644)
    with pytest.raises(SettingsError, match="others may read it: run chmod 600"):
        read(SETTINGS, tmp_path).serve(tmp_path)


def test_a_store_that_is_in_use_is_refused(tmp_path: Path) -> None:
    served = read(SETTINGS, tmp_path).serve(tmp_path)
    with pytest.raises(StorageError, match="uses this store"):
        read(SETTINGS, tmp_path).serve(tmp_path)
    assert served.storage is not None
    served.storage.close()
