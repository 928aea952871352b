"""What compiled readers can read, and the name of what they cannot."""

from __future__ import annotations

from typing import Any

import pytest

from wirelake import load
from wirelake.spec.plain import beyond
from wirelake.spec.resolve import layout, settings

NAMED: dict[str, str] = {
    "examples/sensor.py:PROTOCOL": "",
    "examples/protocols/hpfeeds.py:PROTOCOL": "",
    "examples/protocols/mqtt.py:PROTOCOL": "Bits",
    "examples/protocols/modbus_tcp.py:PROTOCOL": "Int in the frame",
    "examples/protocols/syslog.py:PROTOCOL": "a frame without a code",
    "examples/packed.py:PROTOCOL": "plus= of a length",
}


@pytest.mark.parametrize(("name", "known"), NAMED.items())
def test_the_first_node_that_only_exact_readers_know_is_named(name: str, known: str) -> None:
    assert beyond(layout(load(name))) == known


@pytest.mark.parametrize("name", ["casual", "dsa", "mb", "ceda"])
def test_built_in_protocols_are_compiled_in_every_reading(name: str) -> None:
    readings: list[dict[str, Any]] = list(settings(load(name)))
    assert not any(beyond(layout(load(name), **setting)) for setting in readings)
