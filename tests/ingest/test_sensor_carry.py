"""The carry of a sensor: its own part of what a commit handed on, and where captures were left."""

from __future__ import annotations

from pathlib import Path

import pytest

from wirelake.capture.read import ResumePoint
from wirelake.errors import LakeError
from wirelake.ingest.sensor_carry import MOST_POSITIONS, SENSOR, CarryOf, Closing, SensorCarry
from wirelake.ingest.sensors import sensor_key
from wirelake.lake import Lake


def committed(lake: Lake, sensor: str, carry: SensorCarry) -> None:
    with lake.writing() as run:
        made = CarryOf(lake.store, run.staging, sensor, lake.carry())
        made.put(SENSOR, carry)
        run.commit(carry=made.named(lake.carry()))


def test_a_sensor_finds_its_own_carry_again(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    one = SensorCarry("one", {"origin": ResumePoint(7)}, 12, [Closing(1, "a", 2)], {"messages": 3})
    committed(lake, "one", one)
    committed(lake, "two", SensorCarry("two"))
    with lake.writing() as run:
        found = CarryOf(lake.store, run.staging, "one", lake.carry())
        assert found.sensor == one and not found.is_open
        assert CarryOf(lake.store, run.staging, "three", lake.carry()).sensor == SensorCarry("three")


def test_what_is_not_handed_on_is_dropped_and_other_sensors_are_left_alone(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    with lake.writing() as run:
        made = CarryOf(lake.store, run.staging, "one", {})
        made.put("state", SensorCarry())
        made.put("gold-000", SensorCarry())
        run.commit(carry=made.named({}))
        committed_before = lake.carry()
        assert CarryOf(lake.store, run.staging, "one", committed_before).is_open
        made = CarryOf(lake.store, run.staging, "one", committed_before)
        made.put("state", SensorCarry())
        run.commit(carry={**made.named([*committed_before, "other.state"])})
    assert {name.partition(".")[2] for name in lake.carry()} == {"state"}


def test_carry_of_another_sensor_under_this_key_is_refused(tmp_path: Path) -> None:
    lake = Lake.open(tmp_path)
    committed(lake, "one", SensorCarry("another"))
    with lake.writing() as run, pytest.raises(LakeError, match="is of sensor 'another', not of 'one'"):
        CarryOf(lake.store, run.staging, "one", lake.carry())
    assert list(lake.carry()) == [f"{sensor_key('one')}.sensor"]


def test_positions_are_kept_for_the_captures_that_were_read_last() -> None:
    known = {str(number): ResumePoint(number) for number in range(MOST_POSITIONS)}
    carry = SensorCarry(positions=known)
    left = carry.left_at({"0": ResumePoint(9), "new": ResumePoint(1)})
    assert len(left) == MOST_POSITIONS
    assert list(left)[-2:] == ["0", "new"] and left["0"].position == 9
    assert "1" not in left
