"""Taps as packets: real tshark finds nothing wrong with them, and our own reader finds the same messages in both."""

from __future__ import annotations

import io
import os
import subprocess
from collections import defaultdict
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.capture.packing import PACK
from tests.needs import require
from wirelake.capture.chunks import TO_CLIENT, TO_SERVER
from wirelake.capture.decode import CaptureDecoder, CaptureRange
from wirelake.capture.read import open_capture
from wirelake.capture.settings import ReadSettings
from wirelake.capture.tcp import Tracker
from wirelake.capture.write.tap import TapWriter
from wirelake.capture.write.tap_to_pcapng import UNKNOWN, Exported, export_pcapng
from wirelake.errors import CaptureError
from wirelake.generate import generate, write_tap

CLIENT, SERVER = ("10.0.0.1", 4711), ("10.0.0.2", 3001)
START_US = 1_700_000_000_000_000
LAYERS = ("Ethernet", "IPv4", "IPv6", "TCP")
GAPS = {"Previous segment(s) not captured", "ACKed segment that wasn't captured"}


def exported(target: Path, *inputs: Path) -> Exported:
    return export_pcapng(inputs, target)


def tshark(path: Path, *arguments: str) -> list[str]:
    """The lines that it prints; checksums are checked."""
    require("tshark")
    checked = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    command = ["tshark", "-r", str(path), *checked, *arguments]
    # Its configuration is nobody's: none.
    environment = {**os.environ, "HOME": str(path.parent), "XDG_CONFIG_HOME": str(path.parent)}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    told = [line for line in done.stderr.splitlines() if line and "could be dangerous" not in line]
    assert told == []
    return done.stdout.splitlines()


def complaints(path: Path) -> set[str]:
    """Errors and warnings of its experts about packets. What they take the bytes of streams for is their affair."""
    rows = (row.split(maxsplit=3) for row in tshark(path, "-q", "-z", "expert,warn"))
    told = {(row[2], row[3]) for row in rows if len(row) == 4 and row[0].isdecimal()}
    return {text.partition(" (common")[0] for layer, text in told if layer in LAYERS}


class Streams:
    """What a capture holds, by client port: bytes, missing ranges, times of chunks."""

    def __init__(self, *paths: Path) -> None:
        self.runs: dict[tuple[int, int], bytearray] = defaultdict(bytearray)
        self.gaps: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        self.times: dict[tuple[int, int], set[int]] = defaultdict(set)
        self.connections: dict[int, Any] = {}
        tracker = Tracker()
        for path in paths:
            reader = open_capture(path, tracker)
            for chunks in reader:
                self._add(chunks)
            assert not reader.counts.broken and not reader.counts.notes
        self._add(tracker.finish())

    def _add(self, chunks: Any) -> None:
        self.connections.update({one.client_port: one for one in chunks.connections})
        for i in range(len(chunks)):
            way = (chunks.connections[chunks.connection[i]].client_port, int(chunks.direction[i]))
            length, start = int(chunks.length[i]), int(chunks.start[i])
            if start < 0:
                self.gaps[way].append((len(self.runs[way]), length))
                self.runs[way].extend(bytes(length))
            else:
                self.runs[way].extend(chunks.data[start : start + length].tobytes())
                self.times[way].add(int(chunks.ts[i]))

    def ended(self) -> dict[int, str]:
        return {port: one.ended for port, one in self.connections.items()}


def messages(path: Path, *without: str) -> list[tuple[Any, ...]]:
    """Everything that is decoded, without what depends on the capture itself."""
    machine = CaptureDecoder(ReadSettings())
    ports: dict[str, int] = {}
    found = []
    for seen in [*machine.run(CaptureRange(str(path), path.name)), *machine.finish()]:
        ports.update({one.id: one.client_port for one in seen.chunks.connections})
        for protocol, batches in seen.output.messages.items():
            for row in (row for batch in batches for row in batch.to_pylist()):
                row = {name: value for name, value in row.items() if name not in ("capture", "order", *without)}
                found.append((ports[row.pop("connection")], row["direction"], row["offset"], protocol, str(row)))
        for row in seen.output.quarantine.to_pylist():
            found.append((ports[row["connection"]], row["direction"], row["offset"], "", row["rule"]))
    return sorted(found)


