"""The steps of the demonstration, from nothing to a report. Whatever happens on the way, nothing is left behind."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ..lake import Lake
from ..protocols import BUILT_IN
from ..report import write_report
from ..spark.background import Background
from ..spark.pipeline import Report, ingest
from . import generated
from .findings import sentences
from .live import Live, Played
from .scenes import SCENES

STEPS = 5
LIVE_SHARE = 0.6
LIVE_PER_SECOND = 1500
"""What scenes, hub and tap can do in one process beside a Spark that starts."""
USUAL_MESSAGES, USUAL_SECONDS = 8000, 16.0
LEAST_SECONDS, MOST_SECONDS = 6.0, 40.0
POLL_SECONDS = 0.1


@dataclass(frozen=True)
class Size:
    """How much is said in how long: twice as much takes a little longer, and is said a good deal faster."""

    messages: int

    @property
    def seconds(self) -> float:
        wanted = USUAL_SECONDS * math.pow(self.messages / USUAL_MESSAGES, 0.35)
        return min(MOST_SECONDS, max(LEAST_SECONDS, wanted))

    @property
    def live(self) -> int:
        return round(min(LIVE_SHARE * self.messages, LIVE_PER_SECOND * self.seconds))

    @property
    def generated(self) -> int:
        return self.messages - self.live


class Show(Protocol):
    """Tells people what is going on: numbered steps, and how far each of them is."""

    def step(self, number: int, text: str) -> None: ...

    def stage(self, name: str, total: int, unit: str = "") -> None: ...

    def add(self, done: int) -> None: ...


@dataclass(frozen=True)
class Shown:
    """What there is in the end."""

    capture: Path
    lake: Path
    report: Path
    report_bytes: int
    live_seconds: float
    live_connections: int
    ingested: Report
    look_at: tuple[str, str, str]
    seconds: float

    def to_json(self) -> dict[str, Any]:
        return {
            "report": str(self.report),
            "report_bytes": self.report_bytes,
            "live_seconds": round(self.live_seconds, 3),
            "live_connections": self.live_connections,
            "look_at": list(self.look_at),
            "ingest": self.ingested.to_json(),
            "seconds": round(self.seconds, 3),
        }


def run(
    folder: Path, report: Path, *, name: str | None, messages: int, seed: int, engine: Background, show: Show
) -> Shown:
    """Capture and lake go into ``folder``, the report to its path, under ``name`` if the lake does not last.

    The engine is started here, and ended.
    """
    began = time.monotonic()
    size = Size(messages)
    capture, lake = folder / "capture", folder / "lake"
    report.parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        stack.callback(engine.kill)
        stack.callback(engine.end)
        show.step(1, "Spark starts, and goes on starting while there is traffic")
        engine.start()
        engine.until_up()
        played = _play(capture, size, seed, show)
        _generate(capture, size, seed, played, show)
        show.step(4, "Spark makes tables of the capture")
        _wait_for(engine, show)
        ingested = ingest(engine.session(), [str(capture)], str(lake), final=True, progress=show)
    show.step(5, "the report is made from the tables")
    made = Lake.open(lake, create=False)
    look_at = sentences(made)
    show.stage("asking", 0, "questions")
    written = write_report(made, report, name=name, progress=lambda _: show.add(1))
    return Shown(
        capture,
        lake,
        report,
        written.bytes,
        played.seconds,
        played.connections,
        ingested,
        look_at,
        time.monotonic() - began,
    )


def _wait_for(engine: Background, show: Show) -> None:
    """There is something to wait for where little was said, or where kernels have to be compiled."""
    if not engine.wait(POLL_SECONDS):
        show.stage("starting", 0, "s; the first time it compiles, and takes longer")
        while not engine.wait(1.0):
            show.add(1)


def _play(capture: Path, size: Size, seed: int, show: Show) -> Played:
    names = " and ".join(SCENES)
    show.step(2, f"a hub serves {names}; services, desks and vandals talk to it through a tap, {size.seconds:.0f} s")
    capture.mkdir(parents=True, exist_ok=True)
    live = Live(capture, messages=size.live, seconds=size.seconds, seed=seed)
    with ExitStack() as stack:
        stack.callback(live.stop)
        live.start()
        total, told = round(size.seconds), 0
        show.stage("traffic", total, "s")
        while not live.wait(POLL_SECONDS):
            now = min(int(live.passed), total)
            show.add(now - told)
            told = now
    return live.result()


def _generate(capture: Path, size: Size, seed: int, played: Played, show: Show) -> None:
    """Protocols that are not played live yet, in the same seconds."""
    names = [name for name in BUILT_IN if name not in SCENES]
    if names:
        show.step(3, f"generated conversations of {' and '.join(names)} join the capture, in the same seconds")
        show.stage("making", 0, "messages")
        generated.write(
            capture,
            names,
            messages=size.generated,
            seed=seed,
            start_us=played.began_us,
            seconds=played.seconds,
            made=show.add,
        )
