"""The messages that are measured are those that the figures speak of."""

from __future__ import annotations

import pytest

import wirelake
from benchmarks.traffic import OPTIONS, PROTOCOLS, make_frames

EXPECTED = {
    "casual": ("service_call_request", 440),
    "dsa": ("subscribe_response", 60),
    "mb": ("publish", 140),
    "ceda": ("publish", 56),
}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_messages_have_the_kind_and_the_size_that_is_claimed(protocol: str) -> None:
    frames = make_frames(protocol, 500)
    name, size = EXPECTED[protocol]
    assert {wirelake.decode(protocol, frame, **OPTIONS[protocol]).to_json()["message"] for frame in frames} == {name}
    assert sum(map(len, frames)) / len(frames) == pytest.approx(size, rel=0.05)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_messages_differ_and_a_seed_repeats_them(protocol: str) -> None:
    frames = make_frames(protocol, 200, seed=3)
    assert len(set(frames)) == 200
    assert len(set(map(len, frames))) > 3
    assert frames == make_frames(protocol, 200, seed=3)
    assert frames != make_frames(protocol, 200, seed=4)


def test_ceda_publishes_have_five_cells() -> None:
    assert {len(wirelake.decode("ceda", frame).record) for frame in make_frames("ceda", 100)} == {5}