@pytest.mark.parametrize(("protocol", "gaps"), [("mb", 0.0), ("ceda", 0.05), ("casual", 0.0), ("dsa", 0.02)])
def test_generated_traffic_exported_is_the_same_messages_and_tshark_is_content(
    protocol: str, gaps: float, tmp_path: Path
) -> None:
    source, target = tmp_path / "a.tap", tmp_path / "a.pcapng"
    write_tap(generate(protocol, seed=5, messages=400, ipv6=0.5, gaps=gaps, violations=0.1), source)
    told = exported(target, source)
    assert told.undecodable == [] and told.notes == [] and (told.missing_bytes > 0) == (gaps > 0)
    # Packets behind a hole have the time at which nobody waits for it any longer.
    without = ("ts",) if gaps else ()
    before, after = messages(source, *without), messages(target, *without)
    assert before == after and len(before) > 200
    assert complaints(target) <= (GAPS if gaps else set())
    assert len(tshark(target)) == told.packets


def test_streams_times_and_ends_are_those_of_the_tap(tmp_path: Path) -> None:
    rng = Random(1)
    up, down = rng.randbytes(200_000), rng.randbytes(5_000)
    with TapWriter(tmp_path / "a.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        writer.data(one, TO_SERVER, START_US, up[:10])  # at the same moment
        two = writer.open(("fd00::1", 5), ("fd00::2", 8088), START_US + 1)
        writer.data(one, TO_CLIENT, START_US + 1, down)
        writer.data(one, TO_SERVER, START_US + 2, up[10:])
        writer.close(one, START_US + 2, "reset")
        writer.data(two, TO_SERVER, START_US + 70, b"six")
        writer.skip(two, TO_SERVER, 1000)
        writer.data(two, TO_SERVER, START_US + 71, b"after")
        writer.skip(two, TO_CLIENT, 77)
        writer.close(two, START_US + 80)
    told = exported(tmp_path / "a.pcapng", tmp_path / "a.tap")
    assert (told.connections, told.bytes, told.missing_bytes) == (2, 205_008, 1077)
    found = Streams(tmp_path / "a.pcapng")
    assert found.runs[4711, TO_SERVER] == up and found.runs[4711, TO_CLIENT] == down
    assert found.times[4711, TO_SERVER] == {START_US, START_US + 2}
    assert found.gaps[5, TO_SERVER] == [(3, 1000)] and found.gaps[5, TO_CLIENT] == [(0, 77)]
    assert found.ended() == {4711: "reset", 5: "closed"}
    assert {one.first_us for one in found.connections.values()} == {START_US, START_US + 1}
    assert found.connections[5].server == "fd00::2"
    assert complaints(tmp_path / "a.pcapng") <= {*GAPS, "Connection reset (RST)"}
    rows = tshark(
        tmp_path / "a.pcapng", "-T", "fields", "-e", "frame.time_epoch", "-e", "tcp.stream", "-e", "tcp.flags"
    )
    assert [float(row.split()[0]) for row in rows] == sorted(float(row.split()[0]) for row in rows)
    flags = [int(row.split()[2], 16) for row in rows if row.split()[1] == "0"]
    assert flags[:3] == [0x02, 0x12, 0x10] and flags[-1] == 0x14


def test_a_connection_that_only_goes_on_has_no_handshake(tmp_path: Path) -> None:
    (tmp_path / "set").mkdir()
    with TapWriter(tmp_path / "set", rotate_bytes=500) as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        for number in range(20):
            writer.data(one, number % 2, START_US + number * 1000, bytes([number]) * 100)
    assert len(writer.paths) > 3
    told = exported(tmp_path / "a.pcapng", *writer.paths[2:])
    assert told.missing_bytes == 0 and told.connections == 1
    found = Streams(tmp_path / "a.pcapng")
    whole = Streams(*writer.paths)
    for way in ((4711, TO_SERVER), (4711, TO_CLIENT)):
        assert found.runs[way] and whole.runs[way].endswith(found.runs[way])
        assert found.times[way] <= whole.times[way]
    assert not found.connections[4711].is_whole
    assert complaints(tmp_path / "a.pcapng") == set()


def test_rotated_sets_and_several_taps_are_put_together_in_the_order_of_time(tmp_path: Path) -> None:
    sent: dict[int, bytearray] = defaultdict(bytearray)
    directory = tmp_path / "taps"
    directory.mkdir()
    writers = [TapWriter(directory, rotate_bytes=2000) for _ in range(3)]
    numbers = [one.open(("10.0.0.1", port), SERVER, START_US + port) for port, one in enumerate(writers)]
    rng = Random(2)
    for step in range(300):
        which = rng.randrange(3)
        data = rng.randbytes(rng.randint(1, 300))
        writers[which].data(numbers[which], TO_SERVER, START_US + 1000 + step * 50, data)
        sent[which] += data
    for one in writers:
        one.end()
    (directory / "notes.txt").write_text("no tap")
    for suffix, path in zip(PACK, writers[0].paths, strict=False):
        (directory / (path.name + suffix)).write_bytes(PACK[suffix](path.read_bytes()))
        path.unlink()
    told = exported(tmp_path / "a.pcapng", directory, writers[1].paths[0])
    assert told.files == sum(len(one.paths) for one in writers) > 20
    found = Streams(tmp_path / "a.pcapng")
    assert {port: found.runs[port, TO_SERVER] for port in range(3)} == sent
    assert complaints(tmp_path / "a.pcapng") == set()
    times = [float(row) for row in tshark(tmp_path / "a.pcapng", "-T", "fields", "-e", "frame.time_epoch")]
    assert times == sorted(times)


def test_a_clock_that_is_set_back_changes_no_bytes(tmp_path: Path) -> None:
    with TapWriter(tmp_path / "a.tap") as writer:
        one = writer.open(CLIENT, SERVER, START_US)
        two = writer.open(("10.0.0.1", 5), SERVER, START_US)
        writer.data(one, TO_SERVER, START_US + 500, b"one ")
        writer.data(two, TO_SERVER, START_US + 499, b"other ")
        writer.data(one, TO_SERVER, START_US + 400, b"two ")
        writer.data(one, TO_SERVER, START_US - 3_600_000_000, b"three")
        writer.close(one, START_US - 3_600_000_000)
        three = writer.open(("10.0.0.1", 6), SERVER, START_US - 3_600_000_000)
        writer.data(three, TO_SERVER, START_US - 3_599_000_000, b"new")
    exported(tmp_path / "a.pcapng", tmp_path / "a.tap")
    found = Streams(tmp_path / "a.pcapng")
    assert {port: bytes(found.runs[port, TO_SERVER]) for port in (4711, 5, 6)} == {
        4711: b"one two three", 5: b"other ", 6: b"new",
    }  # fmt: skip


def test_addresses_that_packets_cannot_have_are_replaced(tmp_path: Path) -> None:
    with TapWriter(tmp_path / "a.tap") as writer:
        for number, (client, server) in enumerate(
            [
                ("/run/a.sock", "broker"),
                ("::ffff:10.0.0.7", "10.0.0.8"),
                ("10.0.0.7", "fd00::1"),
                ("fe80::1%eth0", "::1"),
            ]
        ):
            one = writer.open((client, 100 + number), (server, 3001), START_US)
            writer.data(one, TO_SERVER, START_US, b"x")
    exported(tmp_path / "a.pcapng", tmp_path / "a.tap")
    found = Streams(tmp_path / "a.pcapng").connections
    assert {(one.client, one.server) for one in found.values()} == {
        UNKNOWN, ("10.0.0.7", "10.0.0.8"), ("::ffff:10.0.0.7", "fd00::1"), ("fe80::1", "::1"),
    }  # fmt: skip
    assert complaints(tmp_path / "a.pcapng") == set()


def test_torn_and_damaged_taps_are_told_of(tmp_path: Path) -> None:
    for name in ("torn", "damaged", "empty"):
        with TapWriter(tmp_path / f"{name}.tap") as writer:
            one = writer.open(CLIENT, SERVER, START_US)
            for number in range(5):
                writer.data(one, TO_SERVER, START_US + number, b"%d" % number * 50)
    torn, damaged, empty = (tmp_path / f"{name}.tap" for name in ("torn", "damaged", "empty"))
    torn.write_bytes(torn.read_bytes()[:-10])
    damaged.write_bytes(damaged.read_bytes().replace(b"2" * 50, b"2" * 49 + b"?"))
    empty.write_bytes(empty.read_bytes()[:20])
    told = exported(tmp_path / "a.pcapng", tmp_path)
    assert (told.connections, told.bytes, told.missing_bytes) == (2, 400, 50)
    assert len(told.undecodable) == 1 and "damaged.tap" in told.undecodable[0]
    assert {note.partition(": ")[2].split()[0] for note in told.notes} == {"nothing", "the"}


def test_what_is_no_tap_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"\xd4\xc3\xb2\xa1" + bytes(100))
    with pytest.raises(CaptureError, match="not a tap file"):
        exported(tmp_path / "out", tmp_path / "a.pcap")
    with pytest.raises(CaptureError, match=r"no files \*\.tap"):
        exported(tmp_path / "out", tmp_path)
    with pytest.raises(CaptureError, match="No such file"):
        exported(tmp_path / "out", tmp_path / "missing.tap")


