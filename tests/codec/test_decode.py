"""``wirelake.decode``: what may be given to it."""

from __future__ import annotations

from typing import Any

import pytest

import wirelake
from wirelake.protocols import load

HEARTBEAT = bytes.fromhex("820101")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_bytes_of_any_kind_are_decoded(kind: Any) -> None:
    assert wirelake.decode("ceda", kind(HEARTBEAT)) == wirelake.decode("ceda", HEARTBEAT)


@pytest.mark.parametrize("given", ["820101", 3, [0x82, 1, 1], None])
def test_what_is_no_bytes_is_refused(given: Any) -> None:
    """``bytes`` itself would make three zeros of 3."""
    with pytest.raises(TypeError):
        wirelake.decode("ceda", given)


def test_a_protocol_is_given_by_name_or_as_its_declaration() -> None:
    assert wirelake.decode(load("ceda"), HEARTBEAT) == wirelake.decode("ceda", HEARTBEAT)


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(ValueError, match="ceda has no option 'profile'; it has: dialect, charset, errors"):
        wirelake.decode("ceda", HEARTBEAT, profile="strict")


def test_a_slice_of_a_larger_buffer_is_decoded_in_place() -> None:
    buffer = bytearray(b"xx" + HEARTBEAT + b"yy")
    assert wirelake.decode("ceda", memoryview(buffer)[2:5]).wire_length == 3
    buffer[2] = 0
