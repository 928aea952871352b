"""The steps of the demonstration, from nothing to a report."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..lake import Lake
from ..report import write_report
from ..spark.pipeline import Report, ingest
from ..spark.start import SparkStart
from .findings import sentences
from .live import Live, Played
from .scenes import SCENES

STEPS = 4
MOST_PER_SECOND = 1500
"""Messages that scenes, hub and tap manage in one process while Spark starts."""
USUAL_MESSAGES, USUAL_SECONDS, LEAST_SECONDS = 8000, 16.0, 6.0
POLL_SECONDS = 0.1


def seconds_for(messages: int) -> float:
    """Return how long the traffic takes: twice as many messages take a little longer, until they come too fast."""
    wanted = USUAL_SECONDS * math.pow(messages / USUAL_MESSAGES, 0.35)
    return max(LEAST_SECONDS, wanted, messages / MOST_PER_SECOND)


class Show(Protocol):
    """Shows numbered steps and their progress."""

    def step(self, number: int, text: str) -> None: ...

    def stage(self, name: str, total: int, unit: str = "") -> None: ...

    def add(self, done: int) -> None: ...


@dataclass(frozen=True)
class Shown:
    """The results."""

    capture: Path
    lake: Path
    report: Path
    report_bytes: int
    played: Played
    ingested: Report
    look_at: tuple[str, str, str]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "report": str(self.report),
            "report_bytes": self.report_bytes,
            "live_seconds": round(self.played.seconds, 3),
            "live_connections": self.played.connections,
            "look_at": list(self.look_at),
            "ingest": self.ingested.to_json(),
            "seconds": round(self.seconds, 3),
        }


def run(
    folder: Path, report: Path, *, name: str | None, messages: int, seed: int, engine: SparkStart, show: Show
) -> Shown:
    """Run all steps: write capture and lake into ``folder``, and the report, titled ``name`` if the lake is temporary.

    Starts the engine, and ends it.
    """
    began = time.monotonic()
    capture, lake = folder / "capture", folder / "lake"
    report.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.callback(engine.kill)
        stack.callback(engine.end)
        show.step(1, "start Spark; it continues while there is traffic")
        engine.start()
        engine.wait_until_up()
        played = _play(capture, messages, seed, show)
        show.step(3, "turn the capture into tables with Spark")
        _wait_for(engine, show)
        ingested = ingest(engine.context(), [str(capture)], str(lake), final=True, progress=show)
    show.step(4, "write the report from the tables")
    made = Lake.open(lake, create=False)
    look_at = sentences(made)
    show.stage("querying", 0, "queries")
    written = write_report(made, report, name=name, progress=lambda _: show.add(1))
    return Shown(capture, lake, report, written.bytes, played, ingested, look_at, time.monotonic() - began)


def _wait_for(engine: SparkStart, show: Show) -> None:
    """Wait for Spark: after little traffic, or while kernels are compiled."""
    if not engine.wait(POLL_SECONDS):
        show.stage("starting", 0, "s; compiling kernels happens once")
        while not engine.wait(1.0):
            show.add(1)


def _play(capture: Path, messages: int, seed: int, show: Show) -> Played:
    seconds = seconds_for(messages)
    *names, last = SCENES
    served = f"serve {', '.join(names)} and {last} from a hub"
    show.step(2, f"{served}; clients talk to it through a tap for {seconds:.0f} s")
    capture.mkdir(parents=True, exist_ok=True)
    live = Live(capture, messages=messages, seconds=seconds, seed=seed)
    with ExitStack() as stack:
        stack.callback(live.stop)
        live.start()
        total, shown = round(seconds), 0
        show.stage("traffic", total, "s")
        while not live.wait(POLL_SECONDS):
            now = min(int(live.passed), total)
            show.add(now - shown)
            shown = now
    return live.result()
