"""How captures are read: names, ports, options."""

from __future__ import annotations

import pytest

from wirelake.capture.settings import ReadSettings
from wirelake.protocols import load


def test_options_name_only_protocols_that_are_read() -> None:
    with pytest.raises(ValueError, match="nonsense is not among the protocols"):
        ReadSettings(options={"nonsense": {}})


def test_ports_are_the_declared_ones_unless_they_are_given() -> None:
    settings = ReadSettings(protocols=("casual", "ceda"))
    declared = {port for name in ("casual", "ceda") for kind, port in load(name).ports.items() if kind in ("tcp", "ws")}
    assert set(settings.ports) == declared
    assert ReadSettings(ports={4: "mb"}).ports == {4: "mb"}
    with pytest.raises(ValueError, match="mb is not among the protocols"):
        ReadSettings(protocols=("casual",), ports={4: "mb"})


def test_a_protocol_goes_by_the_name_it_is_loaded_by_and_by_its_own() -> None:
    name = "examples/sensor.py:PROTOCOL"
    settings = ReadSettings(protocol=name, options={load(name).name: {}})
    assert settings.protocols[-1] == name
    assert settings.named(load(name).name) == settings.named(name) == name
    assert settings.about({load(name).name: 7}, name) == 7
    assert settings.named("nonsense") is None
