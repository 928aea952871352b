"""The generated part has what people should see, in the seconds that it is given."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.demo.captured import read_captures
from wirelake.demo.generated import has_everything, write
from wirelake.generate import Truth

START_US = 1_760_000_000_000_000


@pytest.mark.parametrize(("messages", "seconds", "seed"), [(1, 6.0, 1), (600, 6.0, 2), (4000, 16.0, 1)])
def test_it_has_transactions_in_doubt_and_rolled_back_and_breaches(
    tmp_path: Path, messages: int, seconds: float, seed: int
) -> None:
    truth = write(tmp_path, ("casual", "dsa"), messages=messages, seed=seed, start_us=START_US, seconds=seconds)
    outcomes = Counter(one.outcome for one in truth.transactions)
    assert outcomes["in_doubt"] and outcomes["rolled_back"] and outcomes["committed"]
    assert {one.protocol for one in truth.violations} == {"casual", "dsa"}
    assert truth.corruptions
    assert Counter(one.outcome for one in truth.exchanges)["error"]


def test_it_fills_the_seconds_and_no_more(tmp_path: Path) -> None:
    write(tmp_path, ("casual", "dsa"), messages=3000, seed=5, start_us=START_US, seconds=10.0)
    found = read_captures(tmp_path)
    for name in ("casual", "dsa"):
        rows = found.messages[name]
        assert 1000 < len(rows) < 1800
        times = [row["ts"].timestamp() - START_US / 1e6 for row in rows]
        assert min(times) >= 0 and max(times) <= 10.0
        tenths = Counter(int(time) for time in times)
        assert all(tenths[tenth] > 0.2 * len(rows) / 10 for tenth in range(8)), tenths
    assert found.quarantine


def test_it_is_the_same_again_with_the_same_seed(tmp_path: Path) -> None:
    made = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, ("casual", "dsa"), messages=600, seed=9, start_us=START_US, seconds=6.0)
        made.append((tmp_path / name / "generated.tap").read_bytes())
    assert made[0] == made[1]


def test_nothing_is_everything_only_if_nothing_is_wanted() -> None:
    assert not has_everything(Truth(), ("casual",))
    assert not has_everything(Truth(), ("dsa",))