steps = st.lists(
    st.tuples(
        st.sampled_from(["open", "data", "data", "data", "skip", "close", "reset"]),
        st.integers(0, 3),
        st.integers(0, 1),
        st.integers(1, 4000),
        st.integers(-30, 100),
    ),
    max_size=30,
)


@given(steps)
def test_whatever_a_tap_has_its_packets_have(
    tmp_path_factory: pytest.TempPathFactory, script: list[tuple[str, int, int, int, int]]
) -> None:
    path = tmp_path_factory.mktemp("tap")
    rng = Random(len(script))
    running: list[int] = []
    ts = START_US
    with TapWriter(path / "a.tap") as writer:
        for number, (kind, which, direction, size, step) in enumerate(script):
            ts += step
            if kind == "open":
                running.append(writer.open(("10.0.0.1", 1000 + number), SERVER, ts))
            elif not running:
                continue
            elif kind == "data":
                writer.data(running[which % len(running)], direction, ts, rng.randbytes(size))
            elif kind == "skip":
                writer.skip(running[which % len(running)], direction, size)
            else:
                how = "closed" if kind == "close" else "reset"
                writer.close(running.pop(which % len(running)), ts, how)  # type: ignore[arg-type]
    if not writer.paths:
        return
    file = io.BytesIO()
    export_pcapng([path / "a.tap"], file)
    (path / "a.pcapng").write_bytes(file.getvalue())
    tap, packets = Streams(path / "a.tap"), Streams(path / "a.pcapng")
    assert tap.ended() == packets.ended()
    assert {way: run for way, run in tap.runs.items() if run} == {way: run for way, run in packets.runs.items() if run}
    assert {way: gaps for way, gaps in tap.gaps.items() if gaps} == {
        way: gaps for way, gaps in packets.gaps.items() if gaps
    }
