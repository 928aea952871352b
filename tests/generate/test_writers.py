from __future__ import annotations

import io
import json
import subprocess
import tracemalloc
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.generate.toys import SENSOR
from tests.needs import require
from wirelake.codec.encoder import encode_frame
from wirelake.codec.json import from_json
from wirelake.codec.stream import StreamDecoder
from wirelake.generate import Traffic, Truth, generate, stream_name, write_jsonl, write_pcap, write_raw
from wirelake.spec import nodes as n

KINDS: list[tuple[Any, dict[str, Any]]] = [
    ("casual", {}),
    ("dsa", {}),
    ("mb", {}),
    ("ceda", {"dialect": "ceda4-ws"}),
    (SENSOR, {}),
]
IDS = ["casual", "dsa", "mb", "ceda", "own"]


def stream_bytes(traffic: Traffic) -> dict[str, bytes]:
    found: dict[str, bytearray] = defaultdict(bytearray)
    for event in traffic:
        found[stream_name(event.connection, event.direction)] += event.frame
    return {name: bytes(data) for name, data in found.items()}


# --- pcap


@pytest.fixture
def tshark() -> str:
    require("tshark")
    return "tshark"


def run(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_tshark_finds_whole_clean_connections_and_exactly_the_bytes_of_each_stream(tshark: str, tmp_path: Path) -> None:
    traffic = generate(["casual", "dsa", "mb", "ceda"], messages=3000, connections=2, seed=1)
    path = tmp_path / "mixed.pcap"
    packets = write_pcap(traffic, path)
    checked = ("-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-2")
    flawless = "tcp.checksum.status == 1 && ip.checksum.status == 1 && !tcp.analysis.flags"
    numbers = run(tshark, "-r", str(path), *checked, "-Y", flawless, "-T", "fields", "-e", "frame.number")
    assert numbers.split() == [str(number) for number in range(1, packets + 1)]

    conversations = [
        line for line in run(tshark, "-r", str(path), "-q", "-z", "conv,tcp").splitlines() if "<->" in line
    ]
    connections = {event.connection.number: event.connection for event in traffic}
    shown = {tuple(line.split()[:3:2]) for line in conversations}
    assert shown == {
        (f"{one.client[0]}:{one.client[1]}", f"{one.server[0]}:{one.server[1]}") for one in connections.values()
    }

    streams = stream_bytes(traffic)
    for number, connection in connections.items():
        to_server, to_client = followed(tshark, path, number)
        assert to_server == streams[stream_name(connection, "to_server")]
        assert to_client == streams[stream_name(connection, "to_client")]


def followed(tshark: str, path: Path, number: int) -> tuple[bytes, bytes]:
    lines = run(tshark, "-r", str(path), "-q", "-z", f"follow,tcp,raw,{number}").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("Node 1"))
    data = [line for line in lines[start + 1 :] if not line.startswith("=")]
    to_server = "".join(line for line in data if not line.startswith("\t"))
    to_client = "".join(line.strip() for line in data if line.startswith("\t"))
    return bytes.fromhex(to_server), bytes.fromhex(to_client)


def test_a_capture_of_damaged_traffic_holds_the_damaged_bytes(tshark: str, tmp_path: Path) -> None:
    traffic = generate("casual", messages=300, connections=1, corrupt=0.2)
    write_pcap(traffic, tmp_path / "bad.pcap")
    streams = stream_bytes(traffic)
    assert followed(tshark, tmp_path / "bad.pcap", 0) == (
        streams["0000-casual-to_server.bin"],
        streams["0000-casual-to_client.bin"],
    )


def test_a_capture_is_written_without_keeping_it() -> None:
    class Nowhere(io.RawIOBase):
        size = 0

        def write(self, data: Any) -> int:
            self.size += len(data)
            return len(data)

    peaks = []
    for messages in (1_000, 6_000):
        traffic, nowhere = generate("mb", messages=messages), Nowhere()
        tracemalloc.start()
        write_pcap(traffic, nowhere)  # type: ignore[arg-type]
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert nowhere.size > 100 * messages
    assert peaks[1] < 2 * peaks[0]


