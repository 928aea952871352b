"""What an ingest says about itself."""

from __future__ import annotations

import json
from collections import Counter

from wirelake.capture.chunks import Counts
from wirelake.ingest.report import Report


def test_the_numbers_of_sensors_add_up() -> None:
    one = Report(sensors=1, captures=2, messages=Counter(mb=3), bytes_in=10, holes=1, notes=["a"])
    two = Report(sensors=1, captures=1, messages=Counter(mb=1, dsa=2), bytes_in=5, notes=["b"])
    total = Report()
    total.add(one)
    total.add(two)
    assert (total.sensors, total.captures, total.bytes_in, total.holes) == (2, 3, 15, 1)
    assert total.messages == {"mb": 4, "dsa": 2} and total.notes == ["a", "b"]
    assert total.totals()["messages"] == 6 and total.commit is None


def test_packets_that_carry_nothing_are_counted_by_what_they_are() -> None:
    report = Report()
    for _ in range(2):
        report.count("a.pcap", Counts(packets=5, foreign={"udp": 3, "ethertype": 1}, notes=["odd"], broken="cut"))
    assert report.captured == {"packets": 10}
    assert report.not_read == {"udp": 6, "ethertype": 2}
    assert report.notes == ["a.pcap: cut", "a.pcap: odd"]


def test_the_report_is_plain_json() -> None:
    report = Report(messages=Counter(mb=3), seconds=1.23456)
    assert json.loads(json.dumps(report.to_json()))["messages"] == {"mb": 3}
    assert report.to_json()["seconds"] == 1.235
