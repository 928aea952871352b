"""The crowd of DSA links in small: every update comes to all who want it, and is asked for once."""

from __future__ import annotations

import json

import pytest

from benchmarks import dsa_crowd


def test_a_small_crowd_loses_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    sizes = ["--links", "10", "--values", "50", "--wanted-by", "4", "--rate", "500", "--seconds", "0.5"]
    assert dsa_crowd.main(sizes) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["subscriptions"], found["asked"], found["updates"], found["deliveries"]) == (200, 50, 250, 1000)
    assert found["lost"] == 0
