"""Generated worlds: what several sensors captured, in rotated files with damage, and histories of how it was ingested.

Any history of one world ends in the same lake: files in any order, cut while they grew, moved and compressed, ingests
that were given up and begun again.
"""

from __future__ import annotations

import gzip
import lzma
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.ingest.lakes import tables
from wirelake.generate import generate, write_pcap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.ingest.runner import IngestError, Runner
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN

FILES = 3
CUT = 1 << 15
BUCKETS = 3
LEAVE_OUT = {"date", "capture"}
"""A capture has another path once it is compressed or moved."""
PACKED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".xz": lzma.compress}


@dataclass
class World:
    """What sensors captured: for each of them its files, in their order."""

    seed: int
    folder: Path
    files: dict[str, list[Path]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        draw = Random(self.seed)
        for number in range(draw.choice((2, 2, 3))):
            sensor = f"sensor-{number}"
            place = self.folder / sensor
            place.mkdir(parents=True)
            faults = {"corrupt": 0.01, "gaps": 0.02, "disorder": 0.05, "violations": 0.05, "cut": 0.0}
            faults = {name: share for name, share in faults.items() if share and draw.random() < 0.6}
            traffic = generate(
                draw.sample(BUILT_IN, draw.choice((1, 2, 4))),
                seed=draw.randrange(1 << 30),
                messages=draw.choice((150, 300)),
                connections=2,
                start_us=1_704_067_200_000_000 + draw.randrange(90_000_000),
                **faults,
            )
            write_pcap(traffic, place / "part.pcap", files=draw.choice((FILES, FILES + 2)))
            self.files[sensor] = sorted(place.glob("part-*.pcap"))

    def reference(self) -> dict[str, Any]:
        """The tables of a lake that saw everything at once, in order."""
        place = self.folder / "reference"
        for sensor, files in self.files.items():
            feed(InlineRunner(), [str(path) for path in files], place, sensor=sensor, final=True)
        return contents(place)


def feed(runner: Runner, paths: list[str], place: Path, **options: Any) -> Any:
    """Ingest captures. A loss of power is not tested here, so the lake need not wait for the disk."""
    lake = Lake.open(place, settings={"buckets": BUCKETS}, durable=False)
    return ingest(runner, paths, lake, partition_bytes=CUT, keep_bytes=True, **options)


def contents(place: Path) -> dict[str, Any]:
    check_ledger(place)
    return tables(place, LEAVE_OUT)


def check_ledger(place: Path) -> None:
    """Every byte that entered is in exactly one place."""
    lake = Lake.open(place, create=False)
    for row in lake.dataset("accounting").to_table().to_pylist():
        assert row["bytes_in"] == row["bytes_decoded"] + row["bytes_quarantined"] + row["bytes_pending"], row


class History:
    """One way in which a world reaches a lake, drawn from a seed."""

    def __init__(self, world: World, seed: int, place: Path) -> None:
        self.world, self.draw, self.place = world, Random(seed), place
        self.folder = place.with_name(f"{place.name}-captures")
        self.lake = place
        self.told: list[str] = []
        """What was done, for whoever has to find out what went wrong."""

    def run(self) -> dict[str, Any]:
        """Let all events happen; then nothing more comes."""
        for sensor, path, part in self._events():
            self._happen(sensor, path, part)
        for sensor in self.world.files:
            self._ingest(sensor, [str(self.folder / sensor)], final=True)
        return contents(self.lake)

    def _events(self) -> Iterator[tuple[str, Path, float]]:
        """Yield which file has grown to which part of its size; every file becomes whole, in any order."""
        events = []
        for sensor, files in self.world.files.items():
            for path in files:
                parts = [1.0] if self.draw.random() < 0.6 else [self.draw.random(), 1.0]
                events.append([(sensor, path, part) for part in parts])
        while events:
            chosen = self.draw.choice(events) if self.draw.random() < 0.7 else events[0]
            yield chosen.pop(0)
            events = [left for left in events if left]

    def _happen(self, sensor: str, path: Path, part: float) -> None:
        place = self.folder / sensor
        place.mkdir(parents=True, exist_ok=True)
        for old in place.glob(f"{path.name}*"):
            old.unlink()
        whole = path.read_bytes()
        data = whole[: max(24, int(len(whole) * part))]
        suffix = self.draw.choice(["", "", *PACKED]) if part == 1.0 else ""
        (place / f"{path.name}{suffix}").write_bytes(PACKED[suffix](data) if suffix else data)
        self.told.append(f"{sensor}: {path.name}{suffix} has {len(data)} of {len(whole)} bytes")
        if self.draw.random() < 0.8:
            self._ingest(sensor, [str(place)], final=False)

    def _ingest(self, sensor: str, paths: list[str], *, final: bool) -> None:
        """Ingest, perhaps given up some times before it succeeds."""
        while True:
            seed = self.draw.randrange(1 << 30)
            failing = self.draw.choice((0.0, 0.0, 0.05))
            self.told.append(f"ingest {sensor}{' --final' if final else ''} (seed {seed}, failing {failing})")
            with suppress(IngestError):
                feed(
                    InlineRunner(seed, failing=failing, attempts=1), paths, self.lake,
                    sensor=sensor, late="rebuild", final=final,
                )  # fmt: skip
                return
            if not failing:
                raise AssertionError(self.told)
