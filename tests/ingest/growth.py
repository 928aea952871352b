"""Ways in which captures grow while a lake follows them: at any byte, in steps of any size, with a process that ends
and begins again. Any way ends in the lake of one ingest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random

from tests.capture.packing import PACK
from tests.ingest.histories import BUCKETS, LEAVE_OUT, reference
from tests.ingest.lakes import PLACE_OF_ROW, Content
from tests.ingest.ledger import check_ledger
from tests.ingest.worlds import Sensor, TinyWorld, World
from wirelake.ingest.follow import FollowSettings, follow
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.runner import Runner
from wirelake.lake import Lake

KINDS = ("pcap", "pcap", "pcapng", "tap", "websocket")
SMALLEST = 24
"""Less is no capture yet."""
PLACE_IN_FILES = PLACE_OF_ROW - {"sensor"}
"""What differs if the same traffic is cut into other files."""


def differing_ways(seed: int, count: int, place: Path) -> list[str]:
    """Try ways in which the files of a world grow; return what differs from one ingest."""
    world = World(seed, place / "world", kinds=KINDS)
    expected, found = reference(world, place / "reference"), []
    for number in range(count):
        content = Growth(world, number, place / f"lake-{number}").run()
        found += [f"world {seed}, way {number}: {text}" for text in content.differences(expected)]
    return found


def differing_tiny_ways(
    seed: int, numbers: Iterable[int], place: Path, runner: Callable[[], Runner] = InlineRunner
) -> list[str]:
    """Try ways in which the traffic of a tiny world is cut into files that grow; return what differs from one ingest
    of it uncut.
    """
    expected, found = reference(TinyWorld(seed, place / "world"), place / "reference", PLACE_IN_FILES), []
    for number in numbers:
        world = TinyWorld(seed, place / f"world-{number}", cut=number)
        content = Growth(world, number, place / f"lake-{number}", PLACE_IN_FILES, runner, 0.15).run()
        found += [f"tiny world {seed}, way {number}: {text}" for text in content.differences(expected)]
    return found


class Growth:
    """One way, drawn from a seed."""

    def __init__(
        self,
        world: World | TinyWorld,
        seed: int,
        place: Path,
        leave_out: set[str] = LEAVE_OUT,
        runner: Callable[[], Runner] = InlineRunner,
        eagerness: float = 0.3,
    ) -> None:
        self.world, self.place, self.leave_out, self.runner = world, place, leave_out, runner
        self.eagerness = eagerness
        self.draw = Random(f"{world.seed} {seed} growth")
        self.folder = place.with_name(f"{place.name}-captures")
        self.lake = Lake.open(place, settings={"buckets": BUCKETS}, durable=False)

    def run(self) -> Content:
        growing = {name: self._grow(sensor) for name, sensor in self.world.sensors.items()}
        for name in growing:
            (self.folder / name).mkdir(parents=True)
        while growing:
            name = self.draw.choice(list(growing))
            if next(growing[name], None) is None:
                del growing[name]
            if self.draw.random() < self.eagerness:
                self._follow()
        self._follow(final=True)
        check_ledger(self.lake, is_final=True)
        names = {f"{self.folder / name}": name for name in self.world.sensors}
        sensors = {one.sensor for one in self.lake.inputs().values()}
        plain = {one: next(name for path, name in names.items() if one.startswith(path)) for one in sensors}
        return Content(self.lake, self.leave_out, plain)

    def _grow(self, sensor: Sensor) -> Iterator[str]:
        for number, source in enumerate(sensor.files):
            data, target = source.read_bytes(), self.folder / sensor.name / source.name
            cuts = sorted(self.draw.randrange(SMALLEST, len(data)) for _ in range(self.draw.randrange(4)))
            for cut in (*cuts, len(data)):
                target.write_bytes(data[:cut])
                yield "grown"
            if number == sensor.closed_behind:
                self._follow(final=True, only=sensor.name)
            if self.draw.random() < 0.2:
                self._follow()
                self._pack(target)

    def _pack(self, path: Path) -> None:
        suffix = self.draw.choice(list(PACK))
        path.with_name(path.name + suffix).write_bytes(PACK[suffix](path.read_bytes()))
        path.unlink()

    def _follow(self, final: bool = False, only: str = "") -> None:
        size = self.draw.choice((5000, 20_000, 1 << 20))
        settings = FollowSettings(
            final=final, available_now=True, keep_bytes=True, max_bytes=size, max_failures=1, trigger_seconds=0
        )
        follow(self.runner(), [str(self.folder / only)], self.lake, settings)
