"""Time stamps that cannot be: their bytes are quarantined, and nothing else is any different."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.capture import hostile
from tests.capture.hostile import Packet
from tests.capture.reloading import reloaded
from tests.capture.test_tcp import S, Talk
from wirelake.capture.decode import CaptureDecoder, CaptureRange
from wirelake.capture.read import open_capture
from wirelake.capture.settings import ReadSettings
from wirelake.capture.tcp import Tracker
from wirelake.capture.write.tap import TapWriter
from wirelake.generate import generate, write_pcap
from wirelake.kernels import tcp_rows
from wirelake.kernels.times import LATEST_US, STRANGE

YEAR_2106, YEAR_10000 = 4_294_967_295 * S, 253_402_300_800 * S
TLS = b"\x16\x03\x01\x00\x28\x01\x00\x00\x24" + bytes(35)


class Decoded:
    """What a capture holds, read in windows, with or without its state put away behind each."""

    def __init__(self, path: Path, window: int = 1 << 20, stops: bool = False, **settings: Any) -> None:
        decoder = CaptureDecoder(given := ReadSettings(**settings), None, window)
        outputs, start = [], None
        while True:
            for decoded in decoder.run(CaptureRange(str(path), "a", start=start)):
                outputs.append(decoded.output)
                if stops:
                    break
            reader = decoder.reader
            assert reader is not None
            if not stops or start == reader.resume_point():
                break
            start, state = reloaded(reader.resume_point()), reloaded(decoder.state())
            decoder = CaptureDecoder(given, state, window)
        self.clock = int(decoder.tracker.state().now[tcp_rows.CLOCK])
        self.strange = reader.counts.strange_times
        outputs += [decoded.output for decoded in decoder.finish()]
        self.quarantine = [row for output in outputs for row in output.quarantine.to_pylist()]
        self.messages = [
            (row["connection"], row["direction"], row["ts"], row["message"])
            for output in outputs
            for batches in output.messages.values()
            for batch in batches
            for row in batch.to_pylist()
        ]
        self.accounts: dict[Any, Any] = {}
        for output in outputs:
            self.accounts |= {(row["connection"], row["direction"]): row for row in output.accounts.to_pylist()}
        self.foreign_bytes = sum(output.foreign_bytes for output in outputs)

    def counted(self, name: str) -> int:
        return sum(row[name] for row in self.accounts.values())


@pytest.fixture(scope="module")
def calls(tmp_path_factory: pytest.TempPathFactory) -> list[Packet]:
    path = tmp_path_factory.mktemp("calls") / "a.pcap"
    write_pcap(generate(["casual"], messages=60, connections=2, seed=3), path)
    return hostile.read(path)


def one_strange(packets: list[Packet], ts_ns: int) -> tuple[list[Packet], Packet]:
    """One packet with payload in the middle has another time."""
    number = [k for k, packet in enumerate(packets) if packet.data][len(packets) // 4]
    return [replace(packet, ts_ns=ts_ns) if k == number else packet for k, packet in enumerate(packets)], packets[
        number
    ]


@pytest.mark.parametrize(
    ("write", "ts_ns"),
    [(hostile.write_pcap, YEAR_2106), (hostile.write_pcapng, YEAR_2106), (hostile.write_pcapng, YEAR_10000)],
    ids=["pcap 2106", "pcapng 2106", "pcapng 10000"],
)
def test_the_bytes_of_one_packet_are_quarantined_and_all_others_are_as_before(
    write: Any, ts_ns: int, calls: list[Packet], tmp_path: Path
) -> None:
    packets, strange = one_strange(calls, ts_ns)
    plain = Decoded(write(tmp_path / "plain.pcap", calls))
    found = Decoded(write(tmp_path / "strange.pcap", packets))
    (row,) = [row for row in found.quarantine if row["rule"] == "time_range"]
    assert (row["bytes"], row["length"], row["ts"]) == (strange.data, len(strange.data), None)
    assert row["protocol"] == "casual" and found.strange == 1
    assert found.clock == plain.clock
    assert set(found.messages) < set(plain.messages) and len(plain.messages) - len(found.messages) <= 3
    assert found.counted("bytes_in") == plain.counted("bytes_in") == sum(len(packet.data) for packet in calls)
    for window in (1024, 3000):
        again = Decoded(tmp_path / "strange.pcap", window, stops=True)
        assert sorted(again.messages) == sorted(found.messages)
        key = lambda row: (row["connection"], row["direction"], row["offset"])  # noqa: E731
        assert sorted(again.quarantine, key=key) == sorted(found.quarantine, key=key)


def test_a_capture_of_nothing_but_strange_times_is_quarantined_whole(calls: list[Packet], tmp_path: Path) -> None:
    path = hostile.write_pcap(tmp_path / "a.pcap", [replace(packet, ts_ns=YEAR_2106) for packet in calls])
    found = Decoded(path)
    carried = sum(len(packet.data) for packet in calls)
    assert found.counted("bytes_quarantined") == found.counted("bytes_in") == carried
    assert {row["rule"] for row in found.quarantine} == {"time_range"} and found.clock == -1 and not found.messages


def test_times_up_to_the_end_of_2099_are_times(calls: list[Packet], tmp_path: Path) -> None:
    last_ns = (LATEST_US - 1) * 1000
    for ts_ns, clock in ((last_ns, LATEST_US - 1), (last_ns + 1000, calls[-1].ts_ns // 1000)):
        path = hostile.write_pcap(tmp_path / "a.pcap", [*calls, replace(calls[-1], ts_ns=ts_ns)])
        assert Decoded(path).clock == clock


@pytest.mark.parametrize("unit", [0x00, 0x06, 0x09, 0x7F, 0x80, 0x80 | 20, 0x80 | 63, 0xFF])
@pytest.mark.parametrize("offset_s", [0, -(1 << 63), (1 << 63) - 1, 1 << 40, -1])
@pytest.mark.parametrize("time", [0, 1, (1 << 63) - 1, 1 << 63, (1 << 64) - 1])
def test_no_unit_and_no_offset_of_time_makes_a_time_out_of_range(
    time: int, offset_s: int, unit: int, tmp_path: Path
) -> None:
    talk = Talk().open().send(0, b"abc")
    options = hostile._option("<", 9, bytes([unit])) + hostile._option("<", 14, struct.pack("<q", offset_s)) + bytes(4)
    content = hostile._block("<", 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1))
    content += hostile._block("<", 1, struct.pack("<HHI", 101, 0, 0) + options)
    for packet in talk.packets:
        data = hostile.link_packet(packet, "raw")
        head = struct.pack("<IIIII", 0, time >> 32, time & hostile.LOW32, len(data), len(data))
        content += hostile._block("<", 6, head + data)
    (tmp_path / "a.pcapng").write_bytes(content)
    exact = (time / 2 ** (unit & 0x7F) if unit & 0x80 else time / 10**unit) + offset_s
    (chunks,) = open_capture(tmp_path / "a.pcapng", tracker := Tracker())
    (ts,) = chunks.ts.tolist()
    if 0 <= exact < LATEST_US / 1e6:
        assert abs(ts / 1e6 - exact) < 1
    else:
        assert ts == STRANGE and tracker.state().now[tcp_rows.CLOCK] == -1
        assert chunks.connections[0].first_us is None


def test_a_strange_time_ends_nothing_and_gives_up_no_hole(tmp_path: Path) -> None:
    talk = Talk().open().send(3, b"def").answer(ack=6)
    strange = Packet(YEAR_2106, "10.0.0.9", 1, "10.0.0.8", 2, 0, 0, hostile.SYN)
    path = hostile.write_pcap(tmp_path / "a.pcap", [*talk.packets, strange])
    tracker = Tracker()
    (chunks,) = open_capture(path, tracker)
    assert len(chunks) == 0 and tracker.held_accounts().bytes.tolist() == [3]
    assert chunks.connections[-1].first_us == talk.now_us


def test_bytes_that_fill_a_hole_have_the_time_of_the_clock(tmp_path: Path) -> None:
    talk = Talk().open().send(3, b"def").send(0, b"abc")
    talk.packets[-1] = replace(talk.packets[-1], ts_ns=YEAR_2106)
    (chunks,) = open_capture(hostile.write_pcap(tmp_path / "a.pcap", talk.packets), Tracker())
    assert chunks.ts.tolist() == [talk.now_us - 1000] * 2


def frames_of_websocket(*payloads: bytes) -> list[bytes]:
    return [b"\x81" + bytes([0x80 | len(payload)]) + bytes(4) + payload for payload in payloads]


def test_connections_of_every_kind_keep_their_bytes_in_one_place(tmp_path: Path) -> None:
    """Undecided, encrypted, in WebSocket, and of a protocol that is not read."""
    upgrade = b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    contents = [[b"\x82"] * 3, [TLS, TLS, TLS], [upgrade, *frames_of_websocket(b"x:y", b"z")], [b"SSH-2.0-a\r\n"] * 3]
    for number, parts in enumerate(contents):
        talk, at = Talk().open(), 0
        for part in parts:
            talk.send(at, part)
            at += len(part)
        for k in range(3, 6):
            packets = [replace(one, ts_ns=YEAR_2106) if i == k else one for i, one in enumerate(talk.packets)]
            found = Decoded(hostile.write_pcap(tmp_path / "a.pcap", packets), ports={})
            assert found.counted("bytes_in") in (at, 0), (number, k)
            if not found.counted("bytes_in"):
                assert found.foreign_bytes == at
            spent = found.counted("bytes_decoded") + found.counted("bytes_quarantined")
            assert spent == found.counted("bytes_in") and not found.counted("bytes_pending")


def test_taps_with_strange_times_are_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "a.tap"
    frame = bytes.fromhex("820101")
    with TapWriter(path) as tap:
        number = tap.open(("c", 1), ("s", 2), YEAR_10000 // 1000, "ceda")
        for ts_us in (1_700_000_000_000_000, YEAR_10000 // 1000, -5, 1_700_000_001_000_000):
            tap.data(number, 0, ts_us, frame)
        tap.close(number, YEAR_10000 // 1000)
    found = Decoded(path)
    strange = [row for row in found.quarantine if row["rule"] == "time_range"]
    assert [(row["bytes"], row["ts"]) for row in strange] == [(frame, None)] * 2
    assert len(found.messages) == 2 and found.strange == 2
    (chunks,) = open_capture(path, Tracker())
    (one,) = chunks.connections
    assert (one.first_us, one.last_us, one.ended_us) == (None, 1_700_000_001_000_000, None)
