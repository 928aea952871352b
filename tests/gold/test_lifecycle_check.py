"""The life cycle over all connections at once gives what a walk through each, message by message, gives."""

from __future__ import annotations

from random import Random

import pyarrow as pa
import pytest

from wirelake.generate import generate
from wirelake.gold import lifecycle_check

from .matched import ViolationsOfFacts
from .watched import watch

RANGES = ["connection", "direction", "offset", "ts"]


@pytest.mark.parametrize("protocol", ["casual", "dsa", "ceda"])
def test_passing_over_what_changes_nothing_makes_no_difference(protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages are left out at random, handshakes among them, so that much of the rest is forbidden."""
    fed = watch(generate(protocol, seed=8, messages=600, connections=6, violations=0.1)).at_once()
    states = 0
    for seed in range(6):
        source = Random(seed)
        facts = fed.facts.filter(pa.array([source.random() < 0.8 for _ in range(fed.facts.num_rows)]))
        quarantined = facts.filter(pa.array([source.random() < 0.002 for _ in range(facts.num_rows)])).select(RANGES)
        tables = []
        for walked, calm in ((1 << 40, 64), (16, 64), (1, 1)):
            monkeypatch.setattr(lifecycle_check, "WALKED", walked)
            monkeypatch.setattr(lifecycle_check, "CALM", calm)
            step = ViolationsOfFacts()
            tables.append(
                pa.concat_tables([step.feed(facts, fed.connections, quarantined), step.settle(0, final=True)])
            )
        assert tables[0].equals(tables[1]) and tables[0].equals(tables[2])
        states += tables[0].column("rule").to_pylist().count("state")
    assert states > 100
