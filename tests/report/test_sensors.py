"""A lake of two sensors that saw the same traffic: numbers add up what both saw, a conversation is that of one."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.ingest.lakes import table
from tests.report.lookup import found, spot
from wirelake.generate import generate, write_pcap
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.run import ingest
from wirelake.lake import Lake
from wirelake.protocols import BUILT_IN
from wirelake.report import collect, find_conversation
from wirelake.report.conversation_ids import sensor_hash

NAMED = ("violations", "sessions", "transactions", "slow_exchanges", "failures")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Captures of two sensors: ``east`` has a packet more than ``west``, so they are not known as one capture."""
    home = tmp_path_factory.mktemp("sensors")
    traffic = generate(BUILT_IN, seed=5, messages=1500, connections=2, corrupt=0.004, violations=0.05)
    for name in ("west", "east"):
        (home / name).mkdir()
    write_pcap(traffic, home / "west" / "all.pcap")
    shutil.copy(home / "west" / "all.pcap", home / "east" / "all.pcap")
    _add_foreign_packet(home / "east" / "all.pcap")
    return home


def _add_foreign_packet(path: Path) -> None:
    """Put a packet that is not TCP before all others, at the time of the first."""
    content = path.read_bytes()
    head, first = content[:24], content[24:40]
    packet = b"\xff" * 12 + b"\x08\x06" + bytes(46)
    length = len(packet).to_bytes(4, "little")
    path.write_bytes(head + first[:8] + length + length + packet + content[24:])


@pytest.fixture(scope="module")
def both(folder: Path) -> Lake:
    ingest(InlineRunner(), [str(folder / "west"), str(folder / "east")], str(folder / "both"), final=True)
    return Lake.open(folder / "both", create=False)


@pytest.fixture(scope="module")
def alone(folder: Path) -> Lake:
    ingest(InlineRunner(), [str(folder / "west")], str(folder / "alone"), final=True)
    return Lake.open(folder / "alone", create=False)


@pytest.fixture(scope="module")
def report_of_both(both: Lake) -> dict[str, Any]:
    return collect(both)


@pytest.fixture(scope="module")
def report_of_one(alone: Lake) -> dict[str, Any]:
    return collect(alone)


def listed(report: dict[str, Any], name: str) -> list[dict[str, Any]]:
    data = report["data"][name]
    return [dict(zip(data["columns"], row, strict=True)) for row in data["rows"]]


def bare(id_: str) -> str:
    return id_.partition("@")[0]


def test_both_sensors_have_the_same_connections(both: Lake, folder: Path) -> None:
    seen = Counter(row["connection"] for row in table(both, "gold/sessions"))
    assert set(seen.values()) == {2}
    assert {row["sensor"] for row in table(both, "gold/sessions")} == {str(folder / "west"), str(folder / "east")}


def test_the_report_names_the_sensors(
    report_of_both: dict[str, Any], report_of_one: dict[str, Any], folder: Path
) -> None:
    about = report_of_both["about"]
    assert (about["sensor_count"], about["sensors"]) == (2, [str(folder / "east"), str(folder / "west")])
    assert report_of_one["about"]["sensors"] == [str(folder / "west")]


def test_the_numbers_of_two_sensors_are_twice_those_of_one(
    report_of_both: dict[str, Any], report_of_one: dict[str, Any]
) -> None:
    (two,), (one,) = listed(report_of_both, "overview"), listed(report_of_one, "overview")
    for name, value in one.items():
        assert two[name] == (value if name.endswith("_us") else 2 * value), name
    for two, one in zip(listed(report_of_both, "topology"), listed(report_of_one, "topology"), strict=True):
        assert two["violations"] == 2 * one["violations"] and two["connections"] == 2 * one["connections"]


def test_every_row_of_a_table_opens_the_conversation_of_its_sensor(both: Lake, report_of_both: dict[str, Any]) -> None:
    opened = set()
    for name in NAMED:
        for row in listed(report_of_both, name)[:40]:
            one = found(both, row["conversation"])
            sensors = {event["sensor"] for event in one["events"]}
            assert len(sensors) == 1
            (sensor,) = sensors
            assert row["conversation"].endswith(f"@{sensor_hash(sensor)}")
            assert one["title"].endswith(f", seen at {sensor}")
            assert row.get("sensor", sensor) == sensor
            opened.add(sensor)
    assert len(opened) == 2


def test_a_conversation_is_that_of_a_lake_of_its_sensor_alone(
    both: Lake, alone: Lake, report_of_one: dict[str, Any], folder: Path
) -> None:
    west = str(folder / "west")
    for name in NAMED:
        for row in listed(report_of_one, name)[:20]:
            id_ = row["conversation"]
            assert bare(id_) == id_, "one sensor needs no name"
            one, of_both = found(alone, id_), found(both, f"{id_}@{sensor_hash(west)}")
            assert of_both == one | {"id": of_both["id"], "title": f"{one['title']}, seen at {west}"}


def test_an_id_without_a_sensor_means_the_first_that_has_it(
    both: Lake, report_of_one: dict[str, Any], folder: Path
) -> None:
    id_ = listed(report_of_one, "sessions")[0]["conversation"]
    assert {event["sensor"] for event in found(both, id_)["events"]} == {str(folder / "east")}
    assert find_conversation(both, f"{id_}@00000000") is None


def test_violations_point_at_their_event(report_of_both: dict[str, Any]) -> None:
    pointed = 0
    for row in listed(report_of_both, "violations"):
        one = report_of_both["conversations"].get(row["conversation"])
        if one is not None:
            assert spot(one["events"][row["event"]]) == spot(row)
            pointed += 1
    assert pointed > 20
