"""The benchmark of the report runs, on a lake that is there, and tells what it says it does."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.report import main


def test_the_benchmark_compares_the_report_with_reading_all_messages(
    report_lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--lake", str(report_lake), "--rounds", "1"]) == 0
    report, read, size, ratio = capsys.readouterr().out.splitlines()
    assert report.startswith("the report") and read.startswith("all messages, read once")
    assert size.endswith(" MB") and ratio.startswith("report / reading: ")