# --- raw streams


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_a_directory_gets_one_file_per_connection_and_direction(
    kind: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    traffic = generate(kind, messages=800, connections=3, **options)
    paths = write_raw(traffic, tmp_path)
    expected = stream_bytes(traffic)
    assert {path.name: path.read_bytes() for path in paths} == expected
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(expected)
    assert write_raw(traffic, tmp_path) == paths  # written anew, not added to
    assert {path.name: path.read_bytes() for path in paths} == expected


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_a_file_gets_one_stream_that_decodes(kind: Any, options: dict[str, Any], tmp_path: Path) -> None:
    traffic = generate(kind, messages=500, **options)
    assert write_raw(traffic, tmp_path / "all.bin") == [tmp_path / "all.bin"]
    decoder = StreamDecoder(traffic.protocols[0], **options)
    found = decoder.feed((tmp_path / "all.bin").read_bytes()) + decoder.finish()
    assert [one.message for one in found] == [event.message for event in traffic]  # type: ignore[union-attr]
    out = io.BytesIO()
    write_raw(traffic, out)
    assert out.getvalue() == (tmp_path / "all.bin").read_bytes()


def test_one_stream_cannot_hold_two_protocols(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="one protocol"):
        write_raw(generate(["casual", "mb"], messages=10), tmp_path / "x.bin")


def test_frames_without_a_length_are_refused_where_a_stream_is_written(tmp_path: Path) -> None:
    bare = generate("mb", messages=10, framing="message")
    assert write_jsonl(bare, io.StringIO()) >= 10
    for write in (write_raw, write_pcap):
        with pytest.raises(ValueError, match="without a length"):
            write(bare, tmp_path / "x")


# --- JSON Lines


@pytest.mark.parametrize(("kind", "options"), KINDS, ids=IDS)
def test_lines_hold_what_decode_prints_and_can_be_encoded_again(
    kind: Any, options: dict[str, Any], tmp_path: Path
) -> None:
    traffic = generate(kind, messages=400, **options)
    count = write_jsonl(traffic, tmp_path / "x.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "x.jsonl").read_bytes().splitlines()]
    events = list(traffic)
    assert len(lines) == count == len(events)
    for line, event in zip(lines, events, strict=True):
        assert line.pop("ts") == event.ts_us
        assert line.pop("connection") == event.connection.name
        assert line.pop("direction") == event.direction
        assert line == json.loads(json.dumps(event.message.to_json()))
        if not event.message.notes:
            layout = event.connection.layout
            assert encode_frame(layout, from_json(layout, line)) == event.frame


def test_damaged_frames_are_shown_as_what_they_were_and_became(tmp_path: Path) -> None:
    traffic = generate("ceda", messages=500, corrupt=0.1)
    out = io.StringIO()
    write_jsonl(traffic, out)
    lines = [json.loads(line) for line in out.getvalue().split("\n")[:-1]]
    damaged = [(line, event) for line, event in zip(lines, traffic, strict=True) if event.corruption is not None]
    assert damaged
    for line, event in damaged:
        assert event.corruption is not None
        assert bytes.fromhex(line["hex"]) == event.frame
        assert line["damage"]["kind"] == event.corruption.kind
        assert line["message"] == event.message.__message__["name"]
    assert sum("damage" in line for line in lines) == len(damaged)


def test_writers_fill_the_truth_on_the_way() -> None:
    traffic = generate("casual", messages=200)
    for write in (write_pcap, write_raw):
        truth = Truth()
        write(traffic, io.BytesIO(), truth=truth)
        assert truth == traffic.truth
    truth = Truth()
    write_jsonl(traffic, io.StringIO(), truth=truth)
    assert truth == traffic.truth


def test_the_declaration_names_the_port_of_a_protocol() -> None:
    for name in ("dsa", "mb", "ceda"):
        event = next(iter(generate(name, messages=1)))
        declared: n.Protocol = event.connection.protocol
        assert event.connection.server[1] == declared.ports["tcp"]
