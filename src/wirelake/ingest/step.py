"""One step: ``(carry, new captures) -> (rows, carry')`` of every sensor, and one commit for all of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..capture.read import ResumePoint
from ..capture.settings import ReadSettings
from ..gold.addresses import slowest
from ..lake import Kept, Run
from ..lake.inputs import Input
from ..protocols import BUILT_IN
from .declared import Declared, for_workers
from .known import is_still_there
from .plan import SensorPlan
from .report import Report
from .runner import CaptureFailed, Runner
from .sensor_carry import SENSOR, Closing
from .sensor_step import SensorStep
from .sensors import place_of, sensor_key
from .stages import DECODE, Progress, Stages
from .tasks import StepSettings
from .tasks.addresses import minute_of

SLOWEST = 5
"""Addresses that a report names."""
KEPT = 24
"""How much carry of earlier commits is kept for each sensor: a late capture goes back to the last one before it."""


class Step:
    """Runs the plans of all sensors to one commit."""

    def __init__(
        self,
        run: Run,
        runner: Runner,
        reading: ReadSettings,
        keep_bytes: bool,
        progress: Progress,
        labels: Mapping[str, Any] | None = None,
    ) -> None:
        self.lake = run.lake
        self._labels = labels or {}
        self._run = run
        self._keep_bytes = keep_bytes
        self._declared = tuple(Declared.named(name) for name in reading.protocols if name not in BUILT_IN)
        self._reading = for_workers(reading, self._declared)
        self._stages = Stages(runner, progress)

    def run(self, plans: Sequence[SensorPlan], beside: Iterable[Input] = (), wanted_bytes: int | None = None) -> Report:
        """Run the plans; ``beside`` are captures to record that are not read."""
        sensors = [SensorStep(self.lake, plan, self._settings(plan), self._stages, wanted_bytes) for plan in plans]
        with self._stages:
            sizes = (capture.piece.size for sensor in sensors for capture in sensor.plan.captures)
            self._stages.expect(DECODE, sum(sizes))
            self._stages.run([sensor.chain() for sensor in sensors])
            _refuse_replaced(capture.input for plan in plans for capture in plan.captures)
            report = Report()
            for sensor in sensors:
                report.add(sensor.report)
            report.slowest = slowest((rows for sensor in sensors for rows in sensor.latencies), SLOWEST)
            report.rebuilt = [sensor.plan.name for sensor in sensors if sensor.plan.since is not None]
            report.stages = {
                name: {"tasks": times.tasks, "seconds": round(times.seconds, 3), "elapsed": round(times.elapsed, 3)}
                for name, times in self._stages.times.items()
            }
            report.commit = self._commit(sensors, beside)
        return report

    def _settings(self, plan: SensorPlan) -> StepSettings:
        return StepSettings(
            self._run.staging,
            plan.name,
            sensor_key(plan.name),
            int(self.lake.settings["buckets"]),
            self._reading,
            self._declared,
            keep_bytes=self._keep_bytes,
        )

    # --- the end

    def _commit(self, sensors: Sequence[SensorStep], beside: Iterable[Input]) -> int:
        facts: Counter[str] = Counter()
        inputs = list(beside)
        kept = {}
        for sensor in sensors:
            read = _inputs(sensor)
            facts.update(self._keep_sensor(sensor, read))
            kept[sensor_key(sensor.plan.name)] = self._kept(sensor, read)
            inputs += read
        present = self.lake.carry()
        carries = [sensor.plan.carry.named(present) for sensor in sensors]
        return self._run.commit(
            [file for sensor in sensors for file in sensor.files],
            removed=[file for sensor in sensors for file in sensor.removed],
            inputs=inputs,
            carry={name: file for carry in carries for name, file in carry.items()},
            facts=facts,
            labels={"watermark_us": self._watermarks(sensors), **self._labels},
            kept=kept,
        )

    def _keep_sensor(self, sensor: SensorStep, read: Sequence[Input]) -> dict[str, int]:
        """Carry on what is known of a sensor; return what this commit adds to the facts of the lake."""
        plan, carry = sensor.plan, sensor.plan.carry.sensor
        before, added = carry.totals, sensor.report.totals()
        carry.totals = {name: before.get(name, 0) + count for name, count in added.items()}
        origins = {capture.piece.path: capture.input.origin for capture in plan.captures}
        carry.positions = carry.left_at({origins[path]: point for path, point in sensor.left_at.items()})
        carry.watermark_us = sensor.watermark
        if plan.segments and plan.segments[-1].final:
            self._close(sensor, read)
        plan.carry.put(SENSOR, carry)
        replaced = plan.totals_before
        return {name: count - replaced.get(name, 0) for name, count in carry.totals.items()}

    def _close(self, sensor: SensorStep, read: Sequence[Input]) -> None:
        """Remember that nothing more was to come behind the newest capture."""
        known = [one for one in self.lake.inputs().values() if one.sensor == sensor.plan.name]
        placed = [(place, one) for one in (*known, *read) if (place := place_of(one)) is not None]
        if not placed:
            return
        place, newest = max(placed, key=lambda pair: (pair[0], pair[1].position))
        closing = Closing(*place, newest.position)
        if closing not in sensor.plan.carry.sensor.closings:
            sensor.plan.carry.sensor.closings.append(closing)

    def _kept(self, sensor: SensorStep, read: Sequence[Input]) -> list[Kept]:
        """Return the carry of the sensor that is kept from now on. A new capture begins behind the present carry."""
        plan, key = sensor.plan, sensor_key(sensor.plan.name)
        kept = self.lake.kept().get(key, [])
        if plan.since is not None:
            return [one for one in kept if one.commit <= plan.since]
        inputs = [one for one in self.lake.inputs().values() if one.sensor == plan.name]
        known = {one.origin for one in inputs if one.first_us is not None}
        begun = [one for one in read if one.origin not in known and place_of(one) is not None]
        if begun and known:
            after = max(place for one in inputs if (place := place_of(one)) is not None)
            # Whoever goes back counts minutes anew.
            carry = {
                name: path
                for name, path in self.lake.carry().items()
                if name.startswith(f"{key}.") and minute_of(name.removeprefix(f"{key}.")) is None
            }
            kept = [*kept, Kept(self.lake.number(), after.first_us, after.name, carry)]
        return kept[-KEPT:]

    def _watermarks(self, sensors: Sequence[SensorStep]) -> dict[str, int | None]:
        known = self.lake.labels().get("watermark_us")
        before = known if isinstance(known, dict) else {}
        return before | {sensor.plan.name: sensor.watermark for sensor in sensors}


def _refuse_replaced(captures: Iterable[Input]) -> None:
    """Refuse what was read if another file took the name of one of these meanwhile: the bytes may be those of another
    capture. Objects in a store are not renamed.
    """
    for one in captures:
        if "://" not in one.path and not is_still_there(one):
            raise CaptureFailed(f"{one.path}: another file took its place while it was read", one.path)


def _inputs(sensor: SensorStep) -> list[Input]:
    """Return the captures of a sensor with the places where they were left."""
    listed = {capture.input.key: capture for capture in sensor.plan.captures}
    points = ((capture.input, sensor.left_at.get(capture.piece.path)) for capture in listed.values())
    return [one if point is None else one.read_to(_end(point), point.seen, point.behind) for one, point in points]


def _end(point: ResumePoint) -> int:
    """Return how far a capture was read; if it grows, an incomplete packet at its end is read again."""
    return point.seen if point.is_torn else point.position
