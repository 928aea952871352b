"""How often things begin, and how long is listened, can be chosen; how long answers take stays as it is."""

from __future__ import annotations

import statistics

import pytest

from wirelake.generate import Closed, Event, Truth, generate


def seconds_of(**dials: float) -> float:
    traffic = generate("casual", seed=3, messages=2000, connections=4, **dials)  # type: ignore[arg-type]
    times = [event.ts_us for event in traffic]
    return (times[1900] - traffic.start_us) / 1e6


def median_latency(pace: float) -> float:
    truth = generate("casual", seed=3, messages=2000, pace=pace).truth
    return statistics.median(one.latency_us for one in truth.exchanges if one.latency_us is not None)


def test_a_pace_of_two_needs_about_half_the_time() -> None:
    usual = seconds_of()
    assert 0.35 * usual < seconds_of(pace=2.0) < 0.65 * usual
    assert 1.6 * usual < seconds_of(pace=0.5) < 2.6 * usual


def test_answers_take_as_long_at_any_pace() -> None:
    assert 0.7 * median_latency(1.0) < median_latency(0.1) < 1.4 * median_latency(1.0)


def test_after_the_seconds_nothing_more_is_seen_and_connections_stay_open() -> None:
    whole = generate("casual", seed=3, messages=2000)
    cut = generate("casual", seed=3, messages=2000, seconds=1.0)
    truth = Truth()
    items = list(cut.timeline(truth))
    assert items == [item for item in whole.timeline() if item.ts_us <= whole.start_us + 1_000_000]
    assert sum(isinstance(item, Event) for item in items) > 100
    assert not any(isinstance(item, Closed) for item in items)
    assert {session.closed_us for session in truth.sessions} == {None}


@pytest.mark.parametrize("dials", [{"pace": 0.0}, {"pace": -1.0}, {"seconds": 0.0}])
def test_what_makes_no_sense_is_refused(dials: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="pace and seconds are positive numbers"):
        generate("casual", **dials)  # type: ignore[arg-type]
