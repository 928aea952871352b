"""What broken streams cost: a small sister of the benchmark, which compares within one run."""

from __future__ import annotations

import pytest

from benchmarks.worst import (
    DECODERS,
    FAMILIES,
    PROTOCOLS,
    STREAM_BYTES,
    Figures,
    colliding_map,
    compare,
    main,
    mutated_streams,
)
from wirelake import decode

GENEROUS = 100
"""A quadratic search is hundreds of times as slow as benign traffic, and this must not fail on a busy machine. The
benchmark itself has the goals."""


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("decoder", DECODERS)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_worst_stream_costs_a_small_multiple_of_benign_traffic(protocol: str, decoder: str, family: str) -> None:
    figures = compare(protocol, decoder, STREAM_BYTES, 20, 2, family)
    assert figures.ratio < GENEROUS, figures


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_streams_are_the_same_for_the_same_seed(protocol: str) -> None:
    assert list(mutated_streams(protocol, 5_000, 30, 3)) == list(mutated_streams(protocol, 5_000, 30, 3))
    assert [data for _, data in mutated_streams(protocol, 5_000, 30, 3)] != [
        data for _, data in mutated_streams(protocol, 5_000, 30, 4)
    ]


def test_time_stamps_as_keys_are_one_key() -> None:
    assert decode("dsa", colliding_map(4_000)).value == {None: None}


def test_the_table_names_the_worst_stream(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--streams", "2", "--protocol", "mb"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [
        ["mb", "record"],
        ["mb", "record"],
        ["mb", "columnar"],
        ["mb", "columnar"],
    ]
    assert "runs of" in lines[1]


def test_a_ratio_is_the_worst_to_the_benign() -> None:
    assert Figures("mb", "record", "mutated", 2.0, 9.0, "").ratio == 4.5
