"""The helper that other tests rely on: whatever is done to packets, tshark reads them and the bytes are those sent."""

from __future__ import annotations

import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.capture import hostile as h
from tests.needs import require
from wirelake.generate import generate, write_pcap


@pytest.fixture
def tshark() -> str:
    require("tshark")
    return "tshark"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> list[h.Packet]:
    path = tmp_path_factory.mktemp("plain") / "p.pcap"
    write_pcap(generate(["casual", "mb"], messages=150, connections=1, seed=3), path)
    return h.read(path)


def turned_over(packets: list[h.Packet], seed: int = 1) -> list[h.Packet]:
    rng = Random(seed)
    made = h.retransmit(h.duplicate(h.resegment(h.wrap(packets), rng), rng), rng)
    return h.foreign(h.acknowledge_first(h.reorder(made, rng, behind_ack=False)), rng)


def follow(tshark: str, path: Path, number: int) -> tuple[bytes, bytes]:
    command = [tshark, "-r", str(path), "-q", "-z", f"follow,tcp,raw,{number}"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    data = lines[next(i for i, line in enumerate(lines) if line.startswith("Node 1")) + 1 : -1]
    to_server = "".join(line for line in data if not line.startswith("\t"))
    return bytes.fromhex(to_server), bytes.fromhex("".join(line.strip() for line in data if line.startswith("\t")))


def writings(directory: Path, packets: list[h.Packet]) -> list[Path]:
    own = [packet for packet in packets if packet.foreign is None]
    made = [
        h.write_pcap(
            directory / f"{link}.pcap", packets if link != "ipv4" else own, link=link, big_endian=link == "null"
        )
        for link in h.LINKTYPES
    ]
    made.append(h.write_pcap(directory / "v6.pcap.gz", h.ipv6(packets), extension=True, nanoseconds=True))
    made.append(h.write_pcapng(directory / "a.pcapng", own, links=("vlan", "sll", "raw"), big_endian=True, sections=2))
    made.append(h.write_pcapng(directory / "b.pcapng", own, nanoseconds=True))
    return made


def test_every_writing_of_turned_over_packets_holds_the_bytes_that_were_sent(
    tshark: str, plain: list[h.Packet], tmp_path: Path
) -> None:
    sent = [(bytes(one.to_server), bytes(one.to_client)) for one in h.streams(plain)]
    for path in writings(tmp_path, turned_over(plain)):
        assert [follow(tshark, path, number) for number in range(len(sent))] == sent, path.name


def test_what_is_dropped_is_told(plain: list[h.Packet]) -> None:
    kept, missing = h.drop(plain, Random(2), share=0.2)
    lost = sum(length for spans in missing.values() for _, length in spans)
    assert lost == sum(len(packet.data) for packet in plain) - sum(len(packet.data) for packet in kept) > 0


def test_captures_without_beginnings_ends_or_in_pieces(plain: list[h.Packet]) -> None:
    assert not any(packet.flags & h.SYN for packet in h.without_handshake(plain))
    data = [packet.data for packet in plain if packet.data]
    assert [packet.data for packet in h.without_handshake(plain) if packet.data] == data
    assert not any(packet.flags & (h.FIN | h.RST) for packet in h.without_end(plain))
    assert [packet for part in h.split(plain, 4) for packet in part] == plain
    twice = h.streams(h.reuse_ports(plain))
    assert [one.to_server for one in twice[2:]] == [one.to_server for one in twice[:2]]
