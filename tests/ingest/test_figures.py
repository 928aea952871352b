from __future__ import annotations

from collections import Counter
from pathlib import Path

from wirelake.ingest.figures import MOST_SENSORS, Figures
from wirelake.ingest.follow import Batch, Round
from wirelake.ingest.report import Report
from wirelake.web.metrics import show_metrics

NOW = 1_700_000_000


def batch(**changed: object) -> Batch:
    report = Report(commit=7, messages=Counter(mb=30, dsa=2), bytes_decoded=900, bytes_quarantined=5)
    report.captured["time_records"] = 3
    report.stages = {"decode": {"tasks": 1, "seconds": 0.25, "elapsed": 0.3}}
    return Batch(1, report, 100, 2.0, 4096, 0.5)


def figures() -> Figures:
    return Figures(clock=lambda: NOW)


def text(told: Figures) -> list[str]:
    return show_metrics(told.families()).decode().splitlines()


def test_batches_add_up_by_name_and_by_stage() -> None:
    told = figures()
    told.batch(batch())
    told.batch(batch())
    lines = text(told)
    for line in (
        "wirelake_stream_messages_total 64.0",
        "wirelake_stream_decoded_bytes_total 1800.0",
        "wirelake_stream_time_records_total 6.0",
        'wirelake_stream_stage_seconds_total{stage="decode"} 0.5',
        'wirelake_stream_last_batch_seconds{stage="batch"} 0.5',
        "wirelake_stream_carry_bytes 4096.0",
        "wirelake_stream_commit 7.0",
    ):
        assert line in lines


def test_lag_is_that_of_the_newest_sensor_and_of_those_that_were_heard() -> None:
    told = figures()
    told.round(Round(10, {"gone": (NOW - 90_000) * 1_000_000, "here": (NOW - 7) * 1_000_000}, {"in": 3.0}))
    told.round(Round(20, {"gone": (NOW - 90_000) * 1_000_000, "here": (NOW - 4) * 1_000_000}, {"in": 1.5}))
    lines = text(told)
    assert "wirelake_stream_lag_bytes 20.0" in lines and "wirelake_stream_lag_seconds 4.0" in lines
    assert 'wirelake_stream_sensor_lag_seconds{sensor="here"} 4.0' in lines
    assert 'wirelake_stream_silent_seconds{input="in"} 1.5' in lines
    assert not any("gone" in line for line in lines)


def test_sensors_that_come_and_go_for_months_have_few_figures() -> None:
    told = figures()
    told.round(Round())
    for number in range(3 * MOST_SENSORS):
        told.round(Round(0, {f"tap-{number}": NOW * 1_000_000}))
    named = [line for line in text(told) if "sensor=" in line]
    assert len(named) == MOST_SENSORS and f'sensor="tap-{3 * MOST_SENSORS - 1}"' in named[-1]


def test_health_tells_of_failures_and_of_stalled_inputs() -> None:
    told = figures()
    assert told.health()[0]
    told.failed(OSError("full"), 2, 1.0)
    assert told.health() == (False, told.health()[1]) and told.health()[1]["status"] == "failing"
    told.round(Round(0, {}, {"in": 99.0}, ["in"]))
    is_well, found = told.health()
    assert not is_well and (found["status"], found["stalled"], found["failures_in_a_row"]) == ("stalled", ["in"], 0)
    assert "wirelake_stream_stalled 1.0" in text(told) and "wirelake_stream_failures_total 1.0" in text(told)


def test_the_page_has_every_figure() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "streaming.md").read_text(encoding="utf-8")
    told = figures()
    told.round(Round(0, {"one": 1}))
    told.round(Round(0, {"one": 2}))
    for name, *_ in told.families():
        assert f"`wirelake_{name}`" in page, name
