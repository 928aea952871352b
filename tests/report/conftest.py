"""One lake for all tests of the report: traffic of all protocols, some of it damaged, missing or against the rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.report.served import Serve, Served, Stand
from wirelake.generate import Traffic, generate, write_pcap
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN
from wirelake.report import collect


@pytest.fixture(scope="session")
def report_traffic() -> Traffic:
    """What the lake is made of."""
    return generate(BUILT_IN, seed=11, messages=4000, connections=6, corrupt=0.004, violations=0.05, gaps=0.001)


@pytest.fixture(scope="session")
def report_lake(report_traffic: Traffic, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of a lake that was ingested once; nobody may write into it."""
    from wirelake.ingest.inline_runner import InlineRunner
    from wirelake.ingest.run import ingest

    folder = tmp_path_factory.mktemp("report")
    write_pcap(report_traffic, folder / "mixed.pcap")
    ingest(InlineRunner(), [str(folder / "mixed.pcap")], str(folder / "lake"), final=True)
    return folder / "lake"


@pytest.fixture(scope="session")
def lake(report_lake: Path) -> Lake:
    return Lake.open(report_lake, create=False)


@pytest.fixture(scope="session")
def report(lake: Lake) -> dict[str, Any]:
    """The report of the lake; nobody may change it."""
    return collect(lake)


@pytest.fixture
def serve() -> Iterator[Serve]:
    started: list[Served] = []

    def begin(source: Any = None, **options: Any) -> Served:
        started.append(Served(source if source is not None else Stand(), **options))
        return started[-1]

    yield begin
    for served in started:
        if isinstance(served.source, Stand):
            served.source.may_answer.set()
        served.end()
