"""Time records of a tap decide what has waited too long, in one ingest as in many steps."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.ingest.lakes import table, tables
from wirelake.capture.chunks import DIRECTIONS
from wirelake.capture.write.tap import TapWriter
from wirelake.generate import Closed, Event, Opened, Traffic, generate, write_pcap
from wirelake.ingest.follow import FollowSettings, follow
from wirelake.ingest.inline_runner import InlineRunner
from wirelake.ingest.report import Report
from wirelake.ingest.run import ingest
from wirelake.lake import Lake

SECOND_US = 1_000_000
LONG_US = 3600 * SECOND_US
"""Longer than any request of the generator waits."""
BUCKETS = 2


def write_quiet_tap(traffic: Traffic, target: Path, *after_us: int, until_end: bool = False) -> int:
    """Write a tap with a time record wherever nothing comes for a second, and some behind its last record; return the
    time of that. ``until_end``: connections are closed as the traffic says.
    """
    with TapWriter(target, set_id=bytes(16)) as writer:
        numbers: dict[int, int] = {}
        last_us = 0
        for item in traffic.timeline():
            peers = item.connection
            if last_us and item.ts_us >= last_us + SECOND_US:
                writer.time(last_us + SECOND_US)
            match item:
                case Opened():
                    numbers[peers.number] = writer.open(peers.client, peers.server, item.ts_us, peers.protocol.name)
                case Event():
                    writer.data(numbers[peers.number], DIRECTIONS.index(item.direction), item.ts_us, item.frame)
                case Closed() if until_end:
                    writer.close(numbers.pop(peers.number), item.ts_us, item.how)
            last_us = item.ts_us
        for us in after_us:
            writer.time(last_us + us)
    return last_us


def traffic() -> Traffic:
    """Traffic that is cut off: some requests wait for their replies, or for other legs over their broker."""
    return generate(["mb", "ceda", "casual"], seed=3, messages=10_000, seconds=1.0)


def read(lake: Path, *inputs: Path) -> Report:
    opened = Lake.open(lake, settings={"buckets": BUCKETS}, durable=False)
    return ingest(InlineRunner(), [str(path) for path in inputs], opened)


def requests(lake: Path) -> list[str]:
    """The correlations of the requests that are open."""
    return [row["correlation"] for row in table(lake, "gold/open") if row["kind"] == "request"]


def test_a_request_is_timed_out_by_a_time_record_behind_its_limit(tmp_path: Path) -> None:
    tap = tmp_path / "a.tap"
    write_quiet_tap(traffic(), tap)
    before = read(tmp_path / "lake", tap)
    waiting = requests(tmp_path / "lake")
    assert waiting and not before.outcomes["timeout"]
    write_quiet_tap(traffic(), tap, LONG_US)
    after = read(tmp_path / "lake", tap)
    assert after.outcomes["timeout"] and after.outcomes.total() == len(waiting) and not requests(tmp_path / "lake")


def test_time_records_are_counted_and_no_bytes_of_streams(tmp_path: Path) -> None:
    write_quiet_tap(traffic(), tmp_path / "a.tap")
    write_quiet_tap(traffic(), tmp_path / "b.tap", SECOND_US, 2 * SECOND_US)
    plain, quiet = (read(tmp_path / name / "lake", tmp_path / f"{name}.tap") for name in "ab")
    assert quiet.captured["time_records"] == plain.captured["time_records"] + 2
    assert quiet.captured["packets"] == plain.captured["packets"]
    assert (quiet.bytes_in, quiet.bytes_decoded, quiet.bytes_quarantined, quiet.notes) == (
        plain.bytes_in, plain.bytes_decoded, plain.bytes_quarantined, plain.notes
    )  # fmt: skip


def test_a_silent_sensor_does_not_decide_for_another_and_does_not_hold_it_back(tmp_path: Path) -> None:
    write_quiet_tap(traffic(), tmp_path / "gone.tap")
    write_quiet_tap(generate(["mb", "casual"], seed=4, messages=10_000, seconds=1.0), tmp_path / "here.tap", LONG_US)
    report = read(tmp_path / "lake", tmp_path / "gone.tap", tmp_path / "here.tap")
    read(tmp_path / "alone", tmp_path / "gone.tap")
    left = [row["sensor"] for row in table(tmp_path / "lake", "gold/open") if row["kind"] == "request"]
    assert report.outcomes["timeout"] and left.count(str(tmp_path / "gone")) == len(requests(tmp_path / "alone")) > 0


def test_the_silence_of_packets_leaves_requests_open(tmp_path: Path) -> None:
    write_pcap(traffic(), tmp_path / "a.pcap")
    read(tmp_path / "lake", tmp_path / "a.pcap")
    waiting = requests(tmp_path / "lake")
    assert read(tmp_path / "lake", tmp_path / "a.pcap").commit is None
    assert waiting and requests(tmp_path / "lake") == waiting


def test_a_time_without_sense_decides_nothing(tmp_path: Path) -> None:
    last_us = write_quiet_tap(traffic(), tmp_path / "a.tap")
    write_quiet_tap(traffic(), tmp_path / "a.tap", (1 << 62) - last_us, -last_us - 1)
    report = read(tmp_path / "lake", tmp_path / "a.tap")
    assert requests(tmp_path / "lake") and report.captured["strange_times"] == 2


@pytest.mark.parametrize("seed", range(4))
def test_steps_that_end_anywhere_decide_what_one_ingest_decides(seed: int, tmp_path: Path) -> None:
    draw = Random(seed)
    made = generate(["mb", "ceda", "casual", "dsa"], seed=seed, messages=10_000, seconds=0.4, violations=0.05)
    write_quiet_tap(made, tmp_path / "whole.tap", *range(SECOND_US, 40 * SECOND_US, SECOND_US), until_end=seed % 2 > 0)
    content = (tmp_path / "whole.tap").read_bytes()
    folder = tmp_path / "captures"
    folder.mkdir()
    lake = Lake.open(tmp_path / "lake", settings={"buckets": BUCKETS}, durable=False)
    cuts = sorted(draw.randrange(len(content) * 3 // 4, len(content)) for _ in range(8))
    for number, cut in enumerate((*cuts, len(content))):
        (folder / "a.tap").write_bytes(content[:cut])
        settings = FollowSettings(available_now=True, max_bytes=draw.choice((20_000, 1 << 20)), max_failures=1)
        follow(InlineRunner(), [str(folder)], lake, settings)
        if number in (3, 8):
            once = tmp_path / f"once-{number}"
            read(once, folder)
            assert tables(once) == tables(lake), (seed, cut)
