"""A hub gives back what attackers took: the small sister of ``python -m benchmarks.given_back``."""

from __future__ import annotations

import pytest

from benchmarks.crowd import MIB
from benchmarks.given_back import measure, running
from wirelake.live.hub.machine import raise_file_limit


@pytest.mark.parametrize(("attack", "count", "least"), [("tls", 2_000, 80 * MIB), ("pieces", 10, 120 * MIB)])
def test_memory_comes_back_when_attackers_are_gone(attack: str, count: int, least: int) -> None:
    if 0 < raise_file_limit() < count + 200:
        pytest.skip("not enough open files are allowed")
    with running() as hub:
        taken = measure(hub, attack, count, kept=least // 4)
    grown = taken.peak - taken.before
    assert grown > least, "the attack took too little to tell anything"
    assert taken.kept < grown / 2, "what the allocator keeps for itself depends on the machine; a leak keeps all"
