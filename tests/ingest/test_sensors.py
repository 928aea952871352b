"""What a sensor is called, and the order of its captures."""

from __future__ import annotations

import pytest

from wirelake.gold.tables import SENSOR
from wirelake.ingest.sensors import Place, base_name, default_sensor, place_of, sensor_key, separate_sensor
from wirelake.lake import Input
from wirelake.lake.table_writer import SENSOR as WRITTEN


@pytest.mark.parametrize(
    ("path", "kind", "sensor"),
    [
        ("/captures/eth0/r-0001.pcap", "pcap", "/captures/eth0"),
        ("/captures/eth0/r-0001.pcap.gz", "pcap", "/captures/eth0"),
        ("/r.pcap", "pcap", "/"),
        ("s3://bucket/eth0/r.pcapng", "pcapng", "s3://bucket/eth0"),
        ("/taps/20240501T120000-0a1b2c3d-000017.tap", "tap", "/taps/20240501T120000-0a1b2c3d"),
        ("/taps/20240501T120000-0a1b2c3d-000017.tap.zst", "tap", "/taps/20240501T120000-0a1b2c3d"),
        ("/taps/orders.tap", "tap", "/taps/orders"),
    ],
)
def test_a_sensor_is_the_directory_of_its_captures_or_the_name_of_a_tap(path: str, kind: str, sensor: str) -> None:
    assert default_sensor(path, kind) == sensor


def test_captures_are_ordered_by_their_first_packet_then_by_name() -> None:
    def place(first_us: int, name: str) -> Place:
        found = place_of(Input("/x", 1, None, "", 0, first_us=first_us, name=name))
        assert found is not None
        return found

    assert place(1, "b") < place(2, "a") < place(2, "b")
    assert place_of(Input("/x", 1, None, "", 0)) is None


def test_a_compressed_capture_has_the_place_of_the_plain_one() -> None:
    assert {base_name(f"/a/r-1.pcap{suffix}") for suffix in ("", ".gz", ".zst", ".xz")} == {"r-1.pcap"}


def test_sensors_have_keys_that_fit_into_file_names() -> None:
    names = ["/captures/eth0", "/captures/eth1", separate_sensor("/captures/eth0", "/captures/eth0/r-1.pcap")]
    assert names[2] == "/captures/eth0#r-1.pcap"
    assert len({sensor_key(name) for name in names}) == 3
    assert all(len(sensor_key(name)) == 16 for name in names)


def test_the_column_that_is_written_is_the_one_that_is_documented() -> None:
    assert SENSOR.names == [WRITTEN]
